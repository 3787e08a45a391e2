"""What a person changes about a figure: each change made in axes of one's own, and read back from the picture."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox
from support.artists import curve
from support.synthetic import synthetic_run
from support.synthetic_tokens import complete_run, with_places, with_tokens

import bathyscope
from bathyscope.core.text import visible
from bathyscope.errors import OptionError, StoreError
from bathyscope.pages.figures.render import render

RUN = synthetic_run(8, 4)
TWIN = synthetic_run(8, 4, seed=5, model="example/twin-8")
SHALLOW = synthetic_run(5, 4, seed=3, model="example/small-5")
WORDS = with_tokens(synthetic_run(8, 4))
KL = ("KL(lens ‖ final)", "KL(final ‖ lens)")


@pytest.fixture(autouse=True)
def close_figures() -> Iterator[None]:
    yield
    plt.close("all")


def boxes(ax: Axes) -> dict[str, Bbox]:
    """Title, labels, ticks and legend of axes, as they are drawn."""
    figure = ax.figure
    figure.draw_without_rendering()
    texts: dict[str, Text] = {"title": ax.title, "x label": ax.xaxis.label, "y label": ax.yaxis.label}
    found = {name: text.get_window_extent() for name, text in texts.items() if text.get_text()}
    for axis in (ax.xaxis, ax.yaxis):
        low, high = sorted(axis.get_view_interval())
        for tick in axis.get_major_ticks():
            if low <= tick.get_loc() <= high and tick.label1.get_text():
                found[f"tick {axis.axis_name} {tick.get_loc()}"] = tick.label1.get_window_extent()
    if (legend := ax.get_legend()) is not None:
        found["legend"] = legend.get_window_extent()
    return found


def assert_readable(ax: Axes) -> None:
    """Nothing is outside of the figure, and title, labels, legend and ticks of different kinds do not overlap."""
    whole, found = ax.figure.bbox, boxes(ax)
    for name, box in found.items():
        assert box.x0 >= whole.x0 - 1, (name, box)
        assert box.x1 <= whole.x1 + 1, (name, box)
        assert box.y0 >= whole.y0 - 1, (name, box)
        assert box.y1 <= whole.y1 + 1, (name, box)
    for (one, first), (other, second) in combinations(found.items(), 2):
        if not (one.startswith("tick") and other.startswith("tick")):
            assert not first.padded(-1).overlaps(second.padded(-1)), (one, other)


def assert_uncovered(ax: Axes) -> None:
    """No curve runs below the legend."""
    ax.figure.draw_without_rendering()
    box = ax.get_legend().get_window_extent()
    for line in ax.lines:
        assert not line.get_path().transformed(line.get_transform()).intersects_bbox(box, filled=False)


def test_two_panels_in_a_figure_without_a_layout_are_readable() -> None:
    figure, axes = plt.subplots(1, 2, figsize=(6.75, 2.5))
    for panel, ax in zip(["lens.kl", "residual.cosines"], axes):
        bathyscope.plot(RUN, panel, ax)
    for ax in axes:
        assert_readable(ax)
        assert_uncovered(ax)
    assert axes[0].get_title().replace("\n", " ") == "Distance from the final prediction"
    assert figure.get_layout_engine() is None
    assert not axes[0].get_tightbbox().overlaps(axes[1].get_tightbbox())


def test_margins_that_were_set_by_hand_stay() -> None:
    figure, ax = plt.subplots()
    figure.subplots_adjust(left=0.31, right=0.87)
    bathyscope.plot(RUN, "lens.kl", ax)
    assert (ax.get_position().x0, ax.get_position().x1) == pytest.approx((0.31, 0.87))


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_range_of_blocks_draws_its_blocks_and_the_boundaries_around_them(data: st.DataObject) -> None:
    first = data.draw(st.integers(0, 7))
    stop = data.draw(st.integers(first + 1, 8))
    stretch = data.draw(st.sampled_from([slice(first, stop), range(first, stop), f"{first}-{stop - 1}"]))
    x, y = curve(bathyscope.plot(RUN, "lens.kl", blocks=stretch).axes[0], KL[0])
    np.testing.assert_array_equal(x, np.arange(first, stop + 1))
    np.testing.assert_allclose(y, RUN["lens"].kl_lens_final.values.mean(0)[first : stop + 1])
    x, y = curve(bathyscope.plot(RUN, "residual.cosines", blocks=stretch).axes[0], "MLP")
    np.testing.assert_array_equal(x, np.arange(first, stop))
    np.testing.assert_allclose(y, RUN["residual"].cos_mlp.values.mean(0)[first:stop])


def test_a_map_of_some_blocks_has_their_numbers_and_its_own_colours() -> None:
    _figure, ax = plt.subplots()
    (image,) = bathyscope.plot(RUN, "skip.future", ax, blocks=slice(2, 6), reduction="max")
    assert isinstance(image, AxesImage)
    assert image.get_extent() == [1.5, 5.5, 5.5, 1.5]
    effect = RUN["skip"].effect_future.sel(part="block", reduction="max").max("prompt").values[2:6, 2:6]
    shown = np.ma.filled(image.get_array(), np.nan)
    later = np.triu(np.ones((4, 4), dtype=bool), 1)
    np.testing.assert_allclose(shown[later], effect[later])
    assert image.get_clim()[1] == pytest.approx(effect[later].max())
    assert ax.get_xlim() == (1.5, 5.5)
    assert_readable(ax)


@pytest.mark.parametrize("panel", ["lens.kl", "skip.future", "lens.settling", "profile", "stages.signatures"])
def test_the_title_is_that_of_the_axes(panel: str) -> None:
    run = complete_run(8, 4)
    figure, ax = plt.subplots(figsize=(6, 4))
    bathyscope.plot(run, panel, ax)
    ax.set_title("Mine")
    assert ax.get_title() == "Mine"
    assert [text.get_text() for text in figure.findobj(Text) if text.get_text() == "Mine"] == ["Mine"]
    # Nothing else is where a title is: neither text of the figure, nor another title of the axes.
    assert figure._suptitle is None  # type: ignore[attr-defined]
    assert not figure.texts
    assert (ax.get_title("left"), ax.get_title("right")) == ("", "")
    figure.canvas.draw()


def test_a_new_figure_has_one_title_which_can_be_replaced() -> None:
    for width in (None, 3.3, 6.75):
        figure = bathyscope.plot(RUN, "lens.kl", width=width)
        assert figure._suptitle is None  # type: ignore[attr-defined]
        (ax,) = figure.axes
        assert ax.get_title().replace("\n", " ") == "Distance from the final prediction"
        look = ax._left_title.get_fontsize()  # type: ignore[attr-defined]
        ax.set_title("Mine")
        headings = [ax.get_title(loc) for loc in ("left", "center", "right")]
        assert headings == ["Mine", "", ""]
        assert ax._left_title.get_fontsize() == look  # type: ignore[attr-defined]


def test_title_and_labels_are_chosen() -> None:
    _figure, (ax, untitled) = plt.subplots(1, 2, figsize=(8, 3))
    words = {KL[0]: "early", "x": "layer", "KL divergence (nats)": "nats"}
    bathyscope.plot(RUN, "lens.kl", ax, title="A title", labels=words)
    bathyscope.plot(RUN, "lens.kl", untitled, title="")
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == ("A title", "layer", "nats")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["early", KL[1]]
    assert untitled.get_title() == ""
    ax.legend()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["early", KL[1]]
    new = bathyscope.plot(RUN, "lens.kl", labels=["a", "b"], title="Other", width=3.3)
    assert [text.get_text() for text in new.legends[0].get_texts()] == ["a", "b"]
    assert new.axes[0].get_title() == "Other"
    assert bathyscope.plot(RUN, "lens.kl", title="").axes[0].get_title() == ""


def test_limits_and_a_logarithmic_axis_work_as_in_any_axes() -> None:
    _, ax = plt.subplots()
    bathyscope.plot(RUN, "lens.kl", ax)
    ax.set_xlim(2, 5)
    assert ax.get_xlim() == (2, 5)
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    means = RUN["lens"].kl_lens_final.values.mean(0)
    positive = means[means > 0]
    assert 0 < low <= positive.min()
    assert high >= positive.max()
    assert low > positive.min() / 1000


def test_a_legend_goes_where_it_is_put() -> None:
    figure, ax = plt.subplots(layout="constrained")
    bathyscope.plot(RUN, "lens.kl", ax)
    legend = ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
    assert ax.get_legend() is legend
    assert len(figure.findobj(type(legend))) == 1
    figure.draw_without_rendering()
    assert legend.get_window_extent().x0 >= ax.bbox.x1
    assert_readable(ax)


def test_two_runs_share_axes_over_their_blocks() -> None:
    _, (ax, both) = plt.subplots(1, 2, figsize=(8, 3))
    bathyscope.plot([RUN, TWIN], "lens.entropy", ax, labels=["ours", "theirs"], blocks=slice(2, 6))
    for run, name in ((RUN, "ours"), (TWIN, "theirs")):
        x, y = curve(ax, name)
        np.testing.assert_array_equal(x, np.arange(2, 7))
        np.testing.assert_allclose(y, run["lens"].entropy.values.mean(0)[2:7])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["ours", "theirs"]
    bathyscope.plot([RUN, SHALLOW], "lens.entropy", both, labels={"small-5": "shallow"})
    assert both.get_xlabel() == "share of the depth (dimensionless)"
    x, _ = curve(both, "shallow")
    np.testing.assert_allclose(x, np.arange(6) / 5)
    for place in (ax, both):
        assert_readable(place)
        assert_uncovered(place)


def test_runs_drawn_one_after_the_other_differ_and_are_all_in_view() -> None:
    _, ax = plt.subplots()
    high = SHALLOW
    bathyscope.plot(RUN, "lens.entropy", ax, labels="a", blocks=slice(2, 4))
    bathyscope.plot(high, "lens.entropy", ax, labels="b")
    first, second = (line for line in ax.lines if line.get_label() in "ab")
    assert (first.get_color(), first.get_marker()) != (second.get_color(), second.get_marker())
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    for line in (first, second):
        x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        assert ax.get_xlim()[0] <= x.min()
        assert x.max() <= ax.get_xlim()[1]
        assert ax.get_ylim()[0] <= y.min()
        assert y.max() <= ax.get_ylim()[1]


def test_three_measures_below_each_other_are_readable() -> None:
    figure, axes = plt.subplots(3, 1, figsize=(3.3, 6.5), layout="constrained")
    for panel, ax in zip(["lens.kl", "residual.cosines", "drop.loss"], axes):
        bathyscope.plot(RUN, panel, ax)
    for ax in axes:
        assert_readable(ax)
    for upper, lower in pairwise(axes):
        assert upper.get_tightbbox().y0 >= lower.get_tightbbox().y1
    assert figure.axes == list(axes)


@pytest.mark.parametrize("layout", [None, "constrained"])
@pytest.mark.parametrize("panels", [("lens.kl", "residual.cosines", "skip.future"), ("lens.kl", "skip", "drop.kl")])
def test_three_measures_next_to_each_other_on_a_page_keep_room_for_what_they_show(
    layout: str | None, panels: tuple[str, ...]
) -> None:
    """With letters of matplotlib's usual size, titles and labels would leave the axes next to nothing."""
    figure, axes = plt.subplots(1, 3, figsize=(6.75, 2.3), layout=layout)
    for panel, ax in zip(panels, axes):
        bathyscope.plot(RUN, panel, ax)
    figure.draw_without_rendering()
    for ax in axes:
        assert_readable(ax)
        box = ax.get_position(original=True)
        assert box.width > 0.4 / 3
        assert box.height > 0.4
        assert min(text.get_fontsize() for text in (ax.title, ax.xaxis.label, ax.yaxis.label)) >= 5
    for left, right in pairwise(axes):
        assert not left.get_tightbbox().overlaps(right.get_tightbbox().padded(-1))
    # limits that were raised for a legend while axes were lower are those of the curves again
    top = max(float(np.max(line.get_ydata())) for line in axes[0].lines)
    assert axes[0].get_ylim()[1] < 1.8 * top


def test_texts_of_ones_own_keep_their_letters_where_others_shrink() -> None:
    _figure, axes = plt.subplots(1, 3, figsize=(6.75, 2.3), layout="constrained")
    bathyscope.plot(RUN, "lens.kl", axes[0])
    axes[0].set_title("Mine (index)", fontsize=13)
    bathyscope.plot(RUN, "residual.cosines", axes[1])
    bathyscope.plot(RUN, "skip.future", axes[2])
    assert (axes[0].get_title().replace("\n", " "), axes[0].title.get_fontsize()) == ("Mine (index)", 13)
    assert axes[0].xaxis.label.get_fontsize() < 10
    assert axes[1].get_xlabel() == "block"


def test_longer_numbers_have_room() -> None:
    """Limits that are set later have other numbers, and a figure without a layout is not arranged again."""
    _figure, ax = plt.subplots(figsize=(3.3, 2.5))
    bathyscope.plot(RUN, "lens.kl", ax)
    ax.set_ylim(0, 0.1)
    ax.figure.draw_without_rendering()
    assert ax.get_yticklabels()[1].get_text().startswith("0.")
    assert ax.yaxis.label.get_window_extent().x0 >= 0


def test_settings_of_a_journal_are_respected_and_left_alone() -> None:
    journal = {"font.family": ["serif"], "font.size": 7.0, "axes.titlesize": 7.0, "lines.linewidth": 0.7}
    with mpl.rc_context(journal):
        before = copy.deepcopy(dict(mpl.rcParams))
        _, ax = plt.subplots(figsize=(3.3, 2.4))
        bathyscope.plot(RUN, "lens.kl", ax)
        new = bathyscope.plot(RUN, "lens.kl", width=3.3)
        assert dict(mpl.rcParams) == before
    assert ax.title.get_fontsize() == 7
    assert ax.title.get_fontfamily() == ["serif"]
    assert ax.lines[0].get_linewidth() == 0.7
    assert ax.get_facecolor() == (1, 1, 1, 1)
    assert ax.spines["top"].get_visible()
    (panel,) = new.axes
    assert panel.lines[0].get_linewidth() == 0.7
    assert panel.xaxis.label.get_fontfamily() == ["serif"]
    assert panel.xaxis.label.get_fontsize() <= 7
    # Without settings of one's own a figure has the style of a page.
    assert bathyscope.plot(RUN, "lens.kl").axes[0].lines[0].get_linewidth() == 1.6


def test_a_pdf_of_the_width_of_a_column(tmp_path: Path) -> None:
    for width in (3.3, 6.75):
        stream = io.BytesIO()
        bathyscope.plot(RUN, "lens.kl", width=width).savefig(stream, format="pdf")
        assert f"/MediaBox [ 0 0 {width * 72:g} ".encode() in stream.getvalue()


def test_an_annotation_and_another_colour_of_a_line() -> None:
    figure, ax = plt.subplots()
    first, *_ = bathyscope.plot(RUN, "lens.kl", ax)
    assert first is ax.lines[0]
    first.set_color("black")
    note = ax.annotate("$\\ell^*$", (4, 1), (1, 1), arrowprops={"arrowstyle": "->"})
    bathyscope.plot(TWIN, "lens.kl", ax)
    assert (note.get_text(), note.get_parse_math()) == ("$\\ell^*$", True)
    assert first.get_color() == "black"
    figure.canvas.draw()


def test_a_dollar_in_a_name_is_no_mathematics() -> None:
    _, ax = plt.subplots()
    bathyscope.plot([RUN, TWIN], "lens.entropy", ax, labels=["a $1", "b $2"])
    assert not any(text.get_parse_math() for text in ax.get_legend().get_texts())


def test_one_axes_shows_the_map() -> None:
    figure, ax = plt.subplots()
    bathyscope.plot(RUN, "skip.future", ax)
    assert [other for other in figure.axes if other.get_label() != "<colorbar>"] == [ax]


@pytest.mark.parametrize("size", [(7.0, 8.0), (4.0, 6.0), (7.0, 4.0)])
def test_a_profile_stays_inside_of_somebodys_axes(size: tuple[float, float]) -> None:
    figure, (ax, other) = plt.subplots(2, 1, figsize=size, layout="constrained")
    artists = bathyscope.plot(complete_run(8, 4), "profile", ax)
    figure.draw_without_rendering()
    assert {type(artist) for artist in artists} >= {Annotation, Line2D, Rectangle}
    for artist in artists:
        box = artist.get_window_extent()
        assert ax.bbox.x0 - 1 <= box.x0 <= box.x1 <= ax.bbox.x1 + 1, artist
        assert ax.bbox.y0 - 1 <= box.y0 <= box.y1 <= ax.bbox.y1 + 1, artist
    assert other.bbox.height == pytest.approx(ax.bbox.height, rel=0.2)


def test_words_of_a_profile_are_chosen() -> None:
    """The labels of its axes and of its classes of cost, in a figure as in somebody's axes."""
    words = {"x": "layer", "y": "settled", "under 0.1": "free"}
    _figure, ax = plt.subplots()
    run = complete_run(8, 4)
    bathyscope.plot(run, "profile", ax, labels=words)
    for plot in (ax, *bathyscope.plot(run, "profile", labels=words).axes):
        texts = [text.get_text() for text in plot.texts]
        assert {"layer", "settled", "free"} <= set(texts)
        assert not {"block", "under 0.1"} & set(texts)
    with pytest.raises(OptionError, match=r"the panel has no such label.*Allowed: .*'x'"):
        bathyscope.plot(run, "profile", labels={"entry": "a"})


@pytest.mark.parametrize("panel", ["stages.signatures", "skip.prompts_future"])
def test_a_panel_of_several_plots_stays_in_its_place(panel: str) -> None:
    figure, (ax, other) = plt.subplots(2, 1, figsize=(7, 8), layout="constrained")
    bathyscope.plot(complete_run(8, 4), panel, ax)
    figure.draw_without_rendering()
    assert len(ax.child_axes) > 1
    for child in ax.child_axes:
        if child.get_visible():
            box = child.get_tightbbox()
            assert ax.bbox.x0 - 1 <= box.x0
            assert box.x1 <= ax.bbox.x1 + 1
            assert ax.bbox.y0 - 1 <= box.y0
            assert box.y1 <= ax.bbox.y1 + 1
    assert other.bbox.height > 0.3 * figure.bbox.height


def test_words_of_a_prompt_are_those_of_the_run() -> None:
    _figure, ax = plt.subplots(figsize=(6.75, 3.5))
    artists = bathyscope.plot(WORDS, "tokens", ax, prompt=1, tokens=slice(3, 8), blocks=slice(2, 8))
    data = WORDS["tokens"].isel(prompt=1)
    names = dict(zip(data["id"].values.tolist(), data["piece"].values.tolist()))
    cells = {text.get_position(): text for text in artists if isinstance(text, Text)}
    assert len(cells) == 5 * 7
    for (token, row), text in cells.items():
        likeliest = data["top_id"].isel(top=0)
        word = visible(str(names[int(likeliest.sel(boundary=row + 2, token=token))]))
        # A letter that no font has is written by its code point.
        assert word.startswith(text.get_text().removesuffix("…")) or "⟨4e2d⟩" in text.get_text()
        same = int(likeliest.sel(boundary=row + 2, token=token)) == int(likeliest.sel(boundary=8, token=token))
        assert text.get_fontweight() == ("bold" if same else "normal")
        assert text.get_window_extent().width <= ax.bbox.width / 5 * 1.05
    (image,) = ax.images
    expected = data["top_probability"].isel(top=0).sel(boundary=slice(2, 8)).isel(token=slice(3, 8))
    np.testing.assert_allclose(image.get_array(), expected.transpose("boundary", "token").values)
    assert [label.get_text() for label in ax.get_yticklabels()] == [str(boundary) for boundary in range(2, 9)]


def test_tokens_of_named_places_have_their_names() -> None:
    run = with_places(WORDS)
    for width, joined in ((None, "\n"), (3.3, " ")):
        ax = bathyscope.plot(run, "tokens", prompt=1, tokens=slice(1, 7), width=width).axes[0]
        labels = ax.get_xticklabels()
        named = {column + 1: label.get_text() for column, label in enumerate(labels) if "‹" in label.get_text()}
        assert {token: text.split(joined, 1)[1] for token, text in named.items()} == {
            3: "‹city›",
            4: joined.join(("‹city›", "‹last›")),
        }
        assert [label.get_fontweight() for label in labels] == ["normal", "normal", "bold", "bold", "normal", "normal"]
    plain = bathyscope.plot(WORDS, "tokens", prompt=1, tokens=slice(1, 7)).axes[0]
    assert not any("‹" in label.get_text() for label in plain.get_xticklabels())


@pytest.mark.parametrize("width", [3.3, 6.75])
def test_words_fit_a_column(width: float) -> None:
    figure = bathyscope.plot(WORDS, "tokens", prompt=0, tokens=slice(0, 12), width=width)
    assert figure.get_figwidth() == pytest.approx(width)
    ax = next(ax for ax in figure.axes if ax.images and ax.texts)
    figure.draw_without_rendering()
    cell = ax.bbox.width / 12
    assert all(text.get_window_extent().width <= 1.1 * cell for text in ax.texts)


def test_a_folder_stands_for_its_run_and_what_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="runs/mine"):
        bathyscope.plot("runs/mine", "lens.kl")
    with pytest.raises(OptionError, match="No run given"):
        bathyscope.plot([], "lens.kl")
    with pytest.raises(OptionError, match="Expected runs, not 3 of type int"):
        bathyscope.plot(3, "lens.kl")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"blocks": slice(4, 20)}, r"blocks=slice\(4, 20, None\) is no stretch of the 8 blocks \(0 to 7\)"),
        ({"blocks": slice(0, 8, 2)}, "is no stretch of the 8 blocks"),
        ({"blocks": 3}, "is no stretch of the 8 blocks"),
        ({"blocks": "5-2"}, "is no stretch of the 8 blocks"),
        ({"title": 3}, "title takes a text; 3 given"),
        ({"labels": 3}, "labels=3 are not texts"),
        ({"labels": ["one"]}, "names 1, but 'lens.kl' has 2 curves"),
        ({"labels": {"KL(lens)": "a"}}, "no such label.*Allowed: .*'x', .*"),
        ({"reduction": "max"}, "reduction='max' is for effects over tokens .* not 'lens.kl'"),
        ({"prompt": 0}, "are for the panel 'tokens', not 'lens.kl'"),
        ({"width": -1}, r"width=-1\.0 is not a length"),
    ],
)
def test_what_a_panel_has_no_use_for_is_refused(choices: dict[str, object], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        bathyscope.plot(RUN, "lens.kl", **choices)  # type: ignore[call-overload]


def test_what_runs_cannot_show_together_is_refused() -> None:
    with pytest.raises(OptionError, match="'profile' is drawn of one run at a time"):
        bathyscope.plot([RUN, TWIN], "profile")
    with pytest.raises(OptionError, match="has no axis of blocks"):
        bathyscope.plot(RUN, "effective_depth", blocks="0-3")
    with pytest.raises(OptionError, match="Give 2 different names"):
        bathyscope.plot([RUN, TWIN], "lens.kl", labels=["a", "a"])
    with pytest.raises(OptionError, match="Give each run its own axes"):
        bathyscope.plot([RUN, TWIN], "effective_depth")


def test_a_run_draws_itself_and_is_read_by_names() -> None:
    assert isinstance(RUN.plot("lens.kl", width=3.3), Figure)
    _, ax = plt.subplots()
    assert RUN.plot("lens.kl", ax, blocks="2-4")[0] is ax.lines[0]
    assert RUN.skip.identical(RUN["skip"])
    assert tuple(RUN.keys()) == RUN.measures == tuple(dict(RUN.tree.children))
    assert set(RUN._ipython_key_completions_()) == set(RUN.measures)
    assert set(RUN.measures) <= set(dir(RUN))
    assert callable(RUN.plot)
    assert RUN.n_blocks == 8
    assert copy.copy(RUN).measures == RUN.measures
    with pytest.raises(AttributeError, match="'Run' object has no attribute 'skipp'"):
        _ = RUN.skipp


def test_pgf_without_tex_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(OptionError, match=r"\.pgf file needs TeX .* xelatex is not found\. Write \.pdf"):
        render(bathyscope.plot(RUN, "lens.kl"), "pgf")
