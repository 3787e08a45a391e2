"""``bathyscope solved-by``: prompts labelled by which of two models solve them, as a file that ``survey`` takes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import bathyscope
from bathyscope.cli.arguments import LOADING_SEVERAL, Quiet, as_app, on_models
from bathyscope.cli.commands.survey import Sources, one_source
from bathyscope.cli.console import say, write, write_json
from bathyscope.errors import OptionError
from bathyscope.prompts.parts import BOTH, CLASSES, ONLY_DEEP, ONLY_SHALLOW, SOLVED_BY

if TYPE_CHECKING:
    from bathyscope.prompts.prompt import PromptSet

Format = Literal["table", "json"]

_SUFFIX = ".jsonl"
_EXAMPLES = """\
Examples:
  bathyscope solved-by ./shallow ./deep --prompts problems.jsonl --out labelled.jsonl
  bathyscope survey ./deep --prompts labelled.jsonl --out runs/deep
  bathyscope group runs/deep --by solved_by"""


def solved_by_command(
    shallow: str,
    deep: str,
    /,
    *,
    prompts: Sources,
    out: Path,
    format: Format = "table",
    quiet: Quiet = False,
    **given: Any,
) -> int:
    """Label prompts by the models that solve them.

    Args:
        shallow: the model of fewer blocks: name on the hub, or a local folder.
        deep: the model of more blocks.
        out: file of prompts to write (.jsonl), for survey --prompts.
        format: of the summary on standard output.
    """
    from bathyscope.pages.export import write_output
    from bathyscope.prompts.files import prompt_lines

    if out.suffix != _SUFFIX:
        raise OptionError(f"The name {str(out)!r} must end in {_SUFFIX}; it is a file of prompts, one a line.")
    found = on_models(bathyscope.solved_by, [shallow, deep], one_source(prompts), given=given, quiet=quiet)
    write_output(out, prompt_lines(found.prompts).encode("utf-8"))
    _show(counts(found, given.get("label", SOLVED_BY)), len(found), format)
    say(f"Written: {out}", quiet)
    return 0


def counts(prompts: PromptSet, label: str) -> dict[str, int]:
    """Prompts of each class, classes without any included."""
    there = Counter(prompt.labels[label] for prompt in prompts.prompts)
    return {name: there[name] for name in CLASSES}


def _show(found: dict[str, int], prompts: int, format_: Format) -> None:
    if format_ == "json":
        write_json({"prompts": prompts, "classes": found})
        return
    for name, count in found.items():
        write(f"{name}: {count}")
    shallow, deep = (found[name] + found[BOTH] for name in (ONLY_SHALLOW, ONLY_DEEP))
    write(f"The shallow model solves {shallow} of {prompts} prompts, the deep one {deep}.")


app = as_app(solved_by_command, _EXAMPLES, "bathyscope:solved_by", loading=LOADING_SEVERAL)
