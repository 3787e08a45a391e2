from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import LogNorm, to_hex, to_rgb

from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.colours import Colours
from bathyscope.pages.figures.kit.series import looks

USUAL = np.linspace(0, 1, 1000)


def test_linear_runs_from_zero_to_the_largest() -> None:
    found = Colours.spanning(np.array([0.2, np.nan, 0.7]), "linear")
    assert (found.low, found.high) == (0.0, 0.7)


def test_signed_is_symmetric() -> None:
    found = Colours.spanning(np.array([-3.0, 0.5]), "signed")
    assert (found.low, found.high, found.norm(0.0)) == (-3.0, 3.0, 0.5)
    middle = found.colormap(0.5)
    assert min(middle[:3]) > 0.95


def test_outlier_lies_beyond_unless_nothing_may() -> None:
    values = np.append(USUAL, 50.0)
    clipped = Colours.spanning(values, "linear")
    assert clipped.high == np.quantile(values, 0.995) < 1
    assert clipped.beyond(values) == (0, (values > clipped.high).sum())
    assert to_hex(clipped.colormap(clipped.norm(50.0))) == style.CLIPPED
    whole = Colours.spanning(values, "linear", clips=False)
    assert whole.high == 50.0
    assert whole.beyond(values) == (0, 0)


def test_logarithmic_covers_at_most_four_decades_and_draws_zero() -> None:
    values = np.array([0.0, 1e-9, 1e-3, 1.0])
    found = Colours.spanning(values, "log", clips=False)
    assert (found.low, found.high) == (1e-4, 1.0)
    assert isinstance(found.norm, LogNorm)
    assert found.beyond(values) == (2, 0)
    assert not np.ma.getmaskarray(found.norm(found.drawable(values))).any()


@pytest.mark.parametrize("kind", ["linear", "log", "signed"])
@pytest.mark.parametrize("values", [[0.0, 0.0], [0.25, 0.25], [], [np.nan]])
def test_range_is_never_empty(kind: str, values: list[float]) -> None:
    found = Colours.spanning(np.array(values), kind)  # type: ignore[arg-type]
    assert found.low < found.high


# linear RGB as seen without one kind of cone (Machado, Oliveira and Fernandes 2009, severity 1)
_SEEN = {
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
_ALIKE = 20.0


def lab(colour: str, seen: list[list[float]]) -> np.ndarray:
    """CIE L*a*b* of what is seen of a colour."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = _TO_XYZ @ np.clip(np.array(seen) @ linear, 0, 1) / _TO_XYZ.sum(1)
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("kind", _SEEN)
def test_series_that_look_alike_to_somebody_differ_in_mark_or_line(kind: str) -> None:
    alike = [
        (one, other)
        for one, other in combinations(looks(12), 2)
        if np.linalg.norm(lab(one.colour, _SEEN[kind]) - lab(other.colour, _SEEN[kind])) < _ALIKE
    ]
    assert alike
    assert [pair for pair in alike if pair[0].marker == pair[1].marker and pair[0].line == pair[1].line] == []


def test_green_and_purple_are_nearer_without_a_cone() -> None:
    whole, without = (
        np.linalg.norm(lab(style.GREEN, seen) - lab(style.PURPLE, seen))
        for seen in (np.eye(3).tolist(), _SEEN["deuteranopia"])
    )
    assert without < 0.5 * whole
