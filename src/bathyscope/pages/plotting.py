"""One panel at a time: in the caller's axes, or as a figure of any width."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Final, Literal, overload

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bathyscope.core.calls import takes
from bathyscope.core.text import elided, require_text
from bathyscope.errors import OptionError, did_you_mean
from bathyscope.pages.figures.arguments import check_options, name_runs, read_runs
from bathyscope.pages.figures.kind import Member, Panel, draw_for_user, fill_axes
from bathyscope.pages.figures.kit.axes import require_axes
from bathyscope.pages.figures.kit.curve_axes import cut_curves
from bathyscope.pages.figures.kit.heat_map import HeatMap
from bathyscope.pages.figures.kit.lines import curves_of, look_like, name_curves
from bathyscope.pages.figures.kit.lines_together import join_runs
from bathyscope.pages.figures.kit.relabel import relabel, retitle
from bathyscope.pages.figures.kit.series import Axis
from bathyscope.pages.figures.kit.surface import list_artists, settle
from bathyscope.pages.figures.lens_words import NAME as TOKENS
from bathyscope.pages.figures.lens_words import words_panel
from bathyscope.pages.figures.of.profile import NAME as PROFILE
from bathyscope.pages.figures.of.profile import profile_panel
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.panels import panel_of
from bathyscope.pages.figures.registry import figures_of
from bathyscope.pages.figures.stretches import Stretch, read_stretch
from bathyscope.pages.options import PlotOptions
from bathyscope.runs.run import Run

COLUMN: Final = 3.3
"""Inches of one column of a journal."""
PAGE: Final = 6.75
"""Inches of both columns."""
_WIDEST: Final = 50
"""Inches of the widest figure: pixels, and the time and memory that they take, grow with the square of the width."""
_FIRST_OF: Final = {"skip": "future", "direct": "future"}
"""Panels that a figure's name alone stands for: the maps that are quoted."""
_REDUCED: Final = ("skip", "direct", "depth_score")
"""Figures of effects that are reduced over the tokens of a prompt."""

Reduction = Literal["mean", "p95", "max"]
Labels = str | Sequence[str] | Mapping[str, str]
"""Names of runs or curves, or other words for those that a panel has."""
Place = Run | str | Path
"""A run, or the folder of one."""


@overload
def plot(
    run: Place | Sequence[Place],
    panel: str,
    ax: None = None,
    *,
    blocks: Stretch | None = None,
    title: str | None = None,
    labels: Labels | None = None,
    reduction: Reduction | None = None,
    prompt: int | str | None = None,
    tokens: Stretch | None = None,
    width: float | None = None,
    options: FigureOptions | None = None,
) -> Figure: ...


@overload
def plot(
    run: Place | Sequence[Place],
    panel: str,
    ax: Axes,
    *,
    blocks: Stretch | None = None,
    title: str | None = None,
    labels: Labels | None = None,
    reduction: Reduction | None = None,
    prompt: int | str | None = None,
    tokens: Stretch | None = None,
    width: float | None = None,
    options: FigureOptions | None = None,
) -> list[Artist]: ...


@takes(PlotOptions)
def plot(
    run: Place | Sequence[Place],
    panel: str,
    ax: Axes | None = None,
    *,
    blocks: Stretch | None = None,
    title: str | None = None,
    labels: Labels | None = None,
    reduction: Reduction | None = None,
    prompt: int | str | None = None,
    tokens: Stretch | None = None,
    width: float | None = None,
    options: FigureOptions | None = None,
) -> Figure | list[Artist]:
    """Draw one panel of a run, or the same panel of several runs, in your own axes or as a new figure.

    In your axes the panel follows your ``rcParams``, and the axes stay yours: set a title, limits, a legend or an
    annotation afterwards as usual. Where the figure has no layout and untouched margins, axes are moved once so that
    labels have room.

    Args:
        run: a run with the figure's measure, its folder, or a list of these. Runs of one depth are drawn over their
            blocks, others over the share of their depth, unless ``blocks`` are chosen.
        panel: the figure and its panel, such as ``lens.kl``, or a variable that a panel shows, such as
            ``skip.effect_future``; a figure of one panel by its name alone. ``names("panels")`` lists them. ``profile``
            is the depth profile at the top of a page, ``tokens`` what each boundary predicts in one prompt.
        ax: axes to draw in; None = a new figure. A panel of several plots divides the place of the axes.
        ...: the options of ``PlotOptions``.
        blocks: ``slice(4, 20)`` or a range is allowed too.
        labels: A dict is allowed too, from a name or a label that the panel has, or from ``x`` and ``y``, to others.
        width: It is that of a new figure.
        options: weighting, bands, reduction and scale.

    Returns:
        The new figure; with ``ax``, what was drawn: lines, bands, maps, marks and texts, in order.

    Raises:
        OptionError: unknown figure or panel; runs that have no such panel in common; a run with only some of its
            blocks; an argument that the panel has no use for, or a wrong one.
        StoreError: a folder that holds no run.

    Example:
        >>> bathyscope.plot(run, "lens.kl", width=3.3).savefig("kl.pdf")
    """
    runs = read_runs(run)
    check_options(options)
    _check_arguments(panel, ax, width, title, labels)
    options = _with_reduction(options, reduction, panel)
    if panel != TOKENS and (prompt is not None or tokens is not None):
        raise OptionError(f"prompt= and tokens= are for the panel 'tokens', not {panel!r}. Leave them out.")
    words = dict(labels) if isinstance(labels, Mapping) else {}
    if len(runs) > 1:
        drawn_panel = _join_panels(runs, panel, blocks, labels, options)
    elif panel == TOKENS:
        drawn_panel = _cut_panel(words_panel(runs[0], prompt, tokens), panel, blocks, runs[0].n_blocks)
    elif panel == PROFILE:
        drawn_panel = _cut_panel(
            profile_panel(runs[0], None if options is None else options.cluster, width),
            panel,
            blocks,
            runs[0].n_blocks,
        )
    else:
        drawn_panel = _cut_panel(_find_panel(runs[0], panel, options), panel, blocks, runs[0].n_blocks)
    if len(runs) == 1 and labels is not None and not words:
        drawn_panel = _name_curves(drawn_panel, panel, labels)
    if len(runs) > 1:
        words = {old: new for old, new in words.items() if old not in name_runs(runs, None)}
    if ax is None:

        def finish(figure: Figure) -> None:
            relabel(figure, words)
            retitle(figure, title)

        # The profile chooses a height of its own for each width.
        return draw_for_user(drawn_panel, None if panel == PROFILE else width, finish)
    return _draw_in_axes(ax, drawn_panel, words, title)


def _draw_in_axes(ax: Axes, panel: Panel, words: Mapping[str, str], title: str | None) -> list[Artist]:
    """Draw a panel into the caller's axes, next to what they hold, and return what was added."""
    present = {*ax.lines, *ax.collections, *ax.patches, *ax.images, *ax.texts}
    earlier = sum(not str(line.get_label()).startswith("_") for line in ax.lines)
    limits = ax.get_xlim(), ax.get_ylim()
    if earlier:
        # What is there set limits, which would hide what comes.
        ax.autoscale(enable=True)
    surface = fill_axes(ax, look_like(panel, earlier))
    if earlier:
        ax.set_xlim(*_join_limits(limits[0], ax.get_xlim()))
        ax.set_ylim(*_join_limits(limits[1], ax.get_ylim()))
    relabel(surface, words)
    if title is not None:
        ax.set_title(title)
    settle(surface, room_for_title=title is None)
    if ax.lines and not ax.images:
        # Limits that were chosen for this scale would not hold for another, or for curves that are added.
        ax.set_autoscaley_on(True)
    return [artist for artist in list_artists(surface) if artist not in present]


def _join_limits(earlier: tuple[float, float], later: tuple[float, float]) -> tuple[float, float]:
    return min(*earlier, *later), max(*earlier, *later)


def _with_reduction(options: FigureOptions | None, reduction: Reduction | None, panel: str) -> FigureOptions | None:
    if reduction is None:
        return options
    figure = panel.partition(".")[0]
    if figure not in _REDUCED:
        raise OptionError(
            f"reduction={reduction!r} is for effects over tokens ({', '.join(_REDUCED)}), not {panel!r}. Leave it out."
        )
    return replace(options or FigureOptions(), reduction=reduction)


def _cut_panel(panel: Panel, what: str, blocks: Stretch | None, n_blocks: int) -> Panel:
    """Return the panel of some blocks."""
    if blocks is None:
        return panel
    stretch = read_stretch(blocks, "blocks", n_blocks)
    if panel.cut is None:
        raise OptionError(f"Panel {what!r} has no axis of blocks. Leave out blocks=.")
    cut = panel.cut(stretch)
    if cut is None:
        raise OptionError(
            f"Panel {what!r} has no value at blocks {stretch.start} to {stretch.stop - 1}. Give more blocks."
        )
    return cut


def _name_curves(panel: Panel, what: str, labels: Labels) -> Panel:
    """Return one run's panel with the caller's names of its curves."""
    names = [labels] if isinstance(labels, str) else list(labels)
    curves, _ = curves_of(panel)
    if len(names) != len(curves):
        count = f"{len(curves)} curves ({', '.join(curve.label for curve in curves)})" if curves else "no curves"
        raise OptionError(
            f"labels={elided(repr(names), 40)} names {len(names)}, but {what!r} has {count}. Give one name a curve, or "
            "a dict such as {'x': 'layer'}."
        )
    return name_curves(panel, names)


def _join_panels(
    runs: Sequence[Run], what: str, blocks: Stretch | None, labels: Labels | None, options: FigureOptions | None
) -> Panel:
    """Return the panel of several runs together.

    Raises:
        OptionError: one run twice, which would agree with itself.
    """
    for run, other in combinations(runs, 2):
        if run is other or (run.path is not None and run.path == other.path and not (run.cut or other.cut)):
            where = "" if run.path is None else f" ({str(run.path)!r})"
            raise OptionError(f"One run is given twice{where}, which agrees with itself. Give each run once.")
    names = _name_runs(runs, labels)
    if what in (PROFILE, TOKENS):
        raise OptionError(f"{what!r} is drawn of one run at a time. Give each run its own axes.")
    panels = [_find_panel(run, what, options) for run in runs]
    shared = [panel.shared[0] if panel.shared else None for panel in panels]
    first = shared[0]
    if first is None or any(other is None or other.key != first.key for other in shared):
        raise OptionError(f"{what!r} of these runs has no common picture. Give each run its own axes.")
    members = []
    for number, (run, name, content) in enumerate(zip(runs, names, (content.content for content in shared if content))):
        if blocks is not None:
            content = _cut_content(content, read_stretch(blocks, "blocks", run.n_blocks), what)
        members.append(Member(name, number, content, run.n_blocks))
    if first.together is join_runs:
        by_block = blocks is not None or len({run.n_blocks for run in runs}) == 1
        joint = join_runs(first.name, members, by_block)
    else:
        joint = first.together(first.name, members)
    if joint is None:
        raise OptionError(f"{what!r} of these runs cannot be compared. Give each run its own axes.")
    return joint


def _cut_content(content: object, blocks: range, what: str) -> object:
    """Return the content of one run's panel at some blocks."""
    cut: object = None
    if isinstance(content, HeatMap):
        cut = content.cut(blocks)
    elif isinstance(content, tuple) and len(content) == 2 and isinstance(content[1], Axis):
        curves = cut_curves(content[0], content[1], blocks)
        cut = (curves, content[1]) if curves else None
    if cut is None:
        raise OptionError(
            f"Panel {what!r} has no value at blocks {blocks.start} to {blocks.stop - 1}. Leave out blocks=."
        )
    return cut


def _name_runs(runs: Sequence[Run], labels: Labels | None) -> list[str]:
    names = name_runs(runs, None)
    if labels is None:
        return names
    if isinstance(labels, Mapping):
        return [labels.get(name, name) for name in names]
    chosen = [labels] if isinstance(labels, str) else list(labels)
    if len(chosen) != len(runs) or len(set(chosen)) < len(chosen):
        raise OptionError(
            f"labels={elided(repr(chosen), 40)} is not allowed. Give {len(runs)} different names, one for each run."
        )
    return chosen


def _check_arguments(panel: object, ax: object, width: object, title: object, labels: object) -> None:
    """Refuse arguments of the wrong type before anything is drawn."""
    if not isinstance(panel, str):
        raise OptionError(f"panel={elided(repr(panel), 40)} is not the name of a panel. Give one, such as 'lens.kl'.")
    if ax is not None:
        require_axes(ax, ", or None for a new figure")
    if ax is not None and width is not None:
        raise OptionError("width= is of a new figure, and ax= has its own. Leave out one of them.")
    length = isinstance(width, int | float) and not isinstance(width, bool) and width > 0
    if width is not None and not length:
        raise OptionError(f"width={elided(repr(width), 40)} is not a length. Give inches above 0, such as {COLUMN}.")
    if isinstance(width, int | float) and width > _WIDEST:
        raise OptionError(f"width={width} is out of range: width is in inches; allowed: above 0 to {_WIDEST}.")
    if title is not None and not isinstance(title, str):
        raise OptionError(f"title={elided(repr(title), 40)} is not a text. Give one; an empty one removes the title.")
    if title is not None:
        require_text(title, "title=", OptionError)
    names: list[object] = [*labels] if isinstance(labels, list | tuple | Mapping) else [labels]
    names += labels.values() if isinstance(labels, Mapping) else ()
    if labels is not None and not all(isinstance(name, str) for name in names):
        raise OptionError(
            f"labels={elided(repr(labels), 40)} are not texts. Give names in a list, or a dict like {{'x': 'layer'}}."
        )
    for name in names:
        require_text(str(name), "labels=", OptionError)


def _find_panel(run: Run, what: str, options: FigureOptions | None) -> Panel:
    name, _, panel_name = what.partition(".")
    kinds = figures_of(run)
    if name not in kinds:
        extra = [PROFILE, TOKENS]
        raise OptionError(
            f"This run has no figure {name!r}.{did_you_mean(name, [*extra, *kinds])} Allowed: "
            f"{', '.join([*extra, *kinds])}; add a panel to a figure's name, such as lens.kl."
        )
    panels = {panel.name: panel for panel in kinds[name].panels(run, options)}
    if not panel_name and len(panels) == 1:
        return next(iter(panels.values()))
    if not panel_name and _FIRST_OF.get(name) in panels:
        return panels[_FIRST_OF[name]]
    if panel_name not in panels:
        panel_name = panel_of(name, panel_name, panels) or panel_name
    if panel_name not in panels:
        listed = ", ".join(f"{name}.{panel}" for panel in panels)
        problem = (
            f"{what!r} is not a panel of this run"
            if panel_name
            else f"{what!r} has {len(panels)} panels; name one of them"
        )
        near = did_you_mean(what, [f"{name}.{panel}" for panel in panels]) if panel_name else ""
        raise OptionError(f"{problem}; allowed: {listed}.{near}")
    return panels[panel_name]
