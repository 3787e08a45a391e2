"""A comparison in one sentence: how its head differs, or that no difference is proved, and what would prove one.

The head is that of a run: the share of its blocks from which half of the tokens keep their final prediction (a mean
over tokens, where a run of an earlier version stores no more). It is asked first and alone, so that it is not corrected
for the estimators below it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
from scipy import stats

from bathyscope.analysis.depths.questions import DIFFERENCE
from bathyscope.core.estimates import Estimate, write_signed
from bathyscope.core.text import capitalised, level_text
from bathyscope.runs.readings import LEVEL

if TYPE_CHECKING:
    import xarray as xr

LEADING: Final = ("prediction", "settle")
"""Estimators that are listed first where they survive correction; then those of the smallest p."""
HEADS: Final = ("half", "readable")
"""Readings that a comparison is headed by: the first that both runs have."""
POWER: Final = 0.8
_MOST: Final = 100_000


class HasDifferences(Protocol):
    """A comparison: its data by (comparison, estimator), and what its difference and its intervals are."""

    @property
    def data(self) -> xr.Dataset: ...

    @property
    def readings(self) -> xr.Dataset: ...

    @property
    def blocks(self) -> xr.Dataset | None: ...

    @property
    def level(self) -> float: ...

    @property
    def quantity(self) -> str: ...

    @property
    def change(self) -> str: ...

    @property
    def bound(self) -> str: ...


@dataclass(frozen=True)
class ComparedDepth:
    """One estimator, or the head, in one comparison.

    Args:
        estimator: its name in the comparison's data, or that of the head's reading.
        reference, other: the two ratios, NaN for a slope.
        difference, low, high: other − reference, or a slope, with its interval.
        p: corrected for all tests of the comparison, of the head alone; NaN without a test.
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


def head_row(comparison: HasDifferences, number: int = 0) -> ComparedDepth | None:
    """Return what heads one comparison; None where no run tells it."""
    data = comparison.readings.isel(comparison=number)
    columns = ("reference_ratio", "other_ratio", "difference", "difference_low", "difference_high", "p_value")
    for name in HEADS:
        reading = data.sel(reading=name)
        if not math.isnan(float(reading["difference"])):
            return ComparedDepth(name, *(float(reading[column]) for column in (*columns, "standard_error")))
    return None


def differs(row: ComparedDepth) -> bool:
    """Return whether the interval of a difference leaves out 0."""
    return row.low > 0 or row.high < 0


def sentence(comparison: HasDifferences, number: int = 0) -> str:
    """Return what one comparison says, without a full stop."""
    row = head_row(comparison, number)
    what = "difference" if comparison.quantity == DIFFERENCE else "slope"
    if row is None or math.isnan(row.low):
        depths = _both_depths(comparison, number, row)
        return f"No {what} of depth can be tested: {_reason(comparison, number, row)}{depths}"
    if differs(row):
        return f"{_state_difference(comparison, number, row)}{_of_level(comparison)}"
    needed = prompts_needed(comparison, number)
    rest = f"{needed} would be needed"
    if row.difference == 0:
        rest = f"no number of prompts proves a {what} of 0"
    elif not needed:
        rest = "they all agree, which does not tell how many would be needed"
    elif needed.startswith("more"):
        rest = f"a difference of this size would need {needed}"
    of_prompts, depths = _prompts_text(comparison, number), _both_depths(comparison, number, row)
    proved = f"No {what} of depth is proved on {of_prompts}{_of_level(comparison)}{depths}"
    return f"{proved}; {rest}{_differing_costs(comparison, number)}"


def _of_level(comparison: HasDifferences) -> str:
    """Name the level of the intervals unless it is the usual one: at 50 % every second difference is by chance."""
    return "" if comparison.level == LEVEL else f" by intervals of {level_text(comparison.level)}"


def _both_depths(comparison: HasDifferences, number: int, row: ComparedDepth | None) -> str:
    """Return the two depths in brackets; empty for slopes, and without depths."""
    if row is None or comparison.quantity != DIFFERENCE:
        return ""
    reference, other = (str(comparison.data[end].values[number]) for end in ("reference", "other"))
    first, second = percents(row)
    keep = "half of the tokens keep" if row.estimator == HEADS[0] else "tokens keep, on average,"
    return f" ({keep} their prediction from {second} of the blocks of {other} on, and {first} of {reference})"


def _differing_costs(comparison: HasDifferences, number: int) -> str:
    """Return that costs of blocks differ where depth is not proved to; empty where none do."""
    if comparison.blocks is None:
        return ""
    p = comparison.blocks["p_holm"].values[number]
    differ = int((p < 1 - comparison.level).sum())
    return f". What a block costs differs in {differ} of {int(np.isfinite(p).sum())} blocks" if differ else ""


def support(comparison: HasDifferences, number: int = 0) -> str:
    """Return what is behind the sentence: interval, pairing, p, and how many estimators agree."""
    row = head_row(comparison, number)
    kind = str(comparison.data["kind"].values[number])
    prompts = _prompts_text(comparison, number)
    together = "of both together" if comparison.quantity == DIFFERENCE else "of all runs together"
    pairing = {"paired": f"the same {prompts}", "two-sample": f"{prompts} {together}"}.get(kind, prompts)
    parts = []
    if row is not None and not math.isnan(row.p):
        parts.append(f"{difference_text(comparison, row)}, {pairing}, p {_p_text(row.p)}.")
    estimators = _state_estimators(comparison, number, row)
    return " ".join([*parts, *([estimators] if estimators else [])])


def _state_estimators(comparison: HasDifferences, number: int, row: ComparedDepth | None) -> str:
    """Return how many estimators differ after correction, and in which direction; empty where none has a test."""
    tested = [estimator for estimator in rows_of_comparison(comparison, number) if not math.isnan(estimator.p)]
    if not tested:
        return ""
    proved = surviving(comparison, number)
    text = f"Of {len(tested)} estimators {_count(len(proved))} differ{'s' if len(proved) == 1 else ''}"
    text += f" after correction for {_tests_text(comparison)}"
    if row is None or not proved:
        return f"{text}."
    opposite = sum(estimator.difference * row.difference < 0 for estimator in proved)
    return f"{text}, {_count(opposite)} of them the other way." if opposite else f"{text}, in the same direction."


def difference_text(comparison: HasDifferences, row: ComparedDepth) -> str:
    """Return ``−3.7 points (−6.1 to −1.2)``; of a slope in points of each doubling."""
    unit = "points" if comparison.quantity == DIFFERENCE else "points a doubling"
    return Estimate(row.difference, row.low, row.high).write(_points, f" {unit}")


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
    whose = "half of the tokens keep" if row.estimator == HEADS[0] else "the average token keeps"
    if comparison.quantity != DIFFERENCE:
        change = f"changes by {_points(row.difference)} points with each doubling of size"
        return f"The share of the blocks from which {whose} {_their(row)} prediction {change}"
    reference, other = str(data["reference"].item()), str(data["other"].item())
    first, second = percents(row)
    return (
        f"{capitalised(whose)} {_their(row)} prediction from a {'smaller' if row.difference < 0 else 'larger'} share "
        f"of the blocks on in {other} than in {reference}: {second} against {first}"
    )


def _their(row: ComparedDepth) -> str:
    return "their" if row.estimator == HEADS[0] else "its"


def prompts_needed(comparison: HasDifferences, number: int = 0) -> str:
    """Return how many prompts would prove a difference of the size seen, such as ``about 40``.

    Copies of a prompt count once, and with a label it is clusters that are counted: ``about 40 clusters``. Empty
    without a test, and where prompts that all agree show no spread.
    """
    row = head_row(comparison, number)
    if row is None or math.isnan(row.p) or (row.error == 0 and row.difference != 0):
        return ""
    prompts = _head_counts(comparison, number)[1]
    quantiles = float(stats.norm.ppf((1 + comparison.level) / 2) + stats.norm.ppf(POWER))
    size = math.inf
    # The standard error falls with the root of the prompts.
    if row.difference != 0 and row.error > 0:
        size = prompts * (quantiles * row.error / abs(row.difference)) ** 2
    size = max(size, prompts + 1)
    clusters = " clusters" if "cluster" in comparison.data.attrs else ""
    if size > _MOST:
        return f"more than {_MOST:,}{clusters}"
    digits = max(0, math.floor(math.log10(size)) - 1)
    return f"about {math.ceil(size / 10**digits) * 10**digits:,}{clusters}"


def _reason(comparison: HasDifferences, number: int, row: ComparedDepth | None) -> str:
    """Return why the head has no interval; without a head, why the first estimator has none."""
    if row is not None:
        head = comparison.readings.isel(comparison=number).sel(reading=row.estimator)
        return str(head["reason"].item()) or "the readings have no interval"
    reasons = [str(text) for text in comparison.data["reason"].values[number] if str(text)]
    return reasons[0] if reasons else "no estimator has an interval"


def _tests_text(comparison: HasDifferences) -> str:
    tests = max(1, int(np.isfinite(comparison.data["p_holm"].values).sum()))
    return "1 test" if tests == 1 else f"{tests} tests"


def _head_counts(comparison: HasDifferences, number: int) -> tuple[int, int]:
    """Return the prompts that the head is of, and how many of them are drawn independently; of all without a head."""
    row = head_row(comparison, number)
    if row is None:
        prompts = int(comparison.data["n_prompts"].values[number].max())
        return prompts, prompts
    counts = comparison.readings.isel(comparison=number).sel(reading=row.estimator)
    return int(counts["n_prompts"]), int(counts["n_units"])


def _prompts_text(comparison: HasDifferences, number: int) -> str:
    """Return ``12 prompts``, ``12 different prompts`` where others are copies, or ``12 prompts in 4 clusters``."""
    prompts, units = _head_counts(comparison, number)
    if "cluster" in comparison.data.attrs:
        return f"{prompts} prompts in {units} clusters"
    return f"{units}{' different' if units < prompts else ''} prompt{'' if units == 1 else 's'}"


def _points(share: float) -> str:
    return write_signed(100 * share, 1)


def _p_text(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.2g}"


def _count(number: int) -> str:
    words = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    return words[number] if number < len(words) else str(number)
