"""``bathyscope export``: a model with its blocks in another order, as a checkpoint for plain transformers."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import OptionalText, Quiet, make_app, needs_a_plan
from bathyscope.cli.console import (
    quiet_libraries,
    say,
    write,
    write_json,
)
from bathyscope.errors import OptionError
from bathyscope.surgery.options import ExportOptions

_EXAMPLES = """\
Examples:
  bathyscope export Qwen/Qwen2.5-1.5B --schedule drop:2,drop:5 --out qwen-26
  bathyscope export runs/pruned --out model-smaller
  bathyscope export ./model --schedule repeat:8+4 --out model-deeper
  bathyscope export ./model --schedule drop:2,drop:5 --emit mergekit > merge.yaml"""


def export_command(
    model: str,
    /,
    *,
    schedule: OptionalText = None,
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
    json: Annotated[
        bool, Parameter(help="print the record of what was written, as JSON.", negative=(), show_default=False)
    ] = False,
    quiet: Quiet = False,
    **options: Any,
) -> int:
    """Write a model without some of its blocks, or with them in another order.

    Args:
        model: checkpoint folder, or name on the hub, copied from file to file and never loaded; or the folder of a plan
            that prune wrote, which names the model and what goes, and is the evidence in the model card.
        schedule: the order of the blocks, such as drop:2,drop:5 or swap:3 or repeat:8+5; of a plan the one it chose.
        out: folder to write; it must not exist, be empty, or hold the same export.
    """
    from bathyscope.surgery.plan.opening import is_plan

    place: Any = model
    order: Any = schedule
    if is_plan(model):
        if schedule is not None:
            raise OptionError(
                "A plan holds its own schedule; leave --schedule out, or give the model in place of the plan."
            )
        order = bathyscope.open(model)
        # The plan names the model it was made of; another model would get the wrong evidence in its card.
        order.require_choice()
        place = order.place
    elif schedule is None:
        raise needs_a_plan("export", "--schedule", model)
    if json and options.get("emit") is not None:
        raise OptionError("--json is the record of a checkpoint, and --emit writes none; leave one of them out.")
    with quiet_libraries(downloads=not quiet):
        written = bathyscope.export(place, order, out, **options)
    if isinstance(written, str):
        write(written)
        return 0
    if json:
        from bathyscope.surgery.checkpoint.json_record import export_record

        write_json(export_record(written))
    say(f"Written: {written}", quiet)
    return 0


app = make_app(
    export_command,
    _EXAMPLES,
    ExportOptions,
    usage="Usage: bathyscope export MODEL|PLAN [OPTIONS]",
)
