"""A comparison on the disk: a self-contained page, or the forest plot and its company as one figure file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bathyscope.analysis.depths import Comparison
from bathyscope.core.paths import given_path
from bathyscope.errors import OptionError
from bathyscope.pages import html, provenance
from bathyscope.pages.comparison import curves, forest, size, table
from bathyscope.pages.export import write_output
from bathyscope.pages.figures.kind import Drawing, arrange
from bathyscope.pages.render import FORMATS, render

_PAGE: Final = ".html"
_FIGURES: Final = {"forest": forest, "size": size, "curves": curves}


def check_out(out: str | Path) -> None:
    """Raises OptionError where :func:`write_comparison` cannot tell from the name what to write."""
    if Path(out).suffix not in (_PAGE, *(f".{name}" for name in FORMATS)):
        raise OptionError(
            f"The name {str(out)!r} does not say what to write; give one that ends in {_PAGE} (a page) or "
            f"{', '.join(f'.{name}' for name in FORMATS)} (a figure)."
        )


def write_comparison(comparison: Comparison, out: str | Path) -> Path:
    """Write a page or a figure, by the ending of ``out``. The same comparison gives the same page, byte for byte.

    A figure holds the forest plots and, where models differ in size, the ratio against size; a page also the
    tables, the runs' curves and where everything comes from.

    Raises:
        OptionError: an ending that is neither; nothing to draw.
        StoreError: the file cannot be written.
    """
    check_out(out)
    path = given_path(out, "out")
    drawn = {name: module.drawing(comparison) for name, module in _FIGURES.items()}
    if not drawn["forest"].panels:
        raise OptionError(
            "There is nothing to draw: no estimator has a difference in any comparison. The table says why "
            "(bathyscope compare RUN RUN without --out)."
        )
    labels = comparison.data["comparison"].values
    heading = str(labels[0]) if len(labels) == 1 else f"{len(labels)} comparisons of effective depth"
    if path.suffix == _PAGE:
        _write_page(comparison, heading, drawn, path)
    else:
        shown = [*drawn["forest"].panels, *drawn["size"].panels]
        write_output(path, render(arrange(f"{heading}. {comparison.summary()}", shown), path.suffix[1:]))
    return path


def _write_page(comparison: Comparison, title: str, drawn: Mapping[str, Drawing], path: Path) -> None:
    # once also where several sides are parts of one run
    runs = {id(side.run): side.run for side in comparison.sides}.values()
    html.write_page(
        "comparison.html.j2",
        path,
        title=title,
        summary=comparison.summary(),
        notes=comparison.notes,
        tables=[_table(comparison, number) for number in range(comparison.data.sizes["comparison"])],
        legend=table.LEGEND,
        figures=[html.figure(drawing, f"f{n}") for n, drawing in enumerate(drawn.values()) if drawing.panels],
        runs=[{"caption": run.caption(), "configuration": provenance.configuration(run)} for run in runs],
    )


def _table(comparison: Comparison, number: int) -> dict[str, Any]:
    one = comparison.data.isel(comparison=number)
    headings, rows = table.difference_rows(comparison, number)
    return {
        "title": table.title(one),
        "headings": headings,
        "rows": rows,
        "remarks": [*table.no_difference(comparison, number), *table.remarks(one)],
    }
