"""Where is a trained model's answer, by intervention: a truth that readings of its depth can be judged against.

    python -m studies.problem_depth.arrival checkpoints/permutations_8 checkpoints/permutations_12

Each problem is patched, at the token before its answer alone, from another one with another answer. That carries the
other answer over for good from the boundary on at which neither of the two takes anything more from other tokens: the
later one of their answers has *arrived*, and no block behind it is used across tokens. No lens is read and no block
left out to say so. The larger reading of the two problems stands beside: by how much it misses that, and whether it
tells late pairs from early ones. By chance what one problem would still do may leave the other's answer as it is, so
that some pairs look earlier than they are.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy import stats

from bathyscope import Model, Prompt, Run, load, solved, survey
from bathyscope.errors import OptionError
from bathyscope.extend.prompts import tokenized
from studies.common.across_seeds import show_together
from studies.common.arrays import FloatArray, IntArray
from studies.common.console import write_table
from studies.problem_depth.readings import MEASURES, OPTIONS, READINGS, readings

PROBLEMS = "task:permutations:160?factors=1-8&beyond=9-9&elements=generators&answer=image"
CARRIED = 0.9
"""Share of the way to the other answer from which on the answer counts as carried over."""
SEED = 1
_ARRIVE = "answers arrive"
_LEAST = 10
"""Problems below which nothing is said."""


class Judged(NamedTuple):
    """How one reading stands to where answers arrive.

    Args:
        missed: mean of the pair's larger reading less its arrival, blocks done, with its 95 % interval.
        off: mean distance, blocks.
        rank: Spearman's correlation over pairs; NaN where one of the two is the same for all.
    """

    missed: tuple[float, float, float]
    off: float
    rank: float


def arrival(patching: xr.Dataset) -> FloatArray:
    """[prompt]: the first boundary from which on patching the token that is read carries the other answer over.

    NaN = never, or not patched.

    Args:
        patching: of ``survey``, with the part ``block``.
    """
    recovered = patching["recovered"].sel(part="block")
    read_at = patching["read_at"]
    own = recovered.isel(token=read_at.clip(0)).transpose("prompt", "boundary").values
    carried = np.logical_and.accumulate((own >= CARRIED)[:, ::-1], axis=1)[:, ::-1]
    first = np.where(carried.any(1), carried.argmax(1), np.nan)
    return np.where(read_at.values >= 0, first, np.nan)


def pairs_of_others(answers: Sequence[Any]) -> list[tuple[int, int]]:
    """Every problem with the next one, round the list, that has another answer."""
    count = len(answers)
    found = []
    for number in range(count):
        later = ((number + step) % count for step in range(1, count))
        other = next((one for one in later if answers[one] != answers[number]), None)
        if other is not None:
            found.append((number, other))
    return found


def patched(model: Model, problems: str = PROBLEMS) -> Run:
    """Readings and patching of the problems that the model solves.

    Raises:
        OptionError: it solves too few of them.
    """
    read = tokenized(model, problems, seed=SEED)
    right = solved(model, problems, seed=SEED, progress=False)["solved"].values == 1
    kept = {tuple(prompt.ids): prompt for prompt, own in zip(read, right) if own}
    if len(kept) < _LEAST:
        raise OptionError(f"{model.name} solves {len(kept)} of the problems; {_LEAST} are needed to say anything.")
    prompts = [Prompt(ids=p.ids, answer_tokens=p.answer_tokens, labels=dict(p.labels)) for p in kept.values()]
    pairs = pairs_of_others([ids[-(prompt.answer_tokens or 0) :] for ids, prompt in kept.items()])
    measures = [*MEASURES, "skip", "patching"]
    return survey(model, prompts, measures, patching={"pairs": pairs}, progress=False, **OPTIONS)


def judged(run: Run) -> dict[str, Judged]:
    """Every reading of depth in blocks against the arrival of the answers."""
    truth, source = arrival(run["patching"]), run["patching"]["source"].values
    values = {READINGS[name].title: own for name, own in zip(READINGS, readings(run).values)}
    values |= {f"verdict, {one.name}": one.by_prompt for one in (run.verdict.own, run.verdict.later)}
    found = {}
    for name, alone in values.items():
        own = np.maximum(alone, alone[source])
        known = np.isfinite(own) & np.isfinite(truth)
        if known.sum() >= _LEAST:
            apart = (own - truth)[known]
            low, high = _interval(apart, np.stack([np.arange(len(source)), source], axis=1)[known])
            differ = min(np.ptp(own[known]), np.ptp(truth[known])) > 0
            rank = float(stats.spearmanr(own[known], truth[known]).statistic) if differ else np.nan
            found[name] = Judged((float(apart.mean()), low, high), float(np.abs(apart).mean()), rank)
    return found


def _interval(values: FloatArray, pairs: IntArray) -> tuple[float, float]:
    """Student's 95 % interval of a mean over pairs [pairs, 2] of problems, each of which stands in several pairs
    (Aronow, Samii and Assenova 2015)."""
    left, shared = values - values.mean(), (pairs[:, None, :, None] == pairs[None, :, None, :]).any((2, 3))
    error = np.sqrt(max(left @ shared @ left, left @ left) / (values.size * (values.size - 1)))
    reach = float(stats.t.ppf(0.975, values.size - 1) * error)
    return float(values.mean()) - reach, float(values.mean()) + reach


def main(folders: list[str]) -> None:
    """Prints a table of the models in some folders, and one of what models of equally many blocks say together."""
    rows: list[list[str]] = []
    by_blocks: dict[int, dict[str, list[float]]] = {}
    for folder in folders:
        model = load(folder, device="cpu", dtype="float32")
        run = patched(model)
        together = by_blocks.setdefault(model.n_blocks, {})
        truth = arrival(run["patching"])
        known = truth[np.isfinite(truth)]
        rows.append([folder, _ARRIVE, f"{known.mean():.2f} ({known.size} of {truth.size})", "", ""])
        together.setdefault(_ARRIVE, []).append(float(known.mean()))
        for name, own in judged(run).items():
            mean, low, high = own.missed
            rows.append(["", name, f"{mean:+.2f} ({low:+.2f} to {high:+.2f})", f"{own.off:.2f}", f"{own.rank:+.2f}"])
            together.setdefault(name, []).append(mean)
    title = "Readings less the boundary at which the answer has arrived, problems that are solved"
    write_table(["model", "reading", "missed by", "mean distance", "rank correlation"], rows, title)
    show_together(by_blocks)


if __name__ == "__main__":
    main(sys.argv[1:])
