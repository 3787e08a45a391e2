"""Do likelihood and answers agree on which block can go? Every single drop of a model of a task, judged by both.

On the same problems each drop has its cost, the mean over problems of the answer's loss beyond the full model's, and
its share of exact answers, which the model writes itself under the schedule. Source: 2602.01997 (what pruning breaks
when a model generates).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.stats import rankdata

from bathyscope import Model, scheduled
from bathyscope.errors import OptionError
from bathyscope.extend.prompts import Prompts, tokenized
from bathyscope.extend.statistics import (
    Sampling,
    compared_with_best,
    mean_interval,
    share_difference_interval,
    share_interval,
)
from studies.common.losses import mean_losses

FULL: Final = "full"
_CALL_TOKENS: Final = 4096
_LEVEL: Final = 0.95


@dataclass(frozen=True)
class Judged:
    """Every drop, judged twice.

    Args:
        table: a row for the full model and for every drop: ``cost``, ``exact`` (share of exact answers) and ``lost``
            (the full model's share minus it, paired), each with ``_low`` and ``_high``; ``cheapest`` and ``surest``:
            cannot be told from the drop of the least cost, or of the most exact answers.
        agreement: Spearman's rank correlation of ``cost`` and ``lost`` over the drops, with the ends of its interval
            (problems resampled, both judged on the same ones).
        problems: how many.
    """

    table: pd.DataFrame
    agreement: tuple[float, float, float]
    problems: int


def problems(model: Model, spec: str, count: int, seed: int) -> Prompts:
    """So many different problems.

    Raises:
        OptionError: the task has fewer.
    """
    drawn = tokenized(model, spec.format(count=4 * count), seed=seed)
    first = {prompt.ids: place for place, prompt in reversed(list(enumerate(drawn)))}
    if len(first) < count:
        raise OptionError(f"problems={count}: only {len(first)} of {len(drawn)} drawn problems differ; ask for fewer.")
    return drawn.some(sorted(first.values())[:count])


def exact_answers(model: Model, prompts: Prompts, schedule: str) -> NDArray[np.float64]:
    """1 where the model under a schedule writes a problem's whole answer, [problems]; greedy, on a cache."""
    with _running(model, schedule) as hf:
        return _written(model, hf, prompts)


def _written(model: Model, hf: Any, prompts: Prompts) -> NDArray[np.float64]:
    found = np.zeros(len(prompts))
    alike: dict[tuple[int, int], list[int]] = {}
    for place, prompt in enumerate(prompts):
        alike.setdefault((len(prompt), prompt.answer_tokens or 0), []).append(place)
    for (length, answer), places in alike.items():
        at_once = max(1, _CALL_TOKENS // length)
        for own in (places[first : first + at_once] for first in range(0, len(places), at_once)):
            ids = torch.tensor([prompts[place].ids for place in own], device=model.device)
            asked = ids[:, :-answer]
            options: dict[str, Any] = {"max_new_tokens": answer, "do_sample": False, "eos_token_id": None}
            tokens = hf.generate(asked, attention_mask=torch.ones_like(asked), pad_token_id=0, **options)
            found[own] = (tokens[:, asked.shape[1] :] == ids[:, -answer:]).all(1).double().cpu().numpy()
    return found


def _answer_losses(hf: Any, prompts: Prompts) -> NDArray[np.float64]:
    """Mean loss of a problem's answer, [problems]."""
    return np.concatenate([mean_losses(hf, [prompt.ids], prompt.answer_tokens) for prompt in prompts])


def _running(model: Model, schedule: str) -> Any:
    return scheduled(model, schedule) if schedule else nullcontext(model.hf)


def judged(model: Model, prompts: Prompts, resamples: int = 2000, seed: int = 0) -> Judged:
    """Every single drop, by its cost and by the answers that are left."""
    blocks = range(model.n_blocks)
    losses, answers = [], []
    for schedule in ("", *(f"drop:{block}" for block in blocks)):
        with _running(model, schedule) as hf:
            losses.append(_answer_losses(hf, prompts))
            answers.append(_written(model, hf, prompts))
    cost = np.stack(losses[1:]) - losses[0]
    full, exact = answers[0], np.stack(answers[1:])
    cheapest, surest = (
        compared_with_best(values, Sampling(resamples, level=_LEVEL, seed=seed)).indistinguishable
        for values in (cost, 1 - exact)
    )
    rows = [{"dropped": FULL, **_named("exact", full.mean(), share_interval(full, level=_LEVEL))}]
    for block in blocks:
        own = mean_interval(cost[block], Sampling(resamples, level=_LEVEL, seed=seed))
        lost = share_difference_interval(full, exact[block], level=_LEVEL)
        rows.append(
            {
                "dropped": str(block),
                **_named("cost", cost[block].mean(), own),
                **_named("exact", exact[block].mean(), share_interval(exact[block], level=_LEVEL)),
                **_named("lost", (full - exact[block]).mean(), lost),
                "cheapest": bool(cheapest[block]),
                "surest": bool(surest[block]),
            }
        )
    agreement = _agreement(cost, full - exact, resamples, seed)
    return Judged(pd.DataFrame(rows), agreement, len(prompts))


def _named(name: str, value: float, ends: Sequence[float]) -> dict[str, Any]:
    return {name: float(value), f"{name}_low": float(ends[0]), f"{name}_high": float(ends[1])}


def _agreement(
    first: NDArray[np.float64], second: NDArray[np.float64], resamples: int, seed: int
) -> tuple[float, float, float]:
    """Spearman's correlation of the rows' means [rows, problems], and percentiles over resampled problems."""
    counts = Sampling(resamples, seed=seed).counts(first.shape[1]) / first.shape[1]
    drawn = [_correlation(*pair) for pair in zip((first @ counts.T).T, (second @ counts.T).T)]
    low, high = np.quantile(drawn, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return _correlation(first.mean(1), second.mean(1)), float(low), float(high)


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    # sums of a resample may differ in their last bit where the values are equal
    ranks = [rankdata(np.round(values, 12)) for values in (first, second)]
    return float(np.corrcoef(*ranks)[0, 1])
