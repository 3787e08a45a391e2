"""Drop and swap side by side: is exchanging neighbours milder than leaving a block out? Source: lad2024."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from matplotlib.figure import FigureBase

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.core.text import elided
from bathyscope.labels import mean_limits
from bathyscope.pages.figures.kind import Drawing, FigureKind, Member, Panel, Shared
from bathyscope.pages.figures.kit import legend, style
from bathyscope.pages.figures.kit.forest import name_rows
from bathyscope.pages.figures.kit.lines import Look
from bathyscope.pages.figures.kit.summary import weights_of
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.prompts.parts import clusters_in, resampled
from bathyscope.runs.run import Run
from bathyscope.statistics.difference import Contrast, Reading, Term, contrast, paired_difference

_ROW_INCHES: Final = 0.42
_AROUND_INCHES: Final = 1.5
_NAME_LETTERS: Final = 40

_SHOWN: Final[dict[str, tuple[Callable[..., Any], str, str]]] = {
    "top1_agreement": (np.mean, "Top-1 token kept, dropped and swapped", "share of tokens, mean over blocks"),
    "kl": (np.median, "KL from the normal prediction, dropped and swapped", "KL (nats), median over blocks"),
}
_LOOKS: Final = {"one block dropped": Look(style.VERMILION, "o"), "neighbours swapped": Look(style.BLUE, "s")}


class DropAndSwap(NamedTuple):
    """What each does on average over its places, and swap − drop, paired by prompt."""

    drop: Contrast
    swap: Contrast
    difference: Contrast


def _drawing(run: Run, options: FigureOptions) -> Drawing:
    """Share of top-1 tokens kept, and KL: a row a model, with the paired difference beside it."""
    panels = []
    for name, (over, _, _) in _SHOWN.items():
        found = _found(run, name, over, options)
        if found is not None:
            panels.append(_panel(name, [Member("this model", 0, found)]))
    note = (
        "What leaving one block out does on average over blocks, and what exchanging two neighbours does over pairs; "
        f"bars: 95 % bootstrap intervals over {resampled(options.cluster)}. The difference, swapped − "
        "dropped, pairs the prompts. The KL is a median over blocks, since the first block often outweighs all others."
    )
    return Drawing(panels, note, f"{note} A row is a model.")


def _found(run: Run, name: str, over: Callable[..., Any], options: FigureOptions) -> DropAndSwap | None:
    drop, swap = run["drop"], run["swap"]
    if name not in drop or name not in swap:
        return None
    values = [data[name].transpose("prompt", ...).values for data in (drop, swap)]
    weights = weights_of(drop, name, options)
    kept = (weights > 0) & np.all([np.isfinite(one).any(axis=1) for one in values], axis=0)
    cluster = clusters_in(drop, options.cluster)
    own = None if cluster is None else cluster[kept]
    if not kept.any():
        return None
    limits = mean_limits(name, np.concatenate([one.ravel() for one in values]))
    return drop_and_swap(values[0][kept], values[1][kept], weights[kept], over, own, limits)


def drop_and_swap(
    drop_PX: FloatArray,
    swap_PX: FloatArray,
    weights_P: FloatArray,
    over: Callable[..., Any] = np.mean,
    cluster_P: IntArray | None = None,
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> DropAndSwap:
    """The mean or median over places of the prompts' mean curves, with bootstrap intervals over prompts.

    Args:
        drop_PX: a quantity of each prompt (P) with each block (X) dropped.
        swap_PX: the same with each pair of neighbours swapped.
        weights_P: tokens of each prompt.
        over: reduces an axis of places; the median where few places (the first block) outweigh all others.
        cluster_P: prompts of one number are resampled as one; None = each for itself.
        limits: smallest and largest value there can be; intervals are cut to them.
    """
    over_places = partial(over, axis=-1)
    readings = [Reading(one, weights_P, over_places, limits, cluster=cluster_P) for one in (drop_PX, swap_PX)]
    drop, swap = (contrast([[Term(one, 1.0)]]) for one in readings)
    return DropAndSwap(drop, swap, paired_difference(readings[0], readings[1]))


def _panel(name: str, members: Sequence[Member]) -> Panel:
    size = (style.PANEL_SIZE[0] + 1.6, _AROUND_INCHES + _ROW_INCHES * len(members))
    shared = (Shared(name, name, members[0].shown, _panel),) if len(members) == 1 else ()
    return Panel(name, partial(_draw, name=name, members=members), _alt(name, members), size, shared)


def _draw(figure: FigureBase, name: str, members: Sequence[Member]) -> None:
    ax = figure.subplots()
    handles: list[Any] = []
    for row, found in enumerate(member.shown for member in members):
        for aside, one, look in zip((-0.13, 0.13), (found.drop, found.swap), _LOOKS.values()):
            ax.hlines([row + aside], one.ci_low, one.ci_high, color=look.colour, linewidth=2, alpha=0.6)
            made = ax.plot([one.estimate], [row + aside], look.marker, color=look.colour, markersize=5)
            handles += made if row == 0 else []
        ax.annotate(
            _difference(found), (1.02, row), xycoords=ax.get_yaxis_transform(), va="center", fontsize=7.5, clip_on=False
        )
    name_rows(ax, [elided(run, _NAME_LETTERS) for run, *_ in members])
    ax.annotate("swapped − dropped", (1.02, -0.62), xycoords=ax.get_yaxis_transform(), fontsize=7.5, va="center")
    _, title, label = _SHOWN[name]
    ax.set(ylim=(len(members) - 0.5, -0.8), xlabel=label, title=title)
    legend.draw(figure, handles, list(_LOOKS))


def _difference(found: DropAndSwap) -> str:
    one = found.difference
    interval = f" ({one.ci_low:+.2g} to {one.ci_high:+.2g})" if np.isfinite(one.ci_low) else ""
    return f"{one.estimate:+.2g}{interval}"


def _alt(name: str, members: Sequence[Member]) -> str:
    said = "; ".join(
        f"{run}: dropped {found.drop.estimate:.3g}, swapped {found.swap.estimate:.3g}, difference {_difference(found)}"
        for run, _, found, _ in members
    )
    return f"Dots with intervals, {_SHOWN[name][1].lower()}: {said}."


FIGURE: Final = FigureKind("drop_and_swap", "Drop against swap", (), _drawing, "swap", ("drop",))
