"""``bathyscope reproduce``: a paper's tables and figures from the models at hand, beside what was published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from bathyscope.cli import session
from bathyscope.cli.arguments import OBJECTS, Quiet, Records, Whole
from bathyscope.cli.console import Format, quiet_libraries, say, write, write_data, write_json, write_table
from bathyscope.cli.flags import command, flags, options_of
from bathyscope.cli.reproduction import (
    DEPTH_LEGEND,
    SIZE_LEGEND,
    depth_rows,
    depth_summary,
    drawn_rows,
    figure_rows,
    missing_lines,
    missing_rows,
    size_rows,
    write_depths,
    write_figures,
    write_sizes,
)
from bathyscope.errors import OptionError
from bathyscope.interrupts import INTERRUPTED

if TYPE_CHECKING:
    from bathyscope.reproducing.cells import Outcome
    from bathyscope.reproducing.reproduce import Plan, Reproduced, Target

_LOADING = options_of("bathyscope:load", leave_out=(*OBJECTS, "revision", "trust_remote_code"))
_EXAMPLES = """\
Examples:
  bathyscope reproduce csordas2025 --list
  bathyscope reproduce hu2025-table1 --models Qwen2.5-1.5B-Instruct
  bathyscope reproduce hu2025-table1 --models Qwen2.5-Math-1.5B=./math mine=./mine --data ./data
  bathyscope reproduce csordas2025 --models ./llama --figures 2,3 --data gsm8k=test.jsonl --prompts 4
  bathyscope reproduce hu2025-table1 --format csv > table1.csv

Every run is kept in OUT/PRESET/MODEL/SURVEY: the same command goes on where it was
interrupted, and what is finished is only read."""


def reproduce_command(
    target: str,
    /,
    *,
    models: Annotated[list[str] | None, Parameter(consume_multiple=True, negative=(), show_default=False)] = None,
    data: Annotated[list[str] | None, Parameter(consume_multiple=True, negative=(), show_default=False)] = None,
    figures: Annotated[str | None, Parameter(show_default=False)] = None,
    prompts: Whole = None,
    as_published: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    list_only: Annotated[bool, Parameter(name="--list", negative=(), show_default=False)] = False,
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
    format: Records = "table",
    formats: str = "png",
    quiet: Quiet = False,
    **given: Any,
) -> int:
    """Repeat a paper's tables or figures.

    Args:
        target: csordas2025, hu2025, hu2025-table1 (effective depths), hu2025-table2 (sizes of the models) or lad2024.
        models: names of the paper, other hub names, folders, or NAME=FOLDER, which stands for the paper's model of
            that name (not given = all of the paper's).
        data: NAME=FILE, or a folder of files named after data sets, in place of the hub's copies; lad2024's corpus
            is a text file, pile=FILE.txt.
        figures: published numbers such as 2,3 (not given = all).
        prompts: prompts of each set (of each level of difficulty) in place of the paper's number.
        as_published: also reproduce the faults of the paper's published code.
        list_only: say what there is, and measure nothing.
        out: folder of the runs and figures (not given = runs/PAPER).
        formats: of the figures' files: png, svg, pdf, several separated by commas.
    """
    from bathyscope.reproducing.reproduce import Target, plan_reproduction

    numbers = _numbers(figures)
    if list_only:
        return _list(Target.of(target), numbers, format)
    kinds = [kind.strip() for kind in formats.split(",")]
    plan = plan_reproduction(target, models or (), data or (), numbers, prompts, as_published, out, kinds)
    try:
        outcomes = _measured(plan, given, quiet)
    except KeyboardInterrupt:
        done = sum(cell.finished() is not None for cell in plan.cells)
        resume = session.current().command_line
        say(f"Interrupted: {done} of {len(plan.cells)} runs are finished and kept in {plan.place}. To resume: {resume}")
        return INTERRUPTED
    found = plan.result(outcomes)
    _show(found, format)
    return next((outcome.exit_code for outcome in outcomes if outcome.run is None), 0)


def _measured(plan: Plan, loading: dict[str, Any], quiet: bool) -> list[Outcome]:
    from bathyscope.reproducing.cells import measured

    outcomes = []
    with quiet_libraries(downloads=not quiet):
        steps = measured(plan.cells, loading, not quiet, session.current().command_line)
        for number, cell in enumerate(plan.cells, start=1):
            say(f"{number}/{len(plan.cells)}: {cell.model.name} on {cell.survey.name}", quiet)
            outcomes.append(next(steps))
    return outcomes


def _show(found: Reproduced, format_: Format) -> None:
    table = found.target.table
    missing = missing_rows(found.outcomes, found.sizes if table == "table2" else ())
    named = {"table1": depth_rows(found.depth_pairs), "table2": size_rows(found.sizes)}
    if format_ == "json":
        named["figures"] = drawn_rows(found.drawn)
        write_json({**{name: rows for name, rows in named.items() if rows}, "missing": missing})
        return
    if format_ == "csv":
        write_data(drawn_rows(found.drawn) if table is None else named[table], format_)
        for line in missing_lines(missing):
            say(line)
        return
    if found.depths is not None:
        write_depths(found.depths, found.depth_pairs)
        write(f"{DEPTH_LEGEND}\n{depth_summary(found.depth_pairs)} {found.target.paper.note}\n")
    if found.sizes:
        write_sizes(found.sizes)
        write(f"{SIZE_LEGEND}\n")
    if found.drawn:
        rows = [[row["figure"], row["model"], row["file"]] for row in drawn_rows(found.drawn)]
        write_table(("Figure", "Model", "File"), rows)
    for line in missing_lines(missing):
        write(line)


def _list(target: Target, numbers: list[int], format_: Format) -> int:
    """What there is, without measuring."""
    from bathyscope.reproducing.depths import depth_pairs
    from bathyscope.reproducing.models import chosen_models
    from bathyscope.reproducing.reproduce import Reproduced
    from bathyscope.reproducing.sizes import size_pairs

    figures = target.figures(numbers)
    if target.table is not None:
        models = chosen_models((), target.paper.models)
        sizes = size_pairs(target.paper.sizes, models, read=False)
        pairs = [] if target.depths is None else depth_pairs(target.depths, models, ())
        _show(Reproduced(target, (), (), target.depths, pairs, sizes), format_)
        return 0
    rows = figure_rows(target.paper, figures)
    if format_ == "csv":
        rows = [{name: "; ".join(v) if isinstance(v, list) else v for name, v in row.items()} for row in rows]
    if not write_data(rows, format_):
        write_figures(rows)
        write("~: numbered by the order in which the paper treats its measurements, not checked against the paper.")
    return 0


def _numbers(figures: str | None) -> list[int]:
    parts = [] if figures is None else [part.strip() for part in figures.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise OptionError(f"--figures {figures!r} is no list of numbers; write --figures 2,3.")
    return [int(part) for part in parts]


app = App(name="reproduce", help_epilogue=_EXAMPLES)
app.default(command(reproduce_command, flags(_LOADING)))
