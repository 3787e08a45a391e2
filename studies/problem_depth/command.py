"""``python -m studies.problem_depth``: whether models of several depths use more of it for problems with more steps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import App

from studies.common.command import Changes, Quiet, carried_out, experiment_flags, write_results
from studies.common.console import Format, write_data, write_table
from studies.common.flags import add_flags
from studies.problem_depth.experiment import ProblemDepth, problem_depth

if TYPE_CHECKING:
    import xarray as xr

Row = dict[str, Any]
_ENDS = ("mean", "low", "high")
_SAME_STEPS = ("same_steps", "same_steps_low", "same_steps_high")
_SAME_MOVES = ("same_moves", "same_moves_low", "same_moves_high")
_MOVES = ("moves_slope", "moves_low", "moves_high")
_TREND = ("slope", "ci_low", "ci_high", "p_value", "p_holm", *_MOVES)
_SLOPE = (*_TREND, *(f"right_{key}" for key in _TREND))
_DIFFERENCE = "only deep − both at equal steps"
_AT_MOVES = f"{_DIFFERENCE} and moves"


def problem_depth_command(
    *,
    out: Path,
    set: Changes = None,
    format: Format = "table",
    quiet: Quiet = False,
    **given: Any,
) -> int:
    """Train models of several depths on one task, and ask whether depth rises with the steps of a problem.

    An interrupted experiment goes on when the same command is given again.

    Args:
        out: folder of models, runs, the figure and the results (netCDF).
        set: change an option of the recipe, by its path with dots; may be given several times.
        format: of the output; missing numbers are empty in CSV and null in JSON.
        quiet: no progress and no messages; warnings and errors remain.
    """
    from studies.problem_depth.figure import draw
    from studies.problem_depth.seeds import seed_rows, show_seeds

    found = carried_out(problem_depth, ProblemDepth, given, out, set, quiet)
    write_results(found, draw, out, "problem-depth", quiet)
    rows, classes, together = rows_of(found), class_rows(found), seed_rows(found)
    if not write_data([*rows, *classes, *together], format):
        _show_table(rows)
        if "moves_slope" in found:
            _show_moves(found)
        if classes:
            _show_classes(found)
        show_seeds(together)
    return 0


def rows_of(found: xr.Dataset) -> list[Row]:
    """A row for every model: accuracy by steps, and the slope of every reading with its interval and p-values."""
    rows: list[Row] = []
    for blocks in found["blocks"].values.tolist():
        for seed in found["seed"].values.tolist():
            own = found.sel(blocks=blocks, seed=seed)
            row: Row = {"blocks": blocks, "seed": seed}
            row |= {f"accuracy_{k}": float(own["accuracy"].sel(steps=k)) for k in own["steps"].values.tolist()}
            row |= {f"on_edge_{k}": bool(own["on_edge"].sel(steps=k)) for k in own["steps"].values.tolist()}
            for name in own["reading"].values.tolist():
                one = own.sel(reading=name)
                row |= {f"{name}_{key}": float(one[key]) for key in _SLOPE if key in one}
                if "control" in one.dims:
                    of_control = {key: one[f"untrained_{key}"] for key in _SLOPE if f"untrained_{key}" in one}
                    row |= {
                        f"{name}_{key}_{control}": float(values.sel(control=control))
                        for key, values in of_control.items()
                        for control in one["control"].values.tolist()
                    }
            rows.append(row)
    return rows


def class_rows(found: xr.Dataset) -> list[Row]:
    """A row for every two depths, seed, model that is read, reading and class, and the difference at equal steps.

    None with one depth.
    """
    if "pair" not in found.coords:
        return []
    rows: list[Row] = []
    dims = ("pair", "seed", "read_in", "reading")
    for chosen in itertools.product(*(found[dim].values.tolist() for dim in dims)):
        own = found.sel(dict(zip(dims, chosen)))
        head: Row = dict(zip(dims, chosen))
        for name in own["solved_by"].values.tolist():
            one = own.sel(solved_by=name)
            row = {**head, "solved_by": name, "problems": int(one["class_values"])}
            row |= {"mean_steps": float(one["class_steps"])}
            rows.append(row | {key: float(one[f"class_{key}"]) for key in _ENDS})
        for name, variables in ((_DIFFERENCE, _SAME_STEPS), (_AT_MOVES, _SAME_MOVES)):
            if variables[0] in own:
                ends = {key: float(own[variable]) for key, variable in zip(_ENDS, variables)}
                rows.append({**head, "solved_by": name, **ends})
    return rows


def _show_table(rows: Sequence[Row]) -> None:
    accuracies = [key for key in rows[0] if key.startswith("accuracy_")]
    readings = [key.removesuffix("_right_p_holm") for key in rows[0] if key.endswith("_right_p_holm")]
    headings = ["blocks", "seed", *(key.replace("accuracy_", "k=") for key in accuracies), *readings]
    cells = []
    for row in rows:
        slopes = [
            " / ".join(_slope(row[f"{name}_{begin}slope"], row[f"{name}_{begin}p_holm"]) for begin in ("", "right_"))
            for name in readings
        ]
        edges = ["~" if row[key.replace("accuracy", "on_edge")] else "" for key in accuracies]
        shares = [f"{row[key]:.2f}{edge}" for key, edge in zip(accuracies, edges)]
        cells.append([str(row["blocks"]), str(row["seed"]), *shares, *slopes])
    title = (
        "Share of held-out problems solved by steps k (~: the interval holds the threshold); slopes over solved k / "
        "over all right answers, * Holm < 5 %"
    )
    write_table([heading.replace("_", " ") for heading in headings], cells, title)


def _show_moves(found: xr.Dataset) -> None:
    """Slopes over moves at equal steps, trained and untrained: what follows from what has to be done."""
    lines: list[list[str]] = []
    for blocks in found["blocks"].values.tolist():
        for seed in found["seed"].values.tolist():
            for name in found["reading"].values.tolist():
                one = found.sel(blocks=blocks, seed=seed, reading=name)
                untrained = [
                    _cell(one.isel(control=number), [f"untrained_{key}" for key in _MOVES], "+.2f")
                    for number in range(one.sizes.get("control", 0))
                ]
                trained = _cell(one, _MOVES, "+.2f")
                lines.append([str(blocks), str(seed), name.replace("_", " "), trained, "; ".join(untrained) or "–"])
    title = "Slope over moves at equal steps, solved k, 95 % intervals"
    write_table(("blocks", "seed", "reading", "trained", "untrained, one by one"), lines, title)


def _show_classes(found: xr.Dataset) -> None:
    """The shallowest against the deepest models, read in the deep one."""
    from studies.problem_depth.figure import widest

    own = widest(found)
    assert own is not None
    title = f"Depth in {int(own['deep'])} blocks by who solves a problem ({own['pair'].item()}), 95 % intervals"
    lines: list[list[str]] = []
    differences = [pair for pair in ((_DIFFERENCE, _SAME_STEPS), (_AT_MOVES, _SAME_MOVES)) if pair[1][0] in own]
    classes = own["solved_by"].values.tolist()
    for seed in own["seed"].values.tolist():
        of_seed = own.sel(seed=seed, read_in="deep")
        counted = [
            f"{int(one['class_count'])} (k {float(one['class_steps']):.1f})" if int(one["class_count"]) else "0"
            for one in (of_seed.sel(solved_by=name) for name in classes)
        ]
        lines.append([str(seed), "problems", *counted, *[""] * len(differences)])
        for name in own["reading"].values.tolist():
            one = of_seed.sel(reading=name)
            cells = [_cell(one.sel(solved_by=of), [f"class_{key}" for key in _ENDS]) for of in classes]
            same = [_cell(one, variables) for _, variables in differences]
            lines.append(["", name.replace("_", " "), *cells, *same])
    write_table(("seed", "", *classes, *(name for name, _ in differences)), lines, title)


def _cell(one: xr.Dataset, names: Sequence[str], form: str = ".2f") -> str:
    mean, low, high = (float(one[name]) for name in names)
    if math.isnan(mean):
        return "–"
    return f"{mean:{form}}" if math.isnan(low) else f"{mean:{form}} ({low:{form}} to {high:{form}})"


def _slope(slope: float, p_holm: float) -> str:
    if math.isnan(slope):
        return "–"
    return f"{slope:+.2f}{'*' if p_holm < 0.05 else ''}"


app = App(name="problem_depth")
app.default(add_flags(problem_depth_command, experiment_flags(problem_depth, ProblemDepth)))
