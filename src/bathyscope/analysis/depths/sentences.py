"""A comparison in one sentence: the difference that survives correction, or that none is proved, and what would do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
from scipy import stats

from bathyscope.analysis.depths.questions import DIFFERENCE
from bathyscope.core.text import capitalised

if TYPE_CHECKING:
    import xarray as xr

LEADING: Final = ("prediction", "settle")
"""Estimators that are named first where they survive correction; then those of the smallest p."""
POWER: Final = 0.8
_MOST: Final = 100_000
_NAMES: Final = {
    "interpolated_cosine": "the cosine criterion",
    "interpolated_kl": "the KL criterion",
    "interpolated_overlap": "the overlap criterion",
    "centre_of_mass": "the centre of mass of skips",
    "settle": "the settle depth of tokens",
    "prediction": "the prediction depth of tokens",
}


class HasDifferences(Protocol):
    """A comparison: its data by (comparison, estimator), and what its difference and its intervals are."""

    @property
    def data(self) -> xr.Dataset: ...

    @property
    def blocks(self) -> xr.Dataset | None: ...

    @property
    def level(self) -> float: ...

    @property
    def quantity(self) -> str: ...


@dataclass(frozen=True)
class ComparedDepth:
    """One estimator in one comparison.

    Args:
        estimator: its name in the comparison's data.
        reference, other: the two ratios, NaN for a slope.
        difference, low, high: other − reference, or a slope, with its interval.
        p: corrected for all tests of the comparison; NaN without a test.
        error: standard error of the difference.
    """

    estimator: str
    reference: float
    other: float
    difference: float
    low: float
    high: float
    p: float
    error: float


def rows_of_comparison(comparison: HasDifferences, number: int) -> list[ComparedDepth]:
    """Return the estimators of one comparison that have a difference, those with a test first, by p."""
    data = comparison.data.isel(comparison=number)
    columns = ("reference_ratio", "other_ratio", "difference", "ci_low", "ci_high", "p_holm", "standard_error")
    rows = [
        ComparedDepth(str(name), *(float(data[column].sel(estimator=name)) for column in columns))
        for name in data["estimator"].values
    ]
    present = [row for row in rows if not math.isnan(row.difference)]
    return sorted(present, key=lambda row: (math.isnan(row.p), row.p if not math.isnan(row.p) else 0.0))


def surviving(comparison: HasDifferences, number: int) -> list[ComparedDepth]:
    """Return the estimators whose difference holds after correction, the leading ones first."""
    alpha = 1 - comparison.level
    proved = [row for row in rows_of_comparison(comparison, number) if row.p < alpha]
    leading = [row for name in LEADING for row in proved if row.estimator == name]
    return [*leading, *(row for row in proved if row not in leading)]


def sentence(comparison: HasDifferences, number: int = 0) -> str:
    """Return what one comparison says, without a full stop."""
    proved = surviving(comparison, number)
    if proved:
        return _state_difference(comparison, number, proved[0])
    rows = rows_of_comparison(comparison, number)
    tested = [row for row in rows if not math.isnan(row.p)]
    what = "difference" if comparison.quantity == DIFFERENCE else "slope"
    if not tested:
        return f"No {what} of depth can be tested: {_reason(comparison, number)}"
    prompts = _count_prompts(comparison, number)
    needed = _count_needed(comparison, tested, prompts)
    rest = f"differences of this size would need {needed}" if needed.startswith("more") else f"{needed} would be needed"
    of_prompts = f"{prompts} prompt{'' if prompts == 1 else 's'}"
    return f"No {what} of depth is proved on {of_prompts}; {rest}{_differing_costs(comparison, number)}"


def _differing_costs(comparison: HasDifferences, number: int) -> str:
    """Return that costs of blocks differ where depth is not proved to; empty where none do."""
    if comparison.blocks is None:
        return ""
    p = comparison.blocks["p_holm"].values[number]
    differ = int((p < 1 - comparison.level).sum())
    return f". What a block costs differs in {differ} of {int(np.isfinite(p).sum())} blocks" if differ else ""


def support(comparison: HasDifferences, number: int = 0) -> str:
    """Return what stands behind the sentence: interval, pairing, p, and how many other estimators agree."""
    proved, rows = surviving(comparison, number), rows_of_comparison(comparison, number)
    tested = [row for row in rows if not math.isnan(row.p)]
    kind = str(comparison.data["kind"].values[number])
    prompts = _count_prompts(comparison, number)
    pairing = {"paired": f"the same {prompts} prompts", "two-sample": f"{prompts} prompts of both together"}.get(
        kind, f"{prompts} prompts"
    )
    parts = []
    if proved:
        first = proved[0]
        parts = [
            f"{difference_text(comparison, first)}, {pairing}, p {_p_text(first.p)} after "
            f"correction for {_tests_text(comparison)}."
        ]
        same = sum(row.difference * first.difference > 0 for row in proved[1:])
        opposite = len(proved) - 1 - same
        votes = [
            f"{_count(same)} more agree{'s' if same == 1 else ''}" if same else "",
            f"{_count(opposite)} point{'s' if opposite == 1 else ''} the other way" if opposite else "",
            _silent(len(tested) - len(proved)),
        ]
        listed = ", ".join(text for text in votes if text)
        return " ".join([*parts, f"Of the other estimators {listed}." if listed else ""]).strip()
    if tested:
        first = tested[0]
        return (
            f"Closest: {_NAMES.get(first.estimator, first.estimator)}, {difference_text(comparison, first)}, p "
            f"{_p_text(first.p)} after correction for {_tests_text(comparison)}; {pairing}."
        )
    return ""


def difference_text(comparison: HasDifferences, row: ComparedDepth) -> str:
    """Return ``−3.7 points (−6.1 to −1.2)``; of a slope in points of each doubling."""
    unit = "points" if comparison.quantity == DIFFERENCE else "points a doubling"
    interval = "" if math.isnan(row.low) else f" ({_points(row.low)} to {_points(row.high)})"
    return f"{_points(row.difference)} {unit}{interval}"


def percents(row: ComparedDepth) -> tuple[str, str]:
    """Return both ratios in per cent, with as many decimals as show their difference."""
    digits = decimals(row)
    return f"{100 * row.reference:.{digits}f} %", f"{100 * row.other:.{digits}f} %"


def decimals(row: ComparedDepth) -> int:
    """Return how many decimals ratios in per cent need, at most two, so that they differ by the difference as written.

    Readers subtract the two: 69.2 − 65.6 next to "3.7 points" looks like a mistake.
    """
    written = round(100 * row.difference, 1)
    for digits in (0, 1):
        rounded = round(100 * row.other, digits) - round(100 * row.reference, digits)
        if abs(rounded - written) < 0.01:
            return digits
    return 2


def _state_difference(comparison: HasDifferences, number: int, row: ComparedDepth) -> str:
    data: xr.Dataset = comparison.data.isel(comparison=number)
    if comparison.quantity != DIFFERENCE:
        name = _NAMES.get(row.estimator, row.estimator)
        return f"{capitalised(name)} changes by {_points(row.difference)} points with each doubling of size"
    reference, other = str(data["reference"].item()), str(data["other"].item())
    lower = row.difference < 0
    ratios = percents(row)
    if row.estimator == "prediction":
        return (
            f"{other} reaches its final prediction after a {'smaller' if lower else 'larger'} share of its blocks "
            f"than {reference}: {ratios[1]} against {ratios[0]}"
        )
    name = _NAMES.get(row.estimator, row.estimator)
    return (
        f"{capitalised(name)} lies {'earlier' if lower else 'later'} in {other} than in {reference}: "
        f"{ratios[1]} of its depth against {ratios[0]}"
    )


def prompts_needed(comparison: HasDifferences, number: int = 0) -> str:
    """Return how many prompts would prove a difference of the size seen, such as ``about 40``; empty without a test."""
    tested = [row for row in rows_of_comparison(comparison, number) if not math.isnan(row.p)]
    return _count_needed(comparison, tested, _count_prompts(comparison, number)) if tested else ""


def _count_needed(comparison: HasDifferences, tested: Sequence[ComparedDepth], prompts: int) -> str:
    """Return the number, by the estimator that needs fewest."""
    alpha = (1 - comparison.level) / _tests(comparison)
    quantiles = float(stats.norm.ppf(1 - alpha / 2) + stats.norm.ppf(POWER))
    # The standard error falls with the root of the prompts; Bonferroni's share bounds Holm's first step.
    sizes = [
        prompts * (quantiles * row.error / abs(row.difference)) ** 2
        for row in tested
        if row.difference != 0 and row.error > 0
    ]
    size = max(min(sizes, default=math.inf), prompts + 1)
    if size > _MOST:
        return f"more than {_MOST:,}"
    digits = max(0, math.floor(math.log10(size)) - 1)
    return f"about {math.ceil(size / 10**digits) * 10**digits:,}"


def _reason(comparison: HasDifferences, number: int) -> str:
    reasons = [str(text) for text in comparison.data["reason"].values[number] if str(text)]
    return reasons[0] if reasons else "no estimator has an interval"


def _tests(comparison: HasDifferences) -> int:
    return max(1, int(np.isfinite(comparison.data["p_holm"].values).sum()))


def _tests_text(comparison: HasDifferences) -> str:
    tests = _tests(comparison)
    return "1 test" if tests == 1 else f"{tests} tests"


def _count_prompts(comparison: HasDifferences, number: int) -> int:
    return int(comparison.data["n_prompts"].values[number].max())


def _points(share: float) -> str:
    text = f"{abs(100 * share):.1f}"
    return text if float(text) == 0 else f"{'−' if share < 0 else '+'}{text}"


def _p_text(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.2g}"


def _count(number: int) -> str:
    words = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    return words[number] if number < len(words) else str(number)


def _silent(number: int) -> str:
    return "" if number == 0 else f"{_count(number)} {'is' if number == 1 else 'are'} not proved to differ"
