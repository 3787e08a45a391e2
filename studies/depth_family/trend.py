"""How the effective depth ratio goes with the number of blocks: a slope for each doubling, and what to hold it against.

The ratio, blocks done/L, is not free of L by itself. A model that did at each share of its depth just what a shorter
one does would have a ratio that falls with L where depths are whole boundaries: that is ``slope_proportional``, and it
is not 0. Source: hu2025 (ratio over model sizes).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import xarray as xr
from scipy import stats

from bathyscope import Run, compare
from bathyscope.errors import OptionError
from bathyscope.extend import variable
from bathyscope.extend.statistics import Reading, Sampling, Term, contrast, holm
from studies.common.arrays import FloatArray

SCORES: Final = ("depth_score_layer", "depth_score_output")
"""Estimators that prompts with answers have besides: centres of mass of the mean effects on answers (csordas2025)."""
MASSES: Final = ("centre_of_mass", *SCORES)
_SOURCE: Final = "hu2025, effective depth; csordas2025, depth score"


class Slope(NamedTuple):
    """One estimator's slope: its interval over prompts, its ratios, and why something is missing."""

    slope: float
    low: float
    high: float
    p_value: float
    ratios: FloatArray
    """By run, in the order given."""
    reason: str


def n_blocks(run: Run) -> int:
    """Blocks of a run's model."""
    return int(run["residual"].sizes["block"])


def score_readings(run: Run) -> dict[str, Reading]:
    """The ratio (d + ½)/L of the depth scores d of a run's prompts; none where the run holds no depth score."""
    if "depth_score" not in run.measures:
        return {}
    largest, blocks = run["depth_score"].sel(reduction="max"), n_blocks(run)
    found = {}
    for name in SCORES:
        effect_PL = largest[f"{name.removeprefix('depth_score_')}_effect"].transpose("prompt", "skipped").values
        limits = (0.5 / blocks, 1 - 0.5 / blocks)
        found[name] = Reading(effect_PL, np.ones(len(effect_PL)), partial(_mass_ratio, n_blocks=blocks), limits)
    return found


def _mass_ratio(effect: FloatArray, n_blocks: int) -> FloatArray:
    """(d + ½)/L of the centre of mass d of effects by block, [..., L]; NaN where no block has one."""
    with np.errstate(invalid="ignore", divide="ignore"):
        centre = effect @ np.arange(n_blocks) / effect.sum(-1)
    return np.asarray((centre + 0.5) / n_blocks)


def depth_trend(runs: Sequence[Run], *, resamples: int = 2000, level: float = 0.95, seed: int = 0) -> xr.Dataset:
    """The least-squares slope of every estimator's ratio over log₂ of the number of blocks.

    Args:
        runs: on the same prompts, with residual, lens, skip and effective_depth; several of one depth are seeds.
        resamples: bootstrap resamples of the prompts, the same for all runs.
        level: coverage of the intervals.
        seed: of resampling.

    Returns:
        By estimator: ``slope``; ``prompt_low`` and ``prompt_high``, its interval over prompts, for these very models;
        ``model_low`` and ``model_high``, over prompts and over models made alike but for their seed (NaN where each
        depth has one); ``seed_spread``, the standard deviation of the ratio between seeds; ``slope_proportional``;
        ``largest_change`` of the ratio over the family that the wider interval leaves possible; ``stable`` and
        ``proportional``: that interval holds 0, or ``slope_proportional`` (False, and ``trend_reason`` says why, where
        there is none); ``p_value`` and ``p_holm`` of the slope 0 over prompts.

    Raises:
        OptionError: fewer than two runs or depths, runs without these measures, or an option out of its range.
    """
    blocks = np.array([n_blocks(run) for run in runs], dtype=np.float64)
    coefficients = _slope_coefficients(np.log2(blocks))
    settings: dict[str, Any] = {"resamples": resamples, "level": level, "seed": seed}
    slopes = {**_depth_slopes(runs, settings), **_score_slopes(runs, coefficients, settings)}
    rows = [_row(name, one, blocks, coefficients, level) for name, one in slopes.items()]
    p_holm = holm(np.array([row["p_value"] for row in rows]))
    for row, corrected in zip(rows, p_holm):
        row["p_holm"] = float(corrected)
    data = {
        name: variable(("estimator",), [row[name] for row in rows], text, units, formula=formula, source=_SOURCE)
        for name, (text, units, formula) in _described(level).items()
    }
    return xr.Dataset(data, {"estimator": list(slopes)})


def _slope_coefficients(x: FloatArray) -> FloatArray:
    """c_i with Σ c_i y_i = the least-squares slope of y over x; refused where all sizes are the same."""
    if np.unique(x).size < 2:
        raise OptionError(f"A slope needs at least two different sizes; given: {', '.join(f'{v:g}' for v in x)}.")
    centred = x - x.mean()
    return np.asarray(centred / (centred**2).sum())


def _depth_slopes(runs: Sequence[Run], settings: dict[str, Any]) -> dict[str, Slope]:
    found = compare(runs, question="size", **settings)
    row = found.data.isel(comparison=0)
    place = {id(side.run): number for number, side in enumerate(found.sides)}
    order = [place[id(run)] for run in runs]
    slopes = {}
    for name in row["estimator"].values.tolist():
        one = row.sel(estimator=name)
        slope, low, high, p_value = (float(one[key]) for key in ("difference", "ci_low", "ci_high", "p_value"))
        ratios = found.runs["ratio"].sel(estimator=name).values[order]
        slopes[name] = Slope(slope, low, high, p_value, ratios, str(one["reason"].values))
    return slopes


def _score_slopes(runs: Sequence[Run], coefficients: FloatArray, settings: dict[str, Any]) -> dict[str, Slope]:
    readings = [score_readings(run) for run in runs]
    slopes = {}
    for name in SCORES if all(readings) else ():
        terms = [Term(own[name], float(c)) for own, c in zip(readings, coefficients)]
        found = contrast([terms], Sampling(**settings))
        missing = math.isnan(found.ci_low)
        reason = "too few prompts have a depth score in every run" if missing else ""
        ratios = np.array(found.estimates)
        slopes[name] = Slope(found.estimate, found.ci_low, found.ci_high, found.p_value, ratios, reason)
    return slopes


def _row(name: str, one: Slope, blocks: FloatArray, coefficients: FloatArray, level: float) -> dict[str, Any]:
    spread, reach = _between_seeds(one.ratios, blocks, coefficients, level)
    # halves of independent intervals add as squares (Zou and Donner 2008)
    model_low = one.slope - math.hypot(one.slope - one.low, reach)
    model_high = one.slope + math.hypot(one.high - one.slope, reach)
    low, high = (one.low, one.high) if math.isnan(reach) else (model_low, model_high)
    proportional = _slope_proportional(name, one.ratios, blocks, coefficients)
    return {
        "slope": one.slope,
        "prompt_low": one.low,
        "prompt_high": one.high,
        "model_low": model_low,
        "model_high": model_high,
        "seed_spread": spread,
        "slope_proportional": proportional,
        "largest_change": max(abs(low), abs(high)) * float(np.ptp(np.log2(blocks))),
        "stable": low <= 0 <= high,
        "proportional": low <= proportional <= high,
        "p_value": one.p_value,
        "trend_reason": one.reason,
    }


def _between_seeds(
    ratios: FloatArray, blocks: FloatArray, coefficients: FloatArray, level: float
) -> tuple[float, float]:
    """Spread of the ratio between seeds of one depth, pooled over depths, and how far it lets the slope vary."""
    depths, member = np.unique(blocks, return_inverse=True)
    degrees_of_freedom = len(blocks) - len(depths)
    if degrees_of_freedom == 0:
        return math.nan, math.nan
    means = np.bincount(member, weights=ratios) / np.bincount(member)
    spread = math.sqrt(float(((ratios - means[member]) ** 2).sum()) / degrees_of_freedom)
    quantile = float(stats.t.ppf((1 + level) / 2, degrees_of_freedom))
    return spread, quantile * spread * math.sqrt(float((coefficients**2).sum()))


def _slope_proportional(name: str, ratios: FloatArray, blocks: FloatArray, coefficients: FloatArray) -> float:
    """The slope of models whose curves are one function of relative depth, sampled at their blocks."""
    if name in MASSES:
        # the last block never counts; the middle of block s is s + ½ of L − 1
        relative = float(np.mean(ratios * blocks / (blocks - 1)))
        offset = -relative
    else:
        offset = ratio_offset(name)
    return offset * float((coefficients / blocks).sum()) + 0.0  # never −0


def ratio_offset(estimator: str) -> float:
    """o in ratio = relative depth + o/L, for every estimator but the centres of mass.

    Positions between blocks or boundaries are their own relative depth, and so is, on average, the end of the last
    block before the cosine's crossing. Other whole-numbered depths lie, on average, half a block behind the place: the
    first boundary beyond it, of the mean curve or of each token.
    """
    return 0.5 if estimator in ("kl", "overlap", "settle", "prediction") else 0.0


def _described(level: float) -> dict[str, tuple[str, str, str]]:
    percent, unit = f"{100 * level:g} %", "1 per doubling"
    prompts, models = (
        "bootstrap over prompts",
        "bootstrap over prompts and Student's t between seeds, halves as squares",
    )
    return {
        "slope": ("change of the ratio for each doubling of blocks", unit, "least-squares slope over log₂ L"),
        "prompt_low": (f"lower end of its {percent} interval for these models", unit, prompts),
        "prompt_high": (f"upper end of its {percent} interval for these models", unit, prompts),
        "model_low": (f"lower end of its {percent} interval over seeds and prompts", unit, models),
        "model_high": (f"upper end of its {percent} interval over seeds and prompts", unit, models),
        "seed_spread": ("standard deviation of the ratio between seeds of one depth", "1", "pooled over depths"),
        "slope_proportional": (
            "slope of models that do the same at the same relative depth",
            unit,
            "Σ c_i o/L_i, ratio = relative depth + o/L",
        ),
        "largest_change": (
            "largest change of the ratio over the family that the interval holds",
            "1",
            "max(|low|, |high|) · log₂(L_max/L_min)",
        ),
        "stable": ("the interval of the slope holds 0", "", ""),
        "proportional": ("the interval of the slope holds slope_proportional", "", ""),
        "p_value": ("two-sided p-value of no slope, for these models", "1", prompts),
        "p_holm": ("p-value corrected for all estimators", "1", "Holm"),
        "trend_reason": ("why there is no slope or no interval", "", ""),
    }
