from __future__ import annotations

import functools

import numpy as np
import pytest
from matplotlib.figure import Figure
from support.artists import axes_titled, bands, caption_of, curve, data_lines, drawn_from
from support.synthetic import replaced, synthetic_run
from support.synthetic_tokens import complete_run

from bathyscope.pages.figures.of.residual import FIGURE
from bathyscope.pages.figures.options import FigureOptions


def by_hand(values: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    total = sum(value * count for value, count in zip(values, tokens))
    return np.asarray(total / sum(tokens))


BY_TOKENS = FigureOptions(weighting="tokens")
RUN = synthetic_run()
DATA = RUN["residual"]
TOKENS = DATA["n_tokens"].values


@functools.cache
def figure() -> Figure:
    return drawn_from(FIGURE, RUN, BY_TOKENS)


@pytest.mark.parametrize(
    ("title", "label", "name"),
    [
        ("Mean norms of", "residual stream", "norm_resid"),
        ("Mean norms of", "attention", "norm_attn"),
        ("Contributions relative", "MLP", "ratio_mlp"),
        ("Direction of", "block", "cos_block"),
        ("How little", "cos(h_l, h_l+1)", "cos_neighbour"),
    ],
)
def test_curve_is_the_token_weighted_mean(title: str, label: str, name: str) -> None:
    x, y = curve(axes_titled(figure(), title), label)
    np.testing.assert_array_equal(x, np.arange(DATA[name].shape[1]))
    np.testing.assert_allclose(y, by_hand(DATA[name].values, TOKENS))


def test_norms_without_position_0_weigh_one_token_less() -> None:
    _, y = curve(axes_titled(figure(), "Mean norms without"), "MLP")
    np.testing.assert_allclose(y, by_hand(DATA["norm_mlp_rest"].values, TOKENS - 1))


def test_largest_norm_is_over_prompts_too() -> None:
    ax = axes_titled(figure(), "Largest norm")
    np.testing.assert_allclose(curve(ax, "attention")[1], DATA["norm_attn_max"].values.max(0))
    assert not bands(ax)


def test_number_of_lines_and_bands() -> None:
    drawn = {ax.get_title(loc="left"): (len(ax.get_lines()), len(bands(ax))) for ax in figure().axes}
    assert list(drawn.values()) == [(4, 4), (4, 4), (4, 0), (3, 3), (4, 3), (1, 1)]


def test_prompt_weighting_is_drawn_and_said() -> None:
    options = FigureOptions(weighting="prompts")
    _, y = curve(axes_titled(drawn_from(FIGURE, RUN, options, panels=["cosines"]), "Direction"), "attention")
    np.testing.assert_allclose(y, DATA["cos_attn"].values.mean(0))
    assert "each prompt counts the same" in caption_of(FIGURE, RUN, options)


def test_model_without_parts_shows_the_block_alone() -> None:
    data = DATA.copy(deep=True)
    for name in data:
        if "attn" in str(name) or "mlp" in str(name):
            data[name][:] = np.nan
    ax = axes_titled(drawn_from(FIGURE, replaced(RUN, "residual", data), BY_TOKENS, panels=["ratios"]), "Contributions")
    assert [line.get_label() for line in ax.get_lines()] == ["block"]


def test_measure_without_rest_has_no_such_panel() -> None:
    data = DATA.drop_vars([name for name in DATA if str(name).endswith("_rest")])
    names = [panel.name for panel in FIGURE.panels(replaced(RUN, "residual", data), FigureOptions())]
    assert names == ["norms", "norms_max", "ratios", "cosines", "neighbour"]


def test_norms_over_decades_are_logarithmic_and_say_so() -> None:
    norms, cosines = axes_titled(figure(), "Mean norms of"), axes_titled(figure(), "Direction")
    assert (norms.get_yscale(), cosines.get_yscale()) == ("log", "linear")
    assert "log scale" in norms.get_ylabel()
    assert "log scale" not in cosines.get_ylabel()


@pytest.mark.parametrize(
    ("name", "title", "label"),
    [
        ("largest", "Largest activation of any token", "|activation| (activation units), log scale"),
        ("largest_ratio", "Largest activation against the median", "largest / median (dimensionless), log scale"),
    ],
)
def test_largest_activations_count_each_prompt_the_same(name: str, title: str, label: str) -> None:
    run = complete_run(tokens=6)
    ax = axes_titled(drawn_from(FIGURE, run, BY_TOKENS, panels=[name]), title)
    (line,) = ax.get_lines()
    np.testing.assert_allclose(line.get_ydata(), run["residual"][name].values.mean(0))
    assert (ax.get_ylabel(), ax.get_yscale(), len(bands(ax))) == (label, "log", 1)


def test_caption_tells_where_the_largest_activations_are() -> None:
    run = complete_run(tokens=6)
    data = run["residual"].copy(deep=True)
    data["largest_channel"][:2] = 5
    caption = caption_of(FIGURE, replaced(run, "residual", data))
    assert "Largest activations: in 67% of all prompts and boundaries at token 0, channel 317" in caption
    assert "Largest activations" not in caption_of(FIGURE, RUN)


@pytest.mark.parametrize("title", ["Mean norms of the stream", "Contributions relative", "Direction of contributions"])
def test_parts_and_stream_differ_in_dashes(title: str) -> None:
    """Whoever sees no colours, or a curve without its marks, still knows which is which."""
    lines = data_lines(axes_titled(figure(), title))
    assert len(lines) >= 3
    assert len({line.get_linestyle() for line in lines}) == len(lines)
