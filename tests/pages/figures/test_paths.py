"""Shortened paths, drawn by a reader of its own."""

from __future__ import annotations

import numpy as np
import pytest
from support.drawn_paths import places

from bathyscope.pages.figures.svg import round_hundredths, shorten_path, write_brief


def written(points: np.ndarray, letters: str) -> str:
    """A path as matplotlib writes it."""
    size = {"M": 1, "L": 1, "Q": 2, "C": 3, "z": 0}
    said, at = [], 0
    for letter in letters:
        own = points[at : at + size[letter]].ravel()
        at += size[letter]
        said.append(f"{letter} {' '.join(f'{number:.6f}'.rstrip('0').rstrip('.') for number in own)}".strip())
    return " \n".join(said)


@pytest.mark.parametrize("letters", ["MLLLL", "MLLLz", "MLzMLLz", "MCCQLCz", "MLMLML", "MQQCLL"])
def test_every_place_stays_where_it_was(letters: str) -> None:
    rng = np.random.default_rng(len(letters))
    for scale in (400, 3, 0.02):
        path = written(rng.normal(scale=scale, size=(20, 2)), letters)
        assert np.abs(places(shorten_path(path)) - places(path)).max() <= 0.005 + 1e-9
        assert shorten_path(path).count("z") == path.count("z")


def test_steps_do_not_add_up_to_a_drift() -> None:
    """A thousand steps of a third of what is kept."""
    line = np.stack([np.arange(1000) * (1 / 300), np.arange(1000) * (1 / 700)], 1)
    path = written(line, "M" + "L" * 999)
    assert np.abs(places(shorten_path(path)) - line).max() <= 0.005 + 1e-6


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("M 0 230.4 \nL 331.2 230.4 \nL 331.2 0 \nL 0 0 \nz", "M0 230.4h331.2V0H0z"),
        ("M 38.824 93.05 \nL 38.824 76.04 \nL 41.05 76.04", "M38.82 93.05V76.04h2.23"),
        ("M 100 100 \nL 100.5 99.25 \nL 101 100.5", "M100 100l.5-.75 .5 1.25"),
        ("M 10 10 \nL 20 20 \nz \nL 12 11", "M10 10l10 10zl2 1"),
        ("M 5 5 \nL 5 5", "M5 5h0"),
    ],
)
def test_in_few_letters(path: str, short: str) -> None:
    assert shorten_path(path) == short


@pytest.mark.parametrize(
    ("number", "short"),
    [("0", "0"), ("-0.001", "0"), ("0.05", ".05"), ("-0.5", "-.5"), ("12.30", "12.3"), ("-100.006", "-100.01")],
)
def test_numbers_have_nothing_that_need_not_be_written(number: str, short: str) -> None:
    assert write_brief(round_hundredths(number)) == short
