"""``python -m studies.nulls``: what of a model's depth is due to its training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import App

from studies.common.command import Quiet, carried_out, experiment_flags, write_results
from studies.common.console import Format, write, write_data, write_table
from studies.common.flags import add_flags
from studies.nulls.experiment import Nulls, nulls

if TYPE_CHECKING:
    import xarray as xr

Row = dict[str, Any]
_ENDS = ("value", "low", "high", "moved", "moved_low", "moved_high")


def nulls_command(*, out: Path, format: Format = "table", quiet: Quiet = False, **given: Any) -> int:
    """Survey trained models beside untrained ones of their shape: which depths are there without any training?

    An interrupted experiment goes on when the same command is given again.

    Args:
        out: folder of runs, the figure and the results (netCDF).
        format: of the output; missing numbers are empty in CSV and null in JSON.
        quiet: no progress and no messages; warnings and errors remain.
    """
    from studies.nulls.figure import draw

    found = carried_out(nulls, Nulls, given, out, None, quiet)
    write_results(found, draw, out, "nulls", quiet)
    if not write_data([*reading_rows(found), *estimator_rows(found)], format):
        _show(found)
    return 0


def reading_rows(found: xr.Dataset) -> list[Row]:
    """A row for every model and reading of the verdict: trained, untrained, and the difference."""
    rows: list[Row] = []
    for model in found["model"].values.tolist():
        for reading in found["reading"].values.tolist():
            one = found.sel(model=model, reading=reading)
            row: Row = {"model": model, "blocks": int(one["blocks"]), "reading": reading}
            row |= {key: float(one[key]) for key in _ENDS} | {"untrained": float(one["untrained"].mean())}
            rows.append(row)
    return rows


def estimator_rows(found: xr.Dataset) -> list[Row]:
    """A row for every model and estimator of effective depth: trained, and the least and most of untrained ones."""
    rows: list[Row] = []
    for model in found["model"].values.tolist():
        for estimator in found["estimator"].values.tolist():
            one = found.sel(model=model, estimator=estimator)
            row: Row = {"model": model, "blocks": int(one["blocks"]), "estimator": estimator}
            ends = {"untrained_low": one["depth_untrained"].min(), "untrained_high": one["depth_untrained"].max()}
            rows.append(row | {"depth": float(one["depth"])} | {key: float(end) for key, end in ends.items()})
    return rows


def _show(found: xr.Dataset) -> None:
    models = found["model"].values.tolist()
    cells = [
        [
            row["model"],
            row["reading"],
            f"{row['value']:.2f} ({row['low']:.2f} to {row['high']:.2f}) of {row['blocks']}",
            f"{row['untrained']:.2f}",
            f"{row['moved']:+.2f} ({row['moved_low']:+.2f} to {row['moved_high']:+.2f})",
        ]
        for row in reading_rows(found)
    ]
    write_table(("model", "reading", "trained", "untrained", "trained less untrained"), cells, "Blocks done")
    own = {(row["model"], row["estimator"]): row for row in estimator_rows(found)}
    lines = [
        [estimator.replace("_", " "), *(_beside(own[model, estimator]) for model in models)]
        for estimator in found["estimator"].values.tolist()
    ]
    write_table(("estimator", *models), lines, "Effective depth in blocks: trained [untrained, least to most]")
    for model in models:
        write(f"{model} on {found['prompts'].sel(model=model).item()}: {found['verdict'].sel(model=model).item()}")


def _beside(row: Row) -> str:
    depth, low, high = (row[key] for key in ("depth", "untrained_low", "untrained_high"))
    trained = "–" if depth != depth else f"{depth:.1f}"
    return f"{trained} [–]" if low != low else f"{trained} [{low:.1f} to {high:.1f}]"


app = App(name="nulls")
app.default(add_flags(nulls_command, experiment_flags(nulls, Nulls)))
