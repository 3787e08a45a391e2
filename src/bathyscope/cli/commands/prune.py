"""``bathyscope prune``: which blocks can go."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

import bathyscope
from bathyscope.cli.arguments import LOADING, ModelName, Quiet, ResultFormat, load_models, make_app, report_interruption
from bathyscope.cli.commands.evaluate import read_task_files
from bathyscope.cli.commands.survey import read_source
from bathyscope.cli.console import Format, quiet_libraries, say
from bathyscope.cli.printing import print_result
from bathyscope.surgery.options import PruneOptions

if TYPE_CHECKING:
    from bathyscope.surgery.plan.plan import Plan

_NAMED = re.compile(r"([A-Za-z][\w-]*)=(.+)", re.DOTALL)
"""Prompts of a domain; options of prompts are behind a question mark, and begin with no name."""
_CALIBRATION = (
    "prompts that choose, as for survey; of several domains as NAME=PROMPTS; written:40?tokens=512: 40 of the test "
    "prompts, and costs are over what the full model writes to these and to the others."
)
_EXAMPLES = """\
Examples:
  bathyscope prune ./model --calibration "train.txt:80?window=256" --test "other.txt:80?window=256" --drop 3
  bathyscope prune ./model --calibration mine.jsonl --test held-out.jsonl --drop 25% --out runs/pruned
  bathyscope prune ./model --calibration "train.txt:80" --test "other.txt:80" --max-cost 0.05
  bathyscope prune ./model --calibration code=a.txt:80 --calibration prose=b.txt:80 --test code=c.txt:80 \
      --test prose=d.txt:80 --drop 3 --joint worst
  bathyscope prune ./model --calibration "written:40?tokens=512" --test problems.jsonl --drop 2 --evaluate problems.yaml
  bathyscope show runs/pruned

With --out the same command resumes where it was interrupted. Ends with 6 where not
even one block can go within --max-cost; the numbers are printed and saved then too."""


def prune_command(
    model: ModelName,
    /,
    *,
    calibration: Annotated[list[str], Parameter(help=_CALIBRATION, negative=())],
    test: Annotated[list[str], Parameter(help="other prompts, which judge; of the same domains", negative=())],
    format: ResultFormat = "table",
    quiet: Quiet = False,
    **options: Any,
) -> int:
    """Choose blocks to leave out."""
    from bathyscope.options import items_of
    from bathyscope.prompts.harness.task_code import require_no_task_code
    from bathyscope.runs.folder import folder_path, refuse_foreign
    from bathyscope.surgery.choosing.removable import kinds_of, require_size
    from bathyscope.surgery.plan.opening import PRUNING
    from bathyscope.surgery.trial.domains import domains_of
    from bathyscope.surgery.trial.written import written_calibration

    if options.get("data"):
        options["data"] = read_task_files(options["data"])
    # Everything that can be wrong is refused before the model is loaded, which may take minutes.
    require_size(options.get("drop"), options.get("max_cost"))
    kinds_of(options.get("parts", "block"))
    require_no_task_code(items_of(options.get("evaluate") or ()), options.get("allow_code", False))
    if options.get("out") is not None:
        refuse_foreign(folder_path(options["out"], "out"), PRUNING)
    is_written = len(calibration) == 1 and written_calibration(calibration[0]) is not None
    sources = calibration[0] if is_written else read_domain_sources(calibration), read_domain_sources(test)
    domains_of(*sources, options.get("joint"))
    [loaded] = load_models([model], options, quiet)
    out = options.get("out")
    stored = "" if out is None else f"finished results are saved in {out}"
    try:
        with report_interruption(lambda: stored), quiet_libraries(downloads=not quiet):
            plan = bathyscope.prune(loaded, *sources, progress=not quiet, **options)
    except bathyscope.errors.PruningError as error:
        refused_plan: Any = error.plan
        if refused_plan is not None:
            # The numbers are the evidence that no block can go, so they are printed before the error.
            print_plan(refused_plan, format, out, quiet)
        raise
    print_plan(plan, format, out, quiet)
    return 0


def read_domain_sources(prompts: Sequence[str]) -> Any:
    """Return prompts as they were typed: one source, several, or sources by the name of their domain.

    A text that names a file, such as a=b.txt, is that file.

    Raises:
        OptionError: some have a name and others have none.
        PromptError: no such data set or file.
    """
    named = [None if Path(text).exists() else _NAMED.fullmatch(text) for text in prompts]
    if not any(named):
        return read_source(prompts)
    by_name: dict[str, list[str]] = {}
    for text, match in zip(prompts, named):
        if match is None:
            raise bathyscope.OptionError(
                f"{text!r} names no domain, and others do. Write NAME=PROMPTS for each, such as code={text}."
            )
        by_name.setdefault(match[1], []).append(match[2])
    return {name: read_source(sources) for name, sources in by_name.items()}


def print_plan(plan: Plan, format_: Format, out: str | None = None, quiet: bool = False) -> None:
    """Print a plan, and where it was written."""
    print_result(plan, format_)
    if out is not None:
        say(f"Written: {out}", quiet)


app = make_app(
    prune_command,
    _EXAMPLES,
    PruneOptions,
    loading=LOADING,
    usage="Usage: bathyscope prune MODEL --calibration STR... --test STR... [OPTIONS]",
)
