"""``bathyscope evaluate``: benchmarks of lm-evaluation-harness under schedules of the blocks."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bathyscope
from bathyscope.cli.arguments import LOADING, Quiet, Records, as_app, as_planned, interruptible, taken
from bathyscope.cli.console import Format, quiet_libraries, say, write, write_data, write_json, write_table
from bathyscope.errors import OptionError

if TYPE_CHECKING:
    import pandas as pd

    from bathyscope.surgery.benchmarks import Evaluation

_IN_A_SHELL = {
    "data": "rows of a task from a file instead of the hub, as NAME=FILE; may be given several times",
    "schedules": "drop, swap (at every block), repeat:5 (every window of five blocks run twice), or single ones such "
    "as drop:5 and repeat:8+5; the normal model is always evaluated",
    "out": "folder of the results; what is finished there is kept (not given = runs/MODEL-benchmarks)",
}
_EXAMPLES = """\
Examples:
  bathyscope evaluate gpt2 --tasks hellaswag,arc_easy,lambada_openai --schedules drop,swap,repeat:5
  bathyscope evaluate runs/pruned --tasks arc_easy,lambada_openai
  bathyscope evaluate ./model --tasks arc_easy --data arc_easy=validation.jsonl --limit 100
  bathyscope evaluate ./model --tasks gsm8k,problems.yaml --schedules drop --limit 200
  bathyscope evaluate gpt2 --tasks lambada_openai --schedules drop:3,repeat:4+3 --format csv > drop.csv

Needs the extra: pip install 'bathyscope[eval]'. OUT holds one result file for every
schedule and task: the same command goes on where it was interrupted, and more tasks
or schedules may be added to a finished evaluation."""


def evaluate_command(
    model: str, /, *, tasks: str, format: Records = "table", quiet: Quiet = False, **given: Any
) -> int:
    """Run benchmarks under schedules.

    Args:
        model: name on the hub, or a local folder; or the folder of a plan that prune wrote, which names the model and
            the schedule.
        tasks: names separated by commas, as lm-evaluation-harness calls them, or YAML files of one's own tasks.
    """
    from bathyscope.surgery.benchmarks.benchmarks import load_benchmarks
    from bathyscope.surgery.plan import is_plan

    place = model
    if is_plan(model):
        plan = bathyscope.open_plan(model)
        if given.get("schedules") is not None:
            raise OptionError(
                "A plan holds its own schedule; leave --schedules out, or give the model in place of the plan."
            )
        plan.as_schedule()
        place, given["schedules"] = plan.place, [plan]
        as_planned(plan, given)
    name = re.sub(r"[^\w.-]+", "-", Path(model).name).strip("-.")
    given["out"] = out = given.get("out") or str(Path("runs") / f"{name}-benchmarks")
    loading = taken(LOADING, given)
    results = Path(out).expanduser()
    with (
        interruptible(lambda: f"{len(list(results.glob('results/*/*.json')))} results are kept in {out}"),
        quiet_libraries(downloads=not quiet),
    ):
        # tasks and files are checked before a model is loaded, which may take long
        names = [name.strip() for name in tasks.split(",") if name.strip()]
        benchmarks = load_benchmarks(names, files_by_task(given.pop("data", ())))
        say(f"Loading {place}; the results go to {out}.", quiet)
        found = bathyscope.evaluate(bathyscope.load(place, **loading), benchmarks, **given, progress=not quiet)
    say(f"Written: {out}", quiet)
    _show(found, format)
    return 0


def files_by_task(given: Sequence[str]) -> dict[str, str]:
    """``--data NAME=FILE`` by name."""
    pairs = [text.partition("=") for text in given]
    for text, (name, separator, path) in zip(given, pairs):
        if not (name and separator and path):
            raise OptionError(f"--data {text!r} is no NAME=FILE; for example --data hellaswag=validation.jsonl.")
    return {name: path for name, _, path in pairs}


def _show(found: Evaluation, format_: Format) -> None:
    frame = found.to_dataframe()
    if format_ == "json":
        write_json(found.record())
    elif not write_data(frame, format_):
        for task in dict.fromkeys(frame["task"]):
            write_table(*_table(frame[frame["task"] == task]), title=task)
        write("Value ± standard error over documents; in brackets the difference from the normal model on the same")
        write(
            "documents, ± its standard error (none where documents agree). loglikelihood: of the right answer, in nats."
        )


def _table(frame: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """One line a schedule, one column a metric."""
    from bathyscope.surgery.benchmarks.variants import NORMAL

    metrics = list(dict.fromkeys(frame["metric"]))
    rows = {(row.schedule, row.metric): row for row in frame.itertuples()}
    return ["Schedule", *metrics], [
        ["normal" if name == NORMAL else name, *(_cell(rows.get((name, metric)), name == NORMAL) for metric in metrics)]
        for name in dict.fromkeys(frame["schedule"])
    ]


def _cell(row: Any, normal: bool) -> str:
    if row is None:
        return "–"
    text = f"{row.value:.4g}{_error(row.stderr)}"
    if normal or math.isnan(row.difference):
        return text
    return f"{text} ({row.difference:+.3g}{_error(row.difference_stderr)})"


def _error(stderr: float) -> str:
    """Nothing where there is none, as of one document, and where documents that agree tell of none."""
    return f" ± {stderr:.2g}" if stderr > 0 else ""


app = as_app(evaluate_command, _EXAMPLES, "bathyscope:evaluate", loading=LOADING, texts=_IN_A_SHELL, repeated=("data",))
