"""Sequence-exact accuracy of a trained model on held-out problems, by module.

Source: csordas2025, trained comparison.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import compress
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import xarray as xr
from bathyscope_lab.batches import encode
from bathyscope_lab.data import HELD_OUT_SEED, HELD_OUT_SPLITS
from bathyscope_lab.evaluate import answer_scores
from bathyscope_lab.recipe import Recipe
from bathyscope_lab.tokenizer import special_ids
from statsmodels.stats.proportion import proportion_confint
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from bathyscope import Model
from bathyscope.extend.prompts import Problem, task
from studies.common.files import write_file
from studies.common.problems import first_of_each

COVERAGE: Final = 0.95
EVERY: Final = "all"
"""In place of a module: all modules that a split has, as many problems of each but for repeated ones."""

Scores = dict[str, dict[str, tuple[float, float, float, int]]]
"""Split → module → loss, accuracy, share of the commonest answer, number of problems."""
FORMAT: Final = 2
"""Of the file of scores; others are not read."""


def exact_answers(model: Model, recipe: Recipe, asked: int, kept: Path) -> xr.Dataset:
    """How often the whole answer, and the end after it, is what greedy decoding gives.

    Args:
        model: trained by ``recipe``.
        recipe: whose task has modules.
        asked: problems of each module and split, the same for all models and seeds; a repeated one counts once.
        kept: file of the scores; read again where they are of the same weights and problems.

    Returns:
        ``accuracy``, ``accuracy_low``, ``accuracy_high`` (split, module): share of problems and Wilson's 95 % interval;
        ``answer_loss`` (split, module): nats per token of the answers and their ends; ``commonest`` (split, module):
        share of the problems that have the commonest answer, which a model that always gives it gets right;
        ``n_problems`` (split, module). ``all`` stands beside the modules; NaN, and 0 problems, for a module that a
        split does not have.
    """
    assert recipe.task is not None
    asks = {"task": recipe.to_dict()["task"], "steps": recipe.steps, "asked": asked}
    identity = {"format": FORMAT, "weights": model.weight_hash, **asks}
    stored: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    if stored.get("identity") != identity:
        tokenizer = model.tokenizer
        assert tokenizer is not None
        stored = {"identity": identity, "scores": _scores(model.hf, tokenizer, recipe, asked)}
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_file(kept, json.dumps(stored).encode())
    modules = list(task(recipe.task.name, **recipe.task.options).levels("interpolate"))
    return _dataset(cast(Scores, stored["scores"]), [*map(str, modules), EVERY])


def _scores(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, recipe: Recipe, asked: int) -> Scores:
    assert recipe.task is not None
    made = task(recipe.task.name, **recipe.task.options)
    _, end = special_ids(tokenizer)
    found: Scores = {}
    for split in HELD_OUT_SPLITS:
        by_module: dict[str, list[Problem]] = {}
        drawn = [made.problem(index, HELD_OUT_SEED, split) for index in range(asked * len(made.levels(split)))]
        for problem in compress(drawn, first_of_each(drawn)):
            by_module.setdefault(str(problem.labels["module"]), []).append(problem)
        by_module[EVERY] = [one for own in by_module.values() for one in own]
        encoded = {name: [encode(one, tokenizer, recipe.steps) for one in own] for name, own in by_module.items()}
        found[split] = {
            name: (*answer_scores(model, encoded[name], end), _commonest(own), len(own))
            for name, own in by_module.items()
        }
    return found


def _commonest(problems: Sequence[Problem]) -> float:
    return Counter(problem.answer for problem in problems).most_common(1)[0][1] / len(problems)


def _dataset(scores: Scores, modules: Sequence[str]) -> xr.Dataset:
    missing = (np.nan, np.nan, np.nan, 0)
    found = np.array([[own.get(m, missing) for m in modules] for own in scores.values()])
    loss, accuracy, commonest, count = found.transpose(2, 0, 1)
    low, high = proportion_confint(accuracy * count, np.maximum(count, 1), 1 - COVERAGE, "wilson")
    dims = ("split", "module")
    data = {"accuracy": accuracy, "accuracy_low": low, "accuracy_high": high, "answer_loss": loss}
    data |= {"commonest": commonest, "n_problems": count.astype(np.int64)}
    return xr.Dataset(
        {name: (dims, np.asarray(values)) for name, values in data.items()},
        {"split": list(scores), "module": list(modules)},
    )
