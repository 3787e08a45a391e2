"""Measure models over ranks against the same models whole: ``python docs/tensor_parallel.py``.

Families × measures and acts × two and four ranks, on processes of this machine (``tests/support/rank_matrix.py``).
Lines of ``docs/tensor_parallel.csv`` are written when a family is finished on a number of ranks, so a run that was
ended goes on where it was; names choose families.
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
    parser = argparse.ArgumentParser()
    parser.add_argument("families", nargs="*")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    for family in given.families or FAMILIES:
        for ranks in RANKS:
            rows = read_table()
            if given.families or not any((row.family, row.ranks) == (family, ranks) for row in rows):
                measured = examine(family, ranks)
                others = [row for row in rows if (row.family, row.ranks) != (family, ranks)]
                write_table([*others, *measured])
                counts = dict(Counter(row.outcome for row in measured))
                print(f"{time.monotonic() - began:5.0f} s  {family} on {ranks} ranks: {counts}", flush=True)


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
    return "\n".join([*lines, ""])


def _cell(row: Outcome | None) -> str:
    return "–" if row is None else row.gap if row.outcome == "right" else row.outcome


if __name__ == "__main__":
    main(sys.argv[1:])
