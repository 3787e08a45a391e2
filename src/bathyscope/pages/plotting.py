"""One panel at a time: into somebody's own axes, or as a file of a journal's width with its caption and its numbers."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from bathyscope.core.paths import given_path
from bathyscope.core.text import elided
from bathyscope.errors import OptionError, did_you_mean
from bathyscope.pages.arguments import check_options, runs_of
from bathyscope.pages.export import check_formats, write_output
from bathyscope.pages.figures.kind import Panel, draw_panel, fill
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.lines import numbers
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.registry import drawings, figures_of
from bathyscope.pages.panels import panel_of
from bathyscope.pages.render import FORMATS, render
from bathyscope.runs.run import Run

COLUMN: Final = 3.3
"""Inches of one column of a journal."""
PAGE: Final = 6.75
"""Inches of both columns."""


def plot(
    run: Run, what: str, ax: Axes | None = None, *, width: float | None = None, options: FigureOptions | None = None
) -> FigureBase:
    """Draws one panel of a run's figures, without a heading.

    Args:
        run: what holds the figure's measure.
        what: the figure and its panel, such as ``lens.kl``, or a variable that a panel shows, such as
            ``skip.effect_future``; a figure of one panel by its name alone. ``names("panels")`` lists them.
        ax: axes of a grid (``plt.subplots``) whose place the panel takes; None = a figure of its own.
        width: of that figure in inches; None = as in reports. ``3.3`` and ``6.75`` are a journal's.
        options: weighting, bands, reduction and scale.

    Returns:
        The figure, or the part of it that was drawn into.

    Raises:
        OptionError: no such figure or panel in this run; a part of a run with some of its blocks; axes outside of a
            grid; a width that is no length.

    Example:
        >>> bathyscope.plot(run, "lens.kl", width=3.3).savefig("kl.pdf")
    """
    (run,) = runs_of(run)
    check_options(options)
    _require_plain(what, ax, width)
    panel = _panel(run, what, options)
    if ax is None:
        return draw_panel(panel if width is None else _as_wide(panel, width))
    place = ax.get_subplotspec()
    whole = ax.get_figure()
    if place is None or whole is None:
        raise OptionError(
            "ax is not one of a grid; give axes of plt.subplots(...), or ax=None for a figure of its own."
        )
    ax.remove()
    with style.applied():
        part = whole.add_subfigure(place)
        fill(part, panel)
    return part


def save_panels(
    run: Run, folder: str | Path, formats: Sequence[str] = FORMATS, options: FigureOptions | None = None
) -> list[Path]:
    """Every panel as a file of its own, ``folder/lens.kl.pdf``: 3.3 inches wide, or 6.75 where it has a row of its own.

    Beside them the caption of each figure (``lens.txt``) and the means and bands that it draws (``lens.csv``).

    Raises:
        OptionError: nothing to draw; a format that is not one of png, svg, pdf; an argument of another type.
        StoreError: the folder cannot be written.
    """
    import pandas as pd

    check_formats(formats, options)
    (run,) = runs_of(run)
    written: list[Path] = []

    def keep(name: str, content: bytes) -> None:
        written.append(given_path(folder, "folder") / name)
        write_output(written[-1], content)

    kinds = figures_of(run)
    for name, drawing in drawings(run, options).items():
        for panel in drawing.panels:
            drawn = draw_panel(_as_wide(panel, PAGE if panel.size[0] > style.PAIRED_UP_TO else COLUMN))
            for format_ in formats:
                keep(f"{name}.{panel.name}.{format_}", render(drawn, format_))
        keep(f"{name}.txt", f"{drawing.note} {run.caption()}\n".encode())
        if rows := list(numbers(drawing, run[kinds[name].measure])):
            keep(f"{name}.csv", pd.DataFrame(rows).to_csv(index=False).encode())
    return written


def _as_wide(panel: Panel, width: float) -> Panel:
    return replace(panel, size=(width, panel.size[1] * width / panel.size[0]))


def _require_plain(what: object, ax: object, width: object) -> None:
    """Refuse, before anything is drawn, arguments of another type."""
    if not isinstance(what, str):
        raise OptionError(f"what={elided(repr(what), 40)} is no panel. Give its name, such as 'lens.kl'.")
    if ax is not None and not isinstance(ax, Axes):
        raise OptionError(
            f"ax={elided(repr(ax), 40)} is of type {type(ax).__name__}. Give axes of plt.subplots(...), or None for a "
            "figure of its own."
        )
    length = isinstance(width, int | float) and not isinstance(width, bool) and 0 < width < math.inf
    if width is not None and not length:
        raise OptionError(f"width={elided(repr(width), 40)} is no length. Give inches above 0, such as {COLUMN}.")


def _panel(run: Run, what: str, options: FigureOptions | None) -> Panel:
    name, _, wanted = what.partition(".")
    kinds = figures_of(run)
    if name not in kinds:
        raise OptionError(
            f"There is no figure {name!r} of this run; it has {', '.join(kinds) or 'none'}.{did_you_mean(name, kinds)}"
            " A panel is named behind its figure, such as lens.kl."
        )
    panels = {panel.name: panel for panel in kinds[name].panels(run, options)}
    if not wanted and len(panels) == 1:
        return next(iter(panels.values()))
    if wanted not in panels:
        wanted = panel_of(name, wanted, panels) or wanted
    if wanted not in panels:
        listed = ", ".join(f"{name}.{one}" for one in panels)
        said = (
            f"{what!r} is no panel of this run" if wanted else f"{what!r} is a figure of {len(panels)} panels; name one"
        )
        raise OptionError(f"{said}; allowed: {listed}.{did_you_mean(wanted, panels)}")
    return panels[wanted]
