"""A published table of effective depths beside what was measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bathyscope.measures.curves import as_published
from bathyscope.papers.reproduction import DepthTable
from bathyscope.reproducing.cells import Outcome
from bathyscope.reproducing.models import NamedModel
from bathyscope.store.run import Run


@dataclass(frozen=True)
class DepthPair:
    """One number of the table: measured and published. None where there is none.

    Args:
        data: name of the survey.
        blocks: L of the measured model; None where there is no run.
        measured: effective depth, 0-based; None also where the run does not meet the criterion.
        ci_low: lower end of its interval.
        ci_high: upper end.
        crossing_share: share of the resamples that meet the criterion.
        reason: why there is no measured number, or no interval.
    """

    model: str
    data: str
    estimator: str
    blocks: int | None
    measured: int | None
    ci_low: float | None
    ci_high: float | None
    crossing_share: float | None
    published: int | None
    reason: str = ""

    @property
    def agrees(self) -> bool | None:
        """Whether both numbers are the same; None where nothing was measured or published. A published number differs
        from a criterion that is not met."""
        return None if self.blocks is None or self.published is None else self.measured == self.published

    @property
    def in_interval(self) -> bool | None:
        """Whether the published number lies in the measured interval; None where one is missing."""
        if self.ci_low is None or self.ci_high is None or self.published is None:
            return None
        return self.ci_low <= self.published <= self.ci_high


def depth_pairs(table: DepthTable, models: Sequence[NamedModel], outcomes: Iterable[Outcome]) -> list[DepthPair]:
    """Every number of the table's rows for these models, whether it was measured or not: model, estimator, data set."""
    found = {(outcome.cell.model.name, outcome.cell.survey.name): outcome for outcome in outcomes}
    return [
        _pair(table, model, data, estimator, found.get((model.name, data)))
        for model in models
        for estimator in table.estimators
        for data in table.surveys
    ]


def _pair(table: DepthTable, model: NamedModel, data: str, estimator: str, outcome: Outcome | None) -> DepthPair:
    published = table.depth(model.published, data, estimator)
    if outcome is None or outcome.run is None:
        reason = "not measured" if outcome is None else outcome.reason
        return DepthPair(model.name, data, estimator, None, None, None, None, None, published, reason)
    blocks, numbers, reason = _measured(outcome.run, estimator)
    depth = numbers["depth"]
    return DepthPair(
        model.name,
        data,
        estimator,
        blocks,
        None if depth is None else round(depth),
        numbers["ci_low"],
        numbers["ci_high"],
        numbers["crossing_share"],
        published,
        reason,
    )


def _measured(run: Run, estimator: str) -> tuple[int, dict[str, float | None], str]:
    """Blocks of the model, numbers of the estimate, and why there is none."""
    depth = as_published(run["effective_depth"])
    one = depth.sel(estimator=estimator)
    values = {name: float(one[name]) for name in ("depth", "ci_low", "ci_high", "crossing_share")}
    numbers = {name: value if math.isfinite(value) else None for name, value in values.items()}
    return int(depth.attrs["n_blocks"]), numbers, str(one["reason"].item())
