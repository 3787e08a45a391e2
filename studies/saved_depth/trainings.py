"""The conditions and their trainings: tasks with and without written steps, and one task alone and mixed with texts.

Everything but the condition is the same within an experiment: shape, seed, optimiser, number of steps, and the problems
that a step reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bathyscope_lab.folder import SUMMARY
from bathyscope_lab.recipe import Recipe
from bathyscope_lab.train import train

from bathyscope import Model, load
from bathyscope.extend.prompts import task
from studies.saved_depth.expected import BATCH, CONTEXT, MIXED_TASK, SEEDS, SHAPE, STEPS, TASKS, TEXT_SHARES
from studies.saved_depth.mixing import read_texts, train_mixture


@dataclass(frozen=True)
class Condition:
    """What one model is trained on.

    Args:
        task: a key of ``TASKS``.
        written: whether the steps stand between question and answer.
        mixture: a key of ``TEXT_SHARES``; None = of the comparison of written steps.
    """

    task: str
    written: bool = False
    mixture: str | None = None

    @property
    def name(self) -> str:
        """The condition in letters of a file's name."""
        return f"{self.task}-{self.mixture or ('written' if self.written else 'at-once')}"


WRITING: Final = tuple(Condition(name, written) for name in TASKS for written in (False, True))
MIXING: Final = tuple(Condition(MIXED_TASK, mixture=mixture) for mixture in TEXT_SHARES)


def models() -> Iterator[tuple[Condition, int]]:
    """Yield every condition and seed, one comparison after another, so that an interrupted study has whole ones."""
    comparisons = [[condition for condition in WRITING if condition.task == name] for name in TASKS]
    for conditions in (comparisons[0], MIXING, *comparisons[1:]):
        for seed in SEEDS:
            for condition in conditions:
                yield condition, seed


def train_model(out: Path, condition: Condition, seed: int, texts: Path) -> tuple[Model, dict[str, float]]:
    """Train one model, or take it from its folder, and return it with what is known of held-out data.

    Args:
        out: folder of the study.
        condition: what it is trained on.
        seed: of weights, problems and the place in the texts.
        texts: a text file, for mixtures.
    """
    folder = out / "models" / f"{condition.name}-seed-{seed}"
    if condition.mixture is None:
        train(recipe_of(condition, seed), folder, device="cpu", progress=False)
        model = load(folder, device="cpu", dtype="float32")
    else:
        words = task(condition.task, **TASKS[condition.task]).words
        assert words is not None
        model = load(train_mixture(folder, TEXT_SHARES[condition.mixture], seed, read_texts(texts, words)))
    record: dict[str, Any] = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    return model, dict(record.get("held_out", record))


def recipe_of(condition: Condition, seed: int) -> Recipe:
    """Return the recipe of a condition with written steps or without."""
    steps = STEPS[condition.task]
    return Recipe.from_dict(
        {
            "name": condition.name,
            "seed": seed,
            "threads": 1,
            "model": SHAPE,
            "task": {"name": condition.task, "options": TASKS[condition.task]},
            "tokenizer": "words",
            "loss": "written" if condition.written else "answer",
            "steps": condition.written,
            "stages": [{"context": CONTEXT, "batch": BATCH}],
            "budget": {"steps": steps},
            "optimisation": {"learning_rate": 0.003, "warmup_steps": 30, "beta2": 0.98},
            "evaluation": {"every": steps, "problems": 100, "final_problems": 400},
            "saving": {"every": steps},
        }
    )
