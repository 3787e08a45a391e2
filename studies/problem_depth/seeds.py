"""What several seeds say together: means over models that differ in their seed alone, with Student's intervals.

Untrained models are drawn from seeds of their own, whatever the seed of the model that they stand beside, which only
decides over which levels their slopes are. So each is averaged over these first, and the interval is over untrained
models.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import xarray as xr

from studies.common.across_seeds import said, shown
from studies.common.console import write_table

Row = dict[str, Any]
SLOPES: Final = {
    "moves_slope": "Slope over moves at equal steps, solved k",
    "slope": "Slope over steps, solved k",
    "right_moves_slope": "Slope over moves at equal steps, right answers",
    "right_slope": "Slope over steps, right answers",
}
SAME: Final = {"same_steps": "only deep − both at equal steps", "same_moves": "… and equal moves"}


def seed_rows(found: xr.Dataset) -> list[Row]:
    """Rows of ``said`` for shares solved, slopes and differences of classes; none with one seed."""
    if found.sizes["seed"] == 1:
        return []
    rows: list[Row] = []
    for blocks in found["blocks"].values.tolist():
        own = found.sel(blocks=blocks)
        for level in own["steps"].values.tolist():
            rows.append({"over": "seeds", "depth": blocks, "what": "accuracy", "steps": level})
            rows[-1] |= said(own["accuracy"].sel(steps=level))
        for name in (name for name in SLOPES if name in own):
            for reading in own["reading"].values.tolist():
                one = own.sel(reading=reading)
                row: Row = {"over": "seeds", "depth": blocks, "what": name, "reading": reading, **said(one[name])}
                if (null := f"untrained_{name}") in one:
                    controls = one[null].mean("seed").rename(control="seed")
                    row |= {f"untrained_{end}": value for end, value in said(controls).items()}
                rows.append(row)
    for pair in found["pair"].values.tolist() if "pair" in found.coords else []:
        own = found.sel(pair=pair, read_in="deep")
        for name in (name for name in SAME if name in own):
            for reading in own["reading"].values.tolist():
                row = {"over": "seeds", "pair": pair, "what": name, "reading": reading}
                rows.append(row | said(own[name].sel(reading=reading)))
    return rows


def show_seeds(rows: Sequence[Row]) -> None:
    """Tables of ``seed_rows``."""
    if not rows:
        return
    depths = sorted({row["depth"] for row in rows if "depth" in row})
    levels = [row["steps"] for row in rows if row["what"] == "accuracy" and row["depth"] == depths[0]]
    lines = [
        [str(depth), *(_share(row) for row in rows if (row["what"], row.get("depth")) == ("accuracy", depth))]
        for depth in depths
    ]
    title = f"Share of held-out problems solved by steps k: mean over {rows[0]['seeds']} seeds (least to most)"
    write_table(["blocks", *(f"k={level}" for level in levels)], lines, title)
    for name, title in SLOPES.items():
        own = [row for row in rows if row["what"] == name]
        if own:
            headings = ["reading", *(f"{depth} blocks{end}" for depth in depths for end in ("", ", untrained"))]
            write_table(headings, [_slope_line(reading, own) for reading in _readings(own)], f"{title}, {_OVER}")
    same = [row for row in rows if row["what"] in SAME]
    if same:
        columns = [(pair, name) for pair in dict.fromkeys(row["pair"] for row in same) for name in SAME]
        cells = {(row["reading"], row["pair"], row["what"]): shown(row) for row in same}
        lines = [[_title(own), *(cells.get((own, *column), "–") for column in columns)] for own in _readings(same)]
        headings = ["reading in the deep one", *(f"{pair}: {SAME[name]}" for pair, name in columns)]
        write_table(headings, lines, f"Who solves a problem, {_OVER}")


_OVER: Final = "means over seeds with Student's 95 % intervals"


def _slope_line(reading: str, rows: Sequence[Row]) -> list[str]:
    cells = []
    for row in (row for row in rows if row["reading"] == reading):
        null = {end: row.get(f"untrained_{end}", float("nan")) for end in ("mean", "low", "high")}
        cells += [shown(row), shown(null)]
    return [_title(reading), *cells]


def _readings(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["reading"] for row in rows))


def _title(reading: str) -> str:
    return reading.replace("_", " ")


def _share(row: Row) -> str:
    return f"{row['mean']:.2f} ({row['least']:.2f}–{row['most']:.2f})"
