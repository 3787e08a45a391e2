"""What the figure of neurons draws is what the run holds."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.patches import StepPatch
from support.artists import caption_of, data_lines, drawn_from
from support.synthetic import replaced
from support.synthetic_tokens import complete_run

from bathyscope.pages.figures.of.neurons import FIGURE
from bathyscope.pages.figures.options import FigureOptions

RUN = complete_run()
DATA = RUN["neurons"]


@pytest.mark.parametrize(
    ("panel", "expected"),
    [
        ("fractions", {"prediction": DATA["prediction_fraction"], "suppression": DATA["suppression_fraction"]}),
        (
            "kurtosis",
            {"largest": DATA["kurtosis"].max("neuron"), "median": DATA["kurtosis"].median("neuron")},
        ),
    ],
)
def test_curves_by_block(panel: str, expected: dict[str, np.ndarray]) -> None:
    (ax,) = drawn_from(FIGURE, RUN, panels=[panel]).axes
    lines = {line.get_label(): line for line in data_lines(ax)}
    for label, values in expected.items():
        np.testing.assert_allclose(lines[label].get_ydata(), values)
        np.testing.assert_array_equal(lines[label].get_xdata(), np.arange(12))


def test_the_threshold_is_drawn() -> None:
    (ax,) = drawn_from(FIGURE, RUN, panels=["kurtosis"]).axes
    assert 10.0 in [line.get_ydata()[0] for line in ax.get_lines() if line.get_label() == "threshold"]


def test_each_listed_neuron_has_its_two_histograms() -> None:
    figure = drawn_from(FIGURE, RUN, panels=["top_ing"])
    assert len(figure.axes) == 6
    listed = DATA.sel(token_class="ing")
    for rank, ax in enumerate(figure.axes):
        others, of_class = (patch for patch in ax.patches if isinstance(patch, StepPatch))
        for patch, side in ((others, "others"), (of_class, "class")):
            values, edges, _ = patch.get_data()
            np.testing.assert_array_equal(values, listed["histogram"].sel(side=side)[rank])
            np.testing.assert_array_equal(edges, listed["histogram_edge"][rank])
        block, neuron = int(listed["top_block"][rank]), int(listed["top_neuron"][rank])
        assert ax.get_title(loc="left").startswith(f"block {block}, {neuron}: ")


def test_fewer_neurons_are_fewer_histograms() -> None:
    few = DATA.copy(deep=True)
    few["top_block"][:, 4:] = -1
    figure = drawn_from(FIGURE, replaced(RUN, "neurons", few), panels=["top_ing"])
    assert len(figure.axes) == 4


def test_without_a_tokenizer_there_are_no_histograms_and_no_words_about_them() -> None:
    bare = DATA.copy(deep=True)
    bare["top_block"][:] = -1
    run = replaced(RUN, "neurons", bare)
    assert [panel.name for panel in FIGURE.panels(run, FigureOptions())] == ["fractions", "kurtosis"]
    assert "Histograms" not in caption_of(FIGURE, run)
    assert f"on the {int(DATA['class_tokens'].sel(token_class='ing'))} tokens" in caption_of(FIGURE, RUN)
    assert "kurtosis above 10 (normal: 3)" in caption_of(FIGURE, run)


def test_the_largest_effects_are_told() -> None:
    (panel,) = [one for one in FIGURE.panels(RUN, FigureOptions()) if one.name == "top_ing"]
    first = DATA.sel(token_class="ing").isel(rank=0)
    said = f"block {int(first['top_block'])} neuron {int(first['top_neuron'])}: {float(first['top_effect']):+.3g}"
    assert said in panel.alt


def test_few_tokens_have_no_histograms() -> None:
    data = DATA.copy(deep=True)
    data["class_tokens"].loc[{"token_class": "ing"}] = 19
    run = replaced(RUN, "neurons", data)
    assert "top_ing" not in [panel.name for panel in FIGURE.panels(run, FigureOptions())]
    assert 'No histograms: 19 of the tokens are known to end in "ing", too few.' in caption_of(FIGURE, run)


def test_without_a_tokenizer_no_token_is_said_to_end_otherwise() -> None:
    data = DATA.assign(class_tokens=0 * DATA["class_tokens"])
    assert 'none of the tokens are known to end in "ing"' in caption_of(FIGURE, replaced(RUN, "neurons", data))
