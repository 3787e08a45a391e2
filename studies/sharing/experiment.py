"""Does a model that shares its layers use its depth otherwise than one that does not?

A Transformer and a MoEUT of equally many parameters are trained on the same arithmetic, with the loss on all tokens or
on the answer only, each with several seeds. Of every model it is asked which problems it answers exactly, like those
of training and beyond, and how deep it works. Source: csordas2025, trained comparison.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

import torch
import xarray as xr
from bathyscope_lab.model import build_model
from bathyscope_lab.recipe import Recipe
from bathyscope_lab.recipes import read_recipe
from bathyscope_lab.tokenizer import character_tokenizer
from bathyscope_lab.train import train

from bathyscope import load
from bathyscope.errors import OptionError, did_you_mean
from bathyscope.extend.prompts import task
from studies.common.across_seeds import differences, means
from studies.common.checks import (
    require_each_at_least,
    require_each_once,
    require_no_written_steps,
    require_one_at_least,
)
from studies.common.problems import task_text
from studies.sharing.depth_and_accuracy import depth_and_accuracy
from studies.sharing.exact_answers import exact_answers
from studies.sharing.readings import depths, probe_maps

TASK: Final = "arithmetic"
LOSSES: Final = ("all", "answer")
ALIKE: Final = ("task", "tokenizer", "steps", "stages", "budget", "optimisation", "precision")
"""What two recipes must have in common for their seeds to be pairs."""
QUANTITIES: Final = {
    "training_loss": "nats/token",
    "answer_loss": "nats/token",
    "accuracy": "1",
    "ratio": "1",
    "score": "block",
    "erasure_depth": "boundary",
}
"""Variables that are summed up over seeds, and their units."""


@dataclass(frozen=True)
class Sharing:
    """What is trained and asked.

    Args:
        recipes: the two that are compared, on the same arithmetic; differences are the first less the second.
        losses: on all tokens, on the answer alone, or both.
        seeds: of weights and training problems; each is a model of its own.
        asked: held-out problems of each module and split that are answered.
        measured: held-out problems of each module that are measured.
        reference: prompts whose mean residual stream takes an erased one's place; None = one other example, the first
            held-out problem.
        tolerance: largest relative difference in the number of parameters.
    """

    recipes: tuple[str, ...] = ("arithmetic_transformer", "arithmetic_moeut")
    losses: tuple[str, ...] = LOSSES
    seeds: tuple[int, ...] = (0, 1, 2)
    asked: int = 200
    measured: int = 20
    reference: str | None = None
    tolerance: float = 0.01

    def __post_init__(self) -> None:
        if len(self.recipes) != 2:
            raise OptionError(f"recipes has {len(self.recipes)} members; give the two that are to be compared.")
        if not self.losses or not self.seeds:
            raise OptionError("losses and seeds are empty; give at least one of each, such as losses all and seeds 0.")
        for loss in self.losses:
            if loss not in LOSSES:
                raise OptionError(
                    f"losses: {loss!r} is not allowed.{did_you_mean(loss, LOSSES)} Allowed: {', '.join(LOSSES)}."
                )
        require_each_at_least(self, "seeds", 0)
        require_each_once(self, "losses", "seeds")
        require_one_at_least(self, "asked", "measured")
        if not self.tolerance >= 0:
            raise OptionError(
                f"tolerance={self.tolerance} is out of range; give a share of the parameters, such as 0.01."
            )


def sharing(
    options: Sharing,
    out: str | Path,
    device: str | None = None,
    progress: bool = True,
    changes: tuple[str, ...] = (),
) -> xr.Dataset:
    """Trains, asks and measures; what is finished under ``out`` is not done again.

    Args:
        options: what is trained and asked.
        out: folder of models, runs and scores.
        device: ``cpu`` or ``cuda``; None = the first accelerator, else the CPU.
        progress: show progress bars on standard error.
        changes: of both recipes, ``KEY=VALUE``.

    Returns:
        By recipe, loss and seed: ``parameters``, ``n_blocks`` (execution steps), ``training_loss`` (nats per token that
        counts, last fiftieth of the steps), and what ``exact_answers``, ``depths`` and ``probe_maps`` give. ``value``
        (recipe, loss, seed, quantity): all losses, accuracies and depths in a row;
        ``mean``, ``mean_low``, ``mean_high``, ``mean_seeds`` (recipe, loss, quantity) and ``difference``,
        ``difference_low``, ``difference_high``, ``difference_seeds`` (loss, quantity) as in ``across_seeds``. Over all
        models what ``depth_and_accuracy`` gives.

    Raises:
        OptionError: recipes that cannot be compared; raised before training.
        OptionError, PromptError, ModelError, StoreError: as ``train`` and ``survey``.
    """
    recipes = {
        (source, loss, seed): read_recipe(source, [*changes, f"loss={loss}", f"seed={seed}"])
        for source, loss, seed in itertools.product(options.recipes, options.losses, options.seeds)
    }
    check_comparable([recipes[source, options.losses[0], options.seeds[0]] for source in options.recipes], options)
    column = partial(_column, options=options, out=Path(out), device=device, progress=progress)
    # seed by seed, so that an interrupted experiment has whole pairs
    columns = [
        [[column(recipes[source, loss, seed]) for source in options.recipes] for loss in options.losses]
        for seed in options.seeds
    ]
    found = xr.combine_nested(columns, ["seed", "loss", "recipe"], join="outer", fill_value={"piece": ""})
    assert isinstance(found, xr.Dataset)
    value = in_a_row(found)
    said = {key: str(one) for key, one in asdict(options).items()}
    hashes = ", ".join(f"{one.name} {one.loss} {one.seed}: {one.hash()}" for one in recipes.values())
    return found.assign(
        {
            "value": value,
            **means(value).data_vars,
            **differences(value, "recipe").data_vars,
            **depth_and_accuracy(value, found["n_blocks"]).data_vars,
        }
    ).assign_attrs({**said, "hashes": hashes})


def _column(recipe: Recipe, options: Sharing, out: Path, device: str | None, progress: bool) -> xr.Dataset:
    """All there is to say of one model."""
    assert recipe.task is not None
    name = f"{recipe.name}-{recipe.loss}-seed-{recipe.seed}"
    trained = train(recipe, out / "models" / name, device=device, progress=progress)
    model = load(trained.folder, device=device)
    modules = task(recipe.task.name, **recipe.task.options).levels("interpolate")
    prompts = task_text(recipe.task.name, recipe.task.options, options.measured * len(modules))
    reference = options.reference or task_text(recipe.task.name, recipe.task.options, 1)
    numbers = {
        "parameters": trained.summary["parameters"],
        "n_blocks": model.n_blocks,
        "training_loss": trained.summary["last_loss"],
    }
    found = xr.merge(
        [
            xr.Dataset(numbers),
            exact_answers(model, recipe, options.asked, out / "answers" / f"{name}.json"),
            depths(model, prompts, out / "runs" / name, progress),
            probe_maps(model, reference, out / "probes" / name, progress),
        ],
        join="exact",
        compat="no_conflicts",
    )
    return found.expand_dims(recipe=[recipe.name], loss=[recipe.loss], seed=[recipe.seed])


def in_a_row(found: xr.Dataset) -> xr.DataArray:
    """Every quantity under a name such as ``accuracy/extrapolate/mul``, (recipe, loss, seed, quantity).

    Those without a value in any model, such as accuracies on problems that a module does not have, are left out.
    """
    models = ("recipe", "loss", "seed")
    rows: dict[str, xr.DataArray] = {}
    units = []
    for name, unit in QUANTITIES.items():
        others = [str(dim) for dim in found[name].dims if dim not in models]
        for chosen in itertools.product(*(found[dim].values.tolist() for dim in others)):
            one = found[name].sel(dict(zip(others, chosen))).reset_coords(drop=True)
            if bool(one.notnull().any()):
                rows["/".join([name, *chosen])] = one
                units.append(unit)
    value = xr.concat(list(rows.values()), "quantity").transpose(*models, "quantity")
    return value.assign_coords(quantity=list(rows), units=("quantity", units)).rename("value")


def check_comparable(recipes: Sequence[Recipe], options: Sharing) -> None:
    first, second = recipes
    for source, recipe in zip(options.recipes, recipes):
        if recipe.model is None or recipe.task is None or recipe.task.name != TASK:
            raise OptionError(
                f"recipes: {source!r} is no new model on the task {TASK}, whose problems are asked and measured here; "
                "give a recipe with model: and task: {name: arithmetic}."
            )
        require_no_written_steps(recipe)
    if first.name == second.name:
        raise OptionError(f"recipes: both are called {first.name!r}; give them different names (name: in the recipe).")
    parts = [part for part in ALIKE if getattr(first, part) != getattr(second, part)]
    if parts:
        raise OptionError(
            f"recipes: {first.name} and {second.name} differ in {', '.join(parts)}, so that their seeds are no pairs; "
            "give both the same."
        )
    counts = {recipe.name: _parameters(recipe) for recipe in recipes}
    gap = abs(counts[first.name] / counts[second.name] - 1)
    if gap > options.tolerance:
        listed = ", ".join(f"{name} {count:,}" for name, count in counts.items())
        raise OptionError(
            f"recipes: parameters differ by {gap:.2%} ({listed}; with a vocabulary of bytes), more than the tolerance "
            f"of {options.tolerance:.1%}; change a width or the number of experts, or allow more with tolerance=."
        )


def _parameters(recipe: Recipe) -> int:
    """Parameters of a recipe's model over the bytes' vocabulary, since a trained one is not there yet."""
    assert recipe.model is not None
    with torch.device("meta"):
        return build_model(recipe.model, character_tokenizer(), recipe.context).num_parameters()
