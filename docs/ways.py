"""The table of what the ways of running cost, as ``benchmarks/ways.py`` has stored it."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

TABLE: Final = Path(__file__).with_name("ways.csv")
NAMES: Final = {
    "one process": "one process",
    "device_map": "`device_map`, half of the blocks on disk",
    "tensor parallel": "tensor parallel, two ranks",
    "streaming": "streaming, window of one block",
    "parts": "two parts, one after the other, and their join",
    "Ray": "Ray, two workers",
}
"""Way → what was run of it."""


def read_table(path: Path = TABLE) -> list[dict[str, str]]:
    """What is stored, a dict for each way."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def page(costs: Sequence[Mapping[str, str]]) -> str:
    """The table as a page part."""
    lines = [
        "| way | processes with weights | CPU of the survey | CPU of starting | memory of each | of all | results |",
        "|---|---|---|---|---|---|---|",
    ]
    for cost in costs:
        results = "same bits" if float(cost["gap"]) == 0 else f"within {cost['gap']}"
        cells = [NAMES[cost["way"]], cost["processes"], f"{cost['cpu']} ×", f"{cost['start']} ×"]
        lines.append(f"| {' | '.join([*cells, cost['largest'], cost['all'], results])} |")
    return "\n".join([*lines, ""])
