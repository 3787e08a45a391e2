"""Measure models over ranks against the same models whole: ``python docs/tensor_parallel.py``.

Families × measures and acts × two and four ranks, on processes of this machine (``tests/support/rank_matrix.py``).
Lines of ``docs/tensor_parallel.csv`` are written when a family is finished on a number of ranks, so a run that was
ended goes on where it was; names choose families. ``--measures NAME`` adds a new measure to what the table has.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from support.rank_outcomes import Outcome

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
TABLE: Final = ROOT / "docs" / "tensor_parallel.csv"
FAMILIES: Final = {
    "llama": "grouped queries",
    "mixtral": "experts",
    "ministral": "sliding windows",
    "gemma2": "soft caps, norms on outputs",
    "llama_tied": "tied embeddings",
    "gpt_neox": "attention and MLP in parallel",
    "qwen3": "norms of queries and keys",
    "olmo2": "norms on outputs",
    "phi3": "fused projections",
    "qwen3_moe": "experts, norms of queries and keys",
    "deepseek_v3": "latent attention, experts in groups",
    "gpt2": "no plan",
}
"""Entry of the zoo → what it stands for."""
RANKS: Final = (2, 4)
HANGS: Final = "hangs"


def main(arguments: Sequence[str]) -> None:
    """Measure the families that the table lacks, or those that are named."""
    from bathyscope.measures.registry import MEASURES

    parser = argparse.ArgumentParser()
    parser.add_argument("families", nargs="*")
    parser.add_argument("--measures", nargs="+", default=[], help="only these, next to the rows that the table has")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.measures if name not in MEASURES]
    if unknown:
        parser.error(f"unknown measures: {', '.join(unknown)}; allowed: {', '.join(MEASURES)}")
    began = time.monotonic()
    for family in given.families or FAMILIES:
        for ranks in RANKS:
            rows = read_table()
            stored = [row for row in rows if (row.family, row.ranks) == (family, ranks)]
            # a family that cannot be loaded has one row, which says so for every measure
            is_loaded = any(row.what != "load" for row in stored)
            if is_loaded if given.measures else given.families or not stored:
                measured = examine(family, ranks, given.measures or None)
                others = [row for row in rows if (row.family, row.ranks) != (family, ranks)]
                write_table([*others, *(join_rows(stored, measured) if given.measures else measured)])
                counts = dict(Counter(row.outcome for row in measured))
                print(f"{time.monotonic() - began:5.0f} s  {family} on {ranks} ranks: {counts}", flush=True)


def join_rows(stored: Sequence[Outcome], measured: Sequence[Outcome]) -> list[Outcome]:
    """Return the rows of one family with those of some measures put in: behind the others, in front of the acts."""
    from bathyscope.measures.registry import MEASURES

    new = {row.what: row for row in measured}
    rows = [new.pop(row.what, row) for row in stored]
    behind = max(place for place, row in enumerate(rows) if row.what == "load" or row.what in MEASURES) + 1
    return [*rows[:behind], *new.values(), *rows[behind:]]


def examine(family: str, ranks: int, only: Sequence[str] | None = None) -> list[Outcome]:
    """Measure one family on processes of this machine."""
    from support.on_ranks import launch, require_done

    with tempfile.TemporaryDirectory() as place:
        lines = Path(place) / "outcomes.jsonl"
        folder = Path(place)
        require_done(launch(ranks, "rank_matrix:examine", [family], ranks, place, str(lines), only, folder=folder))
        return read_lines(lines)


def read_lines(path: Path) -> list[Outcome]:
    """Outcomes as the ranks have written them."""
    from support.rank_outcomes import Outcome

    return [Outcome(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def read_table(path: Path = TABLE) -> list[Outcome]:
    """What is stored."""
    from support.rank_outcomes import Outcome

    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [Outcome(**{**row, "ranks": int(row["ranks"])}) for row in csv.DictReader(file)]


def write_table(outcomes: Iterable[Outcome], path: Path = TABLE) -> None:
    """Store what was measured, by family and ranks."""
    from support.rank_outcomes import Outcome

    order = list(FAMILIES)
    rows = sorted(outcomes, key=lambda row: (order.index(row.family), row.ranks))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Outcome)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)


def page(outcomes: Sequence[Outcome]) -> str:
    """The table as a page part: a row for each measure and act, a column for each family."""
    families = list(dict.fromkeys(row.family for row in outcomes if row.what != "load" or row.outcome != "refused"))
    found = {(row.what, row.family, row.ranks): row for row in outcomes}
    lines = ["| | " + " | ".join(families) + " |", "|---|" + "---|" * len(families)]
    for what in dict.fromkeys(row.what for row in outcomes):
        cells = [" / ".join(_cell(found.get((what, family, ranks))) for ranks in RANKS) for family in families]
        lines.append(f"| {what} | {' | '.join(cells)} |")
    reasons = dict.fromkeys((row.what, row.family, row.note) for row in outcomes if row.outcome == "refused")
    lines += ["", "| refused | family | reason |", "|---|---|---|"]
    lines += [f"| {what} | {family} | {note.replace('|', ' ')} |" for what, family, note in reasons]
    missing = not_compared(outcomes)
    if missing:
        lines += ["", f"Not compared over ranks yet: {', '.join(f'`{name}`' for name in missing)}."]
    return "\n".join([*lines, ""])


def not_compared(outcomes: Iterable[Outcome]) -> list[str]:
    """Return the measures that the table lacks."""
    from bathyscope.measures.registry import MEASURES

    compared = {row.what for row in outcomes}
    return [name for name in MEASURES if name not in compared]


def _cell(row: Outcome | None) -> str:
    return "–" if row is None else row.gap if row.outcome == "right" else row.outcome


if __name__ == "__main__":
    main(sys.argv[1:])
