"""Readings that are one number: the verdict's, the estimators of effective depth, the frozen lens, depth scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from bathyscope import Run
from studies.planted.reading import Reading
from studies.planted.truth import Truth

NEARLY_ALL = 0.97
"""Share of the tokens whose prediction a map finds."""


def depth_readings() -> list[Reading]:
    """The verdict's five, the nine estimators, the lens with a frozen norm and behind maps, depth scores."""
    return [*_verdict(), *_estimators(), *_frozen(), _depth("translated_lens", _decodable), *_scores()]


def _verdict() -> list[Reading]:
    truths: dict[str, tuple[str, Callable[[Truth], float]]] = {
        "half": ("blocks until half of the tokens have their answer", lambda truth: truth.depth_of(0.5)),
        "tokens_90": ("blocks until nine in ten tokens have their answer", lambda truth: truth.depth_of(0.9)),
        "readable": ("blocks until the answer is there", lambda truth: float(truth.depth)),
        "own": ("blocks until the last one that the answer needs", lambda truth: max(truth.needed) + 1.0),
        "later": (
            "blocks until the last one whose work reaches a later token",
            lambda truth: max(source for source, _ in truth.uses_across) + 1.0,
        ),
    }
    return [
        Reading(f"verdict_{name}", says, partial(_verdict_value, name=name), of_truth)
        for name, (says, of_truth) in truths.items()
    ]


def _verdict_value(run: Run, name: str) -> float:
    return float(getattr(run.verdict, name).value)


def _estimators() -> list[Reading]:
    curves = ("cosine", "kl", "overlap")
    names = [*curves, *(f"interpolated_{curve}" for curve in curves), "settle", "prediction"]
    found = [_depth(name, partial(_estimate, name=name)) for name in names]
    centre = _centre_of_mass
    return [*found, Reading("centre_of_mass", _MEAN_SOURCE, centre, _mean_source)]


_MEAN_SOURCE = "the mean block among those that later blocks use at later tokens"


def _depth(name: str, of_run: Callable[[Run], float]) -> Reading:
    return Reading(name, "blocks until the answer is there", of_run, lambda truth: float(truth.depth))


def _estimate(run: Run, name: str) -> float:
    return float(run["effective_depth"]["depth"].sel(estimator=name))


def _centre_of_mass(run: Run) -> float:
    return float(run["effective_depth"]["index"].sel(estimator="centre_of_mass"))


def _mean_source(truth: Truth) -> float:
    return float(np.mean([s for s, _ in truth.uses_across]))


def _frozen() -> list[Reading]:
    found = [_depth(f"frozen_{name}", partial(_frozen_crossing, name=name)) for name in ("kl", "overlap")]
    tokens = [_depth(f"frozen_{name}", partial(_frozen_tokens, name=name)) for name in ("settle", "prediction")]
    return [*found, *tokens]


def _frozen_crossing(run: Run, name: str) -> float:
    """The first block input at which the frozen lens crosses hu2025's threshold; NaN where none does."""
    # all prompts have the same number of tokens, and h_L agrees with itself
    lens = run["lens"].sel(norm="frozen").isel(boundary=slice(0, -1)).mean("prompt")
    kl = lens["kl_lens_final"].values
    crosses = kl < 0.5 * kl.max() if name == "kl" else lens["overlap"].values > 0.3
    return float(crosses[:-1].argmax()) if crosses[:-1].any() else float("nan")


def _frozen_tokens(run: Run, name: str) -> float:
    # all prompts have the same number of tokens
    return float(run["lens"][f"{name}_depth"].sel(norm="frozen").mean("prompt"))


def _decodable(run: Run) -> float:
    """The boundary from which on the maps find the final prediction of nearly all tokens.

    Of some a map can guess it before, so that the mean over tokens is below.
    """
    found = run["translated_lens"]["top1_agreement"].sel(reader="translated").mean("prompt").values
    missed = np.flatnonzero(found < NEARLY_ALL)
    return float(missed[-1] + 1) if len(missed) else 0.0


def _scores() -> list[Reading]:
    return [
        Reading("depth_score_layer", _MEAN_SOURCE, partial(_score, name="score_layer"), _mean_source),
        Reading(
            "depth_score_output",
            "the mean block among those whose work at earlier tokens the answer needs",
            partial(_score, name="score_output"),
            lambda truth: float(np.mean([*{s for s, _ in truth.uses_across}])),
        ),
    ]


def _score(run: Run, name: str) -> float:
    return float(run["depth_score"][name].sel(reduction="mean").item())
