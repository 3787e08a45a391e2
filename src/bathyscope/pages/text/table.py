"""Effective depth as a table: plain rows for files, text for readers."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from bathyscope.core.text import capitalised, level_text
from bathyscope.runs.depth_rows import MEASURE, DepthRow
from bathyscope.runs.depth_rows import effective_depth_rows as effective_depth_rows
from bathyscope.runs.run import Run

K = TypeVar("K")

READINGS: Final = {"interpolated_": "interpolated"}
_NAMES: Final = {
    "cosine": "cosine",
    "kl": "KL",
    "overlap": "top-k overlap",
    "settle": "settle depth of tokens",
    "prediction": "prediction depth of tokens",
    "centre_of_mass": "centre of mass",
}
_INDEX: Final = {"kl": "block input", "overlap": "block input", "settle": "boundary", "prediction": "boundary"}

LEGEND: Final = (
    "Depth: blocks done. Ratio: depth/L of L blocks. Crossed: share of resamples that meet the criterion. A centre of "
    "mass is a mean position, not a depth; its ratio is 0.5 where all blocks matter equally. Cosine, KL and overlap "
    "weight prompts by their tokens (hu2025); all other rows weight them equally, as the verdict does."
)


def remarks(rows: Sequence[DepthRow]) -> list[str]:
    """Explain missing numbers: one sentence for each reason, with its estimators."""
    names_by_reason = group_names((row["reason"], estimator_name(row["estimator"])) for row in rows if row["reason"])
    sentences = [f"{'; '.join(names)}: {reason}." for reason, names in names_by_reason.items()]
    return [capitalised(sentence) for sentence in sentences]


def group_names(pairs: Iterable[tuple[K, str]]) -> dict[K, list[str]]:
    """Group names by their key, in order of appearance."""
    names_by_key: dict[K, list[str]] = {}
    for what, name in pairs:
        names_by_key.setdefault(what, []).append(name)
    return names_by_key


def depth_headings(run: Run) -> list[str]:
    """Return the headings of :func:`depth_cells`."""
    return ["Estimator", "Depth", f"{level_text(run[MEASURE].attrs['level'])} interval", "Ratio", "Crossed"]


def depth_cells(row: DepthRow) -> list[str]:
    """Return estimator, depth, interval, ratio and crossing share as text."""
    name = row["estimator"]
    return [
        estimator_name(name),
        show_depth(name, row["depth"]),
        show_interval(row),
        "–" if row["ratio"] is None else f"{row['ratio']:.2f}",
        "–" if row["crossing_share"] is None else f"{row['crossing_share']:.0%}",
    ]


def estimator_name(name: str) -> str:
    """Return ``KL, interpolated`` for ``interpolated_kl``."""
    reading, plain = _split_name(name)
    text = _NAMES.get(plain, plain.replace("_", " "))
    return f"{text}, {reading}" if reading else text


def index_name(name: str) -> str:
    """Name what the depth is an index of: a block, the input of a block, or a boundary."""
    return _INDEX.get(_split_name(name)[1], "block")


def show_depth(name: str, depth: float | None) -> str:
    """Write published estimators as whole numbers, real-valued ones with one decimal."""
    if depth is None:
        return "–"
    return f"{depth:.0f}" if name in ("cosine", "kl", "overlap") else f"{depth:.1f}"


def show_interval(row: DepthRow) -> str:
    """Write ``7 to 9``; a dash without an interval."""
    if row["ci_low"] is None or row["ci_high"] is None:
        return "–"
    return f"{show_depth(row['estimator'], row['ci_low'])} to {show_depth(row['estimator'], row['ci_high'])}"


def _split_name(name: str) -> tuple[str, str]:
    """Split ``interpolated_kl`` into ``interpolated`` and ``kl``; a name without such a prefix stays whole."""
    for prefix, reading in READINGS.items():
        if name.startswith(prefix):
            return reading, name.removeprefix(prefix)
    return "", name
