"""``bathyscope repair``: what dropped blocks cost, and how much of it changes of the others bring back."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import LOADING, ModelName, Quiet, Records, as_app, interruptible, on_models
from bathyscope.cli.commands.survey import one_source
from bathyscope.cli.console import quiet_libraries, say, write, write_data, write_table

_EXAMPLES = """\
Examples:
  bathyscope repair ./model --schedule drop:5 --calibration valid.jsonl --test test.jsonl --out repaired
  bathyscope repair ./model --schedule drop:5 --calibration a.txt:400 --test b.txt:99 --how heal --minutes 9 --state s

With --state, the same command goes on with an interrupted healing."""


def repair_command(
    model: ModelName,
    /,
    *,
    schedule: str,
    calibration: str,
    test: str,
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
    format: Records = "table",
    quiet: Quiet = False,
    **given: Any,
) -> int:
    """Repair a model without some of its blocks.

    Args:
        schedule: which blocks are dropped, such as drop:2,drop:5.
        calibration: prompts that maps and training see: data set or file, as for survey.
        test: other prompts, that each repair is measured on.
        out: folder to write the repaired model to, as a checkpoint for plain transformers.
    """
    from bathyscope.surgery.repairing import require_budget

    require_budget(given.get("how", "linear"), given.get("tokens"), given.get("minutes"), given.get("state"))
    if out is not None:
        from bathyscope.surgery.exporting import require_free

        out = out.expanduser()
        require_free(out)  # the ladder takes minutes
    seen, other, state = one_source([calibration]), one_source([test]), given.get("state")
    with interruptible(lambda: "" if state is None else f"what has been trained is kept in {state}"):
        found = on_models(bathyscope.repair, [model], schedule, seen, test=other, given=given, quiet=quiet)
    with quiet_libraries(downloads=not quiet):
        folder = None if out is None else found.export(out)
    if not write_data(found.table, format):
        rows = [[one.name, one.shown("cost", ".4f"), one.shown("recovered", ".0%")] for one in found.rungs]
        write_table(("repair", "cost on test prompts, nats a token", "recovered"), rows)
        for one in found.rungs:
            if one.why_not:
                write(f"{one.name}: {one.why_not}")
    if folder is not None:
        say(f"Written: {folder}", quiet)
    return 0


app = as_app(repair_command, _EXAMPLES, "bathyscope:repair", loading=LOADING)
