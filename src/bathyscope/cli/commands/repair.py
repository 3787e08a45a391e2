"""``bathyscope repair``: what dropped blocks cost, and how much of it changes of the others bring back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import LOADING, Given, Quiet, Records, as_app, as_planned, interruptible, on_models
from bathyscope.cli.commands.survey import one_source
from bathyscope.cli.console import Format, quiet_libraries, say, write, write_data, write_json, write_table
from bathyscope.errors import OptionError

if TYPE_CHECKING:
    from bathyscope.surgery.plan import Plan
    from bathyscope.surgery.repaired import Repaired

_EXAMPLES = """\
Examples:
  bathyscope repair ./model --schedule drop:5 --calibration valid.jsonl --test test.jsonl --out repaired
  bathyscope repair runs/pruned --out repaired
  bathyscope repair ./model --schedule drop:5 --calibration a.txt:400 --test b.txt:99 --how heal --minutes 9 --state s

With --state, the same command goes on with an interrupted healing. Ends with 7, and
writes nothing, where no repair is proved to be better than none."""


def repair_command(
    model: str,
    /,
    *,
    schedule: Given = None,
    calibration: Given = None,
    test: Given = None,
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
    format: Records = "table",
    quiet: Quiet = False,
    **given: Any,
) -> int:
    """Repair a model without some of its blocks.

    Args:
        model: name on the hub, or a local folder; or the folder of a plan that prune wrote, which names the model, the
            blocks and the prompts.
        schedule: which blocks are dropped, such as drop:2,drop:5; of a plan those that it chose.
        calibration: prompts that maps and training see: data set or file, as for survey; of a plan its own.
        test: other prompts, that each repair is measured on; of a plan its own.
        out: folder to write the repaired model to, as a checkpoint for plain transformers.
    """
    from bathyscope.surgery.claims import claimed_alone
    from bathyscope.surgery.plan import is_plan
    from bathyscope.surgery.repairing import require_budget

    require_budget(given.get("how", "linear"), given.get("tokens"), given.get("minutes"), given.get("state"))
    if out is not None:
        from bathyscope.surgery.writing import require_free

        out = out.expanduser()
        require_free(out)  # the ladder takes minutes
    place = model
    chosen: Any = schedule
    if is_plan(model):
        plan = bathyscope.open_plan(model)
        _require_no_schedule(schedule)
        plan.as_schedule()
        place, chosen = plan.place, plan
        as_planned(plan, given)
        if calibration is None or test is None:  # generated problems of another seed would be others
            given.setdefault("seed", int(plan.data.attrs["seed"]))
        calibration, test = (
            _source_of(plan, role, text) for role, text in (("calibration", calibration), ("test", test))
        )
    for flag, value in (("--schedule", chosen), ("--calibration", calibration), ("--test", test)):
        if value is None:
            raise OptionError(f"bathyscope repair needs {flag}, or the folder of a plan in place of the model.")
    sources = [one_source([text]) if isinstance(text, str) else text for text in (calibration, test)]
    state = given.get("state")
    with claimed_alone(out):
        with interruptible(lambda: "" if state is None else f"what has been trained is kept in {state}"):
            repaired = on_models(
                bathyscope.repair, [place], chosen, sources[0], test=sources[1], given=given, quiet=quiet
            )
        show_repaired(repaired, format)
        repaired.require_proved()
        if out is not None:
            with quiet_libraries(downloads=not quiet):
                say(f"Written: {repaired.export(out)}", quiet)
    return 0


def show_repaired(repaired: Repaired, format_: Format) -> None:
    """Print whether a repair is proved, and its rungs; as JSON its whole record."""
    from bathyscope.surgery.repaired import HEADINGS

    if format_ == "json":
        write_json(repaired.record())
        return
    if write_data(repaired.table, format_):
        return
    write(repaired.text)
    write_table(HEADINGS, [rung.cells() for rung in repaired.rungs])
    for rung in repaired.rungs:
        if rung.why_not:
            write(f"{rung.name}: {rung.why_not}")


def _require_no_schedule(schedule: str | None) -> None:
    if schedule is not None:
        raise OptionError(
            "A plan holds its own schedule; leave --schedule out, or give the model in place of the plan."
        )


def _source_of(plan: Plan, role: str, text: str | None) -> Any:
    """Return the prompts of a plan's role: those given, or the plan's own, as they were written."""
    source = text if text is not None else plan.source(role)
    if source is None:
        raise OptionError(f"The plan does not say where its {role} prompts are; give them: --{role} FILE.")
    return source


app = as_app(
    repair_command,
    _EXAMPLES,
    "bathyscope:repair",
    loading=LOADING,
    usage="Usage: bathyscope repair MODEL|PLAN [OPTIONS]",
)
