"""``bathyscope evaluate``: benchmarks of lm-evaluation-harness under schedules of the blocks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pandas as pd
from cyclopts import App, Parameter
from rich.box import SIMPLE_HEAD
from rich.table import Table

from bathyscope.cli import session
from bathyscope.cli.console import Format, quiet_libraries, say, write, write_data, write_table
from bathyscope.cli.flags import command, flags, options_of
from bathyscope.cli.main import INTERRUPTED
from bathyscope.errors import OptionError
from bathyscope.evaluation import Evaluation, evaluate
from bathyscope.evaluation.benchmarks import load_benchmarks
from bathyscope.evaluation.variants import NORMAL
from bathyscope.model import load

if TYPE_CHECKING:
    from bathyscope.evaluation.benchmarks import Benchmark


_LOADING = options_of(load, leave_out=("model", "tokenizer", "family"))
_CALL = options_of(evaluate, leave_out=("model", "tasks", "progress"))
_IN_A_SHELL = {
    "data": "rows of a task from a file instead of the hub, as NAME=FILE; may be given several times",
    "schedules": "drop, swap (at every block), repeat:5 (every window of five blocks run twice), or single ones such "
    "as drop:5 and repeat:8+5; the normal model is always evaluated",
    "out": "folder of the results; what is finished there is kept (not given = runs/MODEL-benchmarks)",
}
_EXAMPLES = """\
Examples:
  bathyscope evaluate gpt2 --tasks hellaswag,arc_easy,lambada_openai --schedules drop,swap,repeat:5
  bathyscope evaluate ./model --tasks arc_easy --data arc_easy=validation.jsonl --limit 100
  bathyscope evaluate gpt2 --tasks lambada_openai --schedules drop:3,repeat:4+3 --format csv > drop.csv

Needs the extra: pip install 'bathyscope[eval]'. OUT holds one result file for every
schedule and task: the same command goes on where it was interrupted, and more tasks
or schedules may be added to a finished evaluation."""


def evaluate_command(
    model: str,
    /,
    *,
    tasks: str,
    format: Format = "table",
    quiet: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    **given: Any,
) -> int:
    """Run benchmarks under schedules.

    Args:
        model: name on the hub, or a local folder.
        tasks: names separated by commas, as lm-evaluation-harness calls them.
        format: of the output; missing numbers are empty in CSV and null in JSON.
        quiet: no progress and no messages; warnings and errors remain.
    """
    given["out"] = out = given.get("out") or _default_out(model)
    loading = {one.name: given.pop(one.name) for one in fields(_LOADING) if one.name in given}
    try:
        found = _evaluated(model, tasks, loading, given, quiet)
    except KeyboardInterrupt:
        finished = len(list(Path(out).expanduser().glob("results/*/*.json")))
        say(f"Interrupted: {finished} results are kept in {out}. To resume: {session.current().command_line}")
        return INTERRUPTED
    say(f"Written: {out}", quiet)
    _show(found, format)
    return 0


def _evaluated(model: str, tasks: str, loading: Mapping[str, Any], given: Mapping[str, Any], quiet: bool) -> Evaluation:
    with quiet_libraries(downloads=not quiet):
        # tasks and files are checked before a model is loaded, which may take long
        names = [name.strip() for name in tasks.split(",") if name.strip()]
        benchmarks: Sequence[Benchmark] = load_benchmarks(names, _files(given.get("data") or []))
        options = {name: value for name, value in given.items() if name != "data"}
        say(f"Loading {model}; the results go to {given['out']}.", quiet)
        return evaluate(load(model, **loading), benchmarks, **options, progress=not quiet)


def _files(given: Sequence[str]) -> dict[str, str]:
    """``--data NAME=FILE`` by name."""
    pairs = [text.partition("=") for text in given]
    for text, (name, separator, path) in zip(given, pairs):
        if not (name and separator and path):
            raise OptionError(f"--data {text!r} is no NAME=FILE; for example --data hellaswag=validation.jsonl.")
    return {name: path for name, _, path in pairs}


def _default_out(model: str) -> str:
    name = re.sub(r"[^\w.-]+", "-", Path(model).name).strip("-.")
    return str(Path("runs") / f"{name}-benchmarks")


def _show(found: Evaluation, format_: Format) -> None:
    frame = found.to_dataframe()
    if not write_data(frame, format_):
        for task in dict.fromkeys(frame["task"]):
            write_table(_table(task, frame[frame["task"] == task]))
        write("Value ± standard error over documents; in brackets the difference from the normal model on the same")
        write("documents, ± its standard error. loglikelihood: of the right answer, in nats.")


def _table(task: str, frame: pd.DataFrame) -> Table:
    """One line a schedule, one column a metric."""
    metrics = list(dict.fromkeys(frame["metric"]))
    table = Table(box=SIMPLE_HEAD, title=task, title_justify="left")
    table.add_column("Schedule")
    for metric in metrics:
        table.add_column(metric, justify="right", no_wrap=True)
    rows = {(row.schedule, row.metric): row for row in frame.itertuples()}
    for name in dict.fromkeys(frame["schedule"]):
        cells = [_cell(rows.get((name, metric))) for metric in metrics]
        table.add_row("normal" if name == NORMAL else name, *cells)
    return table


def _cell(row: Any) -> str:
    if row is None:
        return "–"
    text = f"{row.value:.4g}" + ("" if pd.isna(row.stderr) else f" ± {row.stderr:.2g}")
    if row.schedule == NORMAL or pd.isna(row.difference):
        return text
    return f"{text} ({row.difference:+.3g} ± {row.difference_stderr:.2g})"


app = App(name="evaluate", help_epilogue=_EXAMPLES)
app.default(command(evaluate_command, [*flags(_CALL, texts=_IN_A_SHELL, repeated=("data",)), *flags(_LOADING)]))
