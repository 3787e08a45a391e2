"""Where can a trained model's answer be decoded, and where is it readable?

    python -m studies.problem_depth.decodable checkpoints/permutations_8 checkpoints/permutations_12 --out FOLDER

The lens shows an answer where it already stands in the readout's directions; behind a linear map, fitted to other
problems at the same token, it shows from where on the answer is there at all (``translated_lens``). Both are read where
the answer is predicted, of the problems that the model solves, with their slopes over the moves of a problem at equal
steps, and of untrained models on the same problems. Models of equally many blocks are seeds of one kind. Models of
texts are read with ``--prompts``: every token, no slopes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr

from bathyscope import Model, Run, load, solved, survey
from bathyscope.errors import OptionError
from bathyscope.extend.prompts import Problem
from bathyscope.extend.statistics import mean_interval
from studies.common.across_seeds import said, shown
from studies.common.command import Quiet, write_results
from studies.common.console import Format, write_data, write_table
from studies.common.names import model_names
from studies.common.problems import first_of_each
from studies.problem_depth.experiment import LEVEL
from studies.problem_depth.moves import LABEL, moves_slopes
from studies.problem_depth.readings import READERS

PROBLEMS: Final = "task:permutations:1600?factors=1-8&beyond=9-9&elements=generators&answer=image"
TEST_SHARE: Final = 0.4
SEED: Final = 1


def decodable(
    models: Sequence[str | Path],
    out: str | Path,
    prompts: str = PROBLEMS,
    controls: int = 3,
    progress: bool = True,
) -> xr.Dataset:
    """Both depths of every model, and of untrained ones of its shape.

    Args:
        models: folders, or names on the hub.
        out: folder of the surveys; what is finished there is not done again.
        prompts: what they read; without ``moves`` every token counts, and there are no slopes.
        controls: untrained models of each shape.
        progress: show progress bars on standard error.

    Returns:
        By ``model`` and ``reader``: ``depth``, ``depth_low``, ``depth_high`` (bootstrap over prompts), in boundaries;
        ``moves_slope``, ``moves_low``, ``moves_high`` as ``moves_slopes`` gives over all levels; ``by_moves`` (also by
        ``moves``), means. ``untrained_…`` (also by ``control``): the same of untrained models, on the same prompts. By
        ``model``: ``blocks``, and ``prompts``, how many are read.

    Raises:
        OptionError: no models.
        PromptError, ModelError, StoreError: as ``survey``; too few prompts or tokens to fit maps to.
    """
    if not models:
        raise OptionError("No model is given; give folders, such as checkpoints/permutations_12.")
    cells = []
    for given, name in zip(models, model_names([str(model) for model in models])):
        model = load(str(given), device="cpu", dtype="float32")
        own = _surveyed(model, prompts, Path(out) / "runs" / name, controls, progress)
        kept = _kept(model, own, prompts, progress)
        beside = [_read(one, kept) for one in own.controls.values()]
        cell = _read(own, kept).assign_coords(blocks=model.n_blocks, prompts=int(kept.sum()))
        if beside:
            joined = xr.concat(beside, "control").assign_coords(control=list(own.controls))
            cell = cell.merge(joined.rename({one: f"untrained_{one}" for one in joined.data_vars}))
        cells.append(cell.expand_dims(model=[name]))
    return xr.concat(cells, "model", join="outer", coords="all").assign_attrs(problems=prompts)


def _surveyed(model: Model, prompts: str, out: Path, controls: int, progress: bool) -> Run:
    positions = "answer" if prompts.startswith("task:") else "all"
    options = {"positions": positions, "test_share": TEST_SHARE}
    control = f"untrained:{controls}" if controls else None
    return survey(
        model, prompts, "translated_lens", out, SEED, control=control, progress=progress, translated_lens=options
    )


def _kept(model: Model, run: Run, prompts: str, progress: bool) -> np.ndarray:
    """Which prompts are read and, of problems, solved, and ask what none before them asks."""
    read = run["translated_lens"]["n_averaged"].values > 0
    if LABEL not in run["translated_lens"].coords:
        return np.asarray(read)
    right = solved(model, prompts, seed=SEED, progress=progress)["solved"].values == 1
    asked = [Problem(" ".join(map(str, prompt.ids)), "") for prompt in run.prompts]
    places, new = np.flatnonzero(read), np.zeros(len(read), bool)
    new[places] = first_of_each([asked[place] for place in places])
    return np.asarray(read & right & new)


def _read(run: Run, kept: np.ndarray) -> xr.Dataset:
    """Depths of the kept prompts, and their slopes and means over moves where prompts say them."""
    value = run["translated_lens"]["prediction_depth"].sel(reader=list(READERS)).transpose("reader", "prompt")
    value = value.isel(prompt=kept)
    ends = np.array([[own.mean(), *mean_interval(own)] for own in value.values])
    names = ("depth", "depth_low", "depth_high")
    found = xr.Dataset({name: ("reader", ends[:, n]) for n, name in enumerate(names)}, {"reader": list(READERS)})
    if LABEL not in value.coords:
        return found
    levels = sorted(set(value[LEVEL].values.tolist()))
    slopes = moves_slopes(value.rename(reader="reading"), levels, LEVEL).rename(reading="reader")
    return found.merge(slopes).assign(by_moves=value.groupby(LABEL).mean("prompt"))


def rows_of(found: xr.Dataset) -> list[dict[str, Any]]:
    """A row for each model and reader, and one for each number of blocks that several models have."""
    rows: list[dict[str, Any]] = []
    names = [name for name in ("depth", "moves_slope") if name in found]
    for model in found["model"].values.tolist():
        own = found.sel(model=model)
        for reader, title in READERS.items():
            one = own.sel(reader=reader)
            row: dict[str, Any] = {"model": model, "blocks": int(own["blocks"]), "reading": title}
            row |= {"prompts": int(own["prompts"])}
            for name in names:
                start = name.partition("_")[0]
                row |= {name: float(one[name])}
                row |= {f"{start}_{end}": float(one[f"{start}_{end}"]) for end in ("low", "high")}
                if f"untrained_{name}" in one:
                    null = one[f"untrained_{name}"]
                    row |= {f"untrained_{name}_least": float(null.min()), f"untrained_{name}_most": float(null.max())}
            rows.append(row)
    return rows


def seed_rows(found: xr.Dataset) -> list[dict[str, Any]]:
    """Means over models of equally many blocks, of each reader and of what decodable is less readable."""
    rows = []
    for blocks in dict.fromkeys(found["blocks"].values.tolist()):
        own = found.isel(model=found["blocks"].values == blocks).rename(model="seed")
        for name in (name for name in ("depth", "moves_slope") if name in own and own.sizes["seed"] > 1):
            value = own[name]
            parts = {title: value.sel(reader=reader) for reader, title in READERS.items()}
            parts["decodable − readable"] = parts["decodable"] - parts["readable"]
            rows += [{"blocks": blocks, "what": name, "reading": title, **said(one)} for title, one in parts.items()]
    return rows


def decodable_command(
    *models: str,
    out: Path,
    prompts: str = PROBLEMS,
    controls: int = 3,
    format: Format = "table",
    quiet: Quiet = False,
) -> int:
    """Set where answers can be decoded beside where the lens shows them.

    Args:
        models: folders, or names on the hub.
        out: folder of the surveys, the figure and the results (netCDF).
        prompts: what they read.
        controls: untrained models of each shape.
        format: of the output.
        quiet: no progress and no messages.
    """
    from studies.problem_depth.decodable_figure import draw

    found = decodable(models, out, prompts, controls, progress=not quiet)
    write_results(found, draw, out, "decodable", quiet)
    rows, over = rows_of(found), seed_rows(found)
    if not write_data([*rows, *over], format):
        lines = [
            [row["model"], str(row["prompts"]), row["reading"], *_cells(row, "depth"), *_cells(row, "moves_slope")]
            for row in rows
        ]
        headings = ["model", "prompts", "", "depth", "untrained", "slope over moves", "untrained"]
        write_table(headings, lines, "Where answers can be decoded and where they are readable, boundaries")
        if over:
            lines = [[str(row["blocks"]), row["what"].replace("_", " "), row["reading"], shown(row)] for row in over]
            title = f"Means over {over[0]['seeds']} seeds with Student's 95 % intervals"
            write_table(["blocks", "", "", "mean"], lines, title)
    return 0


def _cells(row: dict[str, Any], name: str) -> list[str]:
    if name not in row:
        return ["–", "–"]
    start = name.partition("_")[0]
    least, most = (row.get(f"untrained_{name}_{end}", float("nan")) for end in ("least", "most"))
    interval = f"{row[name]:+.2f} ({row[f'{start}_low']:+.2f} to {row[f'{start}_high']:+.2f})"
    return [interval, "–" if np.isnan(least) else f"{least:+.2f} to {most:+.2f}"]


if __name__ == "__main__":
    from cyclopts import App

    from studies.common.program import main

    app = App(name="decodable")
    app.default(decodable_command)
    sys.exit(main(None, app, "python -m studies.problem_depth.decodable"))
