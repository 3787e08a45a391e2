"""``bathyscope depth-performance``: a benchmark's score regressed on the number of layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from bathyscope.cli.console import Format, say, write, write_data, write_table
from bathyscope.cli.flags import command, flags, options_of
from bathyscope.performance import counted, depth_performance

if TYPE_CHECKING:
    import xarray as xr

Row = dict[str, Any]

_BY_ERRORS = ("standard_error", "ci_low", "ci_high", "p_value")
_EXAMPLES = """\
Examples:
  bathyscope depth-performance models.csv
  bathyscope depth-performance models.csv --score hellaswag --fixed-effects --out depth.png
  bathyscope depth-performance models.csv --covariates d_model --format csv > coefficients.csv"""


def depth_performance_command(
    table: str,
    /,
    *,
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
    format: Format = "table",
    **given: Any,
) -> int:
    """Least squares of a score on layers and other sizes.

    Args:
        table: one row a model, with the columns name, family, layers, d_model, d_ff and score: a .csv, .jsonl (either
            gzipped or not) or .parquet file.
        out: also write the partial-regression plot with its confidence band (.png, .svg, .pdf).
        format: of the output; missing numbers are empty in CSV and null in JSON.
    """
    from bathyscope.report.export import write_output
    from bathyscope.report.render import check_format, render

    if out is not None:
        check_format(out.suffix.removeprefix("."))
    found = depth_performance(table, **given)
    _show(found, format)
    if out is not None:
        from bathyscope.report.figures.depth_performance import draw

        write_output(out, render(draw(found), out.suffix.removeprefix(".")))
        say(f"Written: {out}")
    return 0


def coefficient_rows(found: xr.Dataset) -> list[Row]:
    """A row for every term and kind of errors."""
    return [
        {
            "term": term,
            "errors": kind,
            "coefficient": float(found["coefficient"].sel(term=term)),
            **{name: float(found[name].sel(term=term, errors=kind)) for name in _BY_ERRORS},
            **{name: float(found[name].sel(term=term)) for name in ("partial_r2", "vif")},
        }
        for kind in found["errors"].values.tolist()
        for term in found["term"].values.tolist()
    ]


def _show(found: xr.Dataset, format_: Format) -> None:
    rows = coefficient_rows(found)
    if not write_data(rows, format_):
        _show_table(rows, found)


def _show_table(rows: Sequence[Row], found: xr.Dataset) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD)
    for heading in rows[0]:
        table.add_column(heading.replace("_", " "), justify="left" if heading in ("term", "errors") else "right")
    for row in rows:
        table.add_row(*map(_cell, row.values()))
    write_table(table)
    attrs = found.attrs
    write(
        f"{counted(found)}; R² {attrs['r2']:.3f} (adjusted "
        f"{attrs['r2_adjusted']:.3f}), {attrs['residual_degrees_of_freedom']} degrees of freedom; condition number of "
        f"the standardised predictors {attrs['condition_number']:.3g}. {attrs['level']:.0%} intervals."
    )


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "–" if math.isnan(value) else f"{value:.3g}"


app = App(name="depth-performance", help_epilogue=_EXAMPLES)
app.default(command(depth_performance_command, flags(options_of(depth_performance, leave_out=("table",)))))
