"""The number of each claim, as a function of what was stored; its name is the claim's key."""

from __future__ import annotations

from typing import Final

import numpy as np

from studies.common.arrays import FloatArray
from studies.real_model.reading import Sample, quantity
from studies.real_model.reading import read_quantity as read

__all__ = ["read"]


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
    return _ratio(fraction[sample.n_blocks // 2 :].sum(), fraction.sum())


@quantity("weights")
def suppression_later(sample: Sample) -> float:
    places = np.arange(sample.n_blocks) / sample.n_blocks
    suppression, prediction = (sample.mean(f"neurons.{kind}_fraction") for kind in ("suppression", "prediction"))
    return _ratio((suppression * places).sum(), suppression.sum()) - _ratio(
        (prediction * places).sum(), prediction.sum()
    )


def _ratio(part: float, whole: float) -> float:
    """Return the ratio; NaN where there is nothing, as of the neurons of an untrained model."""
    return float(part / whole) if whole else float("nan")


@quantity("hops")
def hops_mquake(sample: Sample) -> float:
    return _slope(sample, "hops")


@quantity("steps")
def steps_gsm8k(sample: Sample) -> float:
    return _slope(sample, "steps")


def _slope(sample: Sample, label: str) -> float:
    """Depth score over a label, by weighted least squares; prompts count the same, whatever their length."""
    weights = sample.weights / np.asarray(sample.data["n_tokens"].values, np.float64)
    levels = np.asarray(sample.data[label].values, np.float64)
    score = np.asarray(sample.data["depth_score.prompt_score_layer"].values, np.float64)
    apart = levels - np.average(levels, weights=weights)
    spread = float((weights * apart**2).sum())
    return float((weights * apart * score).sum()) / spread if spread > 0 else np.nan


@quantity("two_hop")
def hops_two_hop(sample: Sample) -> float:
    return float(sample.mean("depth_score.hops_2") - sample.mean("depth_score.hops_1"))


OPERANDS: Final = (6, 7, 8, 11, 12, 13)
"""Tokens of ``Give the answer directly: 123 + 456 = 579`` that are digits of the two numbers, every digit a token.

Of the files of SmolLM2 that were stored before the tokens were looked up.
"""


@quantity("erasure")
def erasure_operands(sample: Sample) -> float:
    operands = list(OPERANDS)
    if "erasure.is_operand" in sample.data:
        # the same in all prompts, which differ in their digits alone
        operands = list(np.flatnonzero(sample.data["erasure.is_operand"].values.all(0)))
    effect = sample.mean("erasure.effect")[:, operands].max(1)
    return float(effect[-(effect.size // 3) :].max() / effect.max())


@quantity("gradients")
def gradients_first_half(sample: Sample) -> float:
    attribution = sample.mean("integrated_gradients.absolute")
    return float(attribution[: sample.n_blocks // 2].sum() / attribution.sum())


@quantity("benchmarks")
def accuracy_kept(sample: Sample) -> float:
    full = float(sample.mean("benchmarks.full"))
    return float(sample.mean("benchmarks.without").mean()) / full if full > 0 else np.nan


HEADS: Final = 10
"""The best sub-joiner heads that are looked at."""


@quantity("subjoiners")
def subjoiners_early(sample: Sample) -> float:
    attention = np.asarray(sample.data["subjoiner.attention"].values, np.float64)
    split = np.asarray(sample.data["subjoiner.split"].values, bool)
    kinds = [sample.weights * split, sample.weights * ~split]
    if not all(weights.any() for weights in kinds):
        return np.nan
    several, single = (np.tensordot(weights / weights.sum(), attention, 1) for weights in kinds)
    best = np.argsort(-(several - single), axis=None, kind="stable")[:HEADS]
    blocks = np.unravel_index(best, several.shape)[0]
    return float((blocks + 1).mean()) / sample.n_blocks


@quantity("wic")
def wic_middle(sample: Sample) -> float:
    return float(np.argmax(sample.mean("wic.correct"))) / sample.n_blocks


@quantity("patching")
def answer_arrives(sample: Sample) -> float:
    """The first boundary at which patching the last token goes half the way from one answer to the other."""
    restored = sample.mean("patching.moved") / sample.mean("patching.distance")
    places = np.flatnonzero(restored >= HALF_WAY)
    return float(places[0]) / sample.n_blocks if places.size else np.nan


HALF_WAY: Final = 0.5
