"""How deep every model is at the answers of the same problems, with three untrained models of its shape."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from bathyscope_lab.batches import encode
from bathyscope_lab.data import HELD_OUT_SEED

from bathyscope import Model, Prompt, Run, survey
from bathyscope.extend.prompts import Problem, task
from studies.common.arrays import FloatArray
from studies.common.files import write_file
from studies.common.problems import LIKE_TRAINING, first_of_each
from studies.saved_depth.expected import CONTROLS, PROBLEMS, READINGS, TASKS
from studies.saved_depth.mixing import encode_words
from studies.saved_depth.trainings import Condition, models, train_model

RESULTS: Final = Path(__file__).parent / "results"
Record = dict[str, Any]
"""What is stored of one model: lists by problem, and facts of the training."""


def measure(out: Path, texts: Path, results: Path = RESULTS, tell: Callable[[str], None] = lambda _: None) -> None:
    """Train and measure every model that has no stored result yet.

    Args:
        out: folder of the trainings.
        texts: a text file for the mixtures.
        results: folder of the results, a file for each model.
        tell: takes a line about what is done next.
    """
    for condition, seed in models():
        file = results / f"{condition.name}-seed-{seed}.json"
        if file.exists():
            continue
        tell(f"{condition.name}, seed {seed}")
        started = time.process_time()
        model, held_out = train_model(out, condition, seed, texts)
        trained = time.process_time()
        record = {"condition": condition.name, "seed": seed, "held_out": held_out, **read_model(model, condition)}
        record["cpu_seconds"] = {
            "training": round(trained - started, 1),
            "measuring": round(time.process_time() - trained, 1),
        }
        record["versions"] = {library: version(library) for library in ("torch", "transformers")}
        write_file(file, (json.dumps(record, indent=None) + "\n").encode())


def problems_of(name: str, count: int = PROBLEMS) -> list[Problem]:
    """Return different held-out problems of a task, the same for every model."""
    made = task(name, **TASKS[name])
    several = [made.problem(index, HELD_OUT_SEED, LIKE_TRAINING) for index in range(4 * count)]
    return [problem for problem, is_new in zip(several, first_of_each(several)) if is_new][:count]


def prompts_of(problems: Sequence[Problem], condition: Condition, model: Model) -> list[Prompt]:
    """Return prompts that end with the answer, one token; with true written steps where these were learned."""
    words = task(condition.task, **TASKS[condition.task]).words or ()
    prompts = []
    for problem in problems:
        if condition.mixture is None:
            ids = encode(problem, model.tokenizer, steps=condition.written).ids[:-1]
        else:
            ids = encode_words(problem, words).ids[:-1]
        prompts.append(Prompt(ids=ids, answer_tokens=1, labels={"steps": int(problem.labels["k"])}))
    return prompts


@torch.no_grad()
def solves(model: Model, prompts: Sequence[Prompt]) -> list[bool]:
    """Return for each prompt whether the likeliest token before the answer is the answer."""
    hf: Any = model.hf
    rows = [list(prompt.ids or ()) for prompt in prompts]
    return [int(hf(torch.tensor([row[:-1]])).logits[0, -1].argmax()) == row[-1] for row in rows]


def read_model(model: Model, condition: Condition) -> Record:
    """Return questions, levels, which are solved, and the readings of the model and of untrained ones, by problem."""
    problems = problems_of(condition.task)
    prompts = prompts_of(problems, condition, model)
    control = f"untrained:{CONTROLS}"
    run = survey(
        model,
        prompts,
        ["lens", "depth_score"],
        control=control,
        progress=False,
        lens={"positions": "answer"},
    )
    untrained = [values_of(one) for one in run.controls.values()]
    return {
        "questions": [problem.question for problem in problems],
        "k": [int(problem.labels["k"]) for problem in problems],
        "solved": solves(model, prompts),
        **{name: _rounded(values) for name, values in values_of(run).items()},
        "untrained": {name: [_rounded(one[name]) for one in untrained] for name in READINGS},
    }


def values_of(run: Run) -> dict[str, FloatArray]:
    """Return every reading by problem."""
    scores = run["depth_score"].sel(reduction="max")
    return {
        "prediction": np.asarray(run["lens"]["prediction_depth"].values, np.float64),
        "settle": np.asarray(run["lens"]["settle_depth"].values, np.float64),
        "effect": np.asarray(scores["prompt_score_output"].values, np.float64),
    }


def _rounded(values: FloatArray) -> list[float | None]:
    return [round(float(value), 4) if np.isfinite(value) else None for value in values]
