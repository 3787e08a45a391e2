"""``python -m studies.depth_family``: whether models that are given more blocks use more of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import App

from studies.common.across_seeds import said, shown
from studies.common.command import Changes, Quiet, carried_out, experiment_flags, write_results
from studies.common.console import Format, write, write_data, write_table
from studies.common.flags import add_flags
from studies.depth_family.experiment import DepthFamily, depth_family
from studies.depth_family.maps import DIAGONAL, EXPLAINED
from studies.depth_family.profiles import PROFILES

if TYPE_CHECKING:
    import xarray as xr

Row = dict[str, Any]
_RATIO = ("ratio", "ratio_low", "ratio_high")
_DIFFERENCE = ("difference", "difference_low", "difference_high", "difference_p_value", "difference_p_holm")
_TREND = ("slope", "prompt_low", "prompt_high", "model_low", "model_high", "slope_proportional", "p_value", "p_holm")


def depth_family_command(
    *,
    out: Path,
    set: Changes = None,
    format: Format = "table",
    quiet: Quiet = False,
    **given: Any,
) -> int:
    """Train models that differ in their number of blocks alone, and ask whether effective depth grows with it.

    An interrupted experiment goes on when the same command is given again.

    Args:
        out: folder of models, runs, maps, the figure and the results (netCDF).
        set: change an option of the recipes, by its path with dots; may be given several times.
        format: of the output; missing numbers are empty in CSV and null in JSON.
        quiet: no progress and no messages; warnings and errors remain.
    """
    from studies.depth_family.figure import draw

    found = carried_out(depth_family, DepthFamily, given, out, set, quiet)
    write_results(found, draw, out, "depth-family", quiet)
    _draw_maps(out / "maps")
    parts = (member_rows, trend_rows, pair_rows, profile_rows, map_rows, seed_rows)
    if not write_data([row for part in parts for row in part(found)], format):
        _show(found)
    return 0


def _draw_maps(folder: Path) -> None:
    """A figure beside each map."""
    import bathyscope
    from bathyscope.extend.figures import draw_maps, render
    from studies.common.files import write_file

    for file in sorted(folder.glob("*.nc")):
        write_file(file.with_suffix(".png"), render(draw_maps(bathyscope.open(file).data), "png"))


def member_rows(found: xr.Dataset) -> list[Row]:
    """A row for every member and estimator: losses, depth and ratio."""
    rows: list[Row] = []
    for name in found["member"].values.tolist():
        own = found.sel(member=name)
        head: Row = {"member": name, "norms": str(own["member_norms"].values), "blocks": int(own["blocks"])}
        head |= {f"{text}_loss": float(own["loss"].sel(text=text)) for text in own["text"].values.tolist()}
        for estimator in found["estimator"].values.tolist():
            one = own.sel(estimator=estimator)
            values = {key: float(one[key]) for key in ("depth", *_RATIO)}
            rows.append({**head, "estimator": estimator, **values})
    return rows


def trend_rows(found: xr.Dataset) -> list[Row]:
    """A row for every place of norms that several depths have, and estimator: the trend of the ratio."""
    rows: list[Row] = []
    for norms in found["norms"].values.tolist() if "norms" in found.coords else ():
        for estimator in found["estimator"].values.tolist():
            one = found.sel(norms=norms, estimator=estimator)
            row: Row = {"norms": norms, "estimator": estimator, **{key: float(one[key]) for key in _TREND}}
            rows.append({**row, **{key: bool(one[key]) for key in ("stable", "proportional")}})
    return rows


def pair_rows(found: xr.Dataset) -> list[Row]:
    """A row for every member with norms elsewhere and estimator: its ratio less that of the member of its depth."""
    rows: list[Row] = []
    for pair in found["pair"].values.tolist() if "pair" in found.coords else ():
        for estimator in found["estimator"].values.tolist():
            one = found.sel(pair=pair, estimator=estimator)
            rows.append({"pair": pair, "estimator": estimator, **{key: float(one[key]) for key in _DIFFERENCE}})
    return rows


def seed_rows(found: xr.Dataset) -> list[Row]:
    """What several seeds say together, means with Student's intervals; nothing where every recipe has one seed.

    A row for every recipe and estimator, its ratio; for every two recipes with norms elsewhere and estimator, the
    difference of the ratio paired by seed; and for every recipe, profile and boundary.
    """
    rows: list[Row] = []
    for recipe, own in _groups(found, "recipe", "member"):
        rows += [
            {"seeds_of": recipe, "estimator": name, **said(_by_seed(own["ratio"].sel(estimator=name), "member"))}
            for name in found["estimator"].values.tolist()
        ]
    for placement, own in _groups(found, "placement", "pair"):
        rows += [
            {"seeds_of": placement, "estimator": name, **said(_by_seed(own["difference"].sel(estimator=name), "pair"))}
            for name in found["estimator"].values.tolist()
        ]
    for recipe, own in _groups(found, "recipe", "member"):
        rows += [
            {"seeds_of": recipe, "profile": name, "boundary": b, **said(_by_seed(own[name].sel(boundary=b), "member"))}
            for name in PROFILES
            for b in range(int(own["blocks"][0]) + 1)
        ]
    return rows


def _groups(found: xr.Dataset, of: str, dim: str) -> list[tuple[str, xr.Dataset]]:
    """The members, or pairs, of one name that are of several seeds."""
    names = found[of].values.tolist() if of in found.coords else []
    groups = [(name, found.isel({dim: found[of].values == name})) for name in dict.fromkeys(names)]
    return [(name, own) for name, own in groups if own.sizes[dim] > 1]


def _by_seed(value: xr.DataArray, dim: str) -> xr.DataArray:
    return value.rename({dim: "seed"}).reset_coords(drop=True)


def profile_rows(found: xr.Dataset) -> list[Row]:
    """A row for every member and boundary: largest activations and the gradient of the loss, with intervals."""
    rows: list[Row] = []
    for name in found["member"].values.tolist():
        own = found.sel(member=name)
        for boundary in range(int(own["blocks"]) + 1):
            one = own.sel(boundary=boundary)
            values = {f"{key}{end}": float(one[f"{key}{end}"]) for key in PROFILES for end in ("", "_low", "_high")}
            rows.append({"member": name, "boundary": boundary, **values})
    return rows


def map_rows(found: xr.Dataset) -> list[Row]:
    """A row for every map between members and direction: its diagonal statistics; none without maps."""
    rows: list[Row] = []
    for name in found["map"].values.tolist() if "map" in found.coords else ():
        for direction in found["direction"].values.tolist():
            one = found.sel(map=name, direction=direction)
            values = {key: float(one[f"map_{key}"]) for key in (*DIAGONAL, *EXPLAINED)}
            rows.append({"map": name, "direction": direction, **values})
    return rows


def _show(found: xr.Dataset) -> None:
    """Ratios of the members by estimator, with the trend beside them, and what it is about."""
    members = found["member"].values.tolist()
    series = found["norms"].values.tolist() if "norms" in found.coords else []
    rows: list[list[str]] = []
    for text in found["text"].values.tolist():
        losses = [f"{float(found['loss'].sel(member=name, text=text)):.3f}" for name in members]
        rows.append([f"{text} loss", *losses, *[""] * (2 * len(series))])
    for estimator in found["estimator"].values.tolist():
        own = found.sel(estimator=estimator)
        cells = [_number(own["ratio"].sel(member=name), ".2f") for name in members]
        for norms in series:
            one = own.sel(norms=norms)
            cells += [_slope(one), _number(one["slope_proportional"], "+.3f")]
        rows.append([estimator.replace("_", " "), *cells])
    slopes = [text for one in series for text in (f"slope, {one}", "same relative depth")]
    title = "Effective depth ratio, and its slope for each doubling of blocks"
    write_table(["estimator", *members, *slopes], rows, title)
    write("Intervals over seeds and prompts where depths have several seeds, else over prompts. * holds 0.")
    if found.attrs["note"]:
        write(str(found.attrs["note"]))
    _show_pairs(pair_rows(found))
    _show_seeds(seed_rows(found))
    _show_profiles(found)
    for row in map_rows(found):
        write(
            f"{row['map']}, {row['direction'].replace('_', ' ')}: slope {row['slope']:.2f} ({row['slope_low']:.2f} to "
            f"{row['slope_high']:.2f}; 1 = same relative depth), mean distance {row['deviation']:.2f} "
            f"({row['deviation_low']:.2f} to {row['deviation_high']:.2f}; by chance {row['deviation_chance']:.2f}); "
            f"variance explained {row['r2']:.2f} ({row['r2_least']:.2f} to {row['r2_most']:.2f} over boundaries)."
        )


def _show_pairs(rows: Sequence[Row]) -> None:
    """Differences of the ratio between places of norms; nothing where all members have one place."""
    if not rows:
        return
    pairs = list(dict.fromkeys(row["pair"] for row in rows))
    cells: list[list[str]] = []
    for estimator in dict.fromkeys(row["estimator"] for row in rows):
        own = {row["pair"]: row for row in rows if row["estimator"] == estimator}
        cells.append([estimator.replace("_", " "), *(_difference(own[pair]) for pair in pairs)])
    write_table(["estimator", *pairs], cells, "Difference of the ratio by the place of norms; ** Holm < 5 %")


def _difference(row: Row) -> str:
    if math.isnan(row["difference"]):
        return "–"
    ends = f"{row['difference_low']:+.2f} to {row['difference_high']:+.2f}"
    clear = "**" if row["difference_p_holm"] < 0.05 else ""
    return f"{row['difference']:+.2f} ({ends}){clear}"


def _show_seeds(rows: Sequence[Row]) -> None:
    """Means over seeds of ratios and of their differences; nothing where every recipe has one seed."""
    of_ratio = [row for row in rows if "estimator" in row]
    names = list(dict.fromkeys(row["seeds_of"] for row in of_ratio))
    cells: list[list[str]] = []
    for estimator in dict.fromkeys(row["estimator"] for row in of_ratio):
        own = {row["seeds_of"]: row for row in of_ratio if row["estimator"] == estimator}
        cells.append([estimator.replace("_", " "), *(shown(own[name]) for name in names)])
    if cells:
        write_table(["estimator", *names], cells, "Ratios, and their differences, over seeds, with Student's intervals")


def _show_profiles(found: xr.Dataset) -> None:
    """Where activations are largest, and how the gradient goes from the first boundary to the last."""
    rows: list[list[str]] = []
    for name in found["member"].values.tolist():
        own = found.sel(member=name)
        cells = []
        for key in ("largest", "largest_ratio"):
            boundary = int(own[key].argmax("boundary"))
            cells.append(f"{_with_ends(own.isel(boundary=boundary), key)} at h_{boundary}")
        cells += [_with_ends(own.isel(boundary=boundary), "gradient") for boundary in (0, int(own["blocks"]))]
        rows.append([name, *cells])
    headings = ("member", "largest activation", "of median", "gradient, first", "gradient, last")
    write_table(headings, rows, "Largest activations and gradients by boundary, means over prompts")


def _with_ends(one: xr.Dataset, key: str) -> str:
    return f"{float(one[key]):.3g} ({float(one[f'{key}_low']):.3g} to {float(one[f'{key}_high']):.3g})"


def _slope(one: xr.Dataset) -> str:
    kind = "prompt" if math.isnan(float(one["model_low"])) else "model"
    if math.isnan(float(one[f"{kind}_low"])):
        return _number(one["slope"], "+.3f")
    ends = f"{float(one[f'{kind}_low']):+.3f} to {float(one[f'{kind}_high']):+.3f}"
    return f"{float(one['slope']):+.3f} ({ends}){'*' if bool(one['stable']) else ''}"


def _number(value: xr.DataArray, form: str) -> str:
    return "–" if math.isnan(float(value)) else format(float(value), form)


app = App(name="depth_family")
app.default(add_flags(depth_family_command, experiment_flags(depth_family, DepthFamily)))
