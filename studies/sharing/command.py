"""``python -m studies.sharing``: a Transformer against a MoEUT of equally many parameters, trained on arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import App

from studies.common.command import Changes, Quiet, carried_out, experiment_flags, write_results
from studies.common.console import Format, write_data, write_table
from studies.common.flags import add_flags
from studies.sharing.experiment import Sharing, sharing

if TYPE_CHECKING:
    import xarray as xr

Row = dict[str, Any]
_CORRELATION_TITLE = (
    "Rank correlation with accuracy on harder problems, over trained models; over all of them the interval takes "
    "models for independent, which those of one recipe are not"
)
_CORRELATION = ("correlation", "correlation_low", "correlation_high", "correlation_p", "correlation_holm")


def sharing_command(
    *,
    out: Path,
    set: Changes = None,
    format: Format = "table",
    quiet: Quiet = False,
    **given: Any,
) -> int:
    """Train a Transformer and a model with shared layers on arithmetic, and compare what they solve and how deep.

    An interrupted experiment goes on when the same command is given again.

    Args:
        out: folder of models, runs, the figure and the results (netCDF).
        set: change an option of both recipes, by its path with dots; may be given several times.
        format: of the output; missing numbers are empty in CSV and null in JSON.
        quiet: no progress and no messages; warnings and errors remain.
    """
    from studies.sharing.figure import draw

    found = carried_out(sharing, Sharing, given, out, set, quiet)
    write_results(found, draw, out, "sharing", quiet)
    rows, correlations = rows_of(found), correlation_rows(found)
    if not write_data([*rows, *correlations], format):
        _show_table(rows, found["recipe"].values.tolist(), found.sizes["seed"])
        _show_correlations(correlations)
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


def correlation_rows(found: xr.Dataset) -> list[Row]:
    """A row for every depth, over all models and within recipe and loss: its correlation with accuracy."""
    rows: list[Row] = []
    for name in found["depth_of"].values.tolist() if "depth_of" in found.coords else ():
        for over in found["over"].values.tolist():
            one = found.sel(depth_of=name, over=over)
            values = {key: float(one[key]) for key in _CORRELATION}
            rows.append({"depth_of": name, "over": over, **values, "models": int(one["correlation_models"])})
    return rows


def _show_table(rows: Sequence[Row], recipes: Sequence[str], seeds: int) -> None:
    lines: list[list[str]] = []
    for row in rows:
        cells = [_cell(row[name], row[f"{name}_low"], row[f"{name}_high"]) for name in (*recipes, "difference")]
        lines.append([row["loss"], row["quantity"].replace("_", " "), *cells])
    headings = ["loss", "quantity", *(name.replace("_", " ") for name in (*recipes, "difference"))]
    write_table(headings, lines, f"Means over {seeds} seeds with 95 % intervals (Student's); difference by pairs")


def _show_correlations(rows: Sequence[Row]) -> None:
    shown = [row for row in rows if not math.isnan(row["correlation"])]
    if not shown:
        return
    lines: list[list[str]] = []
    for row in shown:
        over = "all models" if row["over"] == "all" else "within recipe and loss"
        cell = _cell(row["correlation"], row["correlation_low"], row["correlation_high"])
        tested = not math.isnan(row["correlation_p"])
        p_value = f"{row['correlation_p']:.3f} ({row['correlation_holm']:.3f})" if tested else "–"
        lines.append([row["depth_of"].replace("_", " "), over, str(row["models"]), cell, p_value])
    write_table(("depth", "over", "models", "correlation", "p (Holm)"), lines, _CORRELATION_TITLE)


def _cell(value: float, low: float, high: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:.2f}" if math.isnan(low) else f"{value:.2f} ({low:.2f} to {high:.2f})"


app = App(name="sharing")
app.default(add_flags(sharing_command, experiment_flags(sharing, Sharing)))
