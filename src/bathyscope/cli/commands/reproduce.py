"""``bathyscope reproduce``: a paper's tables and figures from the models at hand, beside what was published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from bathyscope.cli import session
from bathyscope.cli.arguments import OBJECTS, Quiet, Records, as_app, taken
from bathyscope.cli.console import Format, quiet_libraries, say, write, write_data, write_json, write_table
from bathyscope.cli.flags import options_of
from bathyscope.cli.reproduction import (
    drawn_rows,
    figure_rows,
    missing_lines,
    missing_rows,
    pair_rows,
    write_figures,
    write_pairs,
)
from bathyscope.errors import OptionError
from bathyscope.interrupts import INTERRUPTED

if TYPE_CHECKING:
    from bathyscope.reproducing.cells import Outcome
    from bathyscope.reproducing.reproduce import Plan, Reproduced

_LOADING = options_of("bathyscope:load", leave_out=(*OBJECTS, "revision", "trust_remote_code"))
_EXAMPLES = """\
Examples:
  bathyscope reproduce csordas2025 --list
  bathyscope reproduce hu2025-table1 --models Qwen2.5-1.5B-Instruct
  bathyscope reproduce hu2025-table1 --models Qwen2.5-Math-1.5B=./math mine=./mine --data ./data
  bathyscope reproduce csordas2025 --models ./llama --figures 2,3b --data gsm8k=test.jsonl --prompts 4
  bathyscope reproduce hu2025-table1 --format csv > table1.csv

Every result is kept in OUT/PRESET/MODEL/WORK: the same command goes on where it was
interrupted, and what is finished is only read."""

Several = Annotated[list[str] | None, Parameter(consume_multiple=True, negative=(), show_default=False)]


def reproduce_command(
    target: str,
    /,
    *,
    models: Several = None,
    data: Several = None,
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
        list_only: say what there is, and measure nothing.
    """
    from bathyscope.reproducing.reproduce import Plan

    if list_only and (models or data):
        raise OptionError("--list says what there is for all models of the paper; leave --models and --data out.")
    if list_only:
        return _list(target, given.get("figures", ()), format)
    loading = taken(_LOADING, given)
    plan = Plan.of(target, models or (), data=data or (), **given)
    try:
        outcomes = _measured(plan, loading, quiet)
    except KeyboardInterrupt:
        done = sum(cell.finished() is not None for cell in plan.cells)
        resume = session.current().command_line
        say(f"Interrupted: {done} of {len(plan.cells)} runs are finished and kept in {plan.place}. To resume: {resume}")
        return INTERRUPTED
    _show(plan.result(outcomes), format)
    return next((outcome.exit_code for outcome in outcomes if outcome.result is None), 0)


def _measured(plan: Plan, loading: dict[str, Any], quiet: bool) -> list[Outcome]:
    from bathyscope.reproducing.cells import measured

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
    from bathyscope.reproducing.models import chosen_models
    from bathyscope.reproducing.reproduce import Reproduced, Target
    from bathyscope.reproducing.tables import pairs

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


app = as_app(reproduce_command, _EXAMPLES, "bathyscope:reproduce", loading=_LOADING)
