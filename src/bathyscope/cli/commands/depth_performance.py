"""``bathyscope compare depth-performance``: a benchmark's score regressed on the number of layers."""

from typing import Annotated, Any

from cyclopts import Parameter

import bathyscope
from bathyscope.analysis.options import DepthPerformanceOptions
from bathyscope.cli.arguments import Picture, ResultFormat, check_picture, make_app, write_picture
from bathyscope.cli.printing import print_result

_EXAMPLES = """\
Examples:
  bathyscope compare depth-performance models.csv
  bathyscope compare depth-performance models.csv --score hellaswag --fixed-effects --out depth.png
  bathyscope compare depth-performance models.csv --covariates d_model --format csv > coefficients.csv"""


def depth_performance_command(
    table: str,
    /,
    *,
    out: Annotated[
        Picture, Parameter(help="also write the partial-regression plot with its confidence band (.png, .svg, .pdf).")
    ] = None,
    format: ResultFormat = "table",
    **options: Any,
) -> int:
    """Regress a score on layers and other sizes by least squares.

    Args:
        table: one row a model, with the columns name, family, layers, d_model, d_ff and score: a .csv, .jsonl (either
            gzipped or not) or .parquet file.
    """
    check_picture(out)
    result = bathyscope.depth_performance(table, **options)
    print_result(result, format)
    write_picture(out, result)
    return 0


app = make_app(depth_performance_command, _EXAMPLES, DepthPerformanceOptions)
