"""What holds for every figure, whatever it shows."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from itertools import pairwise

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from support.artists import caption_of, data_lines, drawn_from, laid_out_from, visible_texts
from support.synthetic import synthetic_run, without
from support.synthetic_tokens import complete_run

from bathyscope.core import plug_ins
from bathyscope.errors import OptionError
from bathyscope.measures.registry import MEASURES
from bathyscope.pages.figures import registry
from bathyscope.pages.figures.kind import Drawing, FigureKind, draw_panel
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.panels import PANELS
from bathyscope.pages.figures.registry import FIGURES, drawings

RUN = complete_run()
RUNS = {
    "L=2": complete_run(L=2, prompts=1, tokens=4),
    "L=128": complete_run(L=128, prompts=2, tokens=64, norms=("recompute", "frozen")),
}
NAMES = list(FIGURES)
UNDRAWN = {
    "lens": {"gate", "exits"},
    "stages": {"loops"},
    "depth_score": {"by_level_layer"},
    "erasure": {"later_", "effect_at", "effect_future_at"},
    "patching": {"attention_", "recovered_at", "kl_at"},
    "drop": {"kl_direct", "loss_direct", "self_repair"},
    "swap": {"kl_parallel", "loss_parallel"},
}
"""Panels of looped models, and of options that the made-up run was not measured with."""
ROWS_ON_THE_AXIS = ("effective_depth", "depth_score")
"""What their dots belong to is written on the axis."""
DECLARED = {label.units for measure in MEASURES.values() for label in (measure.table or {}).values()}
UNITS = (
    *(DECLARED - {"", "1", "as the curve", "prompt"}),
    # what axes say of variables without a unit, and of shares, norms and places
    *("index", "dimensionless", "activation units", "share of tokens", "%", "L2", "token (", "label", "blocks done"),
)


@functools.cache
def drawn(name: str) -> Figure:
    """Of twelve blocks; nothing has its place yet."""
    return drawn_from(FIGURES[name], RUN)


@functools.cache
def laid_out(name: str, size: str) -> Figure:
    return laid_out_from(FIGURES[name], RUNS[size])


@pytest.mark.parametrize("name", NAMES)
def test_every_axis_has_label_and_unit(name: str) -> None:
    for ax in drawn(name).axes:
        labels = [label for label in (ax.get_xlabel(), ax.get_ylabel()) if label]
        # of small multiples those at the edges carry the labels
        edges = [one for one in ax.figure.axes if one.get_xlabel() and one.get_ylabel()]
        assert labels or edges, f"axes without a label: {ax.get_title(loc='left')}"
        assert all(any(unit in label for unit in UNITS) for label in labels), labels


@pytest.mark.each
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", RUNS)
def test_no_text_is_clipped_and_no_ticks_overlap(name: str, size: str) -> None:
    figure = laid_out(name, size)
    width, height = figure.bbox.size
    for text, box in visible_texts(figure):
        inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1
        assert inside, f"{text!r} at {box} leaves the figure of {width} × {height}"
    for ax in figure.axes:
        labels = [label for label in ax.get_xticklabels() if label.get_text()]
        low, high = ax.get_xlim()
        boxes = [label.get_window_extent() for label in labels if low <= label.get_position()[0] <= high]
        assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


@pytest.mark.parametrize("name", NAMES)
def test_depth_ticks_are_whole_numbers(name: str) -> None:
    for ax in laid_out(name, "L=2").axes:
        if "0-based" in ax.get_xlabel():
            assert all(float(tick) == round(float(tick)) for tick in ax.get_xticks())


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ROWS_ON_THE_AXIS])
def test_lines_differ_by_more_than_colour(name: str) -> None:
    for ax in drawn(name).axes:
        if ax.get_images() or "settle" in ax.get_title(loc="left"):
            continue
        looks = [(line.get_marker(), line.get_linestyle()) for line in data_lines(ax)]
        colours = {line.get_color() for line in data_lines(ax)}
        assert len(colours) == len(looks)
        assert len(set(looks)) == len(looks), looks


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ROWS_ON_THE_AXIS])
def test_lines_of_deep_models_differ_in_dashes_or_in_marks_that_are_drawn(name: str) -> None:
    """128 blocks leave no room for a mark at each."""
    for ax in laid_out(name, "L=128").axes:
        lines = [line for line in data_lines(ax) if not str(line.get_label()).startswith("_")]
        curves = [line for line in lines if len(np.asarray(line.get_xdata())) > 2]
        looks = [(line.get_linestyle(), marks(line)) for line in curves]
        assert len(set(looks)) == len(looks), [(line.get_label(), look) for line, look in zip(curves, looks)]


def marks(line: Line2D) -> str:
    """The mark that a curve is drawn with; none where only one of it would be seen."""
    every, points = line.get_markevery(), len(np.asarray(line.get_xdata()))
    seen = points if every is None else -(-points // int(every))  # type: ignore[call-overload]
    return str(line.get_marker()) if seen > 1 else "None"


@pytest.mark.parametrize("name", NAMES)
def test_caption_says_model_data_numbers_and_noise_floor(name: str) -> None:
    caption = caption_of(FIGURES[name], RUN)
    tokens = int(RUN["residual"]["n_tokens"].sum())
    for part in (
        "example/model-12",
        "synthetic",
        "6 prompts",
        f"{tokens} tokens",
        "noise floor 3e-7 (skip)",
    ):
        assert part in caption


@pytest.mark.parametrize("name", NAMES)
def test_panels_are_named_once_and_told_to_who_cannot_see_them(name: str) -> None:
    panels = FIGURES[name].panels(RUN, FigureOptions())
    assert len({panel.name for panel in panels}) == len(panels)
    assert all(len(panel.alt) > 40 for panel in panels)


def test_figures_have_the_order_of_a_report() -> None:
    """The answer first, the others as their measures, and those of several measures behind the last that they need."""
    expected = ["effective_depth", *(name for name in MEASURES if name in NAMES and name != "effective_depth")]
    expected.insert(expected.index("swap") + 1, "drop_and_swap")
    expected.insert(expected.index("neurons") + 1, "prediction_fall")
    assert expected == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_panels_are_those_that_are_declared_in_their_order(name: str) -> None:
    listed = list(PANELS[name])
    drawn_panels = [panel.name for panel in FIGURES[name].panels(RUN, FigureOptions())]
    # the number of a prompt follows an underscore
    places = [listed.index(re.sub(r"(?<=_)\d+$", "", panel)) for panel in drawn_panels]
    assert places == sorted(places)
    assert {listed[place] for place in places} == set(listed) - UNDRAWN.get(name, set())


def test_alternative_text_gives_the_values() -> None:
    (panel,) = [p for p in FIGURES["drop"].panels(RUN, FigureOptions()) if p.name == "kl"]
    kl = RUN["drop"]["kl"].values.mean(0)
    assert f"highest {kl.max():.3g} at {kl.argmax()}" in panel.alt


def test_a_thousand_prompts_and_a_dollar_sign_in_the_model_name() -> None:
    run = synthetic_run(L=3, prompts=1000, model="odd/$name_{x}$")
    texts = [text for text, _ in visible_texts(laid_out_from(FIGURES["drop"], run))]
    assert any(text.replace("\n", " ") == run.caption() for text in texts)
    assert "odd/$name_{x}$" in run.caption()


def test_settings_of_the_caller_stay_as_they_were() -> None:
    before = dict(mpl.rcParams)
    laid_out_from(FIGURES["drop"], RUN)
    assert dict(mpl.rcParams) == before


def test_one_panel_can_be_drawn_alone() -> None:
    figure = drawn_from(FIGURES["residual"], RUN, panels=["cosines"])
    assert len(figure.axes) == 1
    (panel,) = [one for one in FIGURES["residual"].panels(RUN, FigureOptions()) if one.name == "cosines"]
    alone = draw_panel(panel).axes[0]
    np.testing.assert_array_equal(alone.get_lines()[0].get_ydata(), figure.axes[0].get_lines()[0].get_ydata())


def test_measure_that_is_missing_is_named() -> None:
    with pytest.raises(OptionError, match=r"Figure 'skip' needs the measure 'skip'; this run holds: residual, lens"):
        drawn_from(FIGURES["skip"], without(RUN, "skip"))


def test_drawable_follows_the_measures() -> None:
    assert list(drawings(RUN)) == NAMES
    assert list(drawings(without(RUN, "skip", "lens"))) == [
        n for n in NAMES if n not in ("skip", "lens", "prediction_fall")
    ]


def test_nothing_to_draw_is_an_error_with_advice() -> None:
    with pytest.raises(
        OptionError, match=r"Nothing to draw: the run holds noise. Survey again with at least one of effective"
    ):
        drawings(without(RUN, *NAMES))


class Offered:
    """Entry points of another package."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **values: object) -> None:
        class Entry(EntryPoint):
            def load(self) -> object:
                value = values[self.name]
                if isinstance(value, Exception):
                    raise value
                return value

        entries = [Entry(name, f"other.figures:{name}", registry.GROUP) for name in values]
        monkeypatch.setattr(plug_ins, "entry_points", lambda group: entries if group == registry.GROUP else [])
        registry.plugged_in.cache_clear()


@pytest.fixture
def _own_figures_alone() -> Iterator[None]:
    yield
    registry.plugged_in.cache_clear()


@pytest.mark.usefixtures("_own_figures_alone")
def test_figures_of_other_packages_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Drawing(FIGURES["drop"].panels(RUN), "Seen another way.")
    Offered(monkeypatch, drop_again=FigureKind("drop_again", "Drop again", ("kl",), lambda run, options: made, "drop"))
    found = drawings(RUN)
    assert list(found) == [*NAMES, "drop_again"]
    assert (found["drop_again"].note, found["drop_again"].heading) == ("Seen another way.", "Drop again")
    assert "drop_again" not in drawings(without(RUN, "drop"))


@pytest.mark.usefixtures("_own_figures_alone")
@pytest.mark.parametrize(
    ("value", "words"),
    [
        (ImportError("no module named colours"), "ImportError: no module named colours"),
        ("a text", "TypeError: expected a FigureKind, not str"),
        (FigureKind("drop", "Drop", (), lambda run, options: Drawing([], "")), "another figure has the name 'drop'"),
    ],
)
def test_broken_plug_in_is_left_out_with_a_warning_that_names_it(
    value: object, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Offered(monkeypatch, mine=value)
    with pytest.warns(UserWarning, match=rf"plug-in mine \(other.figures:mine\) cannot be used, .*{re.escape(words)}"):
        assert list(drawings(RUN)) == NAMES
