"""Where a run's model is among others: one row a model and depth, a sentence for each kind of others, and a picture.

The depths of the run are read by the thresholds that papers use, whatever the run itself was surveyed with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd
import xarray as xr

from bathyscope.core.result import TabledResult
from bathyscope.core.tables import TextTable
from bathyscope.core.text import counted, without_folders, without_places, written_out
from bathyscope.errors import OptionError
from bathyscope.measures.curves import COSINES, depth_inputs
from bathyscope.pages.among.records import HALF, QUANTITIES, UNTRAINED, DepthRecord, Kind, columns, measured, published
from bathyscope.runs.run import Run
from bathyscope.statistics.effective_depth import CURVES, effective_depth
from bathyscope.statistics.sampling import Sampling
from bathyscope.surveying.papers.hu2025 import difficulty_rank

_HASH_LETTERS: Final = 12
_KINDS: Final = {"run": "this run", "trained": "trained", "untrained": "untrained", "published": "printed"}
"""Kind of a record → how tables call it."""


@dataclass(frozen=True, eq=False, repr=False)
class Standing(TabledResult):
    """A run's depths, those of the models of the package and those that papers print.

    Args:
        records: those of the run first.
    """

    records: tuple[DepthRecord, ...]
    figure: str = "among"

    @property
    def data(self) -> xr.Dataset:
        """The rows as arrays along ``row``."""
        return xr.Dataset.from_dataframe(self.to_dataframe().rename_axis("row"))

    def to_dataframe(self) -> pd.DataFrame:
        """Return the table: a row for every model and depth, with what it was measured on and who says so."""
        return pd.DataFrame([record.row() for record in self.records], columns=list(columns()))

    def tables(self) -> list[TextTable]:
        """Return for every depth of the run the models in the order of theirs; papers' data apart."""
        return [_table(self.records, quantity) for quantity in QUANTITIES if self._of_run(quantity) is not None]

    @property
    def text(self) -> str:
        """Where the run's model is among the package's, then among those of papers, and what tells their prompts."""
        return " ".join(filter(None, (self._among_measured(), self._among_published(), self._protocol())))

    def _of_run(self, quantity: str) -> DepthRecord | None:
        every = self._of("run", quantity)
        return every[0] if every and not math.isnan(every[0].share) else None

    def _of(self, kind: Kind, quantity: str) -> list[DepthRecord]:
        return [record for record in self.records if record.kind == kind and record.quantity == quantity]

    def _among_measured(self) -> str:
        """The depth of the head; the kinds of others are those that were measured for this package."""
        subject = self._of_run(HALF)
        if subject is None:
            return ""
        trained, untrained = (self._of(kind, HALF) for kind in ("trained", "untrained"))
        blocks = counted(subject.blocks, "block")
        placed = _placed(subject, trained, "trained models of the package")
        return (
            f"Half of the tokens keep their final prediction from {_share(subject)} of the {blocks} on. {placed}, and "
            f"untrained models of their shapes read {_extent(untrained)}."
        )

    def _among_published(self) -> str:
        """The criteria of papers, on the data of the run where a paper has them."""
        parts = []
        for quantity in CURVES:
            subject, others = self._of_run(quantity), alike(self.records, quantity)
            if subject is not None and others:
                parts.append(f"{quantity} {_share(subject)} (printed: {_extent(others)})")
        if not parts:
            return ""
        others = alike(self.records, CURVES[-1])
        data = written_out(list(dict.fromkeys(record.data for record in others)))
        models = len({record.model for record in others})
        sources = written_out(list(dict.fromkeys(record.source for record in others)))
        return f"By the criteria of papers: {', '.join(parts)}, of {counted(models, 'model')} on {data} ({sources})."

    def _protocol(self) -> str:
        """What makes numbers of different rows differ besides the models."""
        subject = next(record for record in self.records if record.kind == "run")
        extent = f"{counted(subject.prompts, 'prompt')} of {subject.data}"
        read = f"This run read {extent}; models of the package read what their rows say"
        others = alike(self.records, CURVES[-1])
        if others:
            counts = written_out(sorted({record.prompts for record in others}))
            weights = written_out(list(dict.fromkeys(record.weights for record in others)))
            same = all(is_same_data(subject.data, record.data) for record in others)
            which = "other prompts of these data" if same else "prompts of other data"
            read += f", and papers print no intervals, from {counts} {which} and weights in {weights}"
        return f"{read}: what parts these rows may be the data and not the model."


def among(run: Run) -> Standing:
    """Return where a run's model is among those of the package and of papers.

    Args:
        run: with the lens or the stream; depths of what it lacks are left out.

    Raises:
        OptionError: neither was measured, or some blocks alone.
    """
    subject = records_of(run)
    if all(math.isnan(record.share) for record in subject):
        raise OptionError(
            f"This run has no depth to set among others (it holds: {', '.join(run.measures) or 'nothing'}). Survey "
            "with the lens (measures=['residual', 'lens'])."
        )
    others = [record for record in measured() if not _is_of(run, record)]
    return Standing((*subject, *others, *published()))


def _is_of(run: Run, record: DepthRecord) -> bool:
    """Return whether a record is of the run's own model, whose interval says nothing of others, in any precision."""
    name = without_folders(run.identity.model).rpartition("/")[2]
    return record.model == name or record.weights.endswith(f"hash {run.identity.weight_hash[:_HASH_LETTERS]}")


def records_of(run: Run) -> list[DepthRecord]:
    """Return the depths of a run, NaN for one that it lacks."""
    identity = run.identity
    if "blocks" in run.cut:
        raise OptionError("A depth is of all blocks, and this part of a run has some of them; ask the whole run.")
    common: dict[str, Any] = {
        "model": without_folders(identity.model),
        "kind": "run",
        "blocks": run.n_blocks,
        "data": without_places(identity.dataset),
        "prompts": len(run.prompts),
        "weights": f"{identity.dtype}, hash {identity.weight_hash[:_HASH_LETTERS]}",
        "source": "this run",
    }
    rows = dict.fromkeys(QUANTITIES, (math.nan, math.nan, math.nan))
    if run.judged and run.verdict.head.tokens.name == HALF:
        half = run.verdict.head.tokens
        rows[HALF] = (half.value, half.low, half.high)
    residual = run["residual"] if "residual" in run and set(COSINES) <= set(run["residual"]) else None
    lens = run["lens"] if "lens" in run and run["lens"].sizes["boundary"] > run.n_blocks else None
    if residual is not None or lens is not None:
        estimates = effective_depth(depth_inputs(residual, lens, None), Sampling(seed=identity.seed))
        rows |= {name: (estimates[name].depth, estimates[name].ci_low, estimates[name].ci_high) for name in CURVES}
    return [
        DepthRecord(
            quantity=quantity, share=depth / run.n_blocks, low=low / run.n_blocks, high=high / run.n_blocks, **common
        )
        for quantity, (depth, low, high) in rows.items()
    ]


def alike(records: Sequence[DepthRecord], quantity: str) -> list[DepthRecord]:
    """Return a paper's depths on the data of the run, or on all of its data where it has none of those."""
    subject = next(record for record in records if record.kind == "run")
    printed = [record for record in records if record.kind == "published" and record.quantity == quantity]
    same = [record for record in printed if is_same_data(subject.data, record.data)]
    return same or printed


def is_same_data(first: str, second: str) -> bool:
    """Return whether two sources are of one data set that a paper has, whatever prompts of it they take."""
    rank = difficulty_rank(first)
    return rank is not None and rank == difficulty_rank(second)


def _placed(subject: DepthRecord, others: Sequence[DepthRecord], what: str) -> str:
    """How many are surely less deep, surely deeper, or neither: where no intervals overlap."""
    earlier = sum(other.high < subject.low for other in others)
    later = sum(other.low > subject.high for other in others)
    total = sum(not math.isnan(other.share) for other in others)
    if math.isnan(subject.low):
        return f"Of {total} {what} this is {_extent(others)} (one prompt tells no interval)"
    return (
        f"Of {total} {what}, {earlier} keep theirs from less of their blocks on, {later} from more, and the intervals "
        f"of {total - earlier - later} overlap with its own"
    )


def _share(record: DepthRecord) -> str:
    if math.isnan(record.low):
        return f"{100 * record.share:.0f} %"
    return f"{100 * record.share:.0f} % ({100 * record.low:.0f} to {100 * record.high:.0f} %)"


def _extent(records: Sequence[DepthRecord]) -> str:
    shares = [100 * record.share for record in records if not math.isnan(record.share)]
    if not shares:
        return "nothing"
    low, high = f"{min(shares):.0f}", f"{max(shares):.0f}"
    return f"{low} %" if low == high else f"{low} to {high} %"


def _table(records: Sequence[DepthRecord], quantity: str) -> TextTable:
    """Return the models in the order of their depths; untrained ones of a shape, and a paper's on some data, as one."""
    groups: dict[tuple[str, ...], list[DepthRecord]] = {}
    for record in records:
        if record.quantity == quantity and not math.isnan(record.share):
            groups.setdefault(_group_of(record), []).append(record)
    rows = sorted(groups.items(), key=lambda item: min(record.share for record in item[1]))
    cells = [
        [name, _KINDS[members[0].kind], _share(members[0]) if len(members) == 1 else _extent(members), *protocol]
        for (name, *protocol), members in ((_named(key, members), members) for key, members in rows)
    ]
    headings = ["Model", "", "Share of blocks", "Data (prompts)", "Weights", "Source"]
    return TextTable(headings, cells, title=quantity, optional=("Weights", "Source"))


def _group_of(record: DepthRecord) -> tuple[str, ...]:
    """Return what records of one line of a table have in common, the name first."""
    name = "" if record.kind == "published" else record.model.partition(UNTRAINED)[0]
    weights = record.weights.partition(",")[0]
    return (name, record.kind, f"{record.data.partition('?')[0]} ({record.prompts})", weights, record.source)


def _named(group: tuple[str, ...], members: Sequence[DepthRecord]) -> list[str]:
    """Return the cells of a line but for its depth: how many models it is of where they are not one."""
    name, kind, *protocol = group
    if kind == "published":
        name = counted(len(members), "model")
    elif kind == "untrained":
        name = f"{len(members)} like {name}"
    return [name, *protocol]
