"""``bathyscope lab problem-depth``: whether models of several depths use more of it for problems with more steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from bathyscope.cli.console import quiet_libraries, say, write_csv, write_json, write_table
from bathyscope.cli.flags import command, flags
from bathyscope.lab.experiments import ProblemDepth, problem_depth

if TYPE_CHECKING:
    import xarray as xr

Format = Literal["table", "csv", "json"]
Row = dict[str, Any]
FIGURE, RESULTS = "problem-depth.png", "problem-depth.nc"


def problem_depth_command(
    *,
    out: Path,
    set: Annotated[list[str] | None, Parameter(metavar="KEY=VALUE", negative=(), show_default=False)] = None,
    device: Annotated[str | None, Parameter(show_default=False)] = None,
    format: Format = "table",
    quiet: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    **given: Any,
) -> int:
    """Train models of several depths on one task, and ask whether depth rises with the steps of a problem.

    An interrupted experiment goes on when the same command is given again.

    Args:
        out: folder of models, runs, the figure and the results (netCDF).
        set: change an option of the recipe, by its path with dots; may be given several times.
        device: "cpu" or "cuda"; not given = the first accelerator, else the CPU.
        format: of the output; missing numbers are empty in CSV and null in JSON.
        quiet: no progress and no messages; warnings and errors remain.
    """
    from bathyscope.report.export import write_output
    from bathyscope.report.figures.problem_depth import draw
    from bathyscope.report.render import render

    with quiet_libraries(downloads=not quiet):
        found = problem_depth(ProblemDepth(**given), out, device=device, progress=not quiet, changes=tuple(set or ()))
    found.to_netcdf(out / RESULTS, engine="h5netcdf")
    write_output(out / FIGURE, render(draw(found), "png"))
    _show(rows_of(found), format)
    say(f"Written: {out / FIGURE}, {out / RESULTS}", quiet)
    return 0


def rows_of(found: xr.Dataset) -> list[Row]:
    """A row for every model: accuracy by steps, and the slope of every reading with its interval and p-values."""
    rows: list[Row] = []
    for blocks in found["blocks"].values.tolist():
        for seed in found["seed"].values.tolist():
            own = found.sel(blocks=blocks, seed=seed)
            row: Row = {"blocks": blocks, "seed": seed}
            row |= {f"accuracy_{k}": float(own["accuracy"].sel(steps=k)) for k in own["steps"].values.tolist()}
            for name in own["reading"].values.tolist():
                one = own.sel(reading=name)
                row |= {f"{name}_{key}": float(one[key]) for key in ("slope", "ci_low", "ci_high", "p_value", "p_holm")}
            rows.append(row)
    return rows


def _show(rows: Sequence[Row], format_: Format) -> None:
    if format_ == "json":
        write_json(rows)
    elif format_ == "csv":
        write_csv(rows)
    else:
        _show_table(rows)


def _show_table(rows: Sequence[Row]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    accuracies = [key for key in rows[0] if key.startswith("accuracy_")]
    readings = [key.removesuffix("_slope") for key in rows[0] if key.endswith("_slope")]
    table = Table(
        box=SIMPLE_HEAD, title="Share of held-out problems solved by steps k; slopes over solved k, * Holm < 5 %"
    )
    headings = ["blocks", "seed", *(key.replace("accuracy_", "k=") for key in accuracies), *readings]
    for heading in headings:
        table.add_column(heading.replace("_", " "), justify="right")
    for row in rows:
        slopes = [_slope(row[f"{name}_slope"], row[f"{name}_p_holm"]) for name in readings]
        table.add_row(str(row["blocks"]), str(row["seed"]), *(f"{row[key]:.2f}" for key in accuracies), *slopes)
    write_table(table)


def _slope(slope: float, p_holm: float) -> str:
    if math.isnan(slope):
        return "–"
    return f"{slope:+.2f}{'*' if p_holm < 0.05 else ''}"


run_problem_depth = command(problem_depth_command, flags(ProblemDepth))
