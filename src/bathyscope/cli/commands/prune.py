"""``bathyscope prune``: which blocks can go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import LOADING, ModelName, Quiet, ResultFormat, load_models, make_app, report_interruption
from bathyscope.cli.commands.evaluate import read_task_files
from bathyscope.cli.commands.survey import read_source
from bathyscope.cli.console import Format, quiet_libraries, say
from bathyscope.cli.printing import TextTable, View, print_result
from bathyscope.surgery.options import PruneOptions

if TYPE_CHECKING:
    from bathyscope.surgery.plan import Plan

_EXAMPLES = """\
Examples:
  bathyscope prune ./model --calibration "train.txt:80?window=256" --test "other.txt:80?window=256" --drop 3
  bathyscope prune ./model --calibration mine.jsonl --test held-out.jsonl --drop 25% --out runs/pruned
  bathyscope prune ./model --calibration "train.txt:80" --test "other.txt:80" --max-cost 0.05
  bathyscope prune ./model --calibration "train.txt:80" --test "other.txt:80" --drop 3 --evaluate arc_easy,problems.yaml
  bathyscope show runs/pruned

With --out the same command resumes where it was interrupted. Ends with 6 where not
even one block can go within --max-cost; the numbers are printed and saved then too."""


def prune_command(
    model: ModelName,
    /,
    *,
    calibration: Annotated[list[str], Parameter(help="prompts that choose, as for survey", negative=())],
    test: Annotated[list[str], Parameter(help="other prompts, which judge", negative=())],
    format: ResultFormat = "table",
    quiet: Quiet = False,
    **options: Any,
) -> int:
    """Choose blocks to leave out."""
    from bathyscope.runs.folder import folder_path, refuse_foreign
    from bathyscope.surgery.plan import PRUNING
    from bathyscope.surgery.removable import kinds_of, require_size

    if options.get("data"):
        options["data"] = read_task_files(options["data"])
    # Everything that can be wrong is refused before the model is loaded, which may take minutes.
    require_size(options.get("drop"), options.get("max_cost"))
    kinds_of(options.get("parts", "block"))
    if options.get("out") is not None:
        refuse_foreign(folder_path(options["out"], "out"), PRUNING)
    sources = read_source(calibration), read_source(test)
    [loaded] = load_models([model], options, quiet)
    out = options.get("out")
    stored = "" if out is None else f"finished results are saved in {out}"
    try:
        with report_interruption(lambda: stored), quiet_libraries(downloads=not quiet):
            plan = bathyscope.prune(loaded, *sources, progress=not quiet, **options)
    except bathyscope.PruningError as error:
        refused_plan: Any = error.plan
        if refused_plan is not None:
            # The numbers are the evidence that no block can go, so they are printed before the error.
            print_plan(refused_plan, format, out, quiet)
        raise
    print_plan(plan, format, out, quiet)
    return 0


def print_plan(plan: Plan, format_: Format, out: str | None = None, quiet: bool = False) -> None:
    """Print a plan, and where it was written."""
    print_result(plan, format_, lambda: _view(plan))
    if out is not None:
        say(f"Written: {out}", quiet)


def _view(plan: Plan) -> View:
    """Return a plan's candidates, what it changes, and its tasks."""
    from bathyscope.surgery.plan_text import HEADINGS, cells
    from bathyscope.surgery.task_table import HEADINGS as TASK_HEADINGS
    from bathyscope.surgery.task_table import task_cells

    candidates = TextTable(["candidate", *HEADINGS.values()], cells(plan.data), "Costs in nats per token")
    blocks: list[TextTable | str] = [candidates]
    if plan.fits:
        rows = [list(row) for row in plan.before_after.itertuples(index=False)]
        blocks.append(TextTable(["", "before", "after"], rows, f"What {plan.left_out} changes"))
    if plan.speeds is not None:
        blocks.append(f"Speed: {plan.speeds.text}")
    if plan.tasks_data is not None:
        blocks.append(TextTable(TASK_HEADINGS, task_cells(plan.tasks_data), f"Tasks without {plan.left_out}"))
    return View(blocks)


app = make_app(prune_command, _EXAMPLES, PruneOptions, loading=LOADING)
