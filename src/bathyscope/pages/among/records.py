"""The models that a run is set among: depths that papers print, and records that the package holds.

Both are rows of the same columns, and each says what it was measured on. A depth is a share of the model's blocks.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, Self

from bathyscope.core.foreign import read_text
from bathyscope.prompts.spec import parse
from bathyscope.statistics.effective_depth import CURVES, blocks_done
from bathyscope.surveying.papers.reproduction import Reproduction, Table, short_name
from bathyscope.surveying.papers.reproductions import REPRODUCTIONS

FILE: Final = Path(__file__).with_name("records.csv")
HALF: Final = "half"
QUANTITIES: Final = (HALF, *CURVES)
"""The depth of the head, and the criteria that papers print."""
UNTRAINED: Final = ", untrained"
"""In the names of untrained models, behind the name of the model whose shape they have."""

Kind = Literal["run", "trained", "untrained", "published"]


@dataclass(frozen=True)
class DepthRecord:
    """One depth of one model.

    Args:
        model: its name.
        kind: the run in question, a trained or an untrained model that was measured for this package, or a paper's.
        quantity: *half*, or a criterion of effective depth.
        share: blocks done over blocks, 0 … 1; NaN where the model has no such depth.
        low, high: the 95 % interval over prompts; NaN for a depth without one.
        blocks: of the model.
        data: what was read.
        prompts: how many.
        weights: as they were measured, and how they are told apart.
        source: who says so.
    """

    model: str
    kind: Kind
    quantity: str
    share: float
    low: float
    high: float
    blocks: int
    data: str
    prompts: int
    weights: str
    source: str

    @classmethod
    def of_row(cls, row: dict[str, str]) -> Self:
        """Return the record of a row of the file."""
        types: dict[str, Any] = {"share": _number, "low": _number, "high": _number, "blocks": int, "prompts": int}
        return cls(**{name: types.get(name, str)(row[name]) for name in columns()})

    def row(self) -> dict[str, Any]:
        """Return the row of the record: a value for every column."""
        return asdict(self)


def columns() -> tuple[str, ...]:
    """Return the names of what a record holds, in order."""
    return tuple(field.name for field in fields(DepthRecord))


@cache
def measured() -> tuple[DepthRecord, ...]:
    """Return the records of the package: trained models, and untrained ones of their shapes."""
    return tuple(DepthRecord.of_row(row) for row in csv.DictReader(read_text(FILE).splitlines()))


@cache
def published() -> tuple[DepthRecord, ...]:
    """Return the depths that papers print, on the scale of a run: blocks done over blocks."""
    return tuple(
        record
        for paper in REPRODUCTIONS.values()
        for number, table in paper.tables.items()
        if set(table.quantities) <= set(CURVES)
        for record in _printed(paper, number, table)
    )


def _printed(paper: Reproduction, number: str, table: Table) -> Iterator[DepthRecord]:
    sizes = next(other for other in paper.tables.values() if "blocks" in other.quantities)
    for model in table.values:
        blocks = sizes.published(model, "blocks")
        for quantity in table.quantities:
            for data in table.data:
                index = table.published(model, quantity, data)
                if index is None or blocks is None:
                    continue
                yield DepthRecord(
                    model=short_name(model),
                    kind="published",
                    quantity=quantity,
                    share=(index + blocks_done(quantity)) / blocks,
                    low=math.nan,
                    high=math.nan,
                    blocks=blocks,
                    data=data,
                    prompts=parse(str(paper.work(data).data)).count or 0,
                    weights=table.weights,
                    source=f"{paper.paper}, Table {number}",
                )


def _number(text: str) -> float:
    return float(text) if text else math.nan
