"""What leads a comparison: how the verdict's readings differ, and which blocks cost more in one run than in another.

Both are contrasts of the same prompts as those of the estimators (``statistics.difference``), prompts counting alike.
Readings are compared as ratios of L, since models differ in L; costs of blocks where both models have as many.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import xarray as xr

from bathyscope.analysis.depths.side import ComparedPrompts
from bathyscope.core.arrays import FloatArray
from bathyscope.core.estimates import Estimate
from bathyscope.labels import Label, Table, interval, labelled
from bathyscope.runs.by_place import cost_of_leaving_out
from bathyscope.statistics.correction import holm
from bathyscope.statistics.difference import Contrast
from bathyscope.statistics.reading import Reading, only_entry

READINGS: Final = ("half", "tokens_90", "readable", "own", "later")
"""Those of the verdict, the one that a comparison states first."""
_NAMED: Final = 3
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
        ends: reading, or block, → its value in the reference and in the other run, from the prompts that are compared.
        reasons: reading → why its contrast has no interval; empty where it has one, or no value.
    """

    readings: Mapping[str, Contrast]
    blocks: Mapping[int, Contrast]
    ends: Mapping[str | int, tuple[float, float]]
    reasons: Mapping[str, str]


def why_no_interval(result: Contrast, unit: str) -> str:
    """Return why a contrast has no interval; empty where it has one, or no value.

    Args:
        unit: what is drawn, such as "clusters".
    """
    if np.isnan(result.estimate) or not np.isnan(result.ci_low):
        return ""
    if np.isnan(result.exists_share):
        return f"an interval needs at least two {unit} with values on each side"
    return "too few resamples have a value for an interval"


def depth_readings(side: ComparedPrompts) -> dict[str, Reading]:
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


def block_costs(sides: Sequence[ComparedPrompts]) -> list[dict[int, Reading]]:
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
    values = _columns([[row.readings[name] for name in READINGS] for row in rows])
    ends = np.array([[row.ends[name] for name in READINGS] for row in rows], dtype=np.float64)
    errors = [[row.readings[name].standard_error for name in READINGS] for row in rows]
    values |= {"reference_ratio": ends[..., 0], "other_ratio": ends[..., 1], "standard_error": np.array(errors)}
    values["reason"] = np.array([[row.reasons[name] for name in READINGS] for row in rows], dtype=object)
    return labelled(_READINGS, values, {"comparison": list(comparisons), "reading": list(READINGS)})


def block_data(comparisons: Sequence[str], rows: Sequence[Leading]) -> xr.Dataset | None:
    """Return how costs of blocks differ, by (comparison, block); None where no comparison has any."""
    places = sorted({block for row in rows for block in row.blocks})
    if not places:
        return None
    none = Contrast(np.nan, (), ())
    values = _columns([[row.blocks.get(block, none) for block in places] for row in rows])
    ends = np.array([[row.ends.get(block, (np.nan, np.nan)) for block in places] for row in rows], dtype=np.float64)
    values |= {"reference_cost": ends[..., 0], "other_cost": ends[..., 1], "p_holm": holm(values["p_value"])}
    del values["n_prompts"], values["n_units"]
    return labelled(_BLOCKS, values, {"comparison": list(comparisons), "block": places})


def _columns(contrasts: Sequence[Sequence[Contrast]]) -> dict[str, FloatArray]:
    fields = {"difference": "estimate", "difference_low": "ci_low", "difference_high": "ci_high", "p_value": "p_value"}
    columns = {
        name: np.array([[getattr(cell, field) for cell in row] for row in contrasts], dtype=np.float64)
        for name, field in fields.items()
    }
    units = np.array([[cell.n_units for cell in row] for row in contrasts])
    return columns | {
        "n_units": units,
        "n_prompts": np.array([[sum(cell.n_prompts) for cell in row] for row in contrasts]),
    }


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
        f"{Estimate.of(readings.isel(comparison=row, reading=reading), 'difference'):+.3f}"
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
