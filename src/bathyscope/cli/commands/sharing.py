"""``bathyscope lab sharing``: a Transformer against a MoEUT of equally many parameters, trained on arithmetic."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from bathyscope.cli.console import quiet_libraries, say, write_json, write_table
from bathyscope.cli.flags import command, flags
from bathyscope.lab.experiments import Sharing, sharing

if TYPE_CHECKING:
    import xarray as xr

Format = Literal["table", "csv", "json"]
Row = dict[str, Any]
FIGURE, RESULTS = "sharing.png", "sharing.nc"


def sharing_command(
    *,
    out: Path,
    set: Annotated[list[str] | None, Parameter(metavar="KEY=VALUE", negative=(), show_default=False)] = None,
    device: Annotated[str | None, Parameter(show_default=False)] = None,
    format: Format = "table",
    quiet: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    **given: Any,
) -> int:
    """Train a Transformer and a model with shared layers on arithmetic, and compare what they solve and how deep.

    An interrupted experiment goes on when the same command is given again.

    Args:
        out: folder of models, runs, the figure and the results (netCDF).
        set: change an option of both recipes, by its path with dots; may be given several times.
        device: "cpu" or "cuda"; not given = the first accelerator, else the CPU.
        format: of the output; missing numbers are empty in CSV and null in JSON.
        quiet: no progress and no messages; warnings and errors remain.
    """
    from bathyscope.report.export import write_output
    from bathyscope.report.figures.sharing import draw
    from bathyscope.report.render import render

    with quiet_libraries(downloads=not quiet):
        found = sharing(Sharing(**given), out, device=device, progress=not quiet, changes=tuple(set or ()))
    found.to_netcdf(out / RESULTS, engine="h5netcdf")
    write_output(out / FIGURE, render(draw(found), "png"))
    _show(rows_of(found), found, format)
    say(f"Written: {out / FIGURE}, {out / RESULTS}", quiet)
    return 0


def rows_of(found: xr.Dataset) -> list[Row]:
    """A row for every loss and quantity: means over seeds of both recipes and their difference, with intervals."""
    rows: list[Row] = []
    for loss in found["loss"].values.tolist():
        for quantity in found["quantity"].values.tolist():
            own = found.sel(loss=loss, quantity=quantity)
            row: Row = {"loss": loss, "quantity": quantity, "units": own["units"].item()}
            for recipe in found["recipe"].values.tolist():
                one = own.sel(recipe=recipe)
                row |= {recipe: float(one["mean"])}
                row |= {f"{recipe}_{end}": float(one[f"mean_{end}"]) for end in ("low", "high")}
            row |= {name: float(own[name]) for name in ("difference", "difference_low", "difference_high")}
            rows.append({**row, "pairs": int(own["difference_seeds"])})
    return rows


def _show(rows: Sequence[Row], found: xr.Dataset, format_: Format) -> None:
    if format_ == "json":
        write_json(rows)
    elif format_ == "csv":
        writer = csv.DictWriter(sys.stdout, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: "" if value != value else value for key, value in row.items()} for row in rows)
    else:
        _show_table(rows, found["recipe"].values.tolist(), found.sizes["seed"])


def _show_table(rows: Sequence[Row], recipes: Sequence[str], seeds: int) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        box=SIMPLE_HEAD, title=f"Means over {seeds} seeds with 95 % intervals (Student's); difference by pairs"
    )
    for heading in ("loss", "quantity"):
        table.add_column(heading)
    for heading in (*recipes, "difference"):
        table.add_column(heading.replace("_", " "), justify="right")
    for row in rows:
        cells = [_cell(row[name], row[f"{name}_low"], row[f"{name}_high"]) for name in (*recipes, "difference")]
        table.add_row(row["loss"], row["quantity"].replace("_", " "), *cells)
    write_table(table)


def _cell(value: float, low: float, high: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:.2f}" if math.isnan(low) else f"{value:.2f} ({low:.2f} to {high:.2f})"


run_sharing = command(sharing_command, flags(Sharing))
