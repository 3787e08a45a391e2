"""``bathyscope repair``: what dropped blocks cost, and how much of it changes of the others bring back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import (
    LOADING,
    OptionalText,
    Quiet,
    ResultFormat,
    load_as_planned,
    make_app,
    needs_a_plan,
    report_interruption,
    run_on_models,
)
from bathyscope.cli.commands.survey import read_source
from bathyscope.cli.console import Format, quiet_libraries, say
from bathyscope.cli.printing import print_result
from bathyscope.core.paths import require_writable
from bathyscope.core.strict import read_json
from bathyscope.errors import OptionError
from bathyscope.surgery.options import RepairOptions

if TYPE_CHECKING:
    from bathyscope.surgery.plan.plan import Plan
    from bathyscope.surgery.repairing.repaired import Repaired

_EXAMPLES = """\
Examples:
  bathyscope repair ./model --schedule drop:5 --calibration valid.jsonl --test test.jsonl --out repaired
  bathyscope repair runs/pruned --out repaired
  bathyscope repair ./model --schedule drop:5 --calibration a.txt:400 --test b.txt:99 --how heal --minutes 9 --state s

With --state, the same command resumes an interrupted healing. Ends with 7, and
writes nothing, where no repair is proved to be better than none."""


def repair_command(
    model: str,
    /,
    *,
    schedule: OptionalText = None,
    calibration: OptionalText = None,
    test: OptionalText = None,
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
    format: ResultFormat = "table",
    quiet: Quiet = False,
    **options: Any,
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
    from bathyscope.surgery.plan.opening import is_plan
    from bathyscope.surgery.repairing.folder_locks import claimed_alone
    from bathyscope.surgery.repairing.repair import require_budget
    from bathyscope.surgery.repairing.repaired import require_same_repair

    require_budget(options.get("how", "linear"), options.get("tokens"), options.get("minutes"))
    state, is_taken = options.get("state"), False
    if out is not None:
        from bathyscope.surgery.checkpoint.target_folder import require_free

        out = out.expanduser()
        if state and Path(state).expanduser().resolve() == out.resolve():
            raise OptionError(
                f"out={str(out)!r} and state are one folder, and the repaired model needs one of its own; give another "
                "folder for the state (--state)."
            )
        # The ladder takes minutes, so a folder that cannot be written is refused before it.
        is_taken = require_free(out)
        require_writable(out, holds="a repair")
    place = model
    order: Any = schedule
    if is_plan(model):
        from bathyscope.prompts.reading import READING, recorded_reading

        plan = bathyscope.open(model)
        _require_no_schedule(schedule)
        plan.as_schedule()
        place, order = plan.place, plan
        load_as_planned(plan, options)
        if calibration is None or test is None:
            # With another seed, generated problems would be other prompts than those of the plan.
            options.setdefault("seed", int(plan.data.attrs["seed"]))
            # and so would texts that a template does not write
            for name, value in recorded_reading(read_json(str(plan.data.attrs.get(READING, "{}")))).items():
                options.setdefault(name, value)
        calibration, test = (
            _find_source(plan, role, text) for role, text in (("calibration", calibration), ("test", test))
        )
    for flag, value in (("--schedule", order), ("--calibration", calibration), ("--test", test)):
        if value is None:
            raise needs_a_plan("repair", flag, model)
    if out is not None and is_taken:
        require_same_repair(out, order)
    sources = [read_source([text]) if isinstance(text, str) else text for text in (calibration, test)]
    # Two repairs that write one folder would mix their files, so the folder is claimed before the ladder.
    with claimed_alone(out):
        with report_interruption(lambda: "" if state is None else f"the training so far is saved in {state}"):
            repaired = run_on_models(
                bathyscope.repair,
                [place],
                order,
                sources[0],
                test=sources[1],
                options=options,
                quiet=quiet,
            )
        print_repair(repaired, format)
        # The rungs are printed first: they are the evidence for the refusal.
        repaired.require_proved()
        if out is not None:
            with quiet_libraries(downloads=not quiet):
                say(f"Written: {repaired.export(out)}", quiet)
    return 0


def print_repair(repaired: Repaired, format_: Format) -> None:
    """Print whether a repair is proved, and its rungs."""
    print_result(repaired, format_)


def _require_no_schedule(schedule: str | None) -> None:
    if schedule is not None:
        raise OptionError(
            "A plan holds its own schedule; leave --schedule out, or give the model in place of the plan."
        )


def _find_source(plan: Plan, role: str, text: str | None) -> Any:
    """Return the prompts of a plan's role: those of the flag, or the plan's own, as they were written."""
    source = text if text is not None else plan.source(role)
    if source is None:
        raise OptionError(f"The plan does not say where its {role} prompts are; give them: --{role} FILE.")
    return source


app = make_app(
    repair_command,
    _EXAMPLES,
    RepairOptions,
    loading=LOADING,
    usage="Usage: bathyscope repair MODEL|PLAN [OPTIONS]",
)
