"""What differences between groups stand next to: tokens that prompts share, and the same differences untrained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from bathyscope.errors import warn
from bathyscope.prompts.beginnings import MOSTLY
from bathyscope.runs.departures import of_answers
from bathyscope.runs.head import percent
from bathyscope.runs.paired import paired_controls
from bathyscope.statistics.effective_depth import ESTIMATORS, Estimator, measure_of

if TYPE_CHECKING:
    import xarray as xr
    from numpy.typing import NDArray

    from bathyscope.core.arrays import FloatArray
    from bathyscope.runs.run import Run

SHARE: Final = "deep_thinking_ratio"
"""The one estimator that is a share of tokens itself, and no depth."""
_UNTRAINED: Final = "untrained-"


def warn_of_common_beginnings(run: Run, names: Sequence[str]) -> None:
    """Warn where estimators are of all tokens, and most of these are the same in several prompts."""
    lens_of_answers = of_answers(run.identity.measures)
    measures = {name: "lens" if name == SHARE else measure_of(name) for name in names if name in (*ESTIMATORS, SHARE)}
    of_all_tokens = [name for name, measure in measures.items() if measure != "lens" or not lens_of_answers]
    if run.share_in_common < MOSTLY or not of_all_tokens:
        return
    warn(
        f"{percent(run.share_in_common)} of the tokens stand in beginnings that prompts share (few-shot examples, "
        "instructions), which a model reads alike in each. Intervals and p-values of means over all tokens "
        f"({', '.join(of_all_tokens)}) say little of how groups differ behind them. Read where answers are predicted: "
        "survey with lens={'positions': 'answer'} (--lens.positions answer)."
    )


def untrained_controls(run: Run) -> dict[str, Run]:
    """Return the untrained controls of a run that read the same prompts, by label; each draw once."""
    return {name: run.controls[name] for name in paired_controls(run) if name.startswith(_UNTRAINED)}


def differences_between(
    groups: Iterable[NDArray[np.bool_]], estimator_of: Mapping[str, Estimator], unit_of: Mapping[str, int]
) -> FloatArray:
    """Return other − reference of every two groups by every estimator, [pair, estimator].

    NaN where a run has no such estimator, and of whole-numbered ones, which have no test to stand next to.

    Args:
        groups: which prompts belong to each.
        unit_of: estimator → what its depth is divided by.
    """
    ratios = [[_ratio(estimator_of.get(name), members, unit_of[name]) for name in unit_of] for members in groups]
    return np.array([np.subtract(other, reference) for reference, other in combinations(ratios, 2)])


def _ratio(estimator: Estimator | None, members: NDArray[np.bool_], unit: int) -> float:
    if estimator is None or estimator.whole is not None:
        return np.nan
    usable = estimator.take(members & estimator.has_value)
    return float(usable.ratio(unit).estimate()) if len(usable.weights) else np.nan


def compare_with_untrained(data: xr.Dataset) -> str:
    """Say how many of the differences untrained controls show as well; empty without controls or differences.

    One that an untrained model shows as large and in the same direction is not due to training.
    """
    if "untrained_difference" not in data:
        return ""
    untrained = data["untrained_difference"].transpose("untrained", "pair", "estimator").values
    difference, low, high = (
        data[name].transpose("pair", "estimator").values for name in ("difference", "difference_low", "difference_high")
    )
    differs = ((low > 0) | (high < 0)) & np.isfinite(untrained).all(0)
    if not differs.any():
        return ""
    as_large = (untrained * np.sign(difference) >= np.abs(difference)).any(0) & differs
    names = data["untrained"].size
    models = f"one of the {names} untrained models" if names > 1 else "the untrained model"
    count = int(as_large.sum())
    return (
        f" Of {int(differs.sum())} that can be compared, {count} {'is' if count == 1 else 'are'} as large in {models}."
    )
