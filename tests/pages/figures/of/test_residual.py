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

BY_TOKENS = FigureOptions(weighting="tokens")
RUN = synthetic_run()
DATA = RUN["residual"]


@functools.cache
def figure() -> Figure:
    return drawn_from(FIGURE, RUN, BY_TOKENS)


def test_largest_norm_is_over_prompts_too() -> None:
    ax = axes_titled(figure(), "Largest norm")
    np.testing.assert_allclose(curve(ax, "attention")[1], DATA["norm_attn_max"].values.max(0))
    assert not bands(ax)


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
