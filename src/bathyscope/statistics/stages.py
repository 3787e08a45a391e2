"""Stages: where several curves over the blocks change together, and how many such changes there are.

The curves are fitted by one set of steps: all of them may change at a few common boundaries and are level between
them. The boundaries are the exact least-squares ones, by dynamic programming; it is written out here because a
bootstrap fits a thousand sets of curves, which takes it a second and a general change-point library minutes.
Source: lad2024, stages of inference.
"""

import math
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.statistics.bootstrap import mean_variance, widened
from bathyscope.statistics.reduce import weighted_mean
from bathyscope.statistics.sampling import Sampling, cluster_weights

Breaks = tuple[int, ...]


class Curves(NamedTuple):
    """Curves over L blocks that are to be cut together.

    ``by_prompt`` is ``[P, C, L]``, one set of C curves a prompt, ``fixed`` ``[D, L]`` those that no prompt changes
    (properties of weights). All values are finite. ``cluster`` is ``[P]``, prompts of one number belong together.
    """

    by_prompt: FloatArray
    fixed: FloatArray
    cluster: IntArray | None = None

    @property
    def n_blocks(self) -> int:
        """L."""
        return int(self.by_prompt.shape[-1])

    def mean(self) -> FloatArray:
        """``[C + D, L]``: the mean over prompts, then the fixed ones."""
        return np.concatenate([self.by_prompt.mean(axis=0), self.fixed])


class Boundaries(NamedTuple):
    """Where stages after the first begin; each is ``[stages − 1]``, NaN where no boundary exists."""

    block: FloatArray
    """First block of the stage, which is also the boundary that enters it."""
    ci_low: FloatArray
    ci_high: FloatArray
    share: FloatArray
    """Share of the resamples in which it is this very block."""
    reason: str
    """Why there are no boundaries or no intervals; empty where both exist."""


class HeldOut(NamedTuple):
    """Errors on prompts held out from the choice of breaks and levels, for 1 … K stages; each but the last ``[K]``.

    In squared standard deviations of the curves over blocks, NaN where there are too few blocks or prompts.
    """

    error: FloatArray
    stderr: FloatArray
    excess: FloatArray
    """Over the lowest error."""
    excess_stderr: FloatArray
    """Of the excess, from differences prompt by prompt: what prompts have in common cancels."""
    floor: float
    """The error with a stage for every block, which is how far prompts are from the mean of others."""
    best: float
    """The fewest stages whose excess is at most its standard error."""
    reason: str
    """Why there are no errors; empty where there are."""


def standardised(curves: ArrayLike) -> FloatArray:
    """Curves ``[..., L]`` less their mean over blocks, over their standard deviation; 0 where they are constant."""
    values = np.asarray(curves, dtype=np.float64)
    return _in_units_of(values, values)


def segmentations(curves: ArrayLike, most: int, shortest: int = 1) -> list[Breaks]:
    """The best cuts of curves ``[C, L]`` into 1 … ``most`` stages of at least ``shortest`` blocks.

    Best leaves the least squares Σ (x − its stage's mean)² over all curves. Numbers of stages that do not fit into
    the blocks are left out.

    Returns:
        For each number of stages the first block of every stage but the first, rising; ``[()]`` for one stage alone.
    """
    values = np.asarray(curves, dtype=np.float64)
    n_blocks = values.shape[-1]
    cost = _squares_left(values, shortest)
    left = cost[0]
    begins: list[NDArray[np.intp]] = []
    best_breaks: list[Breaks] = [()]
    for _ in range(1, min(most, n_blocks // shortest)):
        # [i, j]: of the first j blocks, the last stage begins at i
        through = left[:, None] + cost
        begins.append(through.argmin(axis=0))
        left = through.min(axis=0)
        best_breaks.append(_traced(begins, n_blocks))
    return best_breaks


def step_fit(curves: FloatArray, breaks: Breaks) -> FloatArray:
    """Curves ``[..., L]``, each block replaced by the mean of its stage."""
    edges = (0, *breaks, curves.shape[-1])
    fit = np.empty_like(curves)
    for first, end in pairwise(edges):
        fit[..., first:end] = curves[..., first:end].mean(axis=-1, keepdims=True)
    return fit


def stage_boundaries(curves: Curves, stages: int, shortest: int, sampling: Sampling) -> Boundaries:
    """Boundaries of a given number of stages, at least 2, with intervals from resampling prompts.

    Clusters are those of the curves.
    """
    assert sampling.cluster is None, "curves have their own clusters"
    missing = np.full(stages - 1, np.nan)
    n_prompts, cluster = len(curves.by_prompt), curves.cluster
    weights = cluster_weights(np.ones(n_prompts), cluster)
    if reason := _no_values(curves) or _too_few_blocks(stages, shortest, curves.n_blocks):
        return Boundaries(missing, missing, missing, missing, reason)
    block = np.array(segmentations(standardised(curves.mean()), stages, shortest)[-1], dtype=np.float64)
    if weights.size < 2:
        what = "prompts" if cluster is None else "clusters"
        return Boundaries(block, missing, missing, missing, f"an interval needs at least two {what}, and there is one")
    counts = replace(sampling, cluster=cluster).counts(n_prompts)
    resampled = np.array(
        [
            segmentations(standardised(np.concatenate([mean, curves.fixed])), stages, shortest)[-1]
            for mean in weighted_mean(curves.by_prompt, counts)
        ],
        dtype=np.float64,
    )
    ends = np.array(
        [
            _interval(place, resampled_places, weights, sampling.level)
            for place, resampled_places in zip(block, resampled.T)
        ]
    )
    return Boundaries(block, ends[:, 0], ends[:, 1], (resampled == block).mean(axis=0), "")


def mean_band(values: FloatArray, sampling: Sampling) -> tuple[FloatArray, FloatArray]:
    """Interval of the mean over prompts of ``[P, ...]``, entry by entry, ``[...]`` each; NaN for a single prompt."""
    weights = cluster_weights(np.ones(len(values)), sampling.cluster)
    if weights.size < 2:
        return np.full(values.shape[1:], np.nan), np.full(values.shape[1:], np.nan)
    resampled = weighted_mean(values, sampling.counts(len(values)))
    low, high = np.quantile(resampled, widened(weights, sampling.level), axis=0)
    return low, high


def loop_shares(curves: Curves, loops: int, period: int, first: int, sampling: Sampling) -> dict[str, FloatArray]:
    """How much of the curves' variance over the steps of a loop goes by the place in the loop, and by the loop.

    Curves whose stages repeat in every loop go by the place alone; curves whose stages are spread over all loops go by
    the loop. Each curve counts the same, and curves that are constant there count not at all.

    Args:
        loops, period: there are ``loops`` times ``period`` steps in the loops.
        first: the first of these steps.

    Returns:
        ``by_place`` and ``by_loop``, [share, low, high, chance] each; chance is the mean for steps in random order.
    """
    inside = slice(first, first + loops * period)
    weights = cluster_weights(np.ones(len(curves.by_prompt)), sampling.cluster)
    counts = sampling.counts(len(curves.by_prompt))
    resampled = weighted_mean(curves.by_prompt[..., inside], counts)
    fixed = np.broadcast_to(curves.fixed[:, inside], (len(resampled), *curves.fixed[:, inside].shape))
    draws = np.concatenate([resampled, fixed], axis=1)
    whole = curves.mean()[None, :, inside]
    levels = widened(weights, sampling.level) if weights.size > 1 else None
    shares = {}
    for name, axis, groups in (("by_place", -2, period), ("by_loop", -1, loops)):
        value = _share_of_means(whole, loops, period, axis)[0]
        resampled_shares = _share_of_means(draws, loops, period, axis)
        low, high = (np.nan, np.nan) if levels is None else np.nanquantile(resampled_shares, levels)
        shares[name] = np.array([value, low, high, (groups - 1) / (loops * period - 1)])
    return shares


def _share_of_means(curves: FloatArray, loops: int, period: int, axis: int) -> FloatArray:
    """Return the share of the variance of [S, C, steps] that means over loops (−2) or places (−1) have, [S]."""
    standard = standardised(curves).reshape(*curves.shape[:-1], loops, period)
    explained = (standard.mean(axis=axis) ** 2).mean(axis=-1).sum(axis=-1)
    varying = (standard**2).mean(axis=(-1, -2)).sum(axis=-1)
    return explained / np.where(varying > 0, varying, np.nan)


def held_out_errors(curves: Curves, most: int, shortest: int, *, folds: int, seed: int) -> HeldOut:
    """How well 1 … ``most`` stages, cut and levelled on some prompts, describe others.

    Prompts, or clusters of them, are dealt into folds by ``seed``. Curves that no prompt changes take part in the
    choice of the breaks, but not in the error: nothing of them can be held out.

    Args:
        folds: at most; no more than there are prompts, or clusters.
    """
    n_prompts, varying, _ = curves.by_prompt.shape
    missing = np.full(most, np.nan)
    _, unit = np.unique(np.arange(n_prompts) if curves.cluster is None else curves.cluster, return_inverse=True)
    n_units, what = len(set(unit.tolist())), "prompts" if curves.cluster is None else "clusters"
    if reason := _no_values(curves) or _not_held_out(n_units, varying, what):
        return HeldOut(missing, missing, missing, missing, math.nan, math.nan, reason)
    fold = (np.random.default_rng(seed).permutation(n_units) % min(folds, n_units))[unit]
    errors = np.full((n_prompts, most), np.nan)
    floor = np.empty(n_prompts)
    for number in np.unique(fold):
        is_held_out = fold == number
        train = Curves(curves.by_prompt[~is_held_out], curves.fixed).mean()
        shape = standardised(train)
        # in the training prompts' units, so that nothing of the held-out ones enters the fit
        test = _in_units_of(train[:varying], curves.by_prompt[is_held_out])
        for stages, breaks in enumerate(segmentations(shape, most, shortest)):
            errors[is_held_out, stages] = ((test - step_fit(shape[:varying], breaks)) ** 2).mean(axis=(1, 2))
        floor[is_held_out] = ((test - shape[:varying]) ** 2).mean(axis=(1, 2))
    error = errors.mean(axis=0)
    lowest = int(np.nanargmin(error))
    over = errors - errors[:, [lowest]]
    excess, excess_stderr = over.mean(axis=0), _stderr(over, curves.cluster)
    # numbers of stages that do not fit are NaN, which is never small enough
    best = 1 + int(np.flatnonzero(excess <= excess_stderr)[0])
    return HeldOut(error, _stderr(errors, curves.cluster), excess, excess_stderr, float(floor.mean()), float(best), "")


def left_by_ramp(n_blocks: int, most: int) -> FloatArray:
    """``[most]``: the share of a straight line's variance over the blocks that 1 … ``most`` stages leave, about 1/k².

    Steps describe any smooth curve better the more of them there are. Curves that have steps leave less than this.
    """
    shares = np.full(most, np.nan)
    for stages in range(1, min(most, n_blocks) + 1):
        size, longer = divmod(n_blocks, stages)
        within = longer * _line_squares(size + 1) + (stages - longer) * _line_squares(size)
        shares[stages - 1] = within / _line_squares(n_blocks) if n_blocks > 1 else np.nan
    return shares


def _interval(place: float, resampled_places: FloatArray, weights: FloatArray, level: float) -> tuple[float, float]:
    """Whole blocks that hold the middle ``level`` of the resampled places, and the estimate.

    An interval about the estimate by the resamples' standard error would hold the truth no more often and be up to
    twice as wide, since a break jumps between places that may be far apart.
    """
    below, above = widened(weights, level)
    low, high = (
        np.quantile(resampled_places, below, method="lower"),
        np.quantile(resampled_places, above, method="higher"),
    )
    return min(float(low), place), max(float(high), place)


def _line_squares(blocks: int) -> float:
    """Σ (x − mean)² of 0 … blocks − 1."""
    return blocks * (blocks**2 - 1) / 12


def _squares_left(values: FloatArray, shortest: int) -> FloatArray:
    """``[L + 1, L + 1]``: what a stage of blocks i … j − 1 leaves, at [i, j]; infinite where it is too short."""
    # Prefix sums give Σx and Σx² of every stage at once: what a stage leaves is Σx² − (Σx)² / length.
    sums = np.pad(values.cumsum(axis=-1), ((0, 0), (1, 0)))
    squares = np.pad((values**2).sum(axis=0).cumsum(), (1, 0))
    place = np.arange(values.shape[-1] + 1)
    length = place[None, :] - place[:, None]
    total = sums[:, None, :] - sums[:, :, None]
    left = squares[None, :] - squares[:, None] - (total**2).sum(axis=0) / np.maximum(length, 1)
    return np.where(length >= shortest, left, np.inf)


def _traced(begins: list[NDArray[np.intp]], n_blocks: int) -> Breaks:
    """The beginnings of all stages but the first, from the last one backwards."""
    # The best beginning of the last stage fixes where the stage before it ends, and so on.
    end, breaks = n_blocks, []
    for begin in reversed(begins):
        end = int(begin[end])
        breaks.append(end)
    return tuple(reversed(breaks))


def _in_units_of(train: FloatArray, curves: FloatArray) -> FloatArray:
    """Curves ``[P, C, L]`` standardised by mean and spread over blocks of the training curves ``[C, L]``."""
    spread = train.std(axis=-1, keepdims=True)
    centred = curves - train.mean(axis=-1, keepdims=True)
    return np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)


def _stderr(values: FloatArray, cluster: IntArray | None) -> FloatArray:
    """Standard error of the mean over the first axis, prompts."""
    if cluster is not None:
        return np.sqrt([mean_variance(column, cluster)[0] for column in values.T])
    return np.asarray(values.std(axis=0, ddof=1) / math.sqrt(len(values)), dtype=np.float64)


def _no_values(curves: Curves) -> str:
    if not len(curves.by_prompt):
        return "no prompt has a value of every curve"
    return "" if len(curves.mean()) else "no curve changes over the blocks"


def _too_few_blocks(stages: int, shortest: int, n_blocks: int) -> str:
    need = stages * shortest
    if need <= n_blocks:
        return ""
    return f"{stages} stages of at least {shortest} blocks need {need} blocks, and the model has {n_blocks}"


def _not_held_out(units: int, varying: int, what: str) -> str:
    if not varying:
        return "no curve differs between prompts, so that nothing can be held out"
    return "" if units > 1 else f"holding {what} out needs at least two of them, and there is one"
