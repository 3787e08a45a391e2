"""The table as Markdown: an overview, and for every planted model who is fooled, by what, and why."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from bathyscope.errors import OptionError
from studies.planted.construction import Construction, Departure
from studies.planted.judging import CONSTRUCTIONS, READINGS, Cell
from studies.planted.reading import Value
from studies.planted.truth import Truth

BEGIN = "<!-- table: written by `python -m studies.planted`, do not edit -->"
END = "<!-- end of the table -->"

Table = Mapping[str, Mapping[str, Cell]]
_FEW = 3


def markdown(cells: Table) -> str:
    """Overview and sections of the given constructions."""
    sections = (line for name in cells for line in _section(CONSTRUCTIONS[name], cells[name]))
    return "\n".join([*_overview(cells), *sections])


def with_table(text: str, cells: Table) -> str:
    """A page with what stands between its two marks replaced.

    Raises:
        OptionError: the marks are not there, once each and in order.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in before + after:
        raise OptionError(f"The page has no place for the table; give it the lines {BEGIN!r} and {END!r}, once each.")
    return f"{before}{BEGIN}\n\n{markdown(cells)}\n{END}{after}"


def write_table(page: Path, cells: Table) -> None:
    """``with_table`` on a file."""
    page.write_text(with_table(page.read_text(encoding="utf-8"), cells), encoding="utf-8")


def _overview(cells: Table) -> Iterator[str]:
    yield f"| measure | {' | '.join(f'`{name}`' for name in cells)} |"
    yield f"|---|{':-:|' * len(cells)}"
    for measure in READINGS:
        yield f"| `{measure}` | {' | '.join(cells[name][measure].verdict.value for name in cells)} |"
    yield ""
    yield "| is read as | measures |"
    yield "|---|---|"
    for says in dict.fromkeys(reading.says for reading in READINGS.values()):
        alike = [f"`{measure}`" for measure, reading in READINGS.items() if reading.says == says]
        yield f"| {says} | {', '.join(alike)} |"
    yield ""


def _section(construction: Construction, cells: Mapping[str, Cell]) -> Iterator[str]:
    yield f"### {construction.name}"
    yield ""
    yield f"{construction.planted} {_described(construction.truth)}"
    yield ""
    if construction.departures:
        yield "| | measure: says (is) | why |"
        yield "|:-:|---|---|"
        for departure in construction.departures:
            yield f"| {departure.verdict.value} | {_said(departure, cells)} | {departure.why} |"
        yield ""


def _described(truth: Truth) -> str:
    whole = (
        f"The answer has been worked out behind {truth.depth} of {truth.n_blocks} blocks and rests on blocks "
        f"{shown(truth.needed)}."
    )
    if not truth.settling:
        return whole
    parts = [f"{100 * share:.0f} % of the tokens have theirs behind {depth}" for depth, share in truth.settling]
    return (
        f"{whole} {' and '.join(parts)}: half of them by {shown(truth.depth_of(0.5))}; the mean is "
        f"{shown(truth.mean_depth)}."
    )


def _said(departure: Departure, cells: Mapping[str, Cell]) -> str:
    named = [(measure, cells[measure]) for measure in departure.measures]
    return "; ".join(f"`{measure}`: {shown(cell.said)} ({shown(cell.true)})" for measure, cell in named)


def shown(value: Value) -> str:
    """A reading in a few characters: 4.5, ``0–4, 9``, ``2→6``, ``45 pairs``, ``none``."""
    if isinstance(value, float):
        return "none" if math.isnan(value) else f"{value:.1f}".removesuffix(".0")
    if not value:
        return "none"
    pairs = sorted(item for item in value if isinstance(item, tuple))
    if pairs:
        return ", ".join(f"{s}→{block}" for s, block in pairs) if len(pairs) <= _FEW else f"{len(pairs)} pairs"
    return ", ".join(_ranges(sorted(item for item in value if isinstance(item, int))))


def _ranges(blocks: list[int]) -> Iterator[str]:
    first = last = blocks[0]
    for block in [*blocks[1:], blocks[-1] + 2]:
        if block > last + 1:
            yield str(first) if first == last else f"{first}–{last}"
            first = block
        last = block
