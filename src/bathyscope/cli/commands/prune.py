"""``bathyscope prune``: which blocks can go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import LOADING, ModelName, Quiet, Records, as_app, interruptible, load_all, require_plain
from bathyscope.cli.commands.evaluate import files_by_task
from bathyscope.cli.commands.survey import one_source
from bathyscope.cli.console import Format, quiet_libraries, say, write, write_data, write_json, write_table

if TYPE_CHECKING:
    from bathyscope.surgery.plan import Plan

_IN_A_SHELL = {
    "evaluate": "tasks that the full model and the one without the choice are asked, as for evaluate",
    "data": "rows of a task from a file instead of the hub, as NAME=FILE; may be given several times",
}
_EXAMPLES = """\
Examples:
  bathyscope prune ./model --calibration "train.txt:80?window=256" --test "other.txt:80?window=256" --drop 3
  bathyscope prune ./model --calibration mine.jsonl --test held-out.jsonl --drop 25% --out runs/pruned
  bathyscope prune ./model --calibration "train.txt:80" --test "other.txt:80" --max-cost 0.05
  bathyscope prune ./model --calibration "train.txt:80" --test "other.txt:80" --drop 3 --evaluate arc_easy,problems.yaml
  bathyscope show runs/pruned

With --out the same command goes on where it was interrupted. Ends with 6 where not
even one block can go within --max-cost; the numbers are printed and saved then too."""


def prune_command(
    model: ModelName,
    /,
    *,
    calibration: Annotated[list[str], Parameter(help="prompts that choose, as for survey", negative=())],
    test: Annotated[list[str], Parameter(help="other prompts, which judge", negative=())],
    format: Records = "table",
    quiet: Quiet = False,
    **given: Any,
) -> int:
    """Choose blocks to leave out."""
    from bathyscope.runs.folder import folder_path, refuse_foreign
    from bathyscope.surgery.plan import PRUNING
    from bathyscope.surgery.pruning import kinds_of, require_size

    if given.get("data"):
        given["data"] = files_by_task(given["data"])
    require_plain(bathyscope.prune, given)
    require_size(given.get("drop"), given.get("max_cost"))
    kinds_of(given.get("parts", "block"))
    if given.get("out") is not None:
        refuse_foreign(folder_path(given["out"], "out"), PRUNING)
    sources = one_source(calibration), one_source(test)
    [loaded] = load_all([model], given, quiet)
    out = given.get("out")
    kept = "" if out is None else f"what is finished is kept in {out}"
    try:
        with interruptible(lambda: kept), quiet_libraries(downloads=not quiet):
            plan = bathyscope.prune(loaded, *sources, progress=not quiet, **given)
    except bathyscope.PruningError as error:
        plan_of_error: Any = error.plan
        if plan_of_error is not None:
            show_plan(plan_of_error, format)  # the numbers that say that no block can go
            _say_where(out, quiet)
        raise
    show_plan(plan, format)
    _say_where(out, quiet)
    return 0


def _say_where(out: str | None, quiet: bool) -> None:
    if out is not None:
        say(f"Written: {out}", quiet)


def show_plan(plan: Plan, format_: Format) -> None:
    """Print whether a plan is proved, what it changes, and its candidates; as JSON its whole record."""
    from bathyscope.surgery.plan_text import HEADINGS, cells
    from bathyscope.surgery.task_table import HEADINGS as TASK_HEADINGS
    from bathyscope.surgery.task_table import task_cells

    if format_ == "json":
        write_json(plan.record())
        return
    if write_data(plan.table, format_):
        return
    write(plan.text)
    write_table(["candidate", *HEADINGS.values()], cells(plan.data), title="Costs in nats per token")
    if plan.fits:
        rows = [list(row) for row in plan.before_after.itertuples(index=False)]
        write_table(["", "before", "after"], rows, title=f"What {plan.left_out} changes")
    if plan.speeds is not None:
        write(f"Speed: {plan.speeds.text}")
    if plan.tasks_data is not None:
        write_table(TASK_HEADINGS, task_cells(plan.tasks_data), title=f"Tasks without {plan.left_out}")


app = as_app(prune_command, _EXAMPLES, "bathyscope:prune", loading=LOADING, texts=_IN_A_SHELL, repeated=("data",))
