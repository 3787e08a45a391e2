"""Figures as files, one per kind."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from bathyscope.core.output import write_output
from bathyscope.core.own_files import require_own_picture
from bathyscope.core.paths import given_path, require_writable
from bathyscope.errors import OptionError
from bathyscope.pages.comparison.side_by_side import side_by_side
from bathyscope.pages.figures.arguments import check_options, read_runs
from bathyscope.pages.figures.kind import arrange
from bathyscope.pages.figures.of.profile import find_profile
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.registry import drawings
from bathyscope.pages.figures.render import FORMATS, check_formats, render
from bathyscope.runs.run import Run


def save_figures(
    run: Run,
    folder: str | Path,
    formats: Sequence[str] = FORMATS,
    options: FigureOptions | None = None,
) -> list[Path]:
    """Save every figure that can be drawn from a run, its profile too, as ``folder/residual.png`` and so on.

    The same run gives the same bytes. Each file is complete or absent.

    Raises:
        OptionError: nothing to draw; a format other than png, svg and pdf; an argument of the wrong type.
        StoreError: the folder cannot be written, or holds a picture of that name that was not drawn here.
    """
    check_options(options)
    check_formats(formats)
    runs = read_runs(run)
    if len(runs) != 1:
        raise OptionError(f"save_figures takes one run, not {len(runs)}. For several runs use save_side_by_side.")
    require_writable(given_path(folder, "folder"), holds="figures", option="folder=..., --figures ...")
    (run,) = runs
    heading = _write_heading([run], options)
    figures = {name: arrange(heading, drawing.panels) for name, drawing in drawings(run, options).items()}
    if panel := find_profile(run, None if options is None else options.cluster):
        figures = {panel.name: arrange(heading, [panel]), **figures}
    return _save_figures(figures, folder, formats)


def save_side_by_side(
    runs: Sequence[Run],
    folder: str | Path,
    formats: Sequence[str] = FORMATS,
    options: FigureOptions | None = None,
    names: Sequence[str] | None = None,
) -> list[Path]:
    """Save the maps that several runs share, model next to model, as ``folder/skip.png`` and so on.

    Maps of one file have the same colours. Runs without a common map give no file.

    Raises:
        OptionError: a format other than png, svg and pdf.
        StoreError: the folder cannot be written, or holds a picture of that name that was not drawn here.
    """
    check_options(options)
    check_formats(formats)
    require_writable(given_path(folder, "folder"), holds="figures", option="folder=..., --figures ...")
    runs = read_runs(runs)
    heading = _write_heading(runs, options)
    figures = {name: arrange(heading, drawing.panels) for name, drawing in side_by_side(runs, options, names).items()}
    return _save_figures(figures, folder, formats)


def _write_heading(runs: Sequence[Run], options: FigureOptions | None) -> str:
    """Write model, data and numbers of the runs; empty where no heading is wanted."""
    if options is not None and not options.heading:
        return ""
    return " ".join(run.caption(noise=False) for run in runs)


def _save_figures(figures: Mapping[str, Figure], folder: str | Path, formats: Sequence[str]) -> list[Path]:
    place = given_path(folder, "folder")
    files = {place / f"{name}.{format_}": figure for name, figure in figures.items() for format_ in formats}
    for path in files:
        require_own_picture(path)
    for path, figure in files.items():
        write_output(path, render(figure, path.suffix[1:]))
    return list(files)
