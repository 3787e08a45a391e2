"""A published table next to what was measured, or to what the configurations of checkpoints say."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bathyscope.errors import ModelError
from bathyscope.measures.curves import as_published
from bathyscope.model import load_config
from bathyscope.model.anatomy.configurations import block_values
from bathyscope.pages.papers.cells import Outcome
from bathyscope.pages.papers.models import NamedModel
from bathyscope.runs.run import Run
from bathyscope.surveying.papers.reproduction import Table

_FIELDS = {"blocks": "num_hidden_layers", "query_heads": "num_attention_heads", "key_heads": "num_key_value_heads"}


@dataclass(frozen=True)
class TableEntry:
    """One number of a table, measured and published; None where missing, or where the run does not meet the criterion.

    Args:
        data: name of the measured work; empty = the configuration.
        quantity: an estimator of effective depth, or a size.
        blocks: L of the measured model; None where there is no run.
        crossing_share: share of the resamples that meet the criterion.
        reason: why the measured number or its interval is missing.
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
        """Whether both numbers are equal; None where one was not measured or not published.

        A published number differs from a criterion that is not met.
        """
        return None if self.blocks is None or self.published is None else self.measured == self.published

    @property
    def in_interval(self) -> bool | None:
        """Whether the published number is in the measured interval; None where one is missing."""
        if self.ci_low is None or self.ci_high is None or self.published is None:
            return None
        return self.ci_low <= self.published <= self.ci_high


def pairs(
    table: Table,
    models: Sequence[NamedModel],
    outcomes: Iterable[Outcome],
    read: bool = True,
    trust_remote_code: bool = False,
) -> list[TableEntry]:
    """Return every number of the table for these models, measured or not: model, quantity, data.

    Configurations are only read where ``read`` is True; otherwise only published sizes are returned.

    Args:
        trust_remote_code: also where a configuration comes with code of its own.
    """
    if not table.data:
        sizes = [_read_sizes(model, trust_remote_code) if read else ({}, "") for model in models]
        return [pair for model, read_sizes in zip(models, sizes) for pair in _compare_sizes(table, model, *read_sizes)]
    outcome_by_cell = {(outcome.cell.name, outcome.cell.work.name): outcome for outcome in outcomes}
    return [
        _compare_depth(table, model, data, quantity, outcome_by_cell.get((model.name, data)))
        for model in models
        for quantity in table.quantities
        for data in table.data
    ]


def _compare_depth(table: Table, model: NamedModel, data: str, estimator: str, outcome: Outcome | None) -> TableEntry:
    published = table.published(model.published, estimator, data)
    if outcome is None or not isinstance(outcome.result, Run):
        reason = "not measured" if outcome is None else outcome.reason
        return TableEntry(model.name, data, estimator, published=published, reason=reason)
    depth = as_published(outcome.result["effective_depth"])
    estimate = depth.sel(estimator=estimator)
    values = {name: float(estimate[name]) for name in ("depth", "ci_low", "ci_high", "crossing_share")}
    finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
    measured = finite.pop("depth")
    return TableEntry(
        model.name,
        data,
        estimator,
        int(depth.attrs["n_blocks"]),
        None if measured is None else round(measured),
        published=published,
        reason=str(estimate["reason"].item()),
        **finite,
    )


def _compare_sizes(table: Table, model: NamedModel, sizes: Mapping[str, int], reason: str) -> list[TableEntry]:
    """Compare a model's sizes with the published ones; ``reason`` says why some are unknown."""
    return [
        TableEntry(
            model.name,
            "",
            quantity,
            sizes.get("blocks"),
            sizes.get(quantity),
            published=table.published(model.published, quantity),
            reason=reason,
        )
        for quantity in table.quantities
    ]


def _read_sizes(model: NamedModel, trust_remote_code: bool) -> tuple[dict[str, int], str]:
    """Return each size of a model, by its configuration alone, or the reason why its sizes are unknown."""
    try:
        config = load_config(model.source, trust_remote_code=trust_remote_code).get_text_config()
    except ModelError as error:
        return {}, str(error)
    sizes = {name: next(iter(block_values(config, field)), None) for name, field in _FIELDS.items()}
    if sizes["blocks"] is None or sizes["query_heads"] is None:
        return {}, f"{model.name} has a configuration without blocks and heads."
    # Configurations without grouped queries do not state the number of key heads.
    sizes["key_heads"] = sizes["key_heads"] or sizes["query_heads"]
    return {name: int(size) for name, size in sizes.items() if size is not None}, ""
