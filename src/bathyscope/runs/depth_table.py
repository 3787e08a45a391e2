"""Effective depth as a table: plain rows for files, text for readers."""

import math
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from bathyscope.core.estimates import Estimate, write_number
from bathyscope.core.tables import TextTable
from bathyscope.core.text import capitalised, level_text
from bathyscope.runs.depth_rows import MEASURE, DepthRow, HasMeasures
from bathyscope.runs.depth_rows import effective_depth_rows as effective_depth_rows

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


def depth_table(run: HasMeasures) -> TextTable:
    """Return every estimate with its interval, 80 columns wide, and the reasons for missing numbers below them."""
    rows = effective_depth_rows(run)
    cells = [depth_cells(row) for row in rows]
    return TextTable(depth_headings(run), cells, "Effective depth", [LEGEND, *remarks(rows)])


def depth_headings(run: HasMeasures) -> list[str]:
    """Return the headings of :func:`depth_cells`."""
    return ["Estimator", "Depth", f"{level_text(run[MEASURE].attrs['level'])} interval", "Ratio", "Crossed"]


def depth_cells(row: DepthRow) -> list[str]:
    """Return estimator, depth, interval, ratio and crossing share as text."""
    estimate, form = _estimate_of(row)
    return [
        estimator_name(row["estimator"]),
        write_number(estimate.value, form),
        estimate.interval(form),
        write_number(row["ratio"], ".2f"),
        write_number(row["crossing_share"], ".0%"),
    ]


def estimator_name(name: str) -> str:
    """Return ``KL, interpolated`` for ``interpolated_kl``."""
    reading, plain = _split_name(name)
    text = _NAMES.get(plain, plain.replace("_", " "))
    return f"{text}, {reading}" if reading else text


def index_name(name: str) -> str:
    """Name what the depth is an index of: a block, the input of a block, or a boundary."""
    return _INDEX.get(_split_name(name)[1], "block")


def write_depth(row: DepthRow) -> str:
    """Write ``8 (7 to 9)``: published estimators as whole numbers, real-valued ones with one decimal."""
    estimate, form = _estimate_of(row)
    return estimate.write(form)


def _estimate_of(row: DepthRow) -> tuple[Estimate, str]:
    """Return a depth with its interval, and how it is written."""
    depth, low, high = (math.nan if end is None else end for end in (row["depth"], row["ci_low"], row["ci_high"]))
    return Estimate(depth, low, high), ".0f" if row["estimator"] in ("cosine", "kl", "overlap") else ".1f"


def _split_name(name: str) -> tuple[str, str]:
    """Split ``interpolated_kl`` into ``interpolated`` and ``kl``; a name without such a prefix stays whole."""
    for prefix, reading in READINGS.items():
        if name.startswith(prefix):
            return reading, name.removeprefix(prefix)
    return "", name
