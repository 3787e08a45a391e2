"""Drop and swap side by side: is exchanging neighbours milder than leaving a block out? Source: lad2024."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.core.estimates import Estimate
from bathyscope.core.text import elided
from bathyscope.labels import mean_limits
from bathyscope.pages.figures.kind import Drawing, FigureKind, Member, Panel, Shared
from bathyscope.pages.figures.kit import legend, style
from bathyscope.pages.figures.kit.forest import name_rows
from bathyscope.pages.figures.kit.series import Look
from bathyscope.pages.figures.kit.summary import weights_of
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.prompts.parts import clusters_in, resampled
from bathyscope.runs.by_place import is_filled
from bathyscope.runs.run import Run
from bathyscope.statistics.difference import Contrast, Reading, Term, contrast, paired_difference

_ROW_INCHES: Final = 0.42
_AROUND_INCHES: Final = 1.5
_NAME_LETTERS: Final = 40


@dataclass(frozen=True)
class ComparedMetric:
    """A metric of both measures: how it is reduced over blocks, and the texts of its panel."""

    reduce: Callable[..., Any]
    title: str
    label: str


_METRICS: Final = {
    "top1_agreement": ComparedMetric(
        np.mean, "Top-1 token kept, dropped and swapped", "share of tokens, mean over blocks"
    ),
    "kl": ComparedMetric(
        np.median, "KL from the normal prediction, dropped and swapped", "KL (nats), median over blocks"
    ),
}
_LOOKS: Final = {"one block dropped": Look(style.VERMILION, "o"), "neighbours swapped": Look(style.BLUE, "s")}


class DropAndSwap(NamedTuple):
    """Average effect of dropping and of swapping over places, and their difference paired by prompt."""

    drop: Contrast
    swap: Contrast
    difference: Contrast


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """Draw top-1 agreement and KL: a row for each model, with the paired difference."""
    panels: list[Panel] = []
    # a mean in a block's place leaves no block out
    for name, metric in ({} if is_filled(run) else _METRICS).items():
        effects = _measure_effects(run, name, metric.reduce, options)
        if effects is not None:
            panels.append(_make_panel(name, [Member("this model", 0, effects)]))
    note = (
        "Effect of leaving one block out, averaged over blocks, and of exchanging two neighbours, averaged over pairs; "
        f"bars: 95 % bootstrap intervals over {resampled(options.cluster)}. The difference, swapped − dropped, "
        "pairs the prompts. The KL is a median over blocks, because the first block often outweighs all others."
    )
    return Drawing(panels, note, f"{note} Each row is a model.")


def _measure_effects(run: Run, name: str, over: Callable[..., Any], options: FigureOptions) -> DropAndSwap | None:
    drop, swap = run["drop"], run["swap"]
    if name not in drop or name not in swap:
        return None
    values = [data[name].transpose("prompt", ...).values for data in (drop, swap)]
    weights = weights_of(drop, name, options)
    # The difference pairs prompts, so a prompt counts only where both measures have it.
    usable = (weights > 0) & np.all([np.isfinite(curves).any(axis=1) for curves in values], axis=0)
    cluster = clusters_in(drop, options.cluster)
    if not usable.any():
        return None
    return drop_and_swap(
        values[0][usable],
        values[1][usable],
        weights[usable],
        over,
        None if cluster is None else cluster[usable],
        mean_limits(name, np.concatenate([curves.ravel() for curves in values])),
    )


def drop_and_swap(
    drop_PX: FloatArray,
    swap_PX: FloatArray,
    weights_P: FloatArray,
    over: Callable[..., Any] = np.mean,
    cluster_P: IntArray | None = None,
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> DropAndSwap:
    """Compare dropping with swapping: mean or median over places, with bootstrap intervals over prompts.

    Args:
        drop_PX: a quantity of each prompt (P) with each block (X) dropped.
        swap_PX: the same with each pair of neighbours swapped.
        weights_P: tokens of each prompt.
        over: reduces an axis of places; the median where few places (the first block) outweigh all others.
        cluster_P: prompts of one number are resampled as one; None = each for itself.
        limits: smallest and largest value there can be; intervals are cut to them.
    """
    over_places = partial(over, axis=-1)
    readings = [Reading(curves, weights_P, over_places, limits, cluster=cluster_P) for curves in (drop_PX, swap_PX)]
    drop, swap = (contrast([[Term(reading, 1.0)]]) for reading in readings)
    return DropAndSwap(drop, swap, paired_difference(readings[0], readings[1]))


def _make_panel(name: str, members: Sequence[Member]) -> Panel:
    size = (style.PANEL_SIZE[0] + 1.6, _AROUND_INCHES + _ROW_INCHES * len(members))
    shared = (Shared(name, name, members[0].content, _make_panel),) if len(members) == 1 else ()
    return Panel(
        name, partial(_draw_effects, name=name, members=members), _describe_effects(name, members), size, shared
    )


def _draw_effects(figure: FigureBase, name: str, members: Sequence[Member]) -> None:
    ax = figure.subplots()
    # A subfigure measures its own box; the resolution belongs to the whole figure.
    place: Any = figure
    has_margin = place.bbox.width / place.figure.dpi > style.PANEL_SIZE[0]
    handles: list[Any] = []
    for row, effects in enumerate(member.content for member in members):
        for aside, effect, look in zip((-0.13, 0.13), (effects.drop, effects.swap), _LOOKS.values()):
            ax.hlines([row + aside], effect.ci_low, effect.ci_high, color=look.colour, linewidth=2, alpha=0.6)
            marks = ax.plot([effect.estimate], [row + aside], look.marker, color=look.colour, markersize=5)
            handles += marks if row == 0 else []
    differences = [_format_difference(member.content) for member in members]
    names = [elided(run, _NAME_LETTERS) for run, *_ in members]
    if has_margin:
        name_rows(ax, names)
        _write_margin(ax, [*differences, "swapped − dropped"], [*range(len(members)), -0.62])
    else:
        # A narrow picture has no room at the right, so differences are under the names.
        name_rows(ax, [f"{name}\nswapped − dropped:\n{difference}" for name, difference in zip(names, differences)])
    metric = _METRICS[name]
    ax.set(ylim=(len(members) - 0.5, -0.8), xlabel=metric.label, title=metric.title)
    legend.draw_legend(figure, handles, list(_LOOKS))


def _write_margin(ax: Axes, texts: Sequence[str], rows: Sequence[float]) -> None:
    """Write texts at the right of rows, outside the axes."""
    for text, row in zip(texts, rows):
        ax.annotate(
            text, (1.02, row), xycoords=ax.get_yaxis_transform(), va="center", fontsize=7.5, annotation_clip=False
        )


def _format_difference(effects: DropAndSwap) -> str:
    difference = effects.difference
    return f"{Estimate(difference.estimate, difference.ci_low, difference.ci_high):+.2g}"


def _describe_effects(name: str, members: Sequence[Member]) -> str:
    descriptions = "; ".join(
        f"{run}: dropped {effects.drop.estimate:.3g}, swapped {effects.swap.estimate:.3g}, "
        f"difference {_format_difference(effects)}"
        for run, _, effects, _ in members
    )
    return f"Dots with intervals, {_METRICS[name].title.lower()}: {descriptions}."


FIGURE: Final = FigureKind("drop_and_swap", "Drop against swap", (), _make_drawing, "swap", ("drop",))
