"""Which factors of a permutation problem are the inputs of its steps, followed by hand."""

from __future__ import annotations

import pytest

from bathyscope.errors import OptionError
from studies.problem_depth.operands import moving_factors


def test_factors_that_move_the_point_are_the_inputs_in_order() -> None:
    words = ["<|begin|>", "compose", "(15)", "()", "(14)", "(23)", "(12345)", "of", "4", ":", "2"]
    # 4 is left by (15), goes to 1 by (14), is left by (23), and goes on to 2 by (12345)
    assert moving_factors([f" {word}" for word in words]) == [4, 6]


def test_a_question_for_the_product_has_no_point() -> None:
    with pytest.raises(OptionError, match="give permutations with answer=image"):
        moving_factors(["compose", " 21345", " :", " 21345"])
