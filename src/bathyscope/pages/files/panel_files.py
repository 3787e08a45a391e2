"""Every panel of a run as a file of a journal's width, with captions and the numbers that are drawn."""

from collections.abc import Sequence
from pathlib import Path

from bathyscope.core.csv_text import csv_text
from bathyscope.core.output import write_output
from bathyscope.core.own_files import require_own_picture
from bathyscope.core.paths import given_path, require_writable
from bathyscope.pages.figures.arguments import check_options, read_one_run
from bathyscope.pages.figures.kind import draw_panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.lines import numbers
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.registry import drawings, figures_of
from bathyscope.pages.figures.render import FORMATS, check_formats, render
from bathyscope.pages.plotting import COLUMN, PAGE
from bathyscope.runs.run import Run


def save_panels(
    run: Run, folder: str | Path, formats: Sequence[str] = FORMATS, options: FigureOptions | None = None
) -> list[Path]:
    """Save every panel as its own file, ``folder/lens.kl.pdf``: 3.3 inches wide, or 6.75 for wide panels.

    Next to them are the caption of each figure (``lens.txt``) and the means and bands that it draws (``lens.csv``).

    Raises:
        OptionError: nothing to draw; a format other than png, svg and pdf; an argument of the wrong type.
        StoreError: the folder cannot be written, or holds a picture of that name that was not drawn here.
    """
    import pandas as pd

    check_options(options)
    check_formats(formats)
    require_writable(given_path(folder, "folder"), holds="figures", option="folder=..., --figures ...")
    run = read_one_run(run, "save_panels")
    written: list[Path] = []

    def keep(name: str, content: bytes) -> None:
        written.append(given_path(folder, "folder") / name)
        write_output(written[-1], content)

    kinds, to_draw = figures_of(run), drawings(run, options)
    for name, drawing in to_draw.items():
        for panel in drawing.panels:
            for format_ in formats:
                require_own_picture(given_path(folder, "folder") / f"{name}.{panel.name}.{format_}")
    for name, drawing in to_draw.items():
        for panel in drawing.panels:
            panel_figure = draw_panel(panel, PAGE if panel.size[0] > style.PAIRED_UP_TO else COLUMN)
            for format_ in formats:
                keep(f"{name}.{panel.name}.{format_}", render(panel_figure, format_))
        keep(f"{name}.txt", f"{drawing.note} {run.caption()}\n".encode())
        if rows := list(numbers(drawing, run[kinds[name].measure])):
            keep(f"{name}.csv", csv_text(pd.DataFrame(rows)).encode())
    return written
