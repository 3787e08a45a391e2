"""``bathyscope compare solved-by``: prompts labelled by which of two models solve them, for ``survey`` to take."""

from pathlib import Path
from typing import Any, Literal

import bathyscope
from bathyscope.analysis.options import SolvedByOptions
from bathyscope.cli.arguments import LOADING_SEVERAL, Quiet, make_app, run_on_models
from bathyscope.cli.commands.survey import Sources, read_source
from bathyscope.cli.console import say
from bathyscope.cli.printing import View, print_result
from bathyscope.core.own_files import require_own
from bathyscope.core.paths import require_writable
from bathyscope.errors import OptionError
from bathyscope.prompts.parts import CLASSES, SOLVED_BY

_SUFFIX = ".jsonl"
_EXAMPLES = """\
Examples:
  bathyscope compare solved-by ./shallow ./deep --prompts problems.jsonl --out labelled.jsonl
  bathyscope survey ./deep --prompts labelled.jsonl --out runs/deep
  bathyscope compare group runs/deep --by solved_by"""


def solved_by_command(
    shallow: str,
    deep: str,
    /,
    *,
    prompts: Sources,
    out: Path,
    format: Literal["table", "json"] = "table",
    quiet: Quiet = False,
    **options: Any,
) -> int:
    """Label prompts by the models that solve them.

    Args:
        shallow: the model of fewer blocks: name on the hub, or a local folder.
        deep: the model of more blocks.
        out: file of prompts to write (.jsonl), for survey --prompts.
        format: of the summary on standard output.
    """
    from bathyscope.core.output import write_output
    from bathyscope.prompts.prompt_rows import prompt_lines

    if out.suffix != _SUFFIX:
        raise OptionError(f"The name {str(out)!r} must end in {_SUFFIX}; it is a file of prompts, one a line.")
    require_writable(out)
    source = read_source(prompts, out)
    require_own(out, "a file of labelled prompts", _is_labelled)
    labelled = run_on_models(
        bathyscope.solved_by,
        [shallow, deep],
        source,
        options=options,
        quiet=quiet,
    )
    write_output(out, prompt_lines(labelled.prompts).encode("utf-8"))
    # Imports torch, so it waits until the models have been asked.
    from bathyscope.analysis.solving import count_classes

    classes = count_classes(labelled, options.get("label", SOLVED_BY))
    counts = classes.record()["classes"]
    print_result(classes, format, lambda: View([f"{name}: {count}" for name, count in counts.items()]))
    say(f"Written: {out}", quiet)
    return 0


def _is_labelled(file: Path) -> bool:
    """Whether every prompt of a file has one label, of whatever name, that says which models solve it."""
    from bathyscope.prompts.prompt_rows import read_prompts

    labels = [{name for name, value in prompt.labels.items() if value in CLASSES} for prompt in read_prompts(str(file))]
    return bool(set.intersection(*labels))


app = make_app(solved_by_command, _EXAMPLES, SolvedByOptions, loading=LOADING_SEVERAL)
