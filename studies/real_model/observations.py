"""What stored curves show next to the claims that are read off them: where a number rests on one block or boundary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import xarray as xr

from bathyscope.extend.statistics import mean_interval
from studies.common.arrays import FloatArray


def mean_curve(data: xr.Dataset, name: str) -> FloatArray:
    """Return the mean of a variable over prompts, weighted by their tokens."""
    weights = data["n_tokens"]
    return np.asarray((data[name] * weights).sum("prompt") / weights.sum())


def behind_the_claims(surveys: Mapping[str, xr.Dataset]) -> Iterator[str]:
    """Yield sentences on what claims of curves rest on.

    Args:
        surveys: job → what was stored of the model.
    """
    if "stream" in surveys:
        yield _cosines(surveys["stream"])
        yield _growth_of_mlps(surveys["stream"])
        yield _entropy(surveys["stream"])
    if {"stream", "commonsense"} <= set(surveys):
        yield _kl_criteria(surveys["stream"], surveys["commonsense"])
    if "weights" in surveys:
        yield from _neurons(surveys["weights"])


def _cosines(data: xr.Dataset) -> str:
    cosine = mean_curve(data, "residual.cos_block")
    half = cosine.size // 2
    erased = "" if cosine[:half].mean() < 0 else ", so that the first half does not erase on average"
    return (
        f"The mean cosine of what a block adds with the stream is {cosine[:half].mean():+.3f} in the first half of the "
        f"blocks and {cosine[half:].mean():+.3f} in the second{erased}."
    )


def _growth_of_mlps(data: xr.Dataset) -> str:
    norm = mean_curve(data, "residual.norm_mlp_rest")
    fifth = norm.size // 5
    middle = norm[fifth:-fifth].mean()
    return (
        f"Of the last fifth, the last block's MLP writes {norm[-1] / middle:.1f} times the norm of the middle ones; "
        f"without that block the last fifth is at {norm[-fifth:-1].mean() / middle:.2f} times."
    )


def _entropy(data: xr.Dataset) -> str:
    """The fall in the second half has a value where the share that the claim asks for has none."""
    half = int(data.attrs["blocks"]) // 2
    by_prompt = np.asarray(data["lens.entropy"].transpose("prompt", "boundary").values, np.float64)
    weights = np.asarray(data["n_tokens"].values, np.float64)
    change = by_prompt[:, -1] - by_prompt[:, half]
    mean = float(weights @ change / weights.sum())
    low, high = mean_interval(change, weights=weights)
    curve = mean_curve(data, "lens.entropy")
    undefined = ""
    if curve.max() <= curve[-1]:
        undefined = (
            " It is largest at the end, so that the share of its fall, which the claim is judged by, is undefined: the "
            "claim is not open there, the entropy does the opposite."
        )
    return (
        f"The entropy of the lens is {curve[half]:.2f} bits at half the depth and {curve[-1]:.2f} at the end, a change "
        f"of {mean:+.2f} ({low:+.2f} to {high:+.2f}).{undefined} The lens normalises every boundary by itself; the "
        "paper's curve is of the frozen norm, which is not measured here."
    )


def _kl_criteria(hard: xr.Dataset, easy: xr.Dataset) -> str:
    curves = [mean_curve(data, "lens.kl_lens_final")[: int(data.attrs["blocks"])] for data in (hard, easy)]
    whole = " and ".join(_kl_index(curve, 0) for curve in curves)
    rest = " and ".join(_kl_index(curve, 1) for curve in curves)
    return (
        f"The KL criterion is met at boundaries {whole} on GSM8K and HellaSwag, and at {rest} where boundary 0 is left "
        "out of the maximum."
    )


def _kl_index(curve: FloatArray, first: int) -> str:
    """Return the first boundary at which KL is below half of its maximum, both from a first boundary on."""
    places = np.flatnonzero(curve[first:-1] < 0.5 * curve[first:].max())
    return str(int(places[0]) + first) if places.size else "none"


def _neurons(data: xr.Dataset) -> Iterator[str]:
    fractions = [np.asarray(data[f"neurons.{kind}_fraction"].values) for kind in ("suppression", "prediction")]
    if all(fraction.sum() > 0 for fraction in fractions):
        places = [float((fraction * np.arange(fraction.size)).sum() / fraction.sum()) for fraction in fractions]
        yield (
            f"Suppression neurons stand {places[0] - places[1]:+.2f} blocks from prediction neurons on average. "
            "Weights are no sample of prompts, so that this has no interval, and untrained models have no such neurons."
        )
