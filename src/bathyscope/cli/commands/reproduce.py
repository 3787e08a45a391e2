"""``bathyscope reproduce``: a paper's tables and figures from the models at hand, beside what was published."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter
from rich.text import Text

from bathyscope.cli import session
from bathyscope.cli.arguments import OBJECTS, Quiet, Records, as_app, interruptible, taken
from bathyscope.cli.console import Format, quiet_libraries, say, write, write_data, write_json, write_table
from bathyscope.cli.flags import options_of
from bathyscope.errors import OptionError
from bathyscope.surveying.papers.reproduction import Figure, Reproduction, Table

if TYPE_CHECKING:
    from bathyscope.pages.reproducing.cells import Outcome
    from bathyscope.pages.reproducing.figures import Drawn
    from bathyscope.pages.reproducing.reproduce import Plan, Reproduced
    from bathyscope.pages.reproducing.tables import Pair

Row = dict[str, Any]

_NONE: Final = "–"
_MARKS: Final = {True: "=", False: "≠", None: "·"}
_TITLES: Final = {"hellaswag": "HellaSwag", "gsm8k": "GSM8K", "aime2024": "AIME24"}
_DEPTHS: Final = (
    "Effective depth, 0-based: measured (interval), = or ≠, published. none: the criterion is not met; ·: there is "
    "nothing to compare. cosine is a block, kl and overlap are block inputs."
)
_SIZES: Final = "Blocks and heads: of the checkpoint, = or ≠, published."
_LOADING = options_of("bathyscope:load", leave_out=(*OBJECTS, "revision", "trust_remote_code"))
_EXAMPLES = """\
Examples:
  bathyscope reproduce csordas2025 --list
  bathyscope reproduce hu2025-table1 --models Qwen2.5-1.5B-Instruct
  bathyscope reproduce hu2025-table1 --models Qwen2.5-Math-1.5B=./math mine=./mine --data ./data
  bathyscope reproduce csordas2025 --models ./llama --figures 2,3b --data gsm8k=test.jsonl --prompts 4
  bathyscope reproduce hu2025-table1 --record table1.json --format csv > table1.csv
  bathyscope reproduce --score table1.json

Every result is kept in OUT/PRESET/MODEL/WORK: the same command goes on where it was
interrupted, and what is finished is only read."""

Several = Annotated[list[str] | None, Parameter(consume_multiple=True, negative=(), show_default=False)]


def reproduce_command(
    target: str | None = None,
    /,
    *,
    models: Several = None,
    data: Several = None,
    record: Annotated[Path | None, Parameter(show_default=False)] = None,
    score: Annotated[Path | None, Parameter(show_default=False)] = None,
    list_only: Annotated[bool, Parameter(name="--list", negative=(), show_default=False)] = False,
    format: Records = "table",
    quiet: Quiet = False,
    **given: Any,
) -> int:
    """Repeat a paper's tables or figures.

    Args:
        target: csordas2025, hu2025, hu2025-table1 (effective depths), hu2025-table2 (sizes of the models) or lad2024.
        models: names of the paper, other hub names, folders, or NAME=FOLDER, which stands for the paper's model of
            that name, separated by blanks or commas (not given = all of the paper's).
        data: NAME=FILE, or a folder of files named after data sets, in place of the hub's copies; lad2024's corpus
            is a text file, pile=FILE.txt.
        record: also write one file (JSON) with revisions, hashes, versions and numbers.
        score: compare such a file with the paper and with the predictions of docs/predictions.md, and measure nothing.
        list_only: say what there is, and measure nothing.
    """
    from bathyscope.pages.reproducing.reproduce import Plan

    if score is not None:
        if target is not None or models or data or record is not None or list_only:
            raise OptionError("--score reads a record and measures nothing; give it alone (and --format).")
        return _score(score, format)
    if target is None:
        raise OptionError("What is to be reproduced? Give hu2025-table1, csordas2025 or lad2024, or --score FILE.")
    if list_only and record is not None:
        raise OptionError("--list measures nothing, so there is nothing to record; leave --record out.")
    if list_only and (models or data):
        raise OptionError("--list says what there is for all models of the paper; leave --models and --data out.")
    if list_only:
        return _list(target, given.get("figures", ()), format)
    loading = taken(_LOADING, given)
    plan = Plan.of(target, models or (), data=data or (), **given)
    with interruptible(lambda: f"{_finished(plan)} kept in {plan.place}"):
        outcomes = _measured(plan, loading, quiet)
    result = plan.result(outcomes)
    if record is not None:
        from bathyscope.pages.reproducing.records import write_record

        write_record(result, record)
        say(f"Written: {record}", quiet)
    _show(result, format)
    return next((outcome.exit_code for outcome in outcomes if outcome.result is None), 0)


def _score(file: Path, format_: Format) -> int:
    """The table of a record's numbers, and how many are as published and as predicted."""
    from bathyscope.pages.reproducing.records import score, score_rows

    scores = score(file)
    if write_data(score_rows(scores), format_):
        return 0
    cells = [
        [
            entry.model,
            entry.work,
            entry.quantity,
            _NONE if entry.value is None else f"{entry.value:.4g}",
            _NONE if entry.published is None else f"{_MARKS[entry.agrees]} {entry.published}",
            _NONE if entry.predicted_low is None else f"{entry.predicted_low:g} to {entry.predicted_high:g}",
            {True: "yes", False: "no", None: _NONE}[entry.as_predicted],
        ]
        for entry in scores
    ]
    write_table(("Model", "Data", "Quantity", "Measured", "Published", "Predicted", "As predicted"), cells)
    for words, marks in (
        ("as published", [entry.agrees for entry in scores]),
        ("as predicted", [entry.as_predicted for entry in scores]),
    ):
        write(f"{marks.count(True)} of {len(marks) - marks.count(None)} numbers are {words}.")
    return 0


def _finished(plan: Plan) -> str:
    """Return how many runs are finished, and how much of the one that was interrupted."""
    unfinished = [cell for cell in plan.cells if cell.finished() is None]
    begun = [cell.stored_shards() for cell in unfinished]
    shards = next((f", with {stored} of {planned} shards of the next," for stored, planned in begun if stored), "")
    return f"{len(plan.cells) - len(unfinished)} of {len(plan.cells)} runs are finished{shards} and"


def _measured(plan: Plan, loading: dict[str, Any], quiet: bool) -> list[Outcome]:
    from bathyscope.pages.reproducing.cells import measured

    outcomes = []
    with quiet_libraries(downloads=not quiet):
        steps = measured(plan.cells, loading, not quiet, session.current().command_line)
        for number, cell in enumerate(plan.cells, start=1):
            say(f"{number}/{len(plan.cells)}: {cell.name} on {cell.work.name}", quiet)
            outcomes.append(next(steps))
    return outcomes


def _show(found: Reproduced, format_: Format) -> None:
    table, missing, drawn = found.target.table, missing_rows(found), drawn_rows(found.drawn)
    tables = {f"table{number}": pair_rows(pairs) for number, pairs in found.tables.items()}
    if format_ == "json":
        write_json({**tables, **({"figures": drawn} if table is None else {}), "missing": missing})
    elif format_ == "csv":
        write_data(_flat(drawn) if table is None else tables[f"table{table}"], format_)
        for line in missing_lines(missing):
            say(line)
    else:
        for number, pairs in found.tables.items():
            write_pairs(found.target.paper.tables[number], pairs)
        if drawn:
            rows = [[row["figure"], ", ".join(row["models"]), row["file"]] for row in drawn]
            write_table(("Figure", "Models", "File"), rows)
        for line in missing_lines(missing):
            write(line)


def _list(target: str, numbers: Any, format_: Format) -> int:
    """What there is, without measuring."""
    from bathyscope.pages.reproducing.models import chosen_models
    from bathyscope.pages.reproducing.reproduce import Reproduced, Target
    from bathyscope.pages.reproducing.tables import pairs

    asked = Target.of(target)
    figures = asked.figures(numbers)
    if asked.table is not None:
        models = chosen_models((), asked.paper.models)
        found = {number: pairs(table, models, (), read=False) for number, table in asked.tables(()).items()}
        _show(Reproduced(asked, (), (), found), format_)
        return 0
    rows = figure_rows(asked.paper, figures)
    if not write_data(_flat(rows) if format_ == "csv" else rows, format_):
        write_figures(rows)
    return 0


def _flat(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without lists."""
    return [{name: "; ".join(v) if isinstance(v, list) else v for name, v in row.items()} for row in rows]


def pair_rows(pairs: Iterable[Pair]) -> list[Row]:
    """One row a number of a table."""
    names = ("model", "data", "quantity", "blocks", "measured", "ci_low", "ci_high", "crossing_share", "published")
    return [{name: getattr(pair, name) for name in (*names, "agrees", "in_interval", "reason")} for pair in pairs]


def write_pairs(table: Table, pairs: Sequence[Pair]) -> None:
    """80 columns wide: a model with a line for each quantity and a column for each data set; or one line a model."""
    own = len(table.quantities) * max(1, len(table.data))
    models = [pairs[first : first + own] for first in range(0, len(pairs), own)]
    if not table.data:
        rows = [[one[0].model, *map(_cell, one)] for one in models]
        write_table(["Model", *(name.replace("_", " ") for name in table.quantities)], rows)
        write(f"{_SIZES}\n")
        return
    lines: list[list[Text]] = []
    for one in models:
        blocks = next((pair.blocks for pair in one if pair.blocks is not None), None)
        model = Text(one[0].model + ("" if blocks is None else f", L={blocks}"), style="bold")
        lines.append([model, *[Text("")] * len(table.data)])
        for start in range(0, own, len(table.data)):
            line = one[start : start + len(table.data)]
            lines.append([Text(f"  {line[0].quantity}"), *map(_cell, line)])
    write_table(["Model", *(_TITLES.get(name, name) for name in table.data)], lines)
    write(f"{_DEPTHS}\n{_summary(pairs)} {table.note}\n")


def figure_rows(paper: Reproduction, figures: Iterable[Figure]) -> list[Row]:
    """What each figure shows and what it takes."""
    rows: list[Row] = []
    for one in figures:
        works = [paper.work(name) for name in one.data]
        data = [w.data if isinstance(w.data, str) else f"{len(w.data)} questions with answers" for w in works]
        of_the_paper = not one.needs and any(work.verb != "depth_performance" for work in works)
        models = list(one.models or (paper.models if of_the_paper else ()))
        rows.append(
            {
                "figure": one.label,
                "shows": one.shows,
                "data": data,
                "draws": list(one.draws),
                "models": models,
                "needs": one.needs,
            }
        )
    return rows


def write_figures(rows: Iterable[Row]) -> None:
    """The same for people."""
    lines = []
    for row in rows:
        shows = row["shows"] + (f"; needs {row['needs']}" if row["needs"] else "")
        lines.append([row["figure"], shows, ", ".join(row["data"]), ", ".join(row["draws"])])
    write_table(("Figure", "Shows", "Data", "Drawn as"), lines)


def drawn_rows(drawn: Iterable[Drawn]) -> list[Row]:
    """One row a file."""
    return [
        {
            "figure": one.figure.label,
            "shows": one.figure.shows,
            "models": list(one.models),
            "data": list(one.data),
            "file": str(one.path),
        }
        for one in drawn
    ]


def missing_rows(found: Reproduced) -> list[Row]:
    """What could not be measured; one row a reason, since one checkpoint or data set may be the cause of many."""
    lacking = [(one.cell.name, one.cell.work.name, one.reason) for one in found.outcomes if one.result is None]
    if found.target.table is not None:
        lacking += [
            (p.model, "sizes", p.reason) for rows in found.tables.values() for p in rows if p.reason and not p.data
        ]
    rows: dict[str, Row] = {}
    for model, data, reason in lacking:
        row = rows.setdefault(reason, {"models": [], "data": [], "reason": reason})
        for column, name in (("models", model), ("data", data)):
            if name not in row[column]:
                row[column].append(name)
    needed = [
        {"models": [], "data": list(one.data), "reason": f"Figure {one.label} needs {one.needs}."}
        for one in found.lacking
    ]
    return [*rows.values(), *needed]


def missing_lines(rows: Iterable[Row]) -> list[str]:
    """The same as sentences."""
    return [
        f"Not measured: {', '.join(row['models'])} on {', '.join(row['data'])}. {row['reason']}"
        if row["models"]
        else f"Not drawn: {row['reason']}"
        for row in rows
    ]


def _summary(pairs: Sequence[Pair]) -> str:
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


def _cell(pair: Pair) -> Text:
    unknown = _NONE if pair.blocks is None else "none"
    measured = unknown if pair.measured is None else str(pair.measured)
    if pair.measured is not None and None not in (pair.ci_low, pair.ci_high):
        measured += f" ({pair.ci_low:.0f}–{pair.ci_high:.0f})"
    published = _NONE if pair.published is None else str(pair.published)
    return Text(f"{measured} {_MARKS[pair.agrees]} {published}", style="red" if pair.agrees is False else "")


app = as_app(reproduce_command, _EXAMPLES, "bathyscope:reproduce", loading=_LOADING)
