"""``bathyscope depth-performance``: a benchmark's score regressed on the number of layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import Picture, Records, as_app, check_picture, records, write_picture
from bathyscope.cli.console import write_rows

if TYPE_CHECKING:
    import xarray as xr

COLUMNS = ("term", "errors", "coefficient", "standard_error", "ci_low", "ci_high", "p_value", "partial_r2", "vif")
_EXAMPLES = """\
Examples:
  bathyscope depth-performance models.csv
  bathyscope depth-performance models.csv --score hellaswag --fixed-effects --out depth.png
  bathyscope depth-performance models.csv --covariates d_model --format csv > coefficients.csv"""


def depth_performance_command(
    table: str,
    /,
    *,
    out: Annotated[
        Picture, Parameter(help="also write the partial-regression plot with its confidence band (.png, .svg, .pdf).")
    ] = None,
    format: Records = "table",
    **given: Any,
) -> int:
    """Least squares of a score on layers and other sizes.

    Args:
        table: one row a model, with the columns name, family, layers, d_model, d_ff and score: a .csv, .jsonl (either
            gzipped or not) or .parquet file.
    """
    check_picture(out)
    found = bathyscope.depth_performance(table, **given)
    write_rows(records(found, COLUMNS, ("errors", "term")), format, remark(found))
    write_picture(out, "depth_performance", found)
    return 0


def remark(found: xr.Dataset) -> str:
    """How many models there are, and how well the regression fits."""
    from bathyscope.analysis.performance import counted

    attrs = found.attrs
    return (
        f"{counted(found)}; R² {attrs['r2']:.3f} (adjusted {attrs['r2_adjusted']:.3f}), "
        f"{attrs['residual_degrees_of_freedom']} degrees of freedom; condition number of the standardised predictors "
        f"{attrs['condition_number']:.3g}. {attrs['level']:.0%} intervals."
    )


app = as_app(depth_performance_command, _EXAMPLES, "bathyscope:depth_performance")
