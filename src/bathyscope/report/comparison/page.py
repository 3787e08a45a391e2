"""A comparison on the disk: a self-contained page, or the forest plot and its company as one figure file."""

from __future__ import annotations

from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bathyscope.comparison import Comparison
from bathyscope.errors import OptionError
from bathyscope.report import provenance
from bathyscope.report.comparison import forest, grid, size, table
from bathyscope.report.export import write_output
from bathyscope.report.figures.kind import Panel, arrange
from bathyscope.report.render import FORMATS, render
from bathyscope.report.svg import inline_svg

_PAGE: Final = ".html"
_FIGURES: Final = {"Differences": forest, "Ratio against size": size, "Curves of the runs": grid}


def check_out(out: str | Path) -> None:
    """Raises OptionError where :func:`write_comparison` cannot tell from the name what to write."""
    if Path(out).suffix not in (_PAGE, *(f".{name}" for name in FORMATS)):
        raise OptionError(
            f"The name {str(out)!r} does not say what to write; give one that ends in {_PAGE} (a page) or "
            f"{', '.join(f'.{name}' for name in FORMATS)} (a figure)."
        )


def write_comparison(comparison: Comparison, out: str | Path, title: str | None = None) -> Path:
    """Write a page or a figure, by the ending of ``out``. The same comparison gives the same page, byte for byte.

    A figure holds the forest plots and, where models differ in size, the ratio against size; a page also the
    tables, the runs' curves and where everything comes from.

    Raises:
        OptionError: an ending that is neither; nothing to draw.
        StoreError: the file cannot be written.
    """
    check_out(out)
    path = Path(out).expanduser()
    drawn = {heading: module.panels(comparison) for heading, module in _FIGURES.items()}
    if not drawn["Differences"]:
        raise OptionError(
            "There is nothing to draw: no estimator has a difference in any comparison. The table says why "
            "(bathyscope compare RUN RUN without --out)."
        )
    heading = title or _title(comparison)
    if path.suffix == _PAGE:
        content = _page(comparison, heading, drawn).encode("utf-8")
    else:
        shown = [*drawn["Differences"], *drawn["Ratio against size"]]
        content = render(arrange(f"{heading}. {comparison.summary()}", shown), path.suffix[1:])
    write_output(path, content)
    return path


def _title(comparison: Comparison) -> str:
    labels = comparison.data["comparison"].values
    return str(labels[0]) if len(labels) == 1 else f"{len(labels)} comparisons of effective depth"


def _page(comparison: Comparison, title: str, drawn: dict[str, list[Panel]]) -> str:
    figures = [
        {
            "heading": heading,
            "note": _FIGURES[heading].note(comparison),
            "panels": [{"svg": Markup(inline_svg(panel, panel.name)), "alt": panel.alt} for panel in shown],
        }
        for heading, shown in drawn.items()
        if shown
    ]
    environment = Environment(
        loader=PackageLoader("bathyscope.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    page: str = environment.get_template("comparison.html.j2").render(
        title=title,
        summary=comparison.summary(),
        notes=comparison.notes,
        tables=[_table(comparison, number) for number in range(comparison.data.sizes["comparison"])],
        legend=table.LEGEND,
        figures=figures,
        runs=_sources(comparison),
        style=Markup((files("bathyscope.report") / "templates" / "page.css").read_text(encoding="utf-8")),
        version=metadata.version("bathyscope"),
    )
    return page


def _table(comparison: Comparison, number: int) -> dict[str, Any]:
    one = comparison.data.isel(comparison=number)
    return {
        "title": table.title(one),
        "headings": table.headings(comparison, number),
        "rows": table.rows(comparison, number),
        "remarks": table.remarks(one),
    }


def _sources(comparison: Comparison) -> list[dict[str, Any]]:
    """Caption and configuration of every run, once also where several sides are parts of it."""
    runs = {id(side.run): side.run for side in comparison.sides}
    return [{"caption": run.caption(), "configuration": provenance.configuration(run)} for run in runs.values()]
