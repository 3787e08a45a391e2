"""Measured and published depths side by side."""

from __future__ import annotations

from pathlib import Path

import pytest
import xarray as xr
from support import stand_ins

from bathyscope.pages.papers.cells import Outcome
from bathyscope.pages.papers.models import NamedModel
from bathyscope.pages.papers.tables import TableEntry, pairs
from bathyscope.pages.papers.verbs import WorkCell
from bathyscope.runs.run import Run
from bathyscope.surveying.papers.reproduction import Table, Work

TABLE = Table("depths", ("cosine", "kl"), ("one", "two"), {"owner/listed": ((3, 4), (5, 6))})
LISTED, OTHER = NamedModel("listed", "./a", "owner/listed"), NamedModel("other", "./b", None)
NAN = float("nan")


def outcome(model: NamedModel, data: str, run: Run | None, reason: str = "") -> Outcome:
    cell = WorkCell((model,), Work(data, "gsm8k:1"), Path(data), "hu2025", ("effective_depth",), {})
    return Outcome(cell, run, reason)


def run_of(cosine: float, kl: float) -> Run:
    values = {"depth": [cosine, kl], "ci_low": [2.0, NAN], "ci_high": [4.0, NAN], "crossing_share": [1.0, 0.0]}
    data = {name: ("estimator", numbers) for name, numbers in values.items()}
    found = xr.Dataset({**data, "reason": ("estimator", ["", "why not"])}, {"estimator": ["cosine", "kl"]})
    found.attrs["n_blocks"] = 8
    return Run(xr.DataTree.from_dict({"/effective_depth": found}), {"identity": {}})


def test_rows_in_the_tables_order_measured_or_not() -> None:
    outcomes = [outcome(LISTED, "two", None, "no data"), outcome(LISTED, "one", run_of(3, NAN))]
    found = pairs(TABLE, [LISTED, OTHER], outcomes)
    assert [(p.model, p.quantity, p.data, p.measured, p.published) for p in found] == [
        ("listed", "cosine", "one", 3, 3),
        ("listed", "cosine", "two", None, 4),
        ("listed", "kl", "one", None, 5),
        ("listed", "kl", "two", None, 6),
        ("other", "cosine", "one", None, None),
        ("other", "cosine", "two", None, None),
        ("other", "kl", "one", None, None),
        ("other", "kl", "two", None, None),
    ]
    assert [p.agrees for p in found[:4]] == [True, None, False, None]
    assert [p.reason for p in found[:5]] == ["", "no data", "why not", "no data", "not measured"]
    assert [p.blocks for p in found[:2]] == [8, None]


@pytest.mark.parametrize(
    ("measured", "published", "agrees", "covered"),
    [(3, 3, True, True), (3, 4, False, True), (3, 5, False, False), (3, None, None, None), (None, 3, False, True)],
)
def test_agreement(measured: int | None, published: int | None, agrees: bool | None, covered: bool | None) -> None:
    pair = TableEntry("m", "d", "kl", 8, measured, 2.0, 4.0, 1.0, published)
    assert (pair.agrees, pair.in_interval) == (agrees, covered)


def test_sizes_are_read_from_configurations(tmp_path: Path) -> None:
    folder = stand_ins.checkpoint(tmp_path / "tiny")
    table = Table("sizes", ("blocks", "query_heads", "key_heads"), (), {"owner/listed": ((28,), (4,), (2,))})
    models = [NamedModel("tiny", str(folder), "owner/listed"), NamedModel("absent", str(tmp_path / "no"), None)]
    found = pairs(table, models, ())
    assert [(p.quantity, p.measured, p.published, p.agrees) for p in found[:3]] == [
        ("blocks", 5, 28, False),
        ("query_heads", 4, 4, True),
        ("key_heads", 2, 2, True),
    ]
    assert [(p.measured, p.agrees) for p in found[3:]] == [(None, None)] * 3
    assert all("no" in p.reason for p in found[3:])
    unread = pairs(table, models[:1], (), read=False)
    assert [(p.measured, p.published, p.reason) for p in unread] == [(None, 28, ""), (None, 4, ""), (None, 2, "")]
