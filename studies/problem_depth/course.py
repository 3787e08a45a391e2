"""When does depth that follows the problem appear: before a model can solve it, with it, or after?

    python -m studies.problem_depth.course MODEL... --out FOLDER

Models are folders of the laboratory whose recipe kept the weights of some steps (``saving.keep``), one seed each. Every
kept step is asked the same held-out problems and read on the same ones. What is followed is the slope of each reading
over the moves of a problem at equal steps, over problems of all levels, solved or not, so that no threshold decides
which count; step 0 is the model's own untrained control.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import xarray as xr
from bathyscope_lab.data import HELD_OUT_SEED
from bathyscope_lab.folder import RECIPE
from bathyscope_lab.recipe import Recipe
from bathyscope_lab.recipes import read_recipe

from bathyscope import load, solved, survey
from bathyscope.errors import OptionError
from studies.common.across_seeds import said, shown
from studies.common.checks import require_no_written_steps
from studies.common.command import Quiet, write_results
from studies.common.console import Format, write_data, write_table
from studies.common.problems import task_text
from studies.problem_depth.experiment import LEVEL, asked_first, levels_of
from studies.problem_depth.moves import moves_slopes
from studies.problem_depth.readings import MEASURES, OPTIONS, READINGS, readings

_STEP: Final = re.compile(r"step-(\d{7})")


def kept_steps(folder: Path) -> dict[int, Path]:
    """The models that a training kept, by step.

    Raises:
        OptionError: none is there.
    """
    found = {int(name[1]): path for path in sorted(folder.glob("steps/*")) if (name := _STEP.fullmatch(path.name))}
    if len(found) < 2:
        raise OptionError(
            f"{folder} holds the weights of {len(found)} steps of its training, two are needed; train it anew, into "
            "another folder, with --set saving.keep=[0,100,1000]."
        )
    return found


def course(folders: Sequence[str | Path], out: str | Path, asked: int = 50, progress: bool = True) -> xr.Dataset:
    """Accuracy, readings and their slopes over moves, at every kept step of every training.

    Args:
        folders: of trainings by one recipe that differ in their seed alone.
        out: folder of the surveys; what is finished there is not done again.
        asked: held-out problems of each level; a repeated one counts once.
        progress: show progress bars on standard error.

    Returns:
        ``accuracy`` (seed, step, steps): share of the problems of each level answered rightly; ``depth`` (seed, step,
        reading): means over all problems, in blocks or boundaries; ``moves_slope``, ``moves_low``, ``moves_high``
        (seed, step, reading): as ``moves_slopes``, over all levels.

    Raises:
        OptionError: no folders, steps that were not kept, recipes that differ in more than the seed, or no task.
        PromptError, ModelError, StoreError: as ``survey``.
    """
    trained = {Path(folder): read_recipe(str(Path(folder) / RECIPE)) for folder in folders}
    first = _one_recipe(trained)
    require_no_written_steps(first)
    levels = levels_of(first)
    steps = {folder: kept_steps(folder) for folder in trained}
    shared = sorted(set.intersection(*(set(own) for own in steps.values())))
    cells = []
    for folder, recipe in trained.items():
        assert recipe.task is not None
        problems = task_text(recipe.task.name, recipe.task.options, asked * len(levels))
        new = asked_first(recipe, asked * len(levels))
        for step in shared:
            model = load(steps[folder][step], device="cpu")
            right = solved(model, problems, seed=HELD_OUT_SEED, progress=progress).isel(prompt=new)
            own = Path(out) / "runs" / f"seed-{recipe.seed}-step-{step}"
            run = survey(model, problems, MEASURES, own, HELD_OUT_SEED, progress=progress, **OPTIONS)
            value = readings(run).isel(prompt=new)
            accuracy = [right["solved"].values[right[LEVEL].values == level].mean() for level in levels]
            cell = xr.Dataset(
                {"accuracy": (LEVEL, accuracy), "depth": ("reading", value.mean("prompt").values)},
                {LEVEL: list(levels), "reading": list(READINGS)},
            ).merge(moves_slopes(value, list(levels), LEVEL))
            cells.append(cell.expand_dims(seed=[recipe.seed], step=[step]))
    found = xr.combine_by_coords(cells)
    assert isinstance(found, xr.Dataset)
    return found.assign_attrs(
        recipe=recipe.name, blocks=str((recipe.model or {}).get("num_hidden_layers")), asked=asked
    )


def _one_recipe(trained: dict[Path, Recipe]) -> Recipe:
    """What all were trained by, but for the seed."""
    if not trained:
        raise OptionError("No model is given; give folders of trainings that kept the weights of some steps.")
    first, *others = trained.values()
    seeds = [recipe.seed for recipe in trained.values()]
    if len(set(seeds)) < len(seeds):
        raise OptionError(f"Two of the models have the same seed ({', '.join(map(str, seeds))}); give each seed once.")
    free = ("seed", "saving")
    content = {key: value for key, value in first.to_dict().items() if key not in free}
    for recipe in others:
        other = {key: value for key, value in recipe.to_dict().items() if key not in free}
        different = [key for key, value in content.items() if other[key] != value]
        if different:
            raise OptionError(f"The models' recipes differ in {', '.join(different)}; only the seed may differ.")
    return first


def rows_of(found: xr.Dataset) -> list[dict[str, float]]:
    """A row for each seed and kept step."""
    rows = []
    for seed in found["seed"].values.tolist():
        for step in found["step"].values.tolist():
            own = found.sel(seed=seed, step=step)
            row: dict[str, float] = {"seed": seed, "step": step, "accuracy": float(own["accuracy"].mean())}
            row |= {f"accuracy_{k}": float(own["accuracy"].sel(steps=k)) for k in own[LEVEL].values.tolist()}
            for name in own["reading"].values.tolist():
                one = own.sel(reading=name)
                row |= {f"{name}_depth": float(one["depth"])}
                row |= {f"{name}_{key}": float(one[key]) for key in ("moves_slope", "moves_low", "moves_high")}
            rows.append(row)
    return rows


def mean_rows(found: xr.Dataset) -> list[dict[str, float]]:
    """A row for each kept step: accuracy and slopes, means over seeds with Student's intervals; none of one seed."""
    rows = []
    for step in found["step"].values.tolist() if found.sizes["seed"] > 1 else []:
        own = found.sel(step=step)
        row: dict[str, float] = {"step": step}
        values = {"accuracy": own["accuracy"].mean(LEVEL)}
        values |= {f"{name}_moves_slope": own["moves_slope"].sel(reading=name) for name in READINGS}
        for name, value in values.items():
            over = said(value)
            row |= {f"{name}_mean": over["mean"], f"{name}_mean_low": over["low"], f"{name}_mean_high": over["high"]}
        rows.append(row)
    return rows


def course_command(*models: Path, out: Path, asked: int = 50, format: Format = "table", quiet: Quiet = False) -> int:
    """Follow accuracy and the slope of depth over a problem's moves through a training.

    Args:
        models: folders of trainings that kept the weights of some steps, one seed each.
        out: folder of the surveys, the figure and the results (netCDF).
        asked: held-out problems of each level.
        format: of the output.
        quiet: no progress and no messages.
    """
    from studies.problem_depth.course_figure import draw

    found = course(models, out, asked, progress=not quiet)
    write_results(found, draw, out, "course", quiet)
    rows, over_seeds = rows_of(found), mean_rows(found)
    if not write_data([*rows, *over_seeds], format):
        names = [READINGS[name].title for name in found["reading"].values.tolist()]
        lines = [
            [f"{row['seed']:.0f}", f"{row['step']:.0f}", f"{row['accuracy']:.2f}", *(_slope(row, n) for n in READINGS)]
            for row in rows
        ]
        write_table(["seed", "step", "solved", *names], lines, "Slope over moves at equal steps, 95 % intervals")
        means = [
            [
                f"{row['step']:.0f}",
                *(_mean(row, name) for name in ("accuracy", *(f"{n}_moves_slope" for n in READINGS))),
            ]
            for row in over_seeds
        ]
        if means:
            write_table(["step", "solved", *names], means, "Means over seeds, with Student's intervals")
    return 0


def _slope(row: dict[str, float], name: str) -> str:
    slope, low, high = (row[f"{name}_{key}"] for key in ("moves_slope", "moves_low", "moves_high"))
    return "–" if np.isnan(slope) else f"{slope:+.2f} ({low:+.2f} to {high:+.2f})"


def _mean(row: dict[str, float], name: str) -> str:
    return shown({"mean": row[f"{name}_mean"], "low": row[f"{name}_mean_low"], "high": row[f"{name}_mean_high"]})


if __name__ == "__main__":
    from cyclopts import App

    from studies.common.program import main

    app = App(name="course")
    app.default(course_command)
    sys.exit(main(None, app, "python -m studies.problem_depth.course"))
