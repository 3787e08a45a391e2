"""A comparison as a file: a self-contained page, or the forest plots and ratios as one figure."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bathyscope.analysis.depths import Comparison
from bathyscope.core.output import write_output
from bathyscope.core.own_files import require_own_page, require_own_picture
from bathyscope.core.paths import given_path, require_writable
from bathyscope.errors import OptionError
from bathyscope.pages.acts.sections import page_table
from bathyscope.pages.comparison import curves, forest, size
from bathyscope.pages.comparison.picture import comparison_html
from bathyscope.pages.explorer import html
from bathyscope.pages.figures.kind import Drawing, arrange
from bathyscope.pages.figures.render import FORMATS, render
from bathyscope.pages.text import provenance

_PAGE: Final = ".html"
_FIGURES: Final = {"forest": forest, "size": size, "curves": curves}


def check_out(out: str | Path) -> None:
    """Refuse a name that does not tell :func:`write_comparison` what to write, or a file that cannot be written."""
    if Path(out).suffix not in (_PAGE, *(f".{name}" for name in FORMATS)):
        raise OptionError(
            f"out={str(out)!r} has an unknown ending. Use {_PAGE} for a page, or "
            f"{', '.join(f'.{name}' for name in FORMATS)} for a figure."
        )
    path = given_path(out, "out")
    require_writable(path)
    if path.suffix == _PAGE:
        require_own_page(path)
    else:
        require_own_picture(path)


def write_comparison(comparison: Comparison, out: str | Path) -> Path:
    """Write a page or a figure, by the ending of ``out``. The same comparison gives the same page, byte for byte.

    A figure has the forest plots and, for models of different size, the ratio against size. A page also has tables,
    the runs' curves and the provenance.

    Raises:
        OptionError: an unknown ending; nothing to draw.
        StoreError: the file cannot be written.
    """
    check_out(out)
    path = given_path(out, "out")
    drawings = {name: module.drawing(comparison) for name, module in _FIGURES.items()}
    if not drawings["forest"].panels:
        raise OptionError(
            "Nothing to draw: no estimator has a difference in any comparison. To see why, print the table with "
            "bathyscope compare RUN RUN, without --out."
        )
    labels = comparison.data["comparison"].values
    heading = str(labels[0]) if len(labels) == 1 else f"{len(labels)} comparisons of effective depth"
    if path.suffix == _PAGE:
        _write_page(comparison, heading, drawings, path)
    else:
        panels = [*drawings["forest"].panels, *drawings["size"].panels]
        write_output(path, render(arrange(f"{heading}. {comparison.summary()}", panels), path.suffix[1:]))
    return path


def _write_page(comparison: Comparison, title: str, drawings: Mapping[str, Drawing], path: Path) -> None:
    # Several sides may be parts of one run, whose provenance appears once.
    runs = {id(side.run): side.run for side in comparison.sides}.values()
    html.write_page(
        "comparison.html.j2",
        path,
        title=title,
        head=comparison_html(comparison),
        summary=comparison.explanation,
        notes=comparison.notes,
        tables=[page_table(table) for table in comparison.tables()],
        figures=[html.figure(drawing, f"f{n}") for n, drawing in enumerate(drawings.values()) if drawing.panels],
        runs=[{"caption": run.caption(), "configuration": provenance.configuration(run)} for run in runs],
    )
