from __future__ import annotations

import numpy as np
import pytest
from support.artists import axes_titled, bands, caption_of, curve, drawn_from
from support.synthetic import replaced
from support.synthetic_tokens import complete_run

from bathyscope.pages.figures.of.swap_cosine import FIGURE
from bathyscope.pages.figures.options import FigureOptions

BY_TOKENS = FigureOptions(weighting="tokens")
RUN = complete_run(L=6, tokens=6)
DATA = RUN["swap_cosine"]


@pytest.mark.parametrize(("part", "name"), [("attention", "attention"), ("mlp", "MLP")])
@pytest.mark.parametrize(
    ("variable", "label"),
    [
        ("self", "same block, other place"),
        ("index", "same place, other block"),
        ("adjacent", "neighbours, normal order"),
    ],
)
def test_curves_are_token_weighted_means_with_bands(part: str, name: str, variable: str, label: str) -> None:
    ax = axes_titled(drawn_from(FIGURE, RUN, BY_TOKENS), f"Contributions of {name}")
    x, y = curve(ax, label)
    weights = DATA["n_tokens"].values
    np.testing.assert_array_equal(x, range(5))
    np.testing.assert_allclose(y, weights @ DATA[variable].sel(part=part).values / weights.sum())
    assert len(bands(ax)) == 3


def test_axes() -> None:
    for ax in drawn_from(FIGURE, RUN, BY_TOKENS).axes:
        assert ax.get_ylabel() == "cosine (dimensionless)"
        assert ax.get_xlabel() == "first of the swapped blocks (0-based index)"


def test_caption_says_what_is_compared() -> None:
    assert "Block ℓ+1 runs before block ℓ." in caption_of(FIGURE, RUN)


def test_missing_values_leave_no_panel() -> None:
    assert FIGURE.panels(replaced(RUN, "swap_cosine", DATA * np.nan), FigureOptions()) == []
