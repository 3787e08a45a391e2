"""The numbers that claims are judged by, as functions of what was stored, and their intervals over prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
import xarray as xr

from bathyscope.core.arrays import FloatArray
from bathyscope.statistics.bootstrap import bootstrap_interval, resample_counts
from studies.real_model.claims import Claim

RESAMPLES: Final = 2000
LEVEL: Final = 0.95
_ROUNDING: Final = 1e-9
Decision = Literal["holds", "does not hold", "cannot be decided"]


@dataclass(frozen=True)
class Sample:
    """Stored curves and how much each prompt counts."""

    data: xr.Dataset
    weights: FloatArray

    @property
    def n_blocks(self) -> int:
        """L of the model."""
        return int(self.data.attrs["blocks"])

    def mean(self, name: str) -> FloatArray:
        """The weighted mean of a variable over prompts; of one without prompts its values."""
        array = self.data[name]
        values = np.asarray(array.transpose(*(("prompt", ...) if "prompt" in array.dims else ())).values, np.float64)
        if "prompt" not in array.dims:
            return values
        present = ~np.isnan(values)
        weights = self.weights.reshape(-1, *[1] * (values.ndim - 1)) * present
        with np.errstate(invalid="ignore"):  # what no prompt has is missing
            mean: FloatArray = (weights * np.where(present, values, 0.0)).sum(0) / weights.sum(0)
        return mean


class Reading(NamedTuple):
    """A quantity and its 95 % interval; the ends are the value where nothing is sampled."""

    value: float
    low: float
    high: float


Quantity = Callable[..., float]
QUANTITIES: Final[dict[str, tuple[tuple[str, ...], Quantity]]] = {}
"""Key of a claim → the jobs that its function takes, and the function."""


def quantity(*jobs: str) -> Callable[[Quantity], Quantity]:
    """Register the function of a claim of the same name."""

    def register(function: Quantity) -> Quantity:
        QUANTITIES[function.__name__] = (jobs, function)
        return function

    return register


def read(key: str, stored: Mapping[str, xr.Dataset]) -> Reading:
    """The quantity of a claim with its interval.

    Args:
        stored: job → what was stored of one model.
    """
    jobs, function = QUANTITIES[key]
    rng = np.random.default_rng(0)
    datasets = [stored[job] for job in jobs]
    tokens = [_tokens(dataset) for dataset in datasets]
    value = function(*(Sample(dataset, weights) for dataset, weights in zip(datasets, tokens)))
    counted = [weights for weights in tokens if weights.size > 1]
    if not counted:
        return Reading(value, value, value)
    draws = [resample_counts(weights.size, RESAMPLES, rng) * weights for weights in tokens]
    resampled = np.array(
        [
            function(*(Sample(dataset, weights[draw]) for dataset, weights in zip(datasets, draws)))
            for draw in range(RESAMPLES)
        ]
    )
    fewest = min(counted, key=lambda weights: weights.size)
    grouped = key.startswith(("criteri", "difficulty", "phase"))
    infinite = (-np.inf, np.inf)
    if not np.isfinite(value):
        return Reading(np.nan, np.nan, np.nan)
    resampled = np.where(np.isfinite(resampled), resampled, np.nan)
    low, high = bootstrap_interval(value, resampled, fewest, level=LEVEL, limits=infinite, grouped=grouped)
    # what is read in whole blocks is known to half a block, however well prompts agree
    step = 0.5 * len(jobs) / (1 if key == "criteria_order" else int(datasets[0].attrs["blocks"])) if grouped else 0.0
    return Reading(value, low - step, high + step)


def decide(claim: Claim, reading: Reading) -> Decision:
    """Compare an interval with the bound; rounding of the last digits decides nothing."""
    if reading.low >= claim.low - _ROUNDING and reading.high <= claim.high + _ROUNDING:
        return "holds"
    if reading.high < claim.low - _ROUNDING or reading.low > claim.high + _ROUNDING:
        return "does not hold"
    return "cannot be decided"


def _tokens(dataset: xr.Dataset) -> FloatArray:
    return np.asarray(dataset["n_tokens"].values, np.float64) if "n_tokens" in dataset else np.ones(1)


def _middle(n_blocks: int) -> slice:
    """The middle 80 % of blocks."""
    edge = round(n_blocks / 10)
    return slice(edge, n_blocks - edge)


@quantity("stream")
def contribution_falls(sample: Sample) -> float:
    ratio, half = sample.mean("residual.ratio_block"), sample.n_blocks // 2
    return float(ratio[half:].mean() / ratio[1:half].mean())


@quantity("stream")
def contribution_ends(sample: Sample) -> float:
    ratio, half = sample.mean("residual.ratio_block"), sample.n_blocks // 2
    return float(ratio[-2:].mean() / ratio[half:-2].mean())


@quantity("stream")
def cosine_rises(sample: Sample) -> float:
    cosine, half = sample.mean("residual.cos_block"), sample.n_blocks // 2
    return float(cosine[half:].mean() - cosine[:half].mean())


def _turn(curve: FloatArray) -> float:
    """The last index up to L − 2 at which a curve is negative and the next value is not; NaN without one."""
    places = np.flatnonzero((curve[:-1] < 0) & (curve[1:] >= 0))
    return float(places[-1]) if places.size else np.nan


@quantity("stream")
def phase_transition(sample: Sample) -> float:
    return (_turn(sample.mean("residual.cos_block")) + 1) / sample.n_blocks


def _cosine_criterion(sample: Sample) -> float:
    names = ("residual.cos_attn", "residual.cos_mlp", "residual.cos_block")
    return (_turn(np.mean([sample.mean(name) for name in names], axis=0)) + 1) / sample.n_blocks


def _kl_criterion(sample: Sample) -> float:
    kl = sample.mean("lens.kl_lens_final")[: sample.n_blocks]
    places = np.flatnonzero(kl[:-1] < 0.5 * kl.max())
    return (places[0] + 1) / sample.n_blocks if places.size else np.nan


def _overlap_criterion(sample: Sample) -> float:
    places = np.flatnonzero(sample.mean("lens.overlap")[: sample.n_blocks - 1] > 0.3)
    return (places[0] + 1) / sample.n_blocks if places.size else np.nan


@quantity("stream")
def criterion_cosine(sample: Sample) -> float:
    return _cosine_criterion(sample)


@quantity("stream")
def criterion_kl(sample: Sample) -> float:
    return _kl_criterion(sample)


@quantity("stream")
def criterion_overlap(sample: Sample) -> float:
    return _overlap_criterion(sample)


@quantity("stream")
def criteria_order(sample: Sample) -> float:
    return (_overlap_criterion(sample) - _kl_criterion(sample)) * sample.n_blocks


@quantity("stream", "commonsense")
def difficulty_cosine(hard: Sample, easy: Sample) -> float:
    return _cosine_criterion(hard) - _cosine_criterion(easy)


@quantity("stream", "commonsense")
def difficulty_kl(hard: Sample, easy: Sample) -> float:
    return _kl_criterion(hard) - _kl_criterion(easy)


@quantity("stream", "commonsense")
def difficulty_overlap(hard: Sample, easy: Sample) -> float:
    return _overlap_criterion(hard) - _overlap_criterion(easy)


@quantity("stream")
def lens_kl_late(sample: Sample) -> float:
    kl = sample.mean("lens.kl_lens_final")
    return float(kl[sample.n_blocks // 2] / kl.max())


@quantity("stream")
def lens_overlap_late(sample: Sample) -> float:
    return float(sample.mean("lens.overlap")[sample.n_blocks // 2])


@quantity("stream")
def entropy_falls(sample: Sample) -> float:
    entropy = sample.mean("lens.entropy")
    # undefined where the last boundary has the largest entropy, so that it never falls
    fall = float(entropy.max() - entropy[-1])
    return float(entropy[sample.n_blocks // 2] - entropy[-1]) / fall if fall > 0 else np.nan


@quantity("stream")
def mlp_grows(sample: Sample) -> float:
    norm, fifth = sample.mean("residual.norm_mlp_rest"), sample.n_blocks // 5
    return float(norm[-fifth:].mean() / norm[fifth:-fifth].mean())


@quantity("skip")
def skip_future_halves(sample: Sample) -> float:
    return _given(sample, "skip.given_future")


@quantity("skip")
def skip_all_halves(sample: Sample) -> float:
    return _given(sample, "skip.given_all")


def _given(sample: Sample, name: str) -> float:
    """Effects of the last block, which has no later one, are missing."""
    effect, half = sample.mean(name), sample.n_blocks // 2
    return float(np.nanmean(effect[half:-1]) / np.nanmean(effect[1:half]))


@quantity("skip")
def skip_output(sample: Sample) -> float:
    half = sample.n_blocks // 2
    return float(sample.mean("skip.output_future")[half:].mean() / sample.mean("skip.output_all")[half:].mean())


@quantity("skip")
def skip_gap(sample: Sample) -> float:
    half = sample.n_blocks // 2
    future, everywhere = sample.mean("skip.output_future"), sample.mean("skip.output_all")
    return float(future[half:].mean() / everywhere[half:].mean() - future[:half].mean() / everywhere[:half].mean())


@quantity("drop")
def drop_middle(sample: Sample) -> float:
    return float(sample.mean("drop.top1_agreement")[_middle(sample.n_blocks)].mean())


@quantity("drop")
def drop_first(sample: Sample) -> float:
    kl = sample.mean("drop.kl")
    return float(kl[0] / kl[_middle(sample.n_blocks)].mean())


@quantity("drop")
def drop_last(sample: Sample) -> float:
    kl = sample.mean("drop.kl")
    return float(kl[-1] / kl[_middle(sample.n_blocks)].mean())


@quantity("drop")
def swap_milder(sample: Sample) -> float:
    middle = _middle(sample.n_blocks)
    return float(sample.mean("swap.kl")[middle].mean() / sample.mean("drop.kl")[middle].mean())


@quantity("repeat")
def repeat_milder(sample: Sample) -> float:
    middle = _middle(sample.n_blocks)
    return float(sample.mean("repeat.kl")[middle].mean() / sample.mean("drop.kl")[middle].mean())


@quantity("attention")
def attention_local(sample: Sample) -> float:
    weight, fifth = sample.mean("attention_locality.total_prev5"), sample.n_blocks // 5
    return float(weight[:fifth].mean() - weight[fifth:].mean())


@quantity("weights")
def prediction_neurons(sample: Sample) -> float:
    fraction = sample.mean("neurons.prediction_fraction")
    return float(fraction[sample.n_blocks // 2 :].sum() / fraction.sum())


@quantity("weights")
def suppression_later(sample: Sample) -> float:
    places = np.arange(sample.n_blocks) / sample.n_blocks
    suppression, prediction = (sample.mean(f"neurons.{kind}_fraction") for kind in ("suppression", "prediction"))
    return float(suppression @ places / suppression.sum() - prediction @ places / prediction.sum())


@quantity("hops")
def hops_mquake(sample: Sample) -> float:
    """Weighted least squares; prompts count the same, whatever their length."""
    weights = sample.weights / np.asarray(sample.data["n_tokens"].values, np.float64)
    hops = np.asarray(sample.data["hops"].values, np.float64)
    score = np.asarray(sample.data["depth_score.prompt_score_layer"].values, np.float64)
    apart = hops - np.average(hops, weights=weights)
    spread = float((weights * apart**2).sum())
    return float((weights * apart * score).sum()) / spread if spread > 0 else np.nan


OPERANDS: Final = (6, 7, 8, 11, 12, 13)
"""Tokens of ``Give the answer directly: 123 + 456 = 579``, every digit a token, that are digits of the two numbers."""


@quantity("erasure")
def erasure_operands(sample: Sample) -> float:
    effect = sample.mean("erasure.effect")[:, list(OPERANDS)].max(1)
    return float(effect[-(effect.size // 3) :].max() / effect.max())
