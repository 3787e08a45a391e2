"""The depth profile as a panel for papers: the same numbers as on a page, drawn by matplotlib."""

from __future__ import annotations

import math
import textwrap
from functools import partial
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FixedLocator

from bathyscope.errors import OptionError
from bathyscope.pages.figures.kind import Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.head.canvas import ROLES
from bathyscope.pages.head.classes import CARRIES, COLOURS, LETTERS, NAMES, bar_share, class_of, highest_bar, write_cost
from bathyscope.pages.head.depths import list_rows
from bathyscope.pages.head.layouts import TILES_UP_TO
from bathyscope.pages.head.numbers import CRITERIA, Mark, Points, Profile, read_profile
from bathyscope.pages.head.sentences import SHORT_LABELS, describe, interval_text
from bathyscope.runs.run import Run

NAME: Final = "profile"
PAGE_INCHES: Final = 6.75
_ROW: Final = 0.2
"""Height of a depth's row, as a share of the curve's axis."""
_NARROW_INCHES: Final = 5.0
_SHORT_TILE, _LONG_TILE = 14.0, 30.0
"""Points of a tile's width from which it has room for ``.16`` and for ``+0.16``."""
_SHORTEST_BAR: Final = 0.05
"""Height of the bar of a loss below the scale, as a share of the highest."""
_LETTER_INCHES: Final = 0.073
"""Width of a bold letter of eight points, rather too wide than too narrow."""
_TITLE_INCHES: Final = 0.2
"""Width of the title of the axis of shares, which is as high as the picture."""
_AXIS_SHARE: Final = 0.83
"""Width of the axes as a share of the figure's, about."""


def profile_panel(run: Run, cluster: str | None = None, width: float | None = None) -> Panel:
    """Return the panel of a run's profile.

    Args:
        cluster: label of prompts that intervals resample as one.
        width: in inches; None = both columns of a journal. The height follows from what is drawn.

    Raises:
        OptionError: the run has nothing that a profile shows.
    """
    panel = find_profile(run, cluster, width)
    if panel is None:
        raise OptionError(
            f"A profile needs the lens, skip or drop; this run has {', '.join(run.measures) or 'no measure'}. Survey "
            "with measures=['lens', 'skip', 'drop']."
        )
    return panel


def find_profile(run: Run, cluster: str | None = None, width: float | None = None) -> Panel | None:
    """Return the panel, as :func:`profile_panel` does; None where the run has nothing that it shows."""
    profile = read_profile(run, cluster)
    if profile.empty:
        return None
    return Panel(
        NAME, partial(_draw_profile, profile=profile), describe(profile), _choose_size(profile, width or PAGE_INCHES)
    )


def _choose_size(profile: Profile, width: float) -> tuple[float, float]:
    """Return a size at which nothing is cut: a row more for each depth, and room for what is below."""
    narrow = width < _NARROW_INCHES
    height = 1.35 + 0.19 * len(list_rows(profile))
    if profile.costs is not None:
        height += 1.35 if narrow else 1.0
    height += 0.15 * _label_blocks(profile, width).count("\n")
    return width, height


def _draw_profile(figure: FigureBase, profile: Profile) -> None:
    # Figures and subfigures have both, and their common base declares neither.
    surface: Any = figure
    inches = float(surface.bbox.width / surface.dpi)
    narrow = inches < _NARROW_INCHES
    rows = list_rows(profile)
    has_curve = profile.share is not None
    heights = [3.0 if has_curve else 0.4 + 0.5 * len(rows), 0.55]
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=heights)
    for ax in (upper, lower):
        ax.grid(visible=False)
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
    _draw_share(upper, profile)
    floor = 0.0
    for number, (mark, role, (label, _)) in enumerate(rows):
        level = 1.0 + _ROW * (len(rows) - number)
        words = label if role == "muted" else f"{SHORT_LABELS[mark.name]} {mark.value:.1f}"
        _draw_mark(upper, mark, role, words, level, floor, profile, inches)
    upper.set_ylim(-0.06, 1.0 + _ROW * (len(rows) + 0.8))
    for depth in profile.criteria.values():
        upper.plot([depth, depth], [-0.06, 0.0], color=style.MUTED, linewidth=1.2, clip_on=False)
    upper.set_xlim(0, profile.n_blocks)
    if profile.costs is None:
        lower.set_visible(False)
        upper.tick_params(labelbottom=True)
        upper.set_xlabel("blocks done")
    else:
        _draw_costs(lower, profile, profile.costs, inches * 72 * 0.85)
        lower.set_xlabel(_label_blocks(profile, inches))
        handles = [Patch(facecolor=colour, label=name) for colour, name in zip(COLOURS, NAMES)]
        title = "loss added when the block is left out, nats"
        figure.legend(
            handles=handles, title=title, title_fontsize=8, loc="outside lower center", ncols=2 if narrow else 4
        )


def _draw_share(ax: Axes, profile: Profile) -> None:
    if profile.share is None and not any(control.curves for control in profile.controls):
        ax.yaxis.set_visible(False)
        return
    ax.set_yticks([0, 0.5, 1], ["0 %", "50 %", "100 %"])
    for level in (0.0, 0.5, 1.0):
        ax.axhline(level, color=style.GRID, linewidth=0.6, zorder=0)
    ax.set_ylabel("with final prediction", loc="bottom")
    for control in profile.controls:
        for curve, n_blocks in zip(control.curves, control.n_blocks):
            points = curve.curve(n_blocks, profile.n_blocks)
            ax.plot(*zip(*points), color=style.MUTED, linewidth=0.9, alpha=0.8)
    share = profile.share
    if share is None:
        return
    if band := share.band():
        places, low, high = zip(*band)
        ax.fill_between(places, low, high, color=style.INK, alpha=0.14, linewidth=0)
    marker = "o" if profile.n_blocks <= TILES_UP_TO else None
    points = share.curve(profile.n_blocks, profile.n_blocks)
    ax.plot(*zip(*points), color=style.INK, linewidth=1.6, marker=marker, markersize=2.6)


def _draw_mark(
    ax: Axes,
    mark: Mark,
    role: str,
    label: str,
    level: float,
    floor: float,
    profile: Profile,
    inches: float,
) -> None:
    narrow = inches < _NARROW_INCHES
    colour = ROLES[role]
    ax.plot(
        [mark.value, mark.value],
        [floor, level],
        color=colour,
        linewidth=1.1,
        linestyle="--" if role == "muted" else "-",
    )
    if not math.isnan(mark.low):
        ax.plot([mark.low, mark.high], [level, level], color=colour, linewidth=4, alpha=0.4, solid_capstyle="round")
    ax.plot(mark.value, level, "o", color=colour, markersize=5)
    interval = "" if narrow else interval_text(mark.low, mark.high)
    text = f"{label} ({interval})" if interval else label
    left, right = (mark.value, mark.value) if math.isnan(mark.low) else (mark.low, mark.high)
    # Rows are above the axis of shares, so the margin of its ticks is free for them too, but for its title.
    axis = inches * _AXIS_SHARE
    margin = max(0.0, inches - axis - (_TITLE_INCHES if ax.get_ylabel() else 0.0))
    room = {"right": margin + axis * left / profile.n_blocks, "left": axis * (1 - right / profile.n_blocks)}
    needed = len(text) * _LETTER_INCHES + 0.15
    side = "right" if room["right"] >= min(needed, room["left"]) else "left"
    ax.annotate(
        text,
        (left if side == "right" else right, level),
        (-7 if side == "right" else 7, 0),
        textcoords="offset points",
        ha=side,
        va="center",
        fontsize=8 * min(1.0, room[side] / needed),
        color=style.MUTED if role == "muted" else style.INK,
        fontweight="normal" if role == "muted" else "bold",
    )


def _draw_costs(ax: Axes, profile: Profile, costs: Points, points: float) -> None:
    """Draw tiles with their numbers where these have room, else bars on a logarithmic scale."""
    width, highest = points / profile.n_blocks, highest_bar(costs.mean)
    tiles = width >= _SHORT_TILE and profile.n_blocks <= TILES_UP_TO
    for block, loss in zip(costs.places, costs.mean):
        if math.isnan(loss):
            continue
        level = class_of(loss)
        height = 1.0 if tiles else _SHORTEST_BAR + (1 - _SHORTEST_BAR) * bar_share(loss, highest)
        gap = 0.04 if tiles else 0.08
        ax.add_patch(Rectangle((block + gap, 0), 1 - 2 * gap, height, facecolor=COLOURS[level], linewidth=0))
        if tiles:
            text = write_cost(loss, short=width < _LONG_TILE)
            weight = "bold" if level >= CARRIES else "normal"
            size = min(8.0, width / (2.3 if width < _LONG_TILE else 3.6))
            ax.text(block + 0.5, 0.48, text, ha="center", va="center", size=size, color=LETTERS[level], weight=weight)
    ax.set_ylim(0, 1)
    ax.set_yticks([])
    # A block's number is below its middle, while boundaries are the ends of blocks.
    every = 1 if width >= _SHORT_TILE else next(step for step in (2, 5, 10, 20, 50, 1000) if step * width >= 36)
    numbered = range(0, profile.n_blocks, every)
    ax.xaxis.set_major_locator(FixedLocator([block + 0.5 for block in numbered]))
    ax.set_xticklabels([str(block) for block in numbered])


def _label_blocks(profile: Profile, inches: float) -> str:
    if not profile.criteria:
        return "block"
    ordered = sorted(profile.criteria.items(), key=lambda item: item[1])
    # A name stays with its number.
    listed = ", ".join(f"{CRITERIA[name]} {depth:.0f}".replace(" ", "\u00a0") for name, depth in ordered)
    return textwrap.fill(f"block (ticks: the papers' criteria, {listed})", int(inches * 12.5))
