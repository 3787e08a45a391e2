"""Figures as files, one per kind."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from bathyscope.core.paths import given_path
from bathyscope.errors import OptionError, StoreError
from bathyscope.pages.arguments import check_options, runs_of
from bathyscope.pages.figures.kind import arrange
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.figures.registry import drawings
from bathyscope.pages.render import FORMATS, check_format, render
from bathyscope.pages.side_by_side import side_by_side
from bathyscope.runs.atomic import write_atomically
from bathyscope.runs.run import Run


def save_figures(
    run: Run,
    folder: str | Path,
    formats: Sequence[str] = FORMATS,
    options: FigureOptions | None = None,
) -> list[Path]:
    """Every figure that can be drawn from a run, as ``folder/residual.png`` and so on.

    The same run gives the same bytes. Each file is wholly there or absent.

    Raises:
        OptionError: nothing to draw; a format that is not one of png, svg, pdf; an argument of another type.
        StoreError: the folder cannot be written.
    """
    check_formats(formats, options)
    runs = runs_of(run)
    if len(runs) != 1:
        raise OptionError(f"Figures are of one run, and {len(runs)} were given; save_side_by_side takes several.")
    (run,) = runs
    figures = {name: arrange(run.caption(), drawing.panels) for name, drawing in drawings(run, options).items()}
    return _save(figures, folder, formats)


def save_side_by_side(
    runs: Sequence[Run],
    folder: str | Path,
    formats: Sequence[str] = FORMATS,
    options: FigureOptions | None = None,
    names: Sequence[str] | None = None,
) -> list[Path]:
    """The maps that several runs have in common, model beside model in the same colours: ``folder/skip.png`` and
    so on; nothing where the runs have no map in common.

    Raises:
        OptionError: a format that is not one of png, svg, pdf.
        StoreError: the folder cannot be written.
    """
    check_formats(formats, options)
    runs = runs_of(runs)
    heading = " ".join(run.caption() for run in runs)
    figures = {name: arrange(heading, drawing.panels) for name, drawing in side_by_side(runs, options, names).items()}
    return _save(figures, folder, formats)


def check_formats(formats: Sequence[str], options: object) -> None:
    """Raises OptionError for other formats, or none, and for other options."""
    check_options(options)
    if isinstance(formats, str) or not formats:
        raise OptionError(f"formats={formats!r}; give a list of at least one of: {', '.join(FORMATS)}.")
    for format_ in formats:
        check_format(format_)


def _save(figures: Mapping[str, Figure], folder: str | Path, formats: Sequence[str]) -> list[Path]:
    written = []
    for name, figure in figures.items():
        for format_ in formats:
            path = given_path(folder, "folder") / f"{name}.{format_}"
            write_output(path, render(figure, format_))
            written.append(path)
    return written


def write_output(path: Path, content: bytes) -> None:
    """Write a file for the user, making its folder.

    Raises:
        StoreError: the disk refuses, with what it says.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise StoreError(
            f"Cannot write {str(path)!r}: {reason}. Give a place in a folder that exists or can be made, that you may "
            "write to, on a disk with room."
        ) from error
