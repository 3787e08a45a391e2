"""``bathyscope evaluate``: benchmarks of lm-evaluation-harness under schedules of the blocks."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bathyscope
from bathyscope.cli.arguments import (
    LOADING,
    Quiet,
    ResultFormat,
    load_as_planned,
    make_app,
    report_interruption,
    take_options,
)
from bathyscope.cli.console import quiet_libraries, say
from bathyscope.cli.printing import TextTable, View, print_result
from bathyscope.errors import OptionError
from bathyscope.surgery.options import EvaluateOptions

if TYPE_CHECKING:
    import pandas as pd

    from bathyscope.surgery.benchmarks import Evaluation

_LEGEND = (
    "Value ± standard error over documents; in brackets the difference from the normal model on the same documents, ± "
    "its standard error (none where documents agree). loglikelihood: of the right answer, in nats."
)
_EXAMPLES = """\
Examples:
  bathyscope evaluate gpt2 --tasks hellaswag,arc_easy,lambada_openai --schedules drop,swap,repeat:5
  bathyscope evaluate runs/pruned --tasks arc_easy,lambada_openai
  bathyscope evaluate ./model --tasks arc_easy --data arc_easy=validation.jsonl --limit 100
  bathyscope evaluate ./model --tasks gsm8k,problems.yaml --schedules drop --limit 200
  bathyscope evaluate gpt2 --tasks lambada_openai --schedules drop:3,repeat:4+3 --format csv > drop.csv

Needs the extra: pip install 'bathyscope[eval]'. OUT holds one result file for every
schedule and task: the same command resumes an interrupted evaluation, and more tasks
or schedules may be added to a finished one."""


def evaluate_command(
    model: str, /, *, tasks: str, format: ResultFormat = "table", quiet: Quiet = False, **options: Any
) -> int:
    """Run benchmarks under schedules.

    Args:
        model: name on the hub, or a local folder; or the folder of a plan that prune wrote, which names the model and
            the schedule.
        tasks: names separated by commas, as lm-evaluation-harness calls them, or YAML files of one's own tasks.
    """
    from bathyscope.surgery.benchmarks.benchmarks import load_benchmarks
    from bathyscope.surgery.plan.plan import is_plan

    place = model
    if is_plan(model):
        plan = bathyscope.open(model)
        if options.get("schedules") is not None:
            raise OptionError(
                "A plan holds its own schedule; leave --schedules out, or give the model in place of the plan."
            )
        # A plan in which no block can go has nothing to evaluate, and says so before a model is loaded.
        plan.as_schedule()
        place, options["schedules"] = plan.place, [plan]
        load_as_planned(plan, options)
    # A name on the hub holds a slash, and a folder of results must not.
    name = re.sub(r"[^\w.-]+", "-", Path(model).name).strip("-.")
    options["out"] = out = options.get("out") or str(Path("runs") / f"{name}-benchmarks")
    loading = take_options(LOADING, options)
    folder = Path(out).expanduser()
    with (
        report_interruption(lambda: f"{len(list(folder.glob('results/*/*.json')))} results are saved in {out}"),
        quiet_libraries(downloads=not quiet),
    ):
        # Tasks and files are checked before the model is loaded, which may take minutes.
        task_names = [task.strip() for task in tasks.split(",") if task.strip()]
        benchmarks = load_benchmarks(
            task_names, read_task_files(options.pop("data", ())), options.get("allow_code", False)
        )
        say(f"Loading {place}; the results go to {out}.", quiet)
        evaluation = bathyscope.evaluate(bathyscope.load(place, **loading), benchmarks, **options, progress=not quiet)
    say(f"Written: {out}", quiet)
    print_result(evaluation, format, lambda: _view(evaluation))
    return 0


def read_task_files(arguments: Sequence[str]) -> dict[str, str]:
    """Return the file of each task of ``--data NAME=FILE``."""
    pairs = [text.partition("=") for text in arguments]
    for text, (name, separator, path) in zip(arguments, pairs):
        if not (name and separator and path):
            raise OptionError(f"--data {text!r} is not NAME=FILE; for example --data hellaswag=validation.jsonl.")
    return {name: path for name, _, path in pairs}


def _view(evaluation: Evaluation) -> View:
    frame = evaluation.to_dataframe()
    tasks = dict.fromkeys(frame["task"])
    return View([*(_task_table(frame[frame["task"] == task], task) for task in tasks), _LEGEND])


def _task_table(frame: pd.DataFrame, task: str) -> TextTable:
    """Return a table with one line a schedule and one column a metric."""
    from bathyscope.surgery.benchmarks.variants import NORMAL

    metrics = list(dict.fromkeys(frame["metric"]))
    row_of = {(row.schedule, row.metric): row for row in frame.itertuples()}
    rows = [
        [
            "normal" if schedule == NORMAL else schedule,
            *(_write_value(row_of.get((schedule, metric)), schedule == NORMAL) for metric in metrics),
        ]
        for schedule in dict.fromkeys(frame["schedule"])
    ]
    return TextTable(["Schedule", *metrics], rows, task)


def _write_value(row: Any, is_normal: bool) -> str:
    if row is None:
        return "–"
    text = f"{row.value:.4g}{_write_error(row.stderr)}"
    if is_normal or math.isnan(row.difference):
        return text
    return f"{text} ({row.difference:+.3g}{_write_error(row.difference_stderr)})"


def _write_error(stderr: float) -> str:
    """Return nothing where there is no error, as of one document, and where documents agree, which says little."""
    return f" ± {stderr:.2g}" if stderr > 0 else ""


app = make_app(evaluate_command, _EXAMPLES, EvaluateOptions, loading=LOADING)
