"""Are the blocks used that a model was grown by? Courses of the grown model and of one from nothing, for each seed.

The null of a copy is the moment of growth: step 0 of the grown model's course, before the copies have learnt anything.
The yardstick is the model of 8 blocks from nothing: what its blocks at the same places cost to leave out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr
from scipy import stats

import bathyscope
from bathyscope import diff
from studies.growth.trainings import COPIES, ORIGINALS, train_models

PROMPTS: Final = "problems:16?steps=1-4"
_SEED_OF_PROMPTS: Final = 77


@dataclass(frozen=True)
class Grown:
    """What one seed showed.

    Args:
        seed: of the trainings.
        courses: kind of model → its course.
        added: kind → loss added without each block at the last step, [prompts, blocks].
        at_growth: the same of the grown model at step 0.
        copy_effect: KL in nats a token when the trained copies are put back to what they were copied from.
    """

    seed: int
    courses: dict[str, xr.Dataset]
    added: dict[str, np.ndarray]
    at_growth: np.ndarray
    copy_effect: float


def growth(
    out: Path, seeds: Sequence[int], steps: int, *, yardstick: bool = True, progress: bool = True
) -> list[Grown]:
    """Train, survey the kept checkpoints, and return what each seed showed; what is there is not made again.

    Args:
        out: folder of models and courses.
        seeds: of the trainings.
        steps: before the growth and after it.
        yardstick: also train models of the full depth from nothing.
    """
    results = []
    for seed in seeds:
        trainings = train_models(out / "models", seed, steps, yardstick=yardstick, progress=progress)
        courses = {}
        trained = {"grown": trainings.grown, "scratch": trainings.scratch}
        for kind, model in trained.items():
            if model is None:
                continue
            folder = model / "steps"
            place = out / "courses" / f"{kind}_{seed}"
            courses[kind] = bathyscope.course(folder, PROMPTS, place, seed=_SEED_OF_PROMPTS, progress=progress)
            bathyscope.report(courses[kind], out / f"{kind}_{seed}.html")
        added = {kind: _added(out / "courses" / f"{kind}_{seed}", -1) for kind in courses}
        difference = diff(trainings.grown, trainings.start, PROMPTS, seed=_SEED_OF_PROMPTS)
        # The copies alone: what the grown model loses where they are as they were when they were made.
        effect = float(difference["graft_mean"].sel(block=list(COPIES)).sum())
        results.append(
            Grown(
                seed,
                {kind: course.data for kind, course in courses.items()},
                added,
                _added(out / "courses" / f"grown_{seed}", 0),
                effect,
            )
        )
    return results


def _added(course: Path, place: int) -> np.ndarray:
    """Return the loss added without each block at a surveyed step, [prompts, blocks]."""
    folder = sorted(course.glob("step-*"))[place]
    drop = bathyscope.open(folder)["drop"]
    added: np.ndarray = (drop["loss"] - drop["baseline_loss"]).transpose("prompt", "dropped").values
    return added


def summary(results: Sequence[Grown]) -> dict[str, Any]:
    """Return means over seeds with Student's intervals over them, for copies, originals and the model from nothing.

    A seed is one training, so that the interval is over trainings and not over prompts.
    """
    rows = {
        "copies at the growth": [float(r.at_growth[:, COPIES].mean()) for r in results],
        "copies at the end": [float(r.added["grown"][:, COPIES].mean()) for r in results],
        "copies, end less growth": [
            float(r.added["grown"][:, COPIES].mean() - r.at_growth[:, COPIES].mean()) for r in results
        ],
        "originals at the end": [float(r.added["grown"][:, ORIGINALS].mean()) for r in results],
        "loss at the growth": [float(r.courses["grown"]["loss"][0]) for r in results],
        "loss at the end": [float(r.courses["grown"]["loss"][-1]) for r in results],
    }
    if all("scratch" in r.courses for r in results):
        rows["same places from nothing"] = [float(r.added["scratch"][:, COPIES].mean()) for r in results]
        rows["loss at the end, grown less from nothing"] = [
            float(r.courses["grown"]["loss"][-1] - r.courses["scratch"]["loss"][-1]) for r in results
        ]
    return {name: {"seeds": values, **_interval(values)} for name, values in rows.items()}


def _interval(values: Sequence[float]) -> dict[str, float]:
    """Return the mean over seeds with Student's 95 % interval."""
    count = len(values)
    mean = float(np.mean(values))
    if count < 2:
        return {"mean": mean, "low": float("nan"), "high": float("nan")}
    reach = float(stats.t.ppf(0.975, count - 1) * np.std(values, ddof=1) / np.sqrt(count))
    return {"mean": mean, "low": mean - reach, "high": mean + reach}


def record_of(results: Sequence[Grown]) -> dict[str, Any]:
    """Return what is stored: the summary, and by seed and kind the course's numbers."""
    by_seed: dict[str, dict[str, Any]] = {}
    for r in results:
        by_seed[str(r.seed)] = {
            kind: {
                "step": course["step"].values.tolist(),
                **{
                    name: np.round(course[name].values, 5).tolist()
                    for name in ("readable", "own", "idle_blocks", "loss", "added_loss", "skip_effect")
                },
                "matters_from": [None if step != step else int(step) for step in course["matters_from"].values],
                "text": text_of(course),
            }
            for kind, course in r.courses.items()
        }
        by_seed[str(r.seed)]["copies put back"] = round(r.copy_effect, 5)
    return {"summary": summary(results), "seeds": by_seed}


def text_of(course: xr.Dataset) -> str:
    """Return which blocks never come to matter."""
    never = [int(block) for block, step in enumerate(course["matters_from"].values) if step != step]
    return "Every block comes to matter." if not never else f"Never mattering: {', '.join(map(str, never))}."
