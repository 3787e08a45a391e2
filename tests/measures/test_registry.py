from __future__ import annotations

import pytest

from bathyscope.errors import OptionError
from bathyscope.measures.registry import DEFAULT, MEASURES, expand

ORDER = [
    "residual",
    "lens",
    "skip",
    "direct",
    "depth_score",
    "erasure",
    "integrated_gradients",
    "gradient",
    "drop",
    "swap",
    "repeat",
    "swap_cosine",
    "cka",
    "attention_locality",
    "neurons",
    "effective_depth",
    "stages",
]


def test_names() -> None:
    assert list(MEASURES) == ORDER
    assert all(name == measure.name for name, measure in MEASURES.items())


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (["swap", "drop"], ["drop", "swap"]),
        (["effective_depth"], ["residual", "lens", "skip", "effective_depth"]),
        (["all"], ORDER),
        (["lens", "lens"], ["lens"]),
        (DEFAULT, ["residual", "lens", "skip", "effective_depth"]),
    ],
)
def test_a_measure_brings_what_it_needs(asked: list[str], expected: list[str]) -> None:
    assert list(expand(asked)) == expected


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["lense"], "Unknown measure 'lense'. Did you mean 'lens'? Allowed: all, residual, lens, skip,"),
        (["lens", "xyzzy"], "Unknown measure 'xyzzy'. Allowed: all,"),
        ([], "No measure asked for; allowed: all, residual,"),
    ],
)
def test_errors(asked: list[str], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        expand(asked)
    assert message in str(caught.value)
