"""Every curve over depth is the mean over the tokens that its definition counts, with a band where prompts vary.

A table names the curves: figure, panel's title, label, variable, its selection, and how many of a prompt's ``n``
tokens count. The tests of single figures hold what only these do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from matplotlib.figure import Figure
from support.artists import axes_titled, bands, curve, drawn_from
from support.synthetic import replaced
from support.synthetic_tokens import complete_run

from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.registry import FIGURES

RUN = complete_run()


@dataclass(frozen=True)
class Curve:
    figure: str
    title: str
    label: str
    variable: str
    selection: dict[str, object] = field(default_factory=dict)
    counted: Callable[[np.ndarray], np.ndarray] = np.asarray

    def __str__(self) -> str:
        return f"{self.figure}-{self.label}"


def but(tokens: int) -> Callable[[np.ndarray], np.ndarray]:
    """All tokens of a prompt but so many: the first have nothing before them, the last no next token."""
    return lambda lengths: lengths - tokens


def five_pairs(lengths: np.ndarray) -> np.ndarray:
    """Pairs of a token with one of the five before it."""
    return sum(lengths - offset for offset in range(1, 6))


def prompts(lengths: np.ndarray) -> np.ndarray:
    return np.ones(len(lengths))


def curves() -> Iterator[Curve]:
    yield Curve("residual", "Mean norms of", "residual stream", "norm_resid")
    yield Curve("residual", "Mean norms of", "attention", "norm_attn")
    yield Curve("residual", "Mean norms without", "MLP", "norm_mlp_rest", counted=but(1))
    yield Curve("residual", "Contributions relative", "MLP", "ratio_mlp")
    yield Curve("residual", "Direction of", "block", "cos_block")
    yield Curve("residual", "How little", "cos(h_l, h_l+1)", "cos_neighbour")
    yield Curve("lens", "Distance", "KL(lens ‖ final)", "kl_lens_final")
    yield Curve("lens", "Distance", "KL(final ‖ lens)", "kl_final_lens")
    yield Curve("lens", "Agreement", "top-5 overlap", "overlap")
    yield Curve("lens", "Agreement", "same top-1 token", "top1_agreement")
    yield Curve("lens", "Uncertainty", "entropy", "entropy")
    yield Curve("lens", "Loss", "cross-entropy", "cross_entropy", counted=but(1))
    for variable, label in (
        ("norm", "whole gradient"),
        ("norm_own", "through the token's own position"),
        ("norm_rest", "through other positions"),
    ):
        yield Curve("gradient", "", label, variable, counted=prompts)
    for part, name in (("attention", "attention"), ("mlp", "MLP")):
        for variable, label in (
            ("self", "same block, other place"),
            ("index", "same place, other block"),
            ("adjacent", "neighbours, normal order"),
        ):
            yield Curve("swap_cosine", f"Contributions of {name}", label, variable, {"part": part})
    yield Curve(
        "attention_locality", "Where attention goes", "five tokens before, together", "total_prev5", {}, five_pairs
    )
    yield Curve("attention_locality", "Where attention goes", "token itself", "self_weight")
    yield Curve("attention_locality", "Where attention goes", "first token", "first_key", {}, but(1))
    for offset in (1, 2, 4, 8, 16):
        title = "Attention to the token i before"
        yield Curve("attention_locality", title, f"i = {offset}", "weight", {"offset": offset}, but(offset))


LINES_AND_BANDS = {
    "residual": [(4, 4), (4, 4), (4, 0), (1, 1), (1, 1), (3, 3), (4, 3), (1, 1)],
    "gradient": [(3, 3)],
    "swap_cosine": [(4, 3), (4, 3)],
}


@functools.cache
def drawn(figure: str) -> Figure:
    return drawn_from(FIGURES[figure], RUN, FigureOptions(weighting="tokens"))


@pytest.mark.parametrize("row", list(curves()), ids=str)
def test_a_curve_is_the_mean_over_the_tokens_that_count(row: Curve) -> None:
    data = RUN[row.figure]
    values = data[row.variable].sel(row.selection).values
    x, y = curve(axes_titled(drawn(row.figure), row.title), row.label)
    weights = row.counted(data["n_tokens"].values)
    np.testing.assert_array_equal(x, np.arange(values.shape[1]))
    np.testing.assert_allclose(y, weights @ values / weights.sum())


@pytest.mark.parametrize("figure", LINES_AND_BANDS)
def test_number_of_lines_and_bands(figure: str) -> None:
    assert [(len(ax.get_lines()), len(bands(ax))) for ax in drawn(figure).axes] == LINES_AND_BANDS[figure]


@pytest.mark.each
@pytest.mark.parametrize("figure", [name for name in FIGURES if name not in ("neurons", "stages", "pairs")])
def test_without_a_value_there_is_no_panel(figure: str) -> None:
    run = RUN
    for measure in RUN.measures:
        data = RUN[measure]
        empty = {name: data[name] * np.nan for name in data if data[name].dtype.kind == "f"}
        run = replaced(run, measure, data.assign(empty))
    assert FIGURES[figure].panels(run, FigureOptions()) == []
