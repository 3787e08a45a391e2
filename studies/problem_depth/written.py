"""Does writing replace depth? Models that write every intermediate state, beside models that answer at once.

    python -m studies.problem_depth.written MODEL... --out FOLDER

Models are folders of the laboratory trained on one task, some with written steps (``steps: true``, ``loss: written``).
Every model is given the question alone and writes greedily, steps and all where it was taught to; its answer is what it
writes last. Of the models that write, single steps are then read: the true steps before it are given, so that it is one
token that is asked for, and its depth is set against how many steps the whole problem takes, against whether this one
changes the state, and against the same model untrained.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import statsmodels.api as sm
import torch
import xarray as xr
from bathyscope_lab.batches import Encoded, encode
from bathyscope_lab.data import HELD_OUT_SEED
from bathyscope_lab.folder import RECIPE
from bathyscope_lab.recipe import Recipe
from bathyscope_lab.recipes import read_recipe
from scipy import stats

from bathyscope import Model, Prompt, load, survey
from bathyscope.errors import OptionError
from bathyscope.extend.prompts import Problem, task
from studies.common.across_seeds import said, shown
from studies.common.command import Quiet, write_results
from studies.common.console import Format, write_data, write_table
from studies.common.problems import LIKE_TRAINING, first_of_each
from studies.problem_depth.experiment import LEVEL, levels_of
from studies.problem_depth.operands import moving_factors
from studies.problem_depth.readings import MEASURES, OPTIONS, READINGS, readings

COVERAGE: Final = 0.95
_ROWS: Final = 64


def held_out(recipe: Recipe, count: int) -> list[Problem]:
    """The different ones of the first ``count`` held-out problems, which every model of the task is asked."""
    assert recipe.task is not None
    made = task(recipe.task.name, **recipe.task.options)
    drawn = [made.problem(index, HELD_OUT_SEED, LIKE_TRAINING) for index in range(count)]
    return [problem for problem, is_new in zip(drawn, first_of_each(drawn)) if is_new]


def written_tokens(model: Model, asked: Sequence[Encoded]) -> list[tuple[int, ...]]:
    """What the model writes greedily after each question, as many tokens as are asked for."""
    found: dict[int, tuple[int, ...]] = {}
    shapes = [(len(one.ids) - one.scored, one.scored - 1) for one in asked]
    for shape in dict.fromkeys(shapes):
        places = [place for place, own in enumerate(shapes) if own == shape]
        length, count = shape
        for first in range(0, len(places), _ROWS):
            own = places[first : first + _ROWS]
            ids = torch.tensor([asked[place].ids[:length] for place in own], device=model.device)
            options: dict[str, Any] = {"max_new_tokens": count, "do_sample": False, "eos_token_id": None}
            hf: Any = model.hf
            rows = hf.generate(ids, attention_mask=torch.ones_like(ids), pad_token_id=0, **options)
            found |= dict(zip(own, (tuple(row) for row in rows[:, length:].tolist())))
    return [found[place] for place in range(len(asked))]


def single_steps(problems: Sequence[Problem], model: Model) -> list[Prompt]:
    """Every written state of every problem, the answer among them, as a prompt that ends with it.

    Labels: the ``problem``, its ``steps``, the ``turn`` of the state, and whether it has ``moved`` from the last.

    Raises:
        OptionError: problems that do not ask where a point is sent.
    """
    prompts = []
    for number, problem in enumerate(problems):
        one = encode(problem, model.tokenizer, steps=True, score_steps=True)
        start, moving = len(one.ids) - one.scored, moving_factors(problem.question.split())
        for place in range(1, one.scored):
            labels = {LEVEL: int(problem.labels["k"]), "turn": place, "problem": number}
            labels["moved"] = int(place in moving)
            prompts.append(Prompt(ids=one.ids[: start + place], answer_tokens=1, labels=labels))
    return prompts


def step_slopes(value: xr.DataArray) -> xr.Dataset:
    """How a written state's reading goes with its problem's length, and with whether it changes.

    Args:
        value: (reading, prompt) of ``single_steps``.

    Returns:
        By reading: ``depth``, the mean; ``by_steps``, for each further step of the problem, and ``by_change``, of a
        state that changes less that of one that stays, both at equal place and with each other in the regression;
        ``_low`` and ``_high`` (least squares, Student's interval over problems, errors clustered by problem). NaN where
        all states read alike.
    """
    labels = {name: value[name].values for name in (LEVEL, "turn", "moved", "problem")}
    places = np.unique(labels["turn"])
    columns = np.column_stack([labels[LEVEL], labels["moved"], labels["turn"][:, None] == places]).astype(np.float64)
    freedom = len(np.unique(labels["problem"])) - 1
    reach = float(stats.t.ppf((1 + COVERAGE) / 2, freedom))
    found = np.full((value.sizes["reading"], 2, 3), np.nan)
    for row, own in zip(found, value.transpose("reading", "prompt").values):
        known = np.isfinite(own)
        if known.any() and np.ptp(own[known]) > 0:
            groups = {"groups": labels["problem"][known]}
            fitted = sm.OLS(own[known], columns[known]).fit(cov_type="cluster", cov_kwds=groups)
            for number in range(2):
                middle, error = float(fitted.params[number]), reach * float(fitted.bse[number])
                row[number] = middle, middle - error, middle + error
    data: dict[str, Any] = {"depth": ("reading", value.mean("prompt").values)}
    for number, name in enumerate(("by_steps", "by_change")):
        data |= {
            f"{name}{end}": ("reading", found[:, number, place]) for place, end in enumerate(("", "_low", "_high"))
        }
    return xr.Dataset(data, {"reading": value["reading"].values})


def written(
    folders: Sequence[str | Path],
    out: str | Path,
    asked: int = 200,
    measured: int = 10,
    controls: int = 3,
    progress: bool = True,
) -> xr.Dataset:
    """What every model answers, and how deep those that write are at a single step.

    Args:
        folders: of trainings on one task; those of equal depth that differ in their seed alone are a ``kind``.
        out: folder of the surveys; what is finished there is not done again.
        asked: held-out problems of each level; a repeated one counts once.
        measured: the same of the problems whose written states are read.
        controls: untrained models of each shape beside them.
        progress: show progress bars on standard error.

    Returns:
        ``accuracy`` (kind, seed, steps): share of the problems of each level whose answer, as the model writes it, is
        right; ``whole``: of those where all that it writes is. What ``step_slopes`` gives (kind, seed, reading), NaN
        for models that answer at once, and ``untrained_…`` the same of untrained ones (also by ``control``);
        ``state_depth`` (kind, seed, reading, steps, moved): means of the readings.

    Raises:
        OptionError: no folders, one that is no training on the task of the others, a kind and seed given twice, or
            written steps that the loss did not count.
        PromptError, ModelError, StoreError: as ``survey``.
    """
    recipes = {Path(folder): read_recipe(str(Path(folder) / RECIPE)) for folder in folders}
    levels = _one_task(recipes)
    cells = []
    for folder, recipe in recipes.items():
        model = load(folder, device="cpu", dtype="float32")
        problems = held_out(recipe, asked * len(levels))
        score = {"steps": recipe.steps, "score_steps": recipe.steps}
        wanted = [encode(problem, model.tokenizer, **score) for problem in problems]
        texts = [one.ids[-one.scored : -1] for one in wanted]
        wrote = written_tokens(model, wanted)
        of_level = [np.array([problem.labels["k"] == level for problem in problems]) for level in levels]
        right = np.array([own[-1] == text[-1] for own, text in zip(wrote, texts)])
        whole = np.array([own == text for own, text in zip(wrote, texts)])
        data = {"accuracy": (LEVEL, [right[own].mean() for own in of_level])}
        cell = xr.Dataset(data | {"whole": (LEVEL, [whole[own].mean() for own in of_level])}, {LEVEL: list(levels)})
        if recipe.steps:
            few = held_out(recipe, measured * len(levels))
            run_folder = Path(out) / "runs" / f"{_kind(recipe)}-seed-{recipe.seed}".replace(" ", "-").replace(",", "")
            control = f"untrained:{controls}" if controls else None
            prompts = single_steps(few, model)
            run = survey(model, prompts, MEASURES, run_folder, control=control, progress=progress, **OPTIONS)
            cell = cell.merge(step_slopes(readings(run)))
            cell["state_depth"] = _by_level(readings(run))
            if run.controls:
                beside = [step_slopes(readings(one)) for one in run.controls.values()]
                joined = xr.concat(beside, "control").assign_coords(control=list(run.controls))
                cell = cell.merge(joined.rename({name: f"untrained_{name}" for name in joined.data_vars}))
        cells.append(cell.expand_dims(kind=[_kind(recipe)], seed=[recipe.seed]))
    found = xr.combine_by_coords(cells, join="outer", compat="no_conflicts")
    assert isinstance(found, xr.Dataset)
    found = found.sel(kind=sorted(found["kind"].values.tolist(), key=lambda kind: int(kind.partition(" ")[0])))
    return found.assign_attrs(asked=asked, measured=measured)


def _kind(recipe: Recipe) -> str:
    blocks = (recipe.model or {}).get("num_hidden_layers")
    return f"{blocks} blocks, {'written' if recipe.steps else 'at once'}"


def _by_level(value: xr.DataArray) -> xr.DataArray:
    """Means of the states that stay and of those that change, (reading, steps, moved)."""
    halves = [value.isel(prompt=value["moved"].values == moved) for moved in (0, 1)]
    means_of = [own.groupby(LEVEL).mean("prompt") for own in halves]
    return xr.concat(means_of, "moved").assign_coords(moved=[0, 1])


def _one_task(recipes: dict[Path, Recipe]) -> tuple[int, ...]:
    """The levels of the task that all were trained on."""
    if not recipes:
        raise OptionError("No model is given; give folders of trainings, some of them with written steps.")
    first = next(iter(recipes.values()))
    named = [(_kind(recipe), recipe.seed) for recipe in recipes.values()]
    for folder, recipe in recipes.items():
        if recipe.task != first.task:
            raise OptionError(f"{folder} was trained on another task or other options of it; give models of one task.")
        if recipe.steps and recipe.loss == "answer":
            raise OptionError(f"{folder} was not taught to write its steps; train with --set loss=written.")
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise OptionError(f"Two models are {twice[0]} of seed {twice[1]}; give each once.")
    return levels_of(first)


def rows_of(found: xr.Dataset) -> list[dict[str, Any]]:
    """A row for each kind and number of steps, and one for each kind that writes and reading; means over seeds."""
    rows: list[dict[str, Any]] = []
    for kind in found["kind"].values.tolist():
        own = found.sel(kind=kind)
        for name in ("accuracy", "whole"):
            for level in own[LEVEL].values.tolist():
                rows.append({"kind": kind, "what": name, "steps": level, **said(own[name].sel(steps=level))})
        for reading in own["reading"].values.tolist() if "reading" in own.dims else []:
            one = own.sel(reading=reading)
            for name in ("depth", "by_steps", "by_change"):
                if bool(one[name].notnull().any()):
                    row = {"kind": kind, "what": name, "reading": reading, **said(one[name])}
                    if f"untrained_{name}" in one:
                        null = one[f"untrained_{name}"].mean("seed")
                        row |= {"untrained_least": float(null.min()), "untrained_most": float(null.max())}
                    rows.append(row)
    return rows


def written_command(
    *models: Path,
    out: Path,
    asked: int = 200,
    measured: int = 10,
    controls: int = 3,
    format: Format = "table",
    quiet: Quiet = False,
) -> int:
    """Set models that write their steps beside models that answer at once, and read single written steps.

    Args:
        models: folders of trainings on one task, with written steps and without.
        out: folder of the surveys, the figure and the results (netCDF).
        asked: held-out problems of each level.
        measured: the same of the problems whose written states are read.
        controls: untrained models of each shape beside those that write.
        format: of the output.
        quiet: no progress and no messages.
    """
    from studies.problem_depth.written_figure import draw

    found = written(models, out, asked, measured, controls, progress=not quiet)
    write_results(found, draw, out, "written", quiet)
    rows = rows_of(found)
    if not write_data(rows, format):
        _show(found, rows)
    return 0


def _show(found: xr.Dataset, rows: Sequence[dict[str, Any]]) -> None:
    levels = found[LEVEL].values.tolist()
    lines = []
    for kind in found["kind"].values.tolist():
        for name, title in (("accuracy", "answer"), ("whole", "all that is written")):
            own = [row for row in rows if (row["kind"], row["what"]) == (kind, name)]
            shares = [f"{row['mean']:.2f} ({row['least']:.2f}–{row['most']:.2f})" for row in own]
            lines.append([f"{kind} ({own[0]['seeds']})", title, *shares])
    title = "Share of held-out problems right by steps k: mean over seeds (least to most)"
    write_table(["kind (seeds)", "right", *(f"k={level}" for level in levels)], lines, title)
    titles = {"depth": "mean", "by_steps": "for each step of the problem", "by_change": "changes less stays"}
    lines = [
        [row["kind"], READINGS[row["reading"]].title, titles[row["what"]], shown(row), _range(row)]
        for row in rows
        if "reading" in row
    ]
    title = "Readings of single written states: mean over seeds, Student's 95 % interval; untrained, least to most"
    write_table(["kind", "reading", "", "trained", "untrained"], lines, title)


def _range(row: dict[str, Any]) -> str:
    least, most = (row.get(f"untrained_{end}", math.nan) for end in ("least", "most"))
    return "–" if math.isnan(least) else f"{least:+.2f} to {most:+.2f}"


if __name__ == "__main__":
    from cyclopts import App

    from studies.common.program import main

    app = App(name="written")
    app.default(written_command)
    sys.exit(main(None, app, "python -m studies.problem_depth.written"))
