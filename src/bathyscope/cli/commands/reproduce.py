"""``bathyscope reproduce``: a paper's tables and figures from the models at hand, beside what was published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from bathyscope.cli import session
from bathyscope.cli.console import Format, quiet_libraries, say, write, write_data, write_json, write_table
from bathyscope.cli.flags import command, flags, options_of
from bathyscope.cli.main import INTERRUPTED
from bathyscope.cli.reproduction import (
    DEPTH_LEGEND,
    SIZE_LEGEND,
    depth_rows,
    depth_summary,
    depth_table,
    drawn_rows,
    drawn_table,
    figure_rows,
    figure_table,
    missing_lines,
    missing_rows,
    size_rows,
    size_table,
)
from bathyscope.errors import OptionError, did_you_mean
from bathyscope.model import load
from bathyscope.papers.presets import AS_PUBLISHED
from bathyscope.papers.reproduction import DepthTable, Figure, Reproduction
from bathyscope.papers.reproductions import REPRODUCTIONS
from bathyscope.report.render import check_format
from bathyscope.reproduce.cells import Cell, Outcome, measured, planned
from bathyscope.reproduce.data import local_data
from bathyscope.reproduce.depths import depth_pairs
from bathyscope.reproduce.figures import Drawn, chosen_figures, draw, surveys_of, wanted
from bathyscope.reproduce.models import NamedModel, chosen_models
from bathyscope.reproduce.sizes import SizePair, size_pairs

_LOADING = options_of(load, leave_out=("model", "revision", "trust_remote_code", "tokenizer", "family"))
_EXAMPLES = """\
Examples:
  bathyscope reproduce csordas2025 --list
  bathyscope reproduce hu2025-table1 --models Qwen2.5-1.5B-Instruct
  bathyscope reproduce hu2025-table1 --models Qwen2.5-Math-1.5B=./math mine=./mine --data ./data
  bathyscope reproduce csordas2025 --models ./llama --figures 2,3 --data gsm8k=test.jsonl --prompts 4
  bathyscope reproduce hu2025-table1 --format csv > table1.csv

Every run is kept in OUT/PRESET/MODEL/SURVEY: the same command goes on where it was
interrupted, and what is finished is only read."""


@dataclass(frozen=True)
class Target:
    """What is to be repeated: a table of a paper, or all of the paper."""

    paper: Reproduction
    table: str | None

    @classmethod
    def of(cls, text: str) -> Target:
        """A paper's key, with ``-table1`` or ``-table2`` for a table.

        Raises:
            OptionError: no such paper or table.
        """
        targets = _targets()
        if text not in targets:
            raise OptionError(
                f"{text!r} cannot be reproduced.{did_you_mean(text, targets)} Allowed: {', '.join(targets)}."
            )
        return targets[text]

    @property
    def depths(self) -> DepthTable | None:
        """The table of effective depths that is asked for."""
        return self.paper.depths if self.table != "table2" else None


def _targets() -> dict[str, Target]:
    found = {}
    for key, paper in REPRODUCTIONS.items():
        found[key] = Target(paper, None)
        for table, there in (("table1", paper.depths), ("table2", paper.sizes)):
            if there:
                found[f"{key}-{table}"] = Target(paper, table)
    return found


def reproduce_command(
    target: str,
    /,
    *,
    models: Annotated[list[str] | None, Parameter(consume_multiple=True, negative=(), show_default=False)] = None,
    data: Annotated[list[str] | None, Parameter(consume_multiple=True, negative=(), show_default=False)] = None,
    figures: Annotated[str | None, Parameter(show_default=False)] = None,
    prompts: Annotated[int | None, Parameter(show_default=False)] = None,
    as_published: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    list_only: Annotated[bool, Parameter(name="--list", negative=(), show_default=False)] = False,
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
    format: Format = "table",
    formats: str = "png",
    quiet: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
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
        format: of the output; missing numbers are empty in CSV and null in JSON.
        formats: of the figures' files: png, svg, pdf, several separated by commas.
        quiet: no progress and no messages; warnings and errors remain.
    """
    asked = Target.of(target)
    numbers = _numbers(figures, asked)
    chosen = () if asked.table else chosen_figures(asked.paper, numbers)
    if list_only:
        return _list(asked, chosen, format)
    kinds = _formats(formats)
    named = chosen_models(models or (), asked.paper.models)
    if prompts is not None and prompts < 1:
        raise OptionError(f"--prompts {prompts} is out of range; give a whole number, 1 or more.")
    sources = local_data(data or ())
    place = out or Path("runs") / asked.paper.paper
    depths = asked.depths if figures is None else None
    preset = asked.paper.paper + (AS_PUBLISHED if as_published else "")
    cells = _cells(asked.paper, depths, chosen, planned(named, asked.paper.surveys, preset, place, sources, prompts))
    outcomes: list[Outcome] = []
    try:
        _measure(cells if asked.table != "table2" else [], given, quiet, outcomes)
    except KeyboardInterrupt:
        done = sum(outcome.run is not None for outcome in outcomes)
        resume = session.current().command_line
        say(f"Interrupted: {done} of {len(cells)} runs are finished and kept in {place}. To resume: {resume}")
        return INTERRUPTED
    drawn = draw(chosen, outcomes, place / "figures" / preset, kinds)
    sizes = size_pairs(asked.paper.sizes, named) if figures is None and asked.paper.sizes else []
    _show(Found(asked, named, outcomes, drawn, depths, sizes), format)
    return 0


@dataclass(frozen=True)
class Found:
    """What came of it.

    Args:
        depths: the table of effective depths that is asked for.
        sizes: rows of the table of sizes, where it is asked for.
    """

    target: Target
    models: Sequence[NamedModel]
    outcomes: Sequence[Outcome]
    drawn: Sequence[Drawn]
    depths: DepthTable | None
    sizes: Sequence[SizePair]


def _cells(paper: Reproduction, depths: DepthTable | None, figures: Sequence[Figure], every: list[Cell]) -> list[Cell]:
    """Those that a table or a figure needs."""
    tabled = () if depths is None else depths.surveys
    drawn = surveys_of(paper, figures)
    return [cell for cell in every if cell.survey.name in tabled or (cell.survey in drawn and wanted(figures, cell))]


def _measure(cells: Sequence[Cell], loading: dict[str, Any], quiet: bool, outcomes: list[Outcome]) -> None:
    """Fills ``outcomes``, which keeps what is done when it is interrupted."""
    with quiet_libraries(downloads=not quiet):
        steps = measured(cells, loading, not quiet, session.current().command_line)
        for number, cell in enumerate(cells, start=1):
            say(f"{number}/{len(cells)}: {cell.model.name} on {cell.survey.name}", quiet)
            outcomes.append(next(steps))


def _show(found: Found, format_: Format) -> None:
    paper, table = found.target.paper, found.target.table
    pairs = [] if found.depths is None else depth_pairs(found.depths, found.models, found.outcomes)
    sizes = found.sizes
    missing = missing_rows(found.outcomes, sizes if table == "table2" else ())
    if format_ == "json":
        named = {"table1": depth_rows(pairs), "table2": size_rows(sizes), "figures": drawn_rows(found.drawn)}
        write_json({**{name: rows for name, rows in named.items() if rows}, "missing": missing})
        return
    if format_ == "csv":
        by_table = {"table1": depth_rows(pairs), "table2": size_rows(sizes)}
        write_data(drawn_rows(found.drawn) if table is None else by_table[table], format_)
        for line in missing_lines(missing):
            say(line)
        return
    if found.depths is not None:
        write_table(depth_table(found.depths, pairs))
        write(f"{DEPTH_LEGEND}\n{depth_summary(pairs)} {paper.note}\n")
    if sizes:
        write_table(size_table(sizes))
        write(f"{SIZE_LEGEND}\n")
    if found.drawn:
        write_table(drawn_table(found.drawn))
    for line in missing_lines(missing):
        write(line)


def _list(target: Target, figures: Sequence[Figure], format_: Format) -> int:
    """What there is, without measuring."""
    if target.table is not None:
        models = chosen_models((), target.paper.models)
        sizes = size_pairs(target.paper.sizes, models, read=False)
        _show(Found(target, models, (), (), target.depths, sizes), format_)
        return 0
    rows = figure_rows(target.paper, figures)
    if format_ == "csv":
        rows = [{name: "; ".join(v) if isinstance(v, list) else v for name, v in row.items()} for row in rows]
    if not write_data(rows, format_):
        write_table(figure_table(rows))
        write("~: numbered by the order in which the paper treats its measurements, not checked against the paper.")
    return 0


def _numbers(figures: str | None, target: Target) -> list[int]:
    if figures is None:
        return []
    if target.table is not None:
        raise OptionError(
            f"--figures goes with a paper, not with a table; give {target.paper.paper} --figures {figures}."
        )
    parts = [part.strip() for part in figures.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise OptionError(f"--figures {figures!r} is no list of numbers; write --figures 2,3.")
    return [int(part) for part in parts]


def _formats(text: str) -> list[str]:
    formats = [part.strip() for part in text.split(",")]
    for one in formats:
        check_format(one)
    return formats


app = App(name="reproduce", help_epilogue=_EXAMPLES)
app.default(command(reproduce_command, flags(_LOADING)))
