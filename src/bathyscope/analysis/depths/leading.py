"""What leads a comparison: how the verdict's readings differ, and which blocks cost more in one run than in another.

Both are contrasts of the same prompts as those of the estimators (``statistics.difference``), prompts counting alike.
Readings are compared as ratios of L, since models differ in L; costs of blocks where both models have as many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bathyscope.analysis.depths.cohorts import Cohort, Contrasted, columns_of, contrasted, ends_of, why_no_interval
from bathyscope.analysis.depths.questions import PlannedContrast
from bathyscope.analysis.depths.side import ComparedPrompts
from bathyscope.core.arrays import FloatArray
from bathyscope.core.estimates import Estimate
from bathyscope.core.text import signed
from bathyscope.labels import Label, Table, interval, labelled
from bathyscope.runs.by_place import cost_of_leaving_out
from bathyscope.statistics.correction import holm
from bathyscope.statistics.difference import Contrast
from bathyscope.statistics.reading import Reading, only_entry
from bathyscope.statistics.sampling import Sampling

READINGS: Final = ("half", "tokens_90", "readable", "own", "later")
"""Those of the verdict, the one that a comparison states first."""
_NAMED: Final = 3
_SIGNED: Final = partial(signed, decimals=3)
"""An interval without 0 is written with ends that are not 0."""
_SOURCE: Final = "own"
_by_reading = partial(Label, "comparison reading", source=_SOURCE)
_by_block = partial(Label, "comparison block", source=_SOURCE)
_READINGS: Final[Table] = {
    "reference_ratio": _by_reading("the reading of the reference", formula="blocks done / L"),
    "other_ratio": _by_reading("the reading of the other run", formula="blocks done / L"),
    "difference": _by_reading("difference of the reading, or its slope", formula="other − reference"),
    **interval("difference", _by_reading, "its interval", formula="bootstrap over prompts"),
    "standard_error": _by_reading("standard error of the difference", formula="bootstrap over prompts"),
    "p_value": _by_reading("two-sided p-value of no difference"),
    "n_prompts": _by_reading("prompts in use", "prompt"),
    "n_units": _by_reading("different prompts, or clusters, in use", "prompt"),
    "reason": _by_reading("why the difference has no interval", ""),
}
_BLOCKS: Final[Table] = {
    "reference_cost": _by_block("loss added without the block, in the reference", "nats"),
    "other_cost": _by_block("loss added without the block, in the other run", "nats"),
    "difference": _by_block("difference of the added loss", "nats", "other − reference"),
    **interval("difference", _by_block, "its interval", "nats", formula="bootstrap over prompts"),
    "p_value": _by_block("two-sided p-value of no difference"),
    "p_holm": _by_block("p-value corrected for all blocks and comparisons", formula="Holm"),
}


class Leading(NamedTuple):
    """One comparison: contrasts of the readings, and of the blocks' costs where both runs measured them.

    Args:
        readings: by name of the reading.
        blocks: by block; empty for slopes, unequal models, and runs without drop.
        reasons: reading → why its contrast has no interval; empty where it has one, or no value.
    """

    readings: Mapping[str, Contrasted]
    blocks: Mapping[int, Contrasted]
    reasons: Mapping[str, str]


def lead(comparison: PlannedContrast, cohorts: Sequence[Cohort], sampling: Sampling, unit: str) -> Leading:
    """Return the contrasts that are first: of the verdict's readings, and of the costs of blocks.

    Args:
        unit: what is drawn, such as "clusters".
    """
    by_side = [_depth_readings(side) for side in comparison.sides]
    costs = _block_costs(comparison.sides) if comparison.blocks is not None else []

    def contrast_all(by_side: Sequence[Mapping[Any, Reading]], quantities: Iterable[Any]) -> dict[Any, Contrasted]:
        return {
            quantity: contrasted([side[quantity] for side in by_side], comparison.coefficients, cohorts, sampling)
            for quantity in quantities
        }

    readings = contrast_all(by_side, by_side[0])
    reasons = {name: why_no_interval(outcome.contrast, unit) for name, outcome in readings.items()}
    return Leading(readings, contrast_all(costs, costs[0] if costs else ()), reasons)


def _depth_readings(side: ComparedPrompts) -> dict[str, Reading]:
    """Return the verdict's readings as ratios of L; without a value for prompts that have none."""
    if not side.run.judged:
        (none,) = _reading(side, np.full((len(side.run.prompts), 1), np.nan), (0.0, 1.0))
        return dict.fromkeys(READINGS, none)
    verdict = side.run.verdict
    return {name: _as_ratio(side, getattr(verdict, name).statistic) for name in READINGS}


def _as_ratio(side: ComparedPrompts, reading: Reading) -> Reading:
    """Return a reading of all of a run's prompts, in blocks, as a ratio of L, of those of the side."""
    chosen = reading.take(_places(side))
    locate = partial(_ratio, reading.locate, side.n_blocks)
    return replace(chosen, locate=locate, limits=(0.0, 1.0), cluster=side.curves.cluster)


def _ratio(locate: Callable[[FloatArray], FloatArray], n_blocks: int, mean: FloatArray) -> FloatArray:
    return np.asarray(locate(mean) / n_blocks)


def _places(side: ComparedPrompts) -> list[int]:
    """Return the numbers of the side's prompts among those of its run."""
    place = {prompt.id: number for number, prompt in enumerate(side.run.prompts)}
    return [place[name] for name in side.prompt_ids]


def _block_costs(sides: Sequence[ComparedPrompts]) -> list[dict[int, Reading]]:
    """Return what each block costs in each of two runs; empty where they did not leave out the same blocks."""
    costs = [cost_of_leaving_out(side.run, None) for side in sides]
    first, *others = costs
    if first is None or any(other is None or other.places != first.places for other in others):
        return []
    return [
        dict(zip(cost.places, _reading(side, cost.by_prompt))) for side, cost in zip(sides, costs) if cost is not None
    ]


def _reading(
    side: ComparedPrompts, values_PX: FloatArray, limits: tuple[float, float] = (-np.inf, np.inf)
) -> list[Reading]:
    """Return a reading of each column of values of all of a run's prompts, cut to those of the side."""
    chosen = values_PX[_places(side)]
    return [
        Reading(column[:, None], np.ones(len(column)), only_entry, limits, cluster=side.curves.cluster)
        for column in chosen.T
    ]


def reading_data(comparisons: Sequence[str], rows: Sequence[Leading]) -> xr.Dataset:
    """Return how the readings differ, by (comparison, reading)."""
    outcomes = [[row.readings[name] for name in READINGS] for row in rows]
    values: dict[str, NDArray[Any]] = {**columns_of(outcomes, _READINGS)}
    values["reference_ratio"], values["other_ratio"] = ends_of(outcomes)
    values["reason"] = np.array([[row.reasons[name] for name in READINGS] for row in rows], dtype=object)
    return labelled(_READINGS, values, {"comparison": list(comparisons), "reading": list(READINGS)})


def block_data(comparisons: Sequence[str], rows: Sequence[Leading]) -> xr.Dataset | None:
    """Return how costs of blocks differ, by (comparison, block); None where no comparison has any."""
    places = sorted({block for row in rows for block in row.blocks})
    if not places:
        return None
    none = Contrasted(Contrast(np.nan, (), ()), {}, (np.nan, np.nan))
    outcomes = [[row.blocks.get(block, none) for block in places] for row in rows]
    values = columns_of(outcomes, _BLOCKS)
    values["reference_cost"], values["other_cost"] = ends_of(outcomes)
    values["p_holm"] = holm(values["p_value"])
    return labelled(_BLOCKS, values, {"comparison": list(comparisons), "block": places})


def lead_text(readings: xr.Dataset, blocks: xr.Dataset | None, level: float) -> str:
    """Return which readings of the verdict differ, and which blocks' costs; empty where neither was measured."""
    return " ".join(text for text in (_reading_text(readings), _block_text(blocks, level)) if text)


def _reading_text(readings: xr.Dataset) -> str:
    low, high = readings["difference_low"].values, readings["difference_high"].values
    intervals, differs = int(np.isfinite(low).sum()), (low > 0) | (high < 0)
    if not intervals:
        return ""
    several = readings.sizes["comparison"] > 1
    named = [
        f"{readings['reading'].values[reading]}{f' of {readings.comparison.values[row]}' if several else ''} "
        f"{Estimate.of(readings.isel(comparison=row, reading=reading), 'difference').write(_SIGNED)}"
        for row, reading in np.argwhere(differs)[:_NAMED]
    ]
    listed = f": {', '.join(named)}{_more(int(differs.sum()))} of the depth" if named else ""
    counted = f"{int(differs.sum())} of {intervals} differences of the verdict's readings have"
    # nothing is taken off for looking at several readings, as it is for blocks and estimators
    return f"{counted} an interval without 0, uncorrected{listed}."


def _block_text(blocks: xr.Dataset | None, level: float) -> str:
    if blocks is None or not np.isfinite(blocks["p_holm"].values).any():
        return ""
    p, difference = blocks["p_holm"].values, blocks["difference"].values
    differs = p < 1 - level
    several = blocks.sizes["comparison"] > 1
    named = [
        f"block {blocks['block'].values[block]}{f' of {blocks.comparison.values[row]}' if several else ''} "
        f"{difference[row, block]:+.3g} nats"
        for row, block in np.argwhere(differs)[:_NAMED]
    ]
    listed = f": {', '.join(named)}{_more(int(differs.sum()))}" if named else ""
    counted = f"{int(differs.sum())} of {int(np.isfinite(p).sum())} differences of the loss added without a block"
    return f"{counted} hold after Holm's correction{listed}."


def _more(count: int) -> str:
    return f" and {count - _NAMED} more" if count > _NAMED else ""
