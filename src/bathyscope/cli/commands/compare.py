"""``bathyscope compare``: differences of effective depth between runs, with their uncertainty."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

import bathyscope
from bathyscope.analysis.options import CompareOptions
from bathyscope.cli.arguments import Partial, ResultFormat, make_app, open_run
from bathyscope.cli.console import say, write
from bathyscope.cli.printing import print_result
from bathyscope.errors import OptionError, StoreError

if TYPE_CHECKING:
    pass

_EXAMPLES = """\
Examples:
  bathyscope compare runs/qwen runs/llama
  bathyscope compare runs/base-gsm8k:runs/r1-gsm8k --question reasoning
  bathyscope compare runs/1.5b runs/7b runs/14b --question size --out size.html
  bathyscope compare runs/one runs/other --equivalence 1 --equivalence-unit blocks --cluster document
  bathyscope compare runs/math --question difficulty --by level --format csv > levels.csv"""


def compare_command(
    *runs: str,
    paired: Annotated[bool | None, Parameter(negative="--unpaired", show_default=False)] = None,
    format: ResultFormat = "table",
    out: Annotated[Path | None, Parameter(show_default=False)] = None,
    partial: Partial = False,
    **options: Any,
) -> int:
    """Compare runs.

    Args:
        runs: folders that surveys wrote, each compared with the first; or pairs REFERENCE:OTHER.
        paired: pair prompts by their ids, or never; without either, where the runs measured the same prompts.
        out: also write a page (.html) or a figure (.png, .svg, .pdf).
    """
    if not runs:
        raise OptionError("No run given; say which: bathyscope compare runs/one runs/other")
    if out is not None:
        from bathyscope.pages.comparison.page import check_out

        check_out(out)
    folders, pairs = _split_pairs(runs)
    for folder in folders:
        _require_neither_model_nor_plan(folder)
    opened = [open_run(folder, partial) for folder in folders]
    comparison = bathyscope.compare(opened, pairs=pairs, paired=paired, **options)
    print_result(comparison, format)
    for note in comparison.notes:
        if format == "table":
            write(f"Note: {note}.")
        else:
            say(f"note: {note}.")
    # CSV and JSON hold numbers alone, so notes and the conclusion go to the person at the terminal.
    if format != "table":
        say(comparison.text)
    if out is not None:
        from bathyscope.pages.comparison.page import write_comparison

        say(f"Written: {write_comparison(comparison, out)}")
    return 0


def _require_neither_model_nor_plan(folder: str) -> None:
    """Refuse a model, and a plan, which are compared by other commands.

    Raises:
        StoreError: with these commands.
    """
    from bathyscope.core.contents import MODEL, contents_of
    from bathyscope.surgery.plan.opening import is_plan

    name = shlex.quote(folder)
    if contents_of(folder) == MODEL:
        raise StoreError(
            f"{folder!r} holds a model, and compare takes runs. Survey it first: bathyscope survey {name} --prompts "
            "FILE --out RUN. Which prompts each of two models solves: bathyscope compare solved-by "
            f"{name} OTHER --prompts FILE --out LABELLED.jsonl."
        )
    if is_plan(folder):
        raise StoreError(
            f"{folder!r} holds a plan, which has compared the full model with the smaller one: bathyscope show {name}. "
            f"Benchmarks of both: bathyscope evaluate {name} --tasks TASKS. Which prompts each solves: bathyscope "
            f"export {name} --out SMALLER, and bathyscope compare solved-by SMALLER MODEL --prompts FILE --out "
            "LABELLED.jsonl."
        )


def _split_pairs(arguments: Sequence[str]) -> tuple[list[str], list[tuple[int, int]] | None]:
    """Return every folder once, and which of them belong together where REFERENCE:OTHER was typed."""
    pair_or_none = [_split_pair(text) for text in arguments]
    pairs = [pair for pair in pair_or_none if pair is not None]
    if not pairs:
        return list(arguments), None
    if len(pairs) < len(arguments):
        alone = next(text for text, pair in zip(arguments, pair_or_none) if pair is None)
        raise OptionError(
            f"{alone!r} is a single run among pairs REFERENCE:OTHER; give pairs only, or folders only "
            "(each is then compared with the first)."
        )
    for text, pair in zip(arguments, pairs):
        if pair[0] == pair[1]:
            raise OptionError(f"{text!r} compares a run with itself; give two different runs, REFERENCE:OTHER.")
    folders = list(dict.fromkeys(folder for pair in pairs for folder in pair))
    return folders, [(folders.index(reference), folders.index(other)) for reference, other in pairs]


def _split_pair(text: str) -> tuple[str, str] | None:
    """Return the two folders of REFERENCE:OTHER; None for a folder, whose own name may hold a colon."""
    if ":" not in text or os.path.exists(text):
        return None
    # Folders may have colons in their names, so the cut that leaves two existing folders is the one that was meant.
    cuts = [(text[:place], text[place + 1 :]) for place, letter in enumerate(text) if letter == ":"]
    return next((cut for cut in cuts if all(os.path.exists(folder) for folder in cut)), cuts[0])


app = make_app(
    compare_command,
    _EXAMPLES,
    CompareOptions,
    usage="Usage: bathyscope compare RUNS... [OPTIONS]",
)
