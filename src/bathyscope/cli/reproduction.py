"""How ``reproduce`` shows tables and figures of a paper: for people at a terminal, and as rows for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from bathyscope.cli.console import write_table
from bathyscope.papers.reproduction import DepthTable, Figure, Reproduction, Sizes

if TYPE_CHECKING:
    from bathyscope.reproducing.cells import Outcome
    from bathyscope.reproducing.depths import DepthPair
    from bathyscope.reproducing.figures import Drawn
    from bathyscope.reproducing.sizes import SizePair

Row = dict[str, Any]

_NONE: Final = "–"
_MARKS: Final = {True: "=", False: "≠", None: "·"}
_TITLES: Final = {"hellaswag": "HellaSwag", "gsm8k": "GSM8K", "aime2024": "AIME24"}
DEPTH_LEGEND: Final = (
    "Effective depth, 0-based: measured (interval), = or ≠, published. none: the criterion is not met; ·: there is "
    "nothing to compare. cosine is a block, kl and overlap are block inputs."
)
SIZE_LEGEND: Final = "Blocks and heads (queries/keys and values): of the checkpoint, = or ≠, published."


def depth_rows(pairs: Iterable[DepthPair]) -> list[Row]:
    """One row a number."""
    names = ("model", "data", "estimator", "blocks", "measured", "ci_low", "ci_high", "crossing_share", "published")
    return [{name: getattr(pair, name) for name in (*names, "agrees", "in_interval", "reason")} for pair in pairs]


def write_depths(table: DepthTable, pairs: Sequence[DepthPair]) -> None:
    """80 columns wide: a model with a line for each estimator, and a column for each data set."""
    width = len(table.surveys)
    of_a_model = width * len(table.estimators)
    rows: list[list[Text]] = []
    for first in range(0, len(pairs), of_a_model):
        own = pairs[first : first + of_a_model]
        blocks = next((pair.blocks for pair in own if pair.blocks is not None), None)
        model = Text(own[0].model + ("" if blocks is None else f", L={blocks}"), style="bold")
        rows.append([model, *[Text("")] * width])
        for start in range(0, of_a_model, width):
            line = own[start : start + width]
            rows.append([Text(f"  {line[0].estimator}"), *(_depth_cell(pair) for pair in line)])
    write_table(["Model", *(_TITLES.get(name, name) for name in table.surveys)], rows)


def depth_summary(pairs: Sequence[DepthPair]) -> str:
    """How many of the published numbers were measured, agree, and lie in the measured intervals."""
    compared = [pair for pair in pairs if pair.agrees is not None]
    if not compared:
        return "Nothing that was measured has a published number beside it."
    equal = sum(pair.agrees is True for pair in compared)
    covered = sum(pair.in_interval is True for pair in compared if not pair.agrees)
    return (
        f"{equal} of {len(compared)} results are as published; of the {len(compared) - equal} that differ, "
        f"{covered} have the published number in their interval."
    )


def size_rows(pairs: Iterable[SizePair]) -> list[Row]:
    """One row a model."""
    return [
        {"model": pair.model, **_named("", pair.found), **_named("published_", pair.published), "reason": pair.reason}
        for pair in pairs
    ]


def write_sizes(pairs: Iterable[SizePair]) -> None:
    """A row a model: blocks and heads."""
    rows: list[list[Any]] = []
    for pair in pairs:
        blocks = [None if sizes is None else sizes.blocks for sizes in (pair.found, pair.published)]
        heads = [None if one is None else f"{one.query_heads}/{one.key_heads}" for one in (pair.found, pair.published)]
        rows.append([pair.model, _beside(*blocks), _beside(*heads)])
    write_table(("Model", "Blocks", "Heads (Q/KV)"), rows)


def figure_rows(reproduction: Reproduction, figures: Iterable[Figure]) -> list[Row]:
    """What each figure shows and what it takes."""
    return [
        {
            "figure": figure.label,
            "shows": figure.shows,
            "prompts": [_prompts(reproduction, name) for name in figure.surveys],
            "draws": list(figure.draws),
            "models": list(figure.models or (reproduction.models if figure.surveys else ())),
            "reason": figure.reason,
        }
        for figure in figures
    ]


def write_figures(rows: Iterable[Row]) -> None:
    """What each figure shows and what it takes, for people."""
    lines = []
    for row in rows:
        takes = (", ".join(row["prompts"]), ", ".join(row["draws"]))
        lines.append(
            [row["figure"], row["shows"], *(takes if row["prompts"] else (f"not made: {row['reason']}", None))]
        )
    write_table(("Figure", "Shows", "Prompts", "Drawn as"), lines)


def drawn_rows(drawn: Iterable[Drawn]) -> list[Row]:
    """One row a file."""
    return [
        {
            "figure": one.figure.label,
            "shows": one.figure.shows,
            "model": one.cell.model.name,
            "data": one.cell.survey.name,
            "file": str(one.path),
        }
        for one in drawn
    ]


def missing_rows(outcomes: Iterable[Outcome], sizes: Iterable[SizePair] = ()) -> list[Row]:
    """What could not be measured; one row a reason, since one checkpoint or data set may be the cause of many."""
    lacking = [(one.cell.model.name, one.cell.survey.name, one.reason) for one in outcomes if one.run is None]
    lacking += [(pair.model, "sizes", pair.reason) for pair in sizes if pair.reason]
    found: dict[str, Row] = {}
    for model, data, reason in lacking:
        row = found.setdefault(reason, {"models": [], "data": [], "reason": reason})
        for column, name in (("models", model), ("data", data)):
            if name not in row[column]:
                row[column].append(name)
    return list(found.values())


def missing_lines(rows: Iterable[Row]) -> list[str]:
    """The same as sentences."""
    return [f"Not measured: {', '.join(row['models'])} on {', '.join(row['data'])}. {row['reason']}" for row in rows]


def _depth_cell(pair: DepthPair) -> Text:
    unknown = _NONE if pair.blocks is None else "none"
    measured = unknown if pair.measured is None else str(pair.measured)
    if pair.measured is not None and None not in (pair.ci_low, pair.ci_high):
        measured += f" ({pair.ci_low:.0f}–{pair.ci_high:.0f})"
    published = _NONE if pair.published is None else str(pair.published)
    return Text(f"{measured} {_MARKS[pair.agrees]} {published}", style="red" if pair.agrees is False else "")


def _beside(found: object, published: object) -> Text:
    agrees = None if found is None or published is None else found == published
    shown = (_NONE if value is None else str(value) for value in (found, published))
    return Text(f" {_MARKS[agrees]} ".join(shown), style="red" if agrees is False else "")


def _named(prefix: str, sizes: Sizes | None) -> Row:
    names = ("blocks", "query_heads", "key_heads")
    return {f"{prefix}{name}": None if sizes is None else getattr(sizes, name) for name in names}


def _prompts(reproduction: Reproduction, name: str) -> str:
    prompts = reproduction.survey(name).prompts
    return prompts if isinstance(prompts, str) else f"{len(prompts)} questions with answers"
