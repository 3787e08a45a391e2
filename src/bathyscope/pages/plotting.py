"""One panel at a time: in the caller's axes, or as a file of a journal's width with its caption and numbers."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from bathyscope.core.paths import given_path, require_writable
from bathyscope.core.text import elided
from bathyscope.errors import OptionError, did_you_mean
from bathyscope.pages.arguments import check_options, read_runs
from bathyscope.pages.export import check_formats, write_output
from bathyscope.pages.figures.kind import Panel, draw_panel, fill
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.lines import numbers
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.registry import drawings, figures_of
from bathyscope.pages.panels import panel_of
from bathyscope.pages.profile.panel import NAME as PROFILE
from bathyscope.pages.profile.panel import profile_panel
from bathyscope.pages.render import FORMATS, render
from bathyscope.runs.run import Run

COLUMN: Final = 3.3
"""Inches of one column of a journal."""
PAGE: Final = 6.75
"""Inches of both columns."""


def plot(
    run: Run, what: str, ax: Axes | None = None, *, width: float | None = None, options: FigureOptions | None = None
) -> FigureBase:
    """Draw one panel of a run's figures, without a heading.

    Args:
        run: a run with the figure's measure.
        what: the figure and its panel, such as ``lens.kl``, or a variable that a panel shows, such as
            ``skip.effect_future``; a figure of one panel by its name alone. ``names("panels")`` lists them. ``profile``
            is the depth profile at the top of a page.
        ax: axes of a grid (``plt.subplots``) that the panel replaces; None = a new figure.
        width: of the new figure in inches; None = as in reports. ``3.3`` and ``6.75`` are common in journals.
        options: weighting, bands, reduction and scale.

    Returns:
        The new figure, or the subfigure in the place of the axes.

    Raises:
        OptionError: unknown figure or panel; a run with only some of its blocks; axes outside a grid; a width that is
            not a length.

    Example:
        >>> bathyscope.plot(run, "lens.kl", width=3.3).savefig("kl.pdf")
    """
    (run,) = read_runs(run)
    check_options(options)
    _check_arguments(what, ax, width)
    if what == PROFILE:
        panel = profile_panel(run, None if options is None else options.cluster, width)
    else:
        panel = _find_panel(run, what, options)
    if ax is None:
        # The profile chooses a height of its own for each width.
        return draw_panel(panel, None if what == PROFILE else width)
    place = ax.get_subplotspec()
    whole = ax.get_figure()
    if place is None or whole is None:
        raise OptionError("ax does not belong to a grid. Give axes of plt.subplots(...), or ax=None for a new figure.")
    # Only a subfigure can hold a legend and a colour bar of its own, so it takes the place of the axes in the grid.
    ax.remove()
    with style.applied():
        part = whole.add_subfigure(place)
        fill(part, panel)
    return part


def save_panels(
    run: Run, folder: str | Path, formats: Sequence[str] = FORMATS, options: FigureOptions | None = None
) -> list[Path]:
    """Save every panel as its own file, ``folder/lens.kl.pdf``: 3.3 inches wide, or 6.75 for wide panels.

    Next to them are the caption of each figure (``lens.txt``) and the means and bands that it draws (``lens.csv``).

    Raises:
        OptionError: nothing to draw; a format other than png, svg and pdf; an argument of the wrong type.
        StoreError: the folder cannot be written.
    """
    import pandas as pd

    check_formats(formats, options)
    require_writable(given_path(folder, "folder"), holds="figures")
    (run,) = read_runs(run)
    written: list[Path] = []

    def keep(name: str, content: bytes) -> None:
        written.append(given_path(folder, "folder") / name)
        write_output(written[-1], content)

    kinds = figures_of(run)
    for name, drawing in drawings(run, options).items():
        for panel in drawing.panels:
            panel_figure = draw_panel(panel, PAGE if panel.size[0] > style.PAIRED_UP_TO else COLUMN)
            for format_ in formats:
                keep(f"{name}.{panel.name}.{format_}", render(panel_figure, format_))
        keep(f"{name}.txt", f"{drawing.note} {run.caption()}\n".encode())
        if rows := list(numbers(drawing, run[kinds[name].measure])):
            keep(f"{name}.csv", pd.DataFrame(rows).to_csv(index=False).encode())
    return written


def _check_arguments(what: object, ax: object, width: object) -> None:
    """Refuse arguments of the wrong type before anything is drawn."""
    if not isinstance(what, str):
        raise OptionError(f"what={elided(repr(what), 40)} is not the name of a panel. Give one, such as 'lens.kl'.")
    if ax is not None and not isinstance(ax, Axes):
        raise OptionError(
            f"ax={elided(repr(ax), 40)} is of type {type(ax).__name__}. Give axes of plt.subplots(...), or None for a "
            "new figure."
        )
    length = isinstance(width, int | float) and not isinstance(width, bool) and 0 < width < math.inf
    if width is not None and not length:
        raise OptionError(f"width={elided(repr(width), 40)} is not a length. Give inches above 0, such as {COLUMN}.")


def _find_panel(run: Run, what: str, options: FigureOptions | None) -> Panel:
    name, _, panel_name = what.partition(".")
    kinds = figures_of(run)
    if name not in kinds:
        raise OptionError(
            f"This run has no figure {name!r}.{did_you_mean(name, [PROFILE, *kinds])} Allowed: "
            f"{', '.join([PROFILE, *kinds])}; add a panel to a figure's name, such as lens.kl."
        )
    panels = {panel.name: panel for panel in kinds[name].panels(run, options)}
    if not panel_name and len(panels) == 1:
        return next(iter(panels.values()))
    if panel_name not in panels:
        panel_name = panel_of(name, panel_name, panels) or panel_name
    if panel_name not in panels:
        listed = ", ".join(f"{name}.{panel}" for panel in panels)
        problem = (
            f"{what!r} is not a panel of this run"
            if panel_name
            else f"{what!r} has {len(panels)} panels; name one of them"
        )
        raise OptionError(f"{problem}; allowed: {listed}.{did_you_mean(panel_name, panels)}")
    return panels[panel_name]
