"""``bathyscope evaluate``: benchmarks of lm-evaluation-harness under schedules of the blocks."""

from __future__ import annotations

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
from bathyscope.cli.printing import print_result
from bathyscope.errors import OptionError
from bathyscope.options import require_different
from bathyscope.surgery.options import EvaluateOptions

if TYPE_CHECKING:
    pass

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
    from bathyscope.prompts.harness.loading import load_benchmarks
    from bathyscope.surgery.benchmarks.variants import require_forms
    from bathyscope.surgery.plan.opening import is_plan

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
    elif "schedules" in options:
        # documents of tasks may come from a hub, which is asked after everything that was typed is checked
        require_forms(options["schedules"])
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
    print_result(evaluation, format)
    return 0


def read_task_files(arguments: Sequence[str]) -> dict[str, str]:
    """Return the file of each task of ``--data NAME=FILE``."""
    pairs = [text.partition("=") for text in arguments]
    for text, (name, separator, path) in zip(arguments, pairs):
        if not (name and separator and path):
            raise OptionError(f"--data {text!r} is not NAME=FILE; for example --data hellaswag=validation.jsonl.")
    require_different([name for name, _, _ in pairs], "--data")
    return {name: path for name, _, path in pairs}


app = make_app(evaluate_command, _EXAMPLES, EvaluateOptions, loading=LOADING)
