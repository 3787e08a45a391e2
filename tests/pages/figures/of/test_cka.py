from __future__ import annotations

import numpy as np
import pytest
from support.artists import axes_titled, bands, caption_of, curve, drawn_from
from support.synthetic import replaced
from support.synthetic_tokens import complete_run

from bathyscope.pages.figures.of.cka import FIGURE
from bathyscope.pages.figures.options import FigureOptions

RUN = complete_run(L=6, tokens=6)
DATA = RUN["cka"]
NAMES = {"last": "last tokens of prompts", "all": "tokens", "rest": "tokens but the first"}


@pytest.mark.parametrize("kind", NAMES)
def test_maps_show_every_pair_from_0_to_1(kind: str) -> None:
    ax = axes_titled(drawn_from(FIGURE, RUN, panels=[kind]), f"CKA of boundaries, {NAMES[kind]}")
    (image,) = ax.get_images()
    np.testing.assert_allclose(np.ma.getdata(image.get_array()), DATA["cka"].sel(tokens=kind))
    assert image.get_clim() == (0, 1)


def test_neighbours_with_intervals() -> None:
    (ax,) = drawn_from(FIGURE, RUN, panels=["neighbours"]).axes
    for kind, label in NAMES.items():
        x, y = curve(ax, label)
        np.testing.assert_array_equal(x, range(6))
        np.testing.assert_allclose(y, [float(DATA["cka"].sel(tokens=kind)[b, b + 1]) for b in range(6)])
    assert len(bands(ax)) == 3
    assert not bands(drawn_from(FIGURE, RUN, FigureOptions(band="none"), panels=["neighbours"]).axes[0])


def test_panels_of_what_has_a_value() -> None:
    assert [panel.name for panel in FIGURE.panels(RUN, FigureOptions())] == [*NAMES, "neighbours"]
    data = DATA.copy(deep=True)
    data["cka"][0] = np.nan
    found = FIGURE.panels(replaced(RUN, "cka", data), FigureOptions())
    assert [panel.name for panel in found] == ["all", "rest", "neighbours"]
    assert FIGURE.panels(replaced(RUN, "cka", DATA * np.nan), FigureOptions()) == []


def test_a_boundary_without_a_value_is_blank() -> None:
    data = DATA.copy(deep=True)
    for name in ("cka", "ci_low", "ci_high"):
        data[name][0, 0, :] = data[name][0, :, 0] = np.nan
    (image,) = axes_titled(drawn_from(FIGURE, replaced(RUN, "cka", data), panels=["last"]), "CKA").get_images()
    blank = np.ma.getmaskarray(np.ma.asarray(image.get_array()))
    assert blank[0].all()
    assert blank[:, 0].all()
    assert not blank[1:, 1:].any()


def test_caption_says_how_sure_the_maps_are() -> None:
    above = np.triu_indices(7, 1)
    half = np.median(0.1 * (above[1] - above[0]) / 6)
    assert "Bands: 90 % intervals over prompts" in caption_of(FIGURE, RUN)
    assert f"half a typical interval in the maps: {half:.2g} (last tokens of prompts)" in caption_of(FIGURE, RUN)
    some = DATA.copy(deep=True)
    some["ci_low"][0] = some["ci_high"][0] = np.nan
    said = caption_of(FIGURE, replaced(RUN, "cka", some))
    assert "nan" not in said
    assert f"half a typical interval in the maps: {half:.2g} (tokens)" in said
    unknown = DATA.assign(ci_low=DATA["ci_low"] * np.nan, ci_high=DATA["ci_high"] * np.nan)
    assert "interval" not in caption_of(FIGURE, replaced(RUN, "cka", unknown))
