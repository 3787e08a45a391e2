from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import LogNorm, to_hex

from bathyscope.report.figures import style
from bathyscope.report.figures.colours import Colours

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
