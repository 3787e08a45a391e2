"""The table of peers: what they say, what we say, the gap, and the ratio of CPU time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "peers.md"
BEGIN: Final = "<!-- results: written by `make peers`, do not edit -->"
END: Final = "<!-- end of the results -->"
_LEAST_SECONDS: Final = 0.01


def write_table(results: Path, page: Path = PAGE) -> None:
    """Write the table of all stored answers between the marks of a page."""
    answers = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(results.glob("*__*.json"))]
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    body = "\n".join(table(answers))
    page.write_text(f"{before}{BEGIN}\n\n{body}\n\n{END}{after}", encoding="utf-8")


def table(answers: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the table, a row for every package, model and quantity."""
    yield "| package | model | quantity | values | theirs | ours | largest gap | relative | in float64 | CPU time |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for answer in answers:
        package = f"{answer['package']} {answer['version']}".strip()
        if "error" in answer:
            yield f"| {package} | {answer['model']} | – | – | {answer['error']} | | | | | |"
        for cell, theirs in answer["cells"].items():
            yield f"| {' | '.join([package, answer['model'], cell, *compared(theirs)])} |"


def compared(theirs: dict[str, Any]) -> list[str]:
    """Return the cells of a row behind its names."""
    if "error" in theirs:
        return ["–", theirs["error"], "", "", "", "", ""]
    values, ours = (np.asarray(side["values"], np.float64) for side in (theirs, theirs["ours"]))
    if values.shape != ours.shape:
        return ["–", f"{values.shape}", f"{ours.shape}", "other shape", "", "", ""]
    gap, relative = gaps(values, ours)
    exact = theirs.get("in_float64")
    # what came along with the row before took no time of its own
    ratio = theirs["cpu_seconds"] / theirs["ours"]["cpu_seconds"] if theirs["cpu_seconds"] > _LEAST_SECONDS else None
    return [
        str(values.size),
        f"{values.mean():.6g}",
        f"{ours.mean():.6g}",
        f"{gap:.1e}",
        f"{relative:.1e}",
        "–" if exact is None else f"{exact['relative']:.1e}",
        "–" if ratio is None else f"{ratio:.2f}",
    ]


def gaps(values: NDArray[np.float64], ours: NDArray[np.float64]) -> tuple[float, float]:
    """Return the largest gap of two arrays, and the same divided by the largest value."""
    gap, largest = float(np.abs(values - ours).max()), float(np.abs(values).max())
    return gap, gap / largest if largest else gap
