"""One attribute of many results as an array: of their shape, in float64, or as texts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bathyscope.core.arrays import collect


@dataclass(frozen=True)
class Reached:
    depth: int
    reason: str = ""


def test_numbers_have_the_shape_of_the_lists_and_64_bits() -> None:
    depths = collect([[Reached(1), Reached(2)], [Reached(3), Reached(4)], [Reached(5), Reached(6)]], "depth")
    assert depths.dtype == np.float64
    assert depths.tolist() == [[1, 2], [3, 4], [5, 6]]
    assert collect([Reached(7)], "depth").shape == (1,)


def test_texts_stay_texts_of_any_length_also_where_all_are_empty() -> None:
    assert collect([[Reached(1), Reached(2, "too few prompts")]], "reason").tolist() == [["", "too few prompts"]]
    empty = collect([[Reached(1)], [Reached(2)]], "reason")
    assert (empty.dtype, empty.tolist()) == (np.dtype(object), [[""], [""]])
