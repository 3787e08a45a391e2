"""A published table of numbers beside what was measured, or what the checkpoints' configurations say."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bathyscope.errors import ModelError
from bathyscope.measures.curves import as_published
from bathyscope.model import load_config
from bathyscope.pages.reproducing.cells import Outcome
from bathyscope.pages.reproducing.models import NamedModel
from bathyscope.runs.run import Run
from bathyscope.surveying.papers.reproduction import Table

_FIELDS = {"blocks": "num_hidden_layers", "query_heads": "num_attention_heads", "key_heads": "num_key_value_heads"}


@dataclass(frozen=True)
class Pair:
    """One number of a table, measured and published; None where there is none, or the run does not meet the criterion.

    Args:
        data: name of the work it was measured on; empty = the configuration.
        quantity: an estimator of effective depth, or a size.
        blocks: L of the measured model; None where there is no run.
        crossing_share: share of the resamples that meet the criterion.
        reason: why there is no measured number, or no interval.
    """

    model: str
    data: str
    quantity: str
    blocks: int | None = None
    measured: int | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    crossing_share: float | None = None
    published: int | None = None
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


def pairs(table: Table, models: Sequence[NamedModel], outcomes: Iterable[Outcome], read: bool = True) -> list[Pair]:
    """Every number of the table's rows for these models, whether it was measured or not: model, quantity, data.

    Only where ``read``, configurations are looked at; otherwise what was published of them is given.
    """
    if not table.data:
        return [pair for model in models for pair in _sizes(table, model, read)]
    found = {(outcome.cell.name, outcome.cell.work.name): outcome for outcome in outcomes}
    return [
        _depth(table, model, data, quantity, found.get((model.name, data)))
        for model in models
        for quantity in table.quantities
        for data in table.data
    ]


def _depth(table: Table, model: NamedModel, data: str, estimator: str, outcome: Outcome | None) -> Pair:
    published = table.published(model.published, estimator, data)
    if outcome is None or not isinstance(outcome.result, Run):
        reason = "not measured" if outcome is None else outcome.reason
        return Pair(model.name, data, estimator, published=published, reason=reason)
    depth = as_published(outcome.result["effective_depth"])
    one = depth.sel(estimator=estimator)
    values = {name: float(one[name]) for name in ("depth", "ci_low", "ci_high", "crossing_share")}
    found = {name: value if math.isfinite(value) else None for name, value in values.items()}
    measured = found.pop("depth")
    return Pair(
        model.name,
        data,
        estimator,
        int(depth.attrs["n_blocks"]),
        None if measured is None else round(measured),
        published=published,
        reason=str(one["reason"].item()),
        **found,
    )


def _sizes(table: Table, model: NamedModel, read: bool) -> list[Pair]:
    """A model's sizes, from its configuration alone."""
    found, reason = _configured(model) if read else ({}, "")
    return [
        Pair(
            model.name,
            "",
            quantity,
            found.get("blocks"),
            found.get(quantity),
            published=table.published(model.published, quantity),
            reason=reason,
        )
        for quantity in table.quantities
    ]


def _configured(model: NamedModel) -> tuple[dict[str, int], str]:
    """Size → its number, and why there are none."""
    try:
        config = load_config(model.source).get_text_config()
    except ModelError as error:
        return {}, str(error)
    found = {name: getattr(config, field, None) for name, field in _FIELDS.items()}
    if found["blocks"] is None or found["query_heads"] is None:
        return {}, f"{model.name} has a configuration without blocks and heads."
    found["key_heads"] = found["key_heads"] or found["query_heads"]
    return {name: int(size) for name, size in found.items() if size is not None}, ""
