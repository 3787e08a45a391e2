from __future__ import annotations

from support.artists import bands, caption_of, drawn_from
from support.synthetic_tokens import complete_run

from bathyscope.pages.figures.of.gradient import FIGURE

RUN = complete_run(L=5, tokens=6)
DATA = RUN["gradient"]


def test_axes_have_units_and_a_logarithmic_scale() -> None:
    (ax,) = drawn_from(FIGURE, RUN).axes
    assert ax.get_ylabel() == "norm (nats per activation unit), log scale"
    assert ax.get_yscale() == "log"
    assert ax.get_xlabel().startswith("boundary (index")


def test_zero_at_the_last_boundary_has_no_place() -> None:
    (ax,) = drawn_from(FIGURE, RUN).axes
    assert ax.get_ylim()[0] > DATA["norm_rest"].values[:, -2].min() / 10
    assert "0 at the last boundary" in caption_of(FIGURE, RUN)
    assert "longer prompts have smaller norms" in caption_of(FIGURE, RUN)


def test_bands_end_where_there_is_nothing_above_zero() -> None:
    (ax,) = drawn_from(FIGURE, RUN).axes
    outlines = [path.vertices for band in bands(ax) for path in band.get_paths()]
    assert all((outline[:, 1] > 0).all() for outline in outlines)
    assert [outline[:, 0].max() for outline in outlines] == [5, 5, 4]
