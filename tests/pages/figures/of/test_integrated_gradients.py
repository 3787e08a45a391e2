from __future__ import annotations

import functools

import numpy as np
import pytest
from matplotlib.figure import Figure
from support import waves, zoo
from support.artists import axes_titled, caption_of, curve, drawn_from
from support.synthetic import replaced
from support.synthetic_tokens import ANSWER, SITES, complete_run

import bathyscope
from bathyscope.pages.figures.of.integrated_gradients import FIGURE
from bathyscope.pages.figures.options import FigureOptions

RUN = complete_run(L=5, tokens=12)
DATA = RUN["integrated_gradients"]
LENGTHS = DATA["n_tokens"].values
TITLES = {
    "block": "Attribution to the output of the block",
    "attention": "Attribution to the attention's contribution",
    "mlp": "Attribution to the MLP's contribution",
}


@functools.cache
def drawn() -> Figure:
    return drawn_from(FIGURE, RUN)


@pytest.mark.parametrize("site", SITES)
def test_maps_are_the_attributions_symmetric_around_zero(site: str) -> None:
    (image,) = axes_titled(drawn(), f"{TITLES[site]}: prompt p2").get_images()
    expected = DATA["attribution"].sel(site=site).values[2, :, : LENGTHS[2] - 1].T
    shown = np.ma.asarray(image.get_array())
    fixed = np.zeros(shown.shape, dtype=bool)
    fixed[: LENGTHS[2] - ANSWER - 1, -1] = True
    np.testing.assert_array_equal(np.ma.getmaskarray(shown), fixed)
    np.testing.assert_array_equal(shown[~fixed], expected[~fixed])
    # One scale for all sites and prompts, of what is drawn.
    measured = DATA["attribution"].where(
        ~((DATA["block"] == DATA["block"].max()) & (DATA["token"] < DATA["answer_start"] - 1))
    )
    high = float(np.nanmax(np.abs(measured.values)))
    assert image.get_clim() == (-high, high)
    assert image.colorbar.ax.get_xlabel() == "attribution (dimensionless, linear)"


def test_what_is_left_grey_is_0_in_a_model_too() -> None:
    prompts = [bathyscope.Prompt(ids=ids, answer_tokens=3) for ids in zoo.prompts(zoo.build("llama"), (9, 12))]
    run = bathyscope.survey(
        waves.loaded("llama"), prompts, ["integrated_gradients"], integrated_gradients={"nodes": 4}, progress=False
    )
    data = run["integrated_gradients"]
    maps = [panel.shared[0].content for panel in FIGURE.panels(run) if panel.shared and panel.name != "completeness"]
    assert len(maps) == 2 * data.sizes["site"]
    for number, heat in enumerate(maps):
        site, prompt = divmod(number, 2)
        measured = data["attribution"].values[prompt, site].T[: len(heat.values)]
        grey = np.isnan(heat.values)
        assert grey.sum() == len(heat.values) - 3
        assert not measured[grey].any()


def test_positive_is_red_and_negative_blue() -> None:
    image = axes_titled(drawn(), f"{TITLES['block']}: prompt p1").get_images()[0]
    low, high = image.get_clim()
    red, blue = image.cmap(image.norm(high)), image.cmap(image.norm(low))
    assert red[0] > 2 * red[2]
    assert blue[2] > 2 * blue[0]
    assert "Red: the stream there raises the probability" in caption_of(FIGURE, RUN)


def test_one_map_a_prompt_and_site_and_one_panel_of_completeness() -> None:
    names = [panel.name for panel in FIGURE.panels(RUN, FigureOptions(prompts_shown=3))]
    maps = [f"{site}_{prompt}" for site in ("prompt", "attention", "mlp") for prompt in (1, 2, 3)]
    assert names == [*maps, "completeness"]
    assert "Shown: the first 3 of these prompts; 2 more in the run." in caption_of(
        FIGURE, RUN, FigureOptions(prompts_shown=3)
    )


def test_words_stand_at_the_left_of_every_map() -> None:
    for site in SITES:
        labels = axes_titled(drawn(), f"{TITLES[site]}: prompt p1").get_yticklabels()
        assert [label.get_text() for label in labels][:2] == ["␣spouse", "␣of"]


def test_completeness_is_the_mean_size_of_the_gaps_of_measured_prompts() -> None:
    ax = axes_titled(drawn(), "How far attributions miss")
    for site, label in zip(SITES, ("block", "attention", "MLP")):
        _, gaps = curve(ax, label)
        np.testing.assert_allclose(gaps, np.abs(DATA["completeness"].sel(site=site).values[1:]).mean(0))


def test_site_without_values_is_left_out() -> None:
    data = DATA.copy(deep=True)
    data["attribution"].loc[{"site": "mlp"}] = np.nan
    data["completeness"].loc[{"site": "mlp"}] = np.nan
    figure = drawn_from(FIGURE, replaced(RUN, "integrated_gradients", data))
    assert not any("MLP" in ax.get_title(loc="left") for ax in figure.axes)
    assert "Attribution to the block" not in caption_of(FIGURE, RUN)


def test_caption_tells_the_published_baseline() -> None:
    identity = {**RUN.manifest["identity"], "measures": {"integrated_gradients": {"baseline": "channels"}}}
    run = type(RUN)(RUN.tree, {**RUN.manifest, "identity": identity})
    assert "from its mean over the prompt's tokens" in caption_of(FIGURE, RUN)
    assert "from its mean over channels" in caption_of(FIGURE, run)
