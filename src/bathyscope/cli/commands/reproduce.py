"""``bathyscope reproduce``: a paper's tables and figures from the models at hand, next to what was published."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter
from rich.text import Text

from bathyscope.cli import session
from bathyscope.cli.arguments import LOADING_SEVERAL, Quiet, ResultFormat, make_app, report_interruption, take_options
from bathyscope.cli.console import Format, quiet_libraries, say
from bathyscope.cli.printing import View, print_result
from bathyscope.core.estimates import Estimate
from bathyscope.core.result import TableResult
from bathyscope.core.tables import TextTable
from bathyscope.errors import OptionError
from bathyscope.pages.options import PaperData, PaperTarget, ReproduceOptions

if TYPE_CHECKING:
    from bathyscope.pages.papers.cells import Outcome
    from bathyscope.pages.papers.reproduce import Reproduced, ReproductionPlan
    from bathyscope.pages.papers.tables import TableEntry
    from bathyscope.surveying.papers.reproduction import Table

_NONE: Final = "–"
_MARKS: Final = {True: "=", False: "≠", None: "·"}
_TITLES: Final = {"hellaswag": "HellaSwag", "gsm8k": "GSM8K", "aime2024": "AIME24"}
_DEPTHS: Final = (
    "Effective depth, 0-based: measured (interval), = or ≠, published. none: the criterion is not met; ·: there is "
    "nothing to compare. cosine is a block, kl and overlap are block inputs."
)
_SIZES: Final = "Blocks and heads: of the checkpoint, = or ≠, published."
_EXAMPLES = """\
Examples:
  bathyscope reproduce csordas2025 --list
  bathyscope reproduce hu2025-table1 --models Qwen2.5-1.5B-Instruct
  bathyscope reproduce hu2025-table1 --models Qwen2.5-Math-1.5B=./math mine=./mine --data ./data
  bathyscope reproduce csordas2025 --models ./llama --figures 2,3b --data gsm8k=test.jsonl --prompts 4
  bathyscope reproduce hu2025-table1 --record table1.json --format csv > table1.csv
  bathyscope reproduce --score table1.json

Every result is stored in OUT/PRESET/MODEL/WORK: the same command resumes where it
was interrupted, and finished results are only read."""

Several = Annotated[list[str] | None, Parameter(consume_multiple=True, negative=(), show_default=False)]


def reproduce_command(
    target: Annotated[str | None, PaperTarget] = None,
    /,
    *,
    models: Several = None,
    data: Annotated[Several, PaperData] = None,
    record: Annotated[Path | None, Parameter(show_default=False)] = None,
    score: Annotated[Path | None, Parameter(show_default=False)] = None,
    list_only: Annotated[bool, Parameter(name="--list", negative=(), show_default=False)] = False,
    format: ResultFormat = "table",
    quiet: Quiet = False,
    **options: Any,
) -> int:
    """Repeat a paper's tables or figures.

    Args:
        models: names of the paper, other hub names, folders, or NAME=FOLDER, which stands for the paper's model of
            that name, separated by blanks or commas (not given = all of the paper's).
        record: also write one file (JSON) with revisions, hashes, versions and numbers.
        score: compare such a file with the paper and with the predictions of docs/predictions.md, and measure nothing.
        list_only: list tables and figures, and measure nothing.
    """
    if score is not None:
        if target is not None or models or data or record is not None or list_only:
            raise OptionError("--score reads a record and measures nothing; give it alone (and --format).")
        _show_scores(score, format)
        return 0
    if target is None:
        raise OptionError("What is to be reproduced? Give hu2025-table1, csordas2025 or lad2024, or --score FILE.")
    if list_only and record is not None:
        raise OptionError("--list measures nothing, so there is nothing to record; leave --record out.")
    if list_only and (models or data):
        raise OptionError("--list lists tables and figures for all models of the paper; leave --models and --data out.")
    if list_only:
        _show_contents(target, options.get("figures", ()), format)
        return 0
    if record is not None:
        from bathyscope.pages.papers.json_record import check_record

        check_record(record)
    from bathyscope.pages.papers.reproduce import ReproductionPlan

    loading = take_options(LOADING_SEVERAL, options)
    plan = ReproductionPlan.of(target, models or (), data=data or (), **options)
    with report_interruption(lambda: f"{_count_finished(plan)} saved in {plan.place}"):
        outcomes = _measure(plan, loading, quiet)
    reproduced = plan.result(outcomes, loading)
    if record is not None:
        from bathyscope.pages.papers.json_record import write_record

        write_record(reproduced, record)
        say(f"Written: {record}", quiet)
    _show(reproduced, format)
    return next((outcome.exit_code for outcome in outcomes if outcome.result is None), 0)


def _show_scores(file: Path, format_: Format) -> None:
    """Print the numbers of a record, and how many are as published and as predicted."""
    import pandas as pd

    from bathyscope.pages.papers.json_record import score, score_rows

    scores = score(file)
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
    headings = ("Model", "Data", "Quantity", "Measured", "Published", "Predicted", "As predicted")
    sentences = [
        f"{marks.count(True)} of {len(marks) - marks.count(None)} numbers are {words}."
        for words, marks in (
            ("as published", [entry.agrees for entry in scores]),
            ("as predicted", [entry.as_predicted for entry in scores]),
        )
    ]
    rows = score_rows(scores)
    result = TableResult(pd.DataFrame(rows, dtype=object), " ".join(sentences), fields=rows)
    print_result(result, format_, lambda: View([TextTable(headings, cells)], conclusion=sentences))


def _count_finished(plan: ReproductionPlan) -> str:
    """Return how many runs are finished, and how much of the one that was interrupted."""
    unfinished = [cell for cell in plan.cells if cell.finished() is None]
    begun = [cell.stored_shards() for cell in unfinished]
    shards = next((f", with {stored} of {planned} shards of the next," for stored, planned in begun if stored), "")
    return f"{len(plan.cells) - len(unfinished)} of {len(plan.cells)} runs are finished{shards} and"


def _measure(plan: ReproductionPlan, loading: dict[str, Any], quiet: bool) -> list[Outcome]:
    from bathyscope.pages.papers.cells import measured

    outcomes = []
    with quiet_libraries(downloads=not quiet):
        # A generator, so that each step is announced before it is computed.
        steps = measured(plan.cells, loading, not quiet, session.current().command_line)
        for number, cell in enumerate(plan.cells, start=1):
            say(f"{number}/{len(plan.cells)}: {cell.name} on {cell.work.name}", quiet)
            outcomes.append(next(steps))
    return outcomes


def _show(reproduced: Reproduced, format_: Format) -> None:
    from bathyscope.pages.papers.rows import missing_lines

    print_result(reproduced, format_, lambda: _view(reproduced))
    if format_ == "csv":
        for line in missing_lines(reproduced.missing):
            say(line)


def _view(reproduced: Reproduced) -> View:
    from bathyscope.pages.papers.rows import drawn_rows, missing_lines

    blocks: list[TextTable | str] = []
    for number, pairs in reproduced.entries.items():
        table = reproduced.target.paper.tables[number]
        blocks += [_pair_table(table, pairs), f"{_DEPTHS if table.data else _SIZES} {table.note}".strip() + "\n"]
    files = [[row["figure"], ", ".join(row["models"]), row["file"]] for row in drawn_rows(reproduced.drawn)]
    return View([*blocks, TextTable(("Figure", "Models", "File"), files), *missing_lines(reproduced.missing)])


def _show_contents(target: str, numbers: Any, format_: Format) -> None:
    """Print what can be reproduced, without measuring."""
    import pandas as pd

    from bathyscope.pages.papers.models import chosen_models
    from bathyscope.pages.papers.reproduce import Reproduced, Target
    from bathyscope.pages.papers.rows import figure_rows, flatten
    from bathyscope.pages.papers.tables import pairs

    chosen = Target.of(target)
    figures = chosen.figures(numbers)
    if chosen.table is not None:
        models = chosen_models((), chosen.paper.models)
        tables = {number: pairs(table, models, (), read=False) for number, table in chosen.tables(()).items()}
        _show(Reproduced(chosen, (), (), tables), format_)
        return
    rows = figure_rows(chosen.paper, figures)
    frame = pd.DataFrame(flatten(rows), dtype=object)
    text = f"{len(rows)} figures of {chosen.paper.paper} can be reproduced."
    print_result(TableResult(frame, text, fields=rows), format_, lambda: View([_figure_table(rows)]))


def _pair_table(table: Table, pairs: Sequence[TableEntry]) -> TextTable:
    """Return a table 80 columns wide: a model with a line for each quantity and a column for each data set.

    Where a table has no data sets, it has one line a model.
    """
    pairs_per_model = len(table.quantities) * max(1, len(table.data))
    models = [pairs[first : first + pairs_per_model] for first in range(0, len(pairs), pairs_per_model)]
    # Sizes of models have no data sets, so a model takes one line.
    if not table.data:
        rows = [[model_pairs[0].model, *map(_write_pair, model_pairs)] for model_pairs in models]
        return TextTable(["Model", *(name.replace("_", " ") for name in table.quantities)], rows)
    lines: list[list[Text]] = []
    for model_pairs in models:
        blocks = next((pair.blocks for pair in model_pairs if pair.blocks is not None), None)
        model = Text(model_pairs[0].model + ("" if blocks is None else f", L={blocks}"), style="bold")
        lines.append([model, *[Text("")] * len(table.data)])
        for start in range(0, pairs_per_model, len(table.data)):
            line = model_pairs[start : start + len(table.data)]
            lines.append([Text(f"  {line[0].quantity}"), *map(_write_pair, line)])
    return TextTable(["Model", *(_TITLES.get(name, name) for name in table.data)], lines)


def _figure_table(rows: Iterable[dict[str, Any]]) -> TextTable:
    lines = []
    for row in rows:
        shows = row["shows"] + (f"; needs {row['needs']}" if row["needs"] else "")
        lines.append([row["figure"], shows, ", ".join(row["data"]), ", ".join(row["draws"])])
    return TextTable(("Figure", "Shows", "Data", "Drawn as"), lines)


def _write_pair(pair: TableEntry) -> Text:
    unknown = _NONE if pair.blocks is None else "none"
    measured = unknown if pair.measured is None else str(pair.measured)
    if pair.measured is not None and pair.ci_low is not None and pair.ci_high is not None:
        measured += f" ({Estimate(pair.measured, pair.ci_low, pair.ci_high).interval('.0f')})"
    published = _NONE if pair.published is None else str(pair.published)
    return Text(f"{measured} {_MARKS[pair.agrees]} {published}", style="red" if pair.agrees is False else "")


app = make_app(reproduce_command, _EXAMPLES, ReproduceOptions, loading=LOADING_SEVERAL)
