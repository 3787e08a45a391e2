"""Do models use more of their depth for problems that need more steps?

Models of several depths are trained on one task by one recipe, with several seeds. Of each it is asked which levels of
the task (k steps) it solves on held-out problems, and, over the levels it solves, whether readings of depth rise with
k. Source: csordas2025 (depth score by difficulty), on tasks whose sequential depth is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr
from bathyscope_lab.data import HELD_OUT_SEED
from bathyscope_lab.recipe import Recipe
from bathyscope_lab.recipes import read_recipe
from bathyscope_lab.train import train
from numpy.typing import NDArray
from statsmodels.stats.proportion import proportion_confint

from bathyscope import Model, load, solved, survey
from bathyscope.errors import OptionError
from bathyscope.extend.prompts import task
from bathyscope.extend.statistics import holm, trend
from studies.common.checks import (
    require_each_at_least,
    require_each_once,
    require_no_written_steps,
    require_one_at_least,
)
from studies.common.problems import LIKE_TRAINING, first_of_each, task_text
from studies.problem_depth.classes import by_class
from studies.problem_depth.moves import LABEL, moves_slopes
from studies.problem_depth.readings import MEASURES, OPTIONS, READINGS, readings

LEVEL: Final = "steps"
"""The label of prompts that says how many steps a problem takes."""
_COVERAGE: Final = 0.95
Nulls = dict[str, xr.DataArray]
"""Readings of untrained models, (reading, prompt), by their names."""


@dataclass(frozen=True)
class ProblemDepth:
    """What is trained and asked.

    Args:
        recipe: of one model, on a task; blocks and seed are put in here.
        blocks: depths of the models, each 1 or more.
        seeds: of weights and training problems, each 0 or more; each is a model of its own.
        asked: held-out problems of each level that say whether it is solved; a repeated one counts once.
        measured: held-out problems of each level that are measured; a repeated one counts once.
        solved_from: a level is solved where that share of its problems is.
        controls: untrained models of each depth, measured on the same problems; 0 = none, then nothing can be put down
            to training. They are drawn from seeds of their own, and so stand beside every seed.
    """

    recipe: str = "permutations"
    blocks: tuple[int, ...] = (2, 4, 8, 12)
    seeds: tuple[int, ...] = (0, 1, 2)
    asked: int = 200
    measured: int = 40
    solved_from: float = 0.9
    controls: int = 3

    def __post_init__(self) -> None:
        if not self.blocks or not self.seeds:
            raise OptionError("blocks and seeds are empty; give at least one of each, such as blocks 2,4 and seeds 0.")
        require_each_at_least(self, "blocks", 1)
        require_each_at_least(self, "seeds", 0)
        require_each_once(self, "blocks", "seeds")
        require_one_at_least(self, "asked", "measured")
        if not 0 < self.solved_from <= 1:
            raise OptionError(f"solved_from={self.solved_from} is out of range; give a share of problems, 0 to 1.")
        if self.controls < 0:
            raise OptionError(f"controls={self.controls} is out of range; give 0 or more, 3 to speak of training.")


def problem_depth(
    options: ProblemDepth,
    out: str | Path,
    device: str | None = None,
    progress: bool = True,
    changes: tuple[str, ...] = (),
) -> xr.Dataset:
    """Trains, asks and measures; what is finished under ``out`` is not done again.

    Args:
        options: what is trained and asked.
        out: folder of models and runs.
        device: ``cpu`` or ``cuda``; None = the first accelerator, else the CPU.
        progress: show progress bars on standard error.
        changes: of the recipe, ``KEY=VALUE``.

    Returns:
        ``accuracy`` with ``accuracy_low``, ``accuracy_high`` (blocks, seed, steps): share of held-out problems solved,
        Wilson's interval; ``n_problems``, how many different ones they are; ``solved`` (blocks, seed, steps), and
        ``on_edge``, where the interval holds ``solved_from``, so that another precision or other problems may decide
        otherwise; the attribute ``precision`` says in which they were asked.
        ``value`` (reading, blocks, seed, prompt): the readings in blocks or boundaries; the problems' labels that are
        numbers are coordinates, such as ``prompt_steps``. ``slope``, ``ci_low``,
        ``ci_high``, ``p_value``, ``p_holm`` (reading, blocks, seed): the readings' trend over the steps of solved
        levels; NaN, and ``reason`` says why, where fewer than two are solved. ``right_slope``, ``right_ci_low``, … :
        the same over all problems that are answered rightly, of any level, on which no threshold decides.
        ``moves_slope``, ``moves_low``, ``moves_high`` (reading, blocks, seed), where problems are labelled with moves:
        the slope over these at equal steps. ``untrained_slope``, ``untrained_ci_low``, ``untrained_moves_slope``, … :
        the same of untrained models, over the same levels (also by ``control``).
        ``right`` (blocks, seed, prompt): whether a measured problem is answered rightly; and of every two depths what
        ``by_class`` gives.

    Raises:
        OptionError: a recipe without a task or with written steps (both before any training), and as ``train``.
        PromptError, ModelError, StoreError: as ``train`` and ``survey``.
    """
    folder = Path(out)
    recipes = {
        (blocks, seed): read_recipe(options.recipe, [*changes, f"model.num_hidden_layers={blocks}", f"seed={seed}"])
        for blocks in options.blocks
        for seed in options.seeds
    }
    first = next(iter(recipes.values()))
    require_no_written_steps(first)
    levels = levels_of(first)
    columns = []
    nulls: dict[int, Nulls] = {}
    for (blocks, seed), recipe in recipes.items():
        name = f"{blocks}-blocks-seed-{seed}"
        trained = train(recipe, folder / "models" / name, device=device, progress=progress)
        model = load(trained.folder, device=device)
        column, nulls[blocks] = _column(
            model, recipe, levels, options, folder / "runs" / name, nulls.get(blocks), progress
        )
        columns.append(column.expand_dims(blocks=[blocks], seed=[seed]))
    found = xr.combine_by_coords(columns, combine_attrs="drop_conflicts")
    assert isinstance(found, xr.Dataset)
    for begin in ("", "right_"):
        p_values = found[f"{begin}p_value"].values
        found[f"{begin}p_holm"] = found[f"{begin}p_value"].copy(data=holm(p_values.ravel()).reshape(p_values.shape))
    moves = found[f"prompt_{LABEL}"].values if f"prompt_{LABEL}" in found.coords else None
    classes = by_class(found["value"], found["right"], found["prompt_steps"].values, moves)
    found = found.merge(classes, join="exact")
    return found.assign_attrs({**{key: str(value) for key, value in asdict(options).items()}, **_said(recipes)})


def _column(
    model: Model,
    recipe: Recipe,
    levels: tuple[int, ...],
    options: ProblemDepth,
    out: Path,
    nulls: Nulls | None,
    progress: bool,
) -> tuple[xr.Dataset, Nulls]:
    """All there is to say of one model, and the readings of untrained ones of its shape, read here where not given."""
    assert recipe.task is not None
    asked, measured = (
        task_text(recipe.task.name, recipe.task.options, count * len(levels))
        for count in (max(options.asked, options.measured), options.measured)
    )
    answered = solved(model, asked, seed=HELD_OUT_SEED, progress=progress)
    new = asked_first(recipe, answered.sizes["prompt"])
    # more problems of a kind begin with fewer of it
    count = options.asked * len(levels)
    first = answered.isel(prompt=slice(count)).isel(prompt=new[:count])
    right = [first["solved"].values[first[LEVEL].values == level] for level in levels]
    accuracy = np.array([own.mean() for own in right])
    low, high = proportion_confint(
        np.array([own.sum() for own in right]), np.array([len(own) for own in right]), 1 - _COVERAGE, "wilson"
    )
    is_solved = accuracy >= options.solved_from
    control = f"untrained:{options.controls}" if options.controls and nulls is None else None
    run = survey(model, measured, MEASURES, out, HELD_OUT_SEED, control=control, progress=progress, **OPTIONS)
    new = new[: len(run.prompts)]
    value = readings(run).isel(prompt=new)
    solved_levels = [level for level, one in zip(levels, is_solved) if one]
    data = {
        "accuracy": (LEVEL, accuracy),
        "accuracy_low": (LEVEL, np.asarray(low)),
        "accuracy_high": (LEVEL, np.asarray(high)),
        "solved": (LEVEL, is_solved),
        "on_edge": (LEVEL, (np.asarray(low) < options.solved_from) & (options.solved_from <= np.asarray(high))),
        "n_problems": (LEVEL, [len(own) for own in right]),
    }
    coords = {LEVEL: list(levels), "reading": list(READINGS)}
    is_right = answered["solved"].values[: len(new)][new] == 1

    def both(value: xr.DataArray) -> xr.Dataset:
        """Slopes over the solved levels, and over what is answered rightly."""
        over_right = _slopes(value.isel(prompt=is_right), list(levels))
        return _slopes(value, solved_levels).merge(over_right.rename({n: f"right_{n}" for n in over_right.data_vars}))

    slopes = [both(value)]
    if nulls is None:
        nulls = {name: readings(one) for name, one in run.controls.items()}
    if nulls:
        beside = [both(one.isel(prompt=new)) for one in nulls.values()]
        joined = xr.concat(beside, "control").assign_coords(control=list(nulls))
        slopes.append(joined.rename({name: f"untrained_{name}" for name in joined.data_vars}))
    labels = {name: own.values for name, own in value.coords.items() if own.dims == ("prompt",) and name != "prompt"}
    numbers = {f"prompt_{name}": ("prompt", own) for name, own in labels.items() if own.dtype.kind in "if"}
    per_prompt = value.drop_vars(labels).assign_coords(numbers)
    attrs = {"precision": run.identity.dtype}
    own = xr.Dataset({**data, "value": per_prompt, "right": ("prompt", is_right)}, coords, attrs)
    return xr.merge([own, *slopes], join="exact"), nulls


def _slopes(value: xr.DataArray, levels: list[int]) -> xr.Dataset:
    """Trends over steps, and over moves at equal steps where problems say them."""
    found = xr.Dataset(trends(value, levels), {"reading": list(READINGS)})
    return found.merge(moves_slopes(value, levels, LEVEL)) if LABEL in value.coords else found


def asked_first(recipe: Recipe, count: int) -> NDArray[np.bool_]:
    """Which of the first held-out problems ask what none before them asks; few steps make few problems."""
    assert recipe.task is not None
    made = task(recipe.task.name, **recipe.task.options)
    return np.array(first_of_each([made.problem(index, HELD_OUT_SEED, LIKE_TRAINING) for index in range(count)]))


def trends(value: xr.DataArray, levels: list[int]) -> dict[str, tuple[str, Any]]:
    """Every reading's trend over the problems of some levels."""
    own = value.isel(prompt=np.isin(value[LEVEL].values, levels))
    found = [trend(own.sel(reading=name).values, own[LEVEL].values, coverage=_COVERAGE) for name in READINGS]
    names: Mapping[str, str] = {"slope": "slope", "ci_low": "ci_low", "ci_high": "ci_high", "p_value": "p_value"}
    data: dict[str, tuple[str, Any]] = {
        name: ("reading", np.array([getattr(one, source) for one in found])) for name, source in names.items()
    }
    return {**data, "reason": ("reading", np.array([one.reason for one in found], dtype=object))}


def levels_of(recipe: Recipe) -> tuple[int, ...]:
    """The levels that are trained on."""
    if recipe.task is None:
        raise OptionError(f"The recipe {recipe.name!r} trains on texts; depth by steps needs one with a task.")
    levels = tuple(task(recipe.task.name, **recipe.task.options).levels("interpolate"))
    if not all(isinstance(level, int) for level in levels):
        raise OptionError(
            f"The task {recipe.task.name!r} of the recipe {recipe.name!r} has no numbers of steps, but "
            f"{', '.join(map(str, levels))}; take permutations, pointer_chasing or nested_arithmetic."
        )
    return tuple(level for level in levels if isinstance(level, int))


def _said(recipes: Mapping[tuple[int, int], Recipe]) -> dict[str, str]:
    return {"recipes": ", ".join(f"{blocks}×{seed}: {recipe.hash()}" for (blocks, seed), recipe in recipes.items())}
