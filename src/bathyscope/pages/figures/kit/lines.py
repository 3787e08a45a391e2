"""Curves along the depth axis: what a series is, and how a set of them is drawn, labelled, described and tabled.

Suffixes: P prompts, X places along the depth axis.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import cycle
from typing import Any, Final, Literal, TypedDict

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from bathyscope import labels
from bathyscope.core.text import elided
from bathyscope.pages.figures.kind import Drawing, Member, Panel, Shared
from bathyscope.pages.figures.kit import legend, style
from bathyscope.pages.figures.kit.axes import bent_axis, block_axis, log_axis
from bathyscope.pages.figures.kit.summary import Summary, Weighting, summarise
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.prompts.parts import clusters_in

DEPTH_LABEL: Final = "block or boundary (0-based index)"
BLOCK_LABEL: Final = "block (0-based index)"
BOUNDARY_LABEL: Final = "boundary (index; 0 = what enters block 0)"
SHARE_LABEL: Final = "share of the depth (dimensionless)"
PLACES: Final = {
    "block": BLOCK_LABEL,
    "boundary": BOUNDARY_LABEL,
    "dropped": "dropped block (0-based index)",
    "skipped": "skipped block (0-based index)",
    "swapped": "first of the swapped blocks (0-based index)",
    "start": "first block of the window (0-based index)",
    "head": "head (0-based index)",
}
"""Labels of axes by dimension."""

_DEPTHS: Final = {DEPTH_LABEL, *(label for dimension, label in PLACES.items() if dimension != "head")}
_SPANS: Final = {BOUNDARY_LABEL: 0, **{PLACES[one]: 1 for one in ("block", "dropped", "skipped")}, PLACES["swapped"]: 2}
"""How many blocks a place spans, where its axis tells."""
_NAME_LETTERS: Final = 40
_TOGETHER: Final = 8
"""Curves of several runs in one axes, at most; more have axes for each quantity."""
_WIDEST: Final = 10.5
_WIDTH_TOGETHER: Final = 5.6
_BELOW: Final = 3.0
"""On a logarithmic axis a band ends at this share of the smallest mean, where its interval reaches 0."""
_MARKS: Final = 20
"""Marks on a curve of many places, about."""


@dataclass(frozen=True)
class Look:
    """Colour, marker and line style of a series."""

    colour: str
    marker: str = "o"
    line: str = "-"


STREAM: Final = Look(style.MUTED, "D", "-.")
PARTS: Final = {
    "attention": Look(style.BLUE, "o", "--"),
    "mlp": Look(style.VERMILION, "s", ":"),
    "block": Look(style.GREEN, "^"),
}
"""Parts of a block have the same dashes wherever they are drawn, as the stream has."""

# five colours and seven markers have no common divisor
_COLOURS: Final = (style.BLUE, style.VERMILION, style.GREEN, style.PURPLE, style.MUTED)
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
_LINES: Final = ("-", "--", ":", "-.")


def nth_look(i: int) -> Look:
    """Of the i-th of several: colour and marker, which differ for up to 35, and from the sixth on the line too."""
    return Look(_COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)], _LINES[i // len(_COLOURS) % len(_LINES)])


def looks(count: int) -> list[Look]:
    """Of so many."""
    return [nth_look(i) for i in range(count)]


@dataclass(frozen=True)
class Series:
    """A named curve with its band, over the places ``x``; ``name`` is the variable's."""

    label: str
    x: NDArray[Any]
    summary: Summary
    look: Look
    name: str = ""


@dataclass(frozen=True)
class Axis:
    """What stands on the axes of a panel of lines.

    Args:
        title: what is seen.
        x: label of the depth axis.
        y: label of the other, unit included.
        scale: ``"auto"`` takes a logarithm where positive values span more than a factor of 50; ``"bent"`` one beyond
            the usual size where a few places outweigh all others, whatever their signs.
        rules: horizontal reference lines, height → name.
        whole: the depth axis counts blocks or boundaries, rather than being a share of the depth.
        apart: several curves have axes of their own side by side on one scale, with the others behind in grey.
    """

    title: str
    x: str
    y: str
    scale: Literal["linear", "log", "auto", "bent"] = "linear"
    rules: dict[float, str] = field(default_factory=dict)
    whole: bool = True
    apart: bool = False


@dataclass(frozen=True)
class Curve:
    """A variable (prompt, place) as a line; without a band where it is (place) alone.

    Args:
        positions: what the per-prompt values are means of, and so what they weigh: the tokens that the dataset says
            (``labels.token_weights``); ``"prompts"``: they are no means over tokens, and each prompt counts the same.
        at: the place along further dimensions.
    """

    name: str
    label: str
    look: Look
    positions: Weighting = "tokens"
    at: Mapping[str, Any] = field(default_factory=dict)


def series(dataset: xr.Dataset, curve: Curve, options: FigureOptions) -> Series:
    """A variable of the dataset over its place."""
    dataset = dataset.sel(curve.at)
    variable = dataset[curve.name].transpose("prompt", ..., missing_dims="ignore")
    (place,) = (dim for dim in variable.dims if dim != "prompt")
    x = variable[place].values
    if "prompt" not in variable.dims:
        return Series(curve.label, x, Summary(variable.values, None, None), curve.look)
    weights_P = np.ones(len(variable)) if curve.positions == "prompts" else labels.token_weights(dataset, curve.name)
    cluster, limits = clusters_in(variable, options.cluster), labels.mean_limits(curve.name, variable.values)
    summary = summarise(variable.values, weights_P, options, cluster, limits)
    return Series(curve.label, x, summary, curve.look, curve.name)


def chart(
    name: str,
    dataset: xr.Dataset,
    axis: Axis,
    curves: Sequence[Curve],
    options: FigureOptions,
) -> Panel | None:
    """A panel of the variables that are there, or None where none of them has a value.

    Args:
        axis: its ``y`` may hold ``{unit}``, which is the first variable's.
    """
    there = [one for one in curves if one.name in dataset]
    if not there:
        return None
    drawn = [series(dataset, one, options) for one in there]
    return panel(name, drawn, replace(axis, y=axis.y.format(unit=unit(dataset[there[0].name]))))


def unit(values: xr.DataArray) -> str:
    """Its unit in words a reader of an axis understands."""
    units = str(values.attrs.get("units", ""))
    return "dimensionless" if units in ("", "1") else units


def panel(name: str, curves: Sequence[Series], axis: Axis) -> Panel | None:
    """A panel of these curves, or None where none of them has a value; over the depth it stands beside other runs'."""
    shown = [curve for curve in curves if np.isfinite(curve.summary.mean).any()]
    if not shown:
        return None
    width, height = style.PANEL_SIZE
    if axis.apart and len(shown) > 1:
        draw, size = _draw_apart, (1.6 * width, height)
    else:
        # two rows of names are part of every panel
        room = legend.height([*(curve.label for curve in shown), *filter(None, axis.rules.values())], width)
        draw, size = _draw, (width, height + max(0.0, room - legend.height("ab", 0)))
    shared = (Shared(name, f"curves {name}", (shown, axis), _over_runs),) if axis.x in _DEPTHS else ()
    return Panel(name, partial(draw, curves=shown, axis=axis), _alt(shown, axis), size, shared)


def curves_of(shown: Panel) -> tuple[Sequence[Series], Axis]:
    """The curves of a panel along the depth, with what stands on its axes; no curve where it shows something else."""
    found = (shared.shown for shared in shown.shared if shared.together is _over_runs)
    return next(found, ((), Axis("", "", "")))


class Number(TypedDict):
    """One curve at one block or boundary.

    ``low`` and ``high`` are the edges of its band, which the caption explains; NaN where it has none.
    """

    variable: str
    what: str
    place: int
    mean: float
    low: float
    high: float
    units: str


def numbers(drawing: Drawing, data: xr.Dataset) -> Iterator[Number]:
    """A row for every curve along the depth and place, as it is drawn, whatever prompts weigh there; none for maps.

    Args:
        data: what was drawn from, which knows the units.
    """
    for shown in drawing.panels:
        curves, axis = curves_of(shown)
        for curve in curves:
            units = str(data[curve.name].attrs.get("units", "")) if curve.name in data else "1"
            none = [math.nan] * len(curve.x)
            ends = (none if end is None else end for end in (curve.summary.low, curve.summary.high))
            for place, mean, low, high in zip(curve.x, curve.summary.mean, *ends, strict=True):
                yield Number(
                    variable=curve.name or shown.name,
                    what=f"{axis.title}: {curve.label}",
                    place=int(place),
                    mean=float(mean),
                    low=float(low),
                    high=float(high),
                    units=units,
                )


def only(shown: Panel, name: str) -> Panel | None:
    """The curve of one variable of a panel, under the variable's name; None where the panel has none of it."""
    curves, axis = curves_of(shown)
    return panel(name, [curve for curve in curves if curve.name == name], axis)


def mark(shown: Panel, places: Mapping[str, float], said: str) -> Panel:
    """A panel of several runs with a mark at the top of its axes for each that has one.

    Args:
        places: name of the run → share of the depth.
        said: what the marks are.
    """
    marks = {elided(run, _NAME_LETTERS): place for run, place in places.items()}
    alt = f"{shown.alt} {said.capitalize()}: {', '.join(f'{run} {place:.2f}' for run, place in marks.items())}."
    return replace(shown, alt=alt, draw=partial(_draw_marked, draw=shown.draw, marks=marks, said=said))


def _over_runs(name: str, members: Sequence[Member]) -> Panel | None:
    """Lines over the share of each run's depth: colour and marker tell the run, the dashes which quantity.

    Where that would be too many for one axes, each quantity has its own, and all runs are in each.
    """
    axis = members[0].shown[1]
    quantities = list(dict.fromkeys(curve.label for member in members for curve in member.shown[0]))
    together = len(quantities) == 1 or len(members) * len(quantities) <= _TOGETHER
    dashes = dict(zip(quantities, cycle(_LINES))) if together and len(quantities) > 1 else {}
    rows: dict[str, list[Series]] = {quantity: [] for quantity in quantities}
    names: list[tuple[str, Look]] = []
    for member in members:
        run, own = elided(member.run, _NAME_LETTERS), nth_look(member.number)
        names.append((run, replace(own, line="-") if dashes else own))
        for curve in member.shown[0]:
            label = f"{run}, {curve.label}" if dashes else run
            x = _share_of_depth(curve.x, axis.x, member.blocks)
            dashed = replace(own, line=dashes.get(curve.label, own.line))
            rows[curve.label].append(replace(curve, label=label, x=x, look=dashed))
    names += [(said, Look(style.MUTED, "", line)) for said, line in dashes.items()]
    rules = {height: said for height, said in axis.rules.items() if not said}
    shown = Axis(axis.title, SHARE_LABEL, axis.y, axis.scale, rules, whole=False)
    parts = [("", [one for own in rows.values() for one in own])] if together else list(rows.items())
    width = _WIDTH_TOGETHER if together else min(_WIDEST, 1.2 + 2.6 * len(parts))
    size = (width, style.PANEL_SIZE[1] + legend.height([said for said, _ in names], width))
    curves = [replace(one, label=f"{one.label}, {part}" if part else one.label) for part, own in parts for one in own]
    return Panel(name, partial(_draw_together, parts=parts, axis=shown, names=names), _alt(curves, shown), size)


def _share_of_depth(x: NDArray[Any], label: str, blocks: int | None) -> NDArray[Any]:
    """The middle of what is counted, as a share of the L blocks: b / L, (l + ½) / L, (ℓ + 1) / L of a swapped pair.

    Where the axis does not tell how many blocks a place spans (a window's), the last place ends at L.
    """
    last = int(x.max())
    span = _SPANS.get(label, 0 if blocks is None else blocks - last)
    return np.asarray((x + span / 2) / (max(last + span, 1) if blocks is None else blocks))


def _draw(figure: FigureBase, curves: Sequence[Series], axis: Axis) -> None:
    ax = figure.subplots()
    _fill(ax, curves, axis, _is_logarithmic(curves, axis))
    ax.set_title(axis.title)
    handles, labels = ax.get_legend_handles_labels()
    if len(handles) > 1:
        legend.draw(figure, handles, labels)


def _draw_together(
    figure: FigureBase, parts: Sequence[tuple[str, Sequence[Series]]], axis: Axis, names: Sequence[tuple[str, Look]]
) -> None:
    """One axes for each part, on one scale; one legend of runs, and of dashes where they say something."""
    logarithmic = _is_logarithmic([curve for _, own in parts for curve in own], axis)
    axes = figure.subplots(1, len(parts), sharey=True, squeeze=False)[0]
    for ax, (title, own) in zip(axes, parts):
        _fill(ax, own, axis, logarithmic)
        ax.set_title(title or axis.title, fontweight="normal" if title else "bold")
    for ax in axes[1:]:
        ax.set_ylabel("")
    for ax in set(axes) - {axes[len(axes) // 2]}:
        ax.set_xlabel("")
    if parts[0][0]:
        figure.suptitle(axis.title, x=0.01, ha="left", fontsize=9.5, fontweight="bold")
    handles = [Line2D([], [], color=look.colour, marker=look.marker, ls=look.line) for _, look in names]
    legend.draw(figure, handles, [said for said, _ in names])


def _draw_marked(figure: FigureBase, draw: Callable[[FigureBase], None], marks: Mapping[str, float], said: str) -> None:
    draw(figure)
    for ax in figure.findobj(Axes):
        own: dict[str, Any] = {str(line.get_label()).split(", ")[0]: line for line in ax.lines}
        for run in (run for run in marks if run in own):
            look = {"color": own[run].get_color(), "marker": own[run].get_marker(), "markerfacecolor": style.PAPER}
            top = ax.get_xaxis_transform()
            ax.plot([marks[run]], [1.0], linestyle="", markersize=6, transform=top, clip_on=False, zorder=3, **look)
        if ax.get_xlabel():
            ax.set_xlabel(f"{ax.get_xlabel()}\nhollow, at the top: {said}")


def _fill(ax: Axes, curves: Sequence[Series], axis: Axis, logarithmic: bool) -> None:
    """Curves, reference lines and labels in axes of their own."""
    for curve in curves:
        _draw_series(ax, curve, logarithmic, band=len(curves) <= _TOGETHER)
    for height, name in axis.rules.items():
        ax.axhline(height, color=style.MUTED, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1, label=name or None)
    if axis.whole:
        block_axis(ax, axis.x, min(c.x.min() for c in curves), max(c.x.max() for c in curves))
    else:
        ax.set(xlim=(-0.02, 1.02), xlabel=axis.x)
    usual = _usual_size(curves) if axis.scale == "bent" else None
    if not logarithmic:
        _keep_means_in_view(ax, curves)
    if logarithmic:
        log_axis(ax)
    elif usual is not None:
        bent_axis(ax, usual)
    beyond = "" if usual is None else f", log scale beyond {usual:.1g}"
    ax.set_ylabel(f"{axis.y}, log scale" if logarithmic else f"{axis.y}{beyond}")


def _keep_means_in_view(ax: Axes, curves: Sequence[Series]) -> None:
    """Cut bands that would take most of the picture, as those of two prompts do, whose quantile is 12.7."""
    means = np.concatenate([curve.summary.mean for curve in curves])
    means = means[np.isfinite(means)]
    low, high = ax.get_ylim()
    room = float(np.ptp(means)) or float(np.abs(means).max()) or high - low
    ax.set_ylim(max(low, float(means.min()) - room), min(high, float(means.max()) + room))


def _is_logarithmic(curves: Sequence[Series], axis: Axis) -> bool:
    if axis.scale != "auto":
        return axis.scale == "log"
    values = np.concatenate([curve.summary.mean for curve in curves])
    values = values[np.isfinite(values)]
    return bool((values > 0).all() and values.max() > 50 * values.min())


def _draw_apart(figure: FigureBase, curves: Sequence[Series], axis: Axis) -> None:
    axes = figure.subplots(1, len(curves), sharey=True, squeeze=False)[0]
    for ax, own in zip(axes, curves):
        for other in curves:
            if other is not own:
                ax.plot(other.x, other.summary.mean, "-", color=style.GRID, zorder=1)
        _draw_series(ax, own)
        block_axis(ax, axis.x, own.x.min(), own.x.max())
        ax.set_title(own.label, fontweight="normal")
    axes[0].set_ylabel(axis.y)
    figure.suptitle(axis.title, x=0.01, ha="left", fontsize=9.5, fontweight="bold")


def _draw_series(ax: Axes, curve: Series, logarithmic: bool = False, band: bool = True) -> None:
    look, summary = curve.look, curve.summary
    # where marks would run into each other some of them still tell the curve
    every = 1 if len(curve.x) <= style.MARKERS_UP_TO else -(-len(curve.x) // _MARKS)
    ax.plot(curve.x, summary.mean, look.line, color=look.colour, marker=look.marker, markevery=every, label=curve.label)
    if band and summary.low is not None and summary.high is not None:
        # the outline of a filled area has no place for 0 on a logarithmic axis, and would close somewhere else
        low, drawable = summary.low, np.isfinite(summary.low)
        if logarithmic:
            positive = summary.mean[summary.mean > 0]
            low = np.maximum(low, positive.min() / _BELOW if positive.size else 0)
            drawable = (low > 0) & (summary.high > low)
        ax.fill_between(curve.x, low, summary.high, where=drawable, color=look.colour, alpha=0.22, linewidth=0)


def _usual_size(curves: Sequence[Series]) -> float | None:
    """The median size of the curves' values, where the largest is more than ten times it."""
    sizes = np.abs(np.concatenate([curve.summary.mean for curve in curves]))
    sizes = sizes[sizes > 0]
    usual = float(np.median(sizes)) if sizes.size else 0.0
    return usual if sizes.size and sizes.max() > 10 * usual else None


def _alt(curves: Sequence[Series], axis: Axis) -> str:
    said = []
    for curve in curves:
        mean = curve.summary.mean
        kept = np.flatnonzero(np.isfinite(mean))
        places = (kept[0], kept[-1], np.nanargmin(mean), np.nanargmax(mean))
        at = [f"{mean[place]:.3g} at {_place(curve.x[place])}" for place in places]
        said.append(f"{curve.label}: {at[0]}, {at[1]}, lowest {at[2]}, highest {at[3]}")
    return f"Line chart, {axis.title.lower()}: {axis.y} against {axis.x}. {'; '.join(said)}."


def _place(x: Any) -> str:
    """A block, a boundary or its share of the depth."""
    return f"{x:.3g}" if isinstance(x, np.floating) else str(x)
