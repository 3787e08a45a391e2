"""Effective depth as a table: plain rows for files, cells of text for readers."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

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
    "mass is a mean position and no depth; its ratio is 0.5 where all blocks matter alike. In cosine, KL and overlap "
    "prompts weigh as many tokens as they have (hu2025), and in all other rows each the same, as in the verdict."
)


def remarks(rows: Sequence[DepthRow]) -> list[str]:
    """Why numbers are missing, one sentence a reason, estimators with the same reason together."""
    told = gathered((row["reason"], estimator_name(row["estimator"])) for row in rows if row["reason"])
    said = [f"{'; '.join(names)}: {reason}." for reason, names in told.items()]
    return [f"{one[:1].upper()}{one[1:]}" for one in said]


def gathered(told: Iterable[tuple[K, str]]) -> dict[K, list[str]]:
    """What the same is told of, in order of appearance."""
    found: dict[K, list[str]] = {}
    for what, name in told:
        found.setdefault(what, []).append(name)
    return found


def depth_headings(run: Run) -> list[str]:
    """Headings of :func:`depth_cells`."""
    return ["Estimator", "Depth", f"{run[MEASURE].attrs['level']:.0%} interval", "Ratio", "Crossed"]


def depth_cells(row: DepthRow) -> list[str]:
    """Estimator, depth, interval, ratio and crossing share, as a reader sees them."""
    name = row["estimator"]
    return [
        estimator_name(name),
        show_depth(name, row["depth"]),
        show_interval(row),
        "–" if row["ratio"] is None else f"{row['ratio']:.2f}",
        "–" if row["crossing_share"] is None else f"{row['crossing_share']:.0%}",
    ]


def estimator_name(name: str) -> str:
    """``interpolated_kl`` → ``KL, interpolated``."""
    reading, plain = _split(name)
    shown = _NAMES.get(plain, plain.replace("_", " "))
    return f"{shown}, {reading}" if reading else shown


def index_name(name: str) -> str:
    """What the depth is an index of: a block, or (lens estimators) the input of a block or a boundary."""
    return _INDEX.get(_split(name)[1], "block")


def show_depth(name: str, depth: float | None) -> str:
    """Whole for the published estimators, one decimal for the real-valued ones."""
    if depth is None:
        return "–"
    return f"{depth:.0f}" if name in ("cosine", "kl", "overlap") else f"{depth:.1f}"


def show_interval(row: DepthRow) -> str:
    """``7 to 9``, or a dash."""
    if row["ci_low"] is None or row["ci_high"] is None:
        return "–"
    return f"{show_depth(row['estimator'], row['ci_low'])} to {show_depth(row['estimator'], row['ci_high'])}"


def _split(name: str) -> tuple[str, str]:
    """Split ``interpolated_kl`` into ``interpolated`` and ``kl``; a name without such a prefix stays whole."""
    for prefix, reading in READINGS.items():
        if name.startswith(prefix):
            return reading, name.removeprefix(prefix)
    return "", name
