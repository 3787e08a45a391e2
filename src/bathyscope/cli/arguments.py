"""Flags and steps that several commands share, each written once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from cyclopts import App, Parameter

import bathyscope
from bathyscope.cli import session
from bathyscope.cli.console import Format, quiet_libraries, say
from bathyscope.cli.contents import QUESTIONS
from bathyscope.cli.flags import add_flags, join_options, make_flags, read_whole_number
from bathyscope.core.commands import PROGRAM
from bathyscope.core.contents import MODEL, contents_of
from bathyscope.core.descriptions import Doc
from bathyscope.core.own_files import require_own_picture
from bathyscope.core.paths import require_writable
from bathyscope.errors import OptionError, StoreError, did_you_mean
from bathyscope.model.options import LoadOptions

if TYPE_CHECKING:
    from bathyscope.core.result import TabledResult
    from bathyscope.surgery.plan.plan import Plan

R = TypeVar("R")
_COLUMNS: Final = 80
_COMMANDS: Final = "bathyscope.cli.commands"

ModelName = Annotated[str, Parameter(help="name on the hub, a local folder, or a .gguf file.")]
ResultFormat = Annotated[Format, Parameter(help="of the output; missing numbers are empty in CSV and null in JSON.")]
PlainFormat = Annotated[Literal["table", "json"], Parameter(help="of the output.")]
RunFolder = Annotated[str, Parameter(help="folder that a survey wrote.")]
RECIPE_CODE: Final = Doc("run code that the recipe names (trust_remote_code, measures from files or modules).")
Quiet = Annotated[
    bool, Parameter(help="no progress and no messages; warnings and errors remain.", negative=(), show_default=False)
]
Partial = Annotated[
    bool, Parameter(help="read unfinished runs: the prompts that are done.", negative=(), show_default=False)
]
Picture = Annotated[Path | None, Parameter(help="also write a figure (.png, .svg, .pdf).", show_default=False)]
WholeNumber = Annotated[
    int | None, Parameter(converter=lambda _type, tokens: read_whole_number(tokens[0].value), show_default=False)
]
OptionalText = Annotated[str | None, Parameter(show_default=False)]

# A window is something else to some commands, a GGUF file has a path of its own that names it, and few commands work
# on a model that is split.
LOADING = join_options(LoadOptions, leave_out=("window", "gguf_file", "tensor_parallel"))
"""How a model is loaded."""
LOADING_OVER_RANKS = join_options(LoadOptions, leave_out=("window", "gguf_file"))
"""The same for commands that several processes may run together."""
LOADING_SEVERAL = join_options(LOADING, leave_out=("revision",))
"""The same for models that have no revision in common."""


def make_app(
    body: Callable[..., int],
    examples: str | None,
    options_type: type | None = None,
    *,
    loading: type | None = None,
    extra_flags: Sequence[inspect.Parameter] = (),
    usage: str | None = None,
) -> App:
    """Return a command, with those inside of it: ``body``, whose ``**options`` are flags for the fields of dataclasses.

    Args:
        examples: below the help.
        options_type: options of the verb that the command calls; arguments that the body names itself are no flags.
        loading: options of ``load`` that are flags too.
        usage: the line at the head of the help, where the parser cannot tell what is needed.
    """
    # A command that takes an argument itself, such as prompts as a list of texts, has its flag already.
    named = {*inspect.signature(body).parameters}
    derived = [*([] if options_type is None else make_flags(options_type, leave_out=named)), *extra_flags]
    name = body.__module__.rpartition(".")[2].replace("_", "-")
    inside = QUESTIONS.get(name, {})
    if usage and inside:
        usage += f"\n       {PROGRAM} {name} COMMAND [OPTIONS]"
    app = App(name=name, help_epilogue=fold_help(examples), usage=usage)
    # The import path is a text, so that the help of a command imports none of those inside of it.
    for inner, line in inside.items():
        app.command(f"{_COMMANDS}.{inner.replace('-', '_')}:app", name=inner, help=line)
    flags = [*derived, *(make_flags(loading) if loading else [])]
    app.default(add_flags(body, flags, *(kind for kind in (options_type, loading) if kind is not None)))
    return app


def fold_help(text: str | None) -> str | None:
    """Return the text below a help, 80 columns wide; a long command continues on the next line as in a shell."""
    if text is None:
        return None
    groups = groupby(text.splitlines(), lambda line: bool(line) and not line.startswith(" "))
    return "\n".join(
        line
        for prose, lines in groups
        for line in (wrap(" ".join(lines), _COLUMNS) if prose else _fold_commands([*lines]))
    )


def _fold_commands(lines: Sequence[str]) -> Iterator[str]:
    """Yield indented lines, long commands cut before flags."""
    for line in lines:
        # Cut before flags, pipes and redirections, so that a pasted line still runs.
        parts = re.split(r" (?=--|[>|] )", line) if len(line) > _COLUMNS else [line]
        row = parts[0]
        for part in parts[1:]:
            if len(row) + len(part) > _COLUMNS - 3:
                yield f"{row} \\"
                row = "     "
            row += f" {part}"
        yield row


def run_on_models(
    verb: Callable[..., R],
    models: Sequence[str],
    *data: Any,
    options: dict[str, Any],
    quiet: bool,
    **arguments: Any,
) -> R:
    """Call a verb on models that are loaded as the flags say; all other flags go to the call."""
    loaded = load_models(models, options, quiet)
    with quiet_libraries(downloads=not quiet):
        return verb(*loaded, *data, progress=not quiet, **arguments, **options)


def load_models(models: Sequence[str], options: dict[str, Any], quiet: bool) -> list[bathyscope.Model]:
    """Return the models, loaded by the flags of ``LOADING``, which are removed from the options."""
    loading = take_options(LOADING, options)
    say(f"Loading {' and '.join(models)}.", quiet)
    with quiet_libraries(downloads=not quiet):
        return [bathyscope.load(model, **loading) for model in models]


def open_run(folder: str, partial: bool) -> bathyscope.Run:
    """Return the run in a folder; of anything else the command has no use, so that it is refused as no run."""
    from bathyscope.runs.folder import course_in_words, is_course
    from bathyscope.runs.run import Run

    opened = bathyscope.open(folder, partial=partial)
    if isinstance(opened, Run):
        return opened
    if is_course(folder):
        raise StoreError(f"{course_in_words(Path(folder))}.")
    raise StoreError(f"{str(folder)!r} holds no run. Give the folder that a survey wrote (its --out).")


def needs_a_plan(command: str, flag: str, model: str) -> OptionError:
    """Return what is said where a flag is missing that a plan would stand for."""
    contents = contents_of(model)
    if contents not in ("", MODEL):
        return OptionError(f"{model} holds {contents}; bathyscope {command} takes a model, or the folder of a plan.")
    return OptionError(f"bathyscope {command} needs {flag}, or the folder of a plan in place of the model.")


def load_as_planned(plan: Plan, options: dict[str, Any]) -> None:
    """Have a plan's model loaded in the precision in which the plan was made, where no flag names another."""
    precision = plan.data.attrs.get("precision")
    # Plans of earlier versions do not say their precision; their models are loaded as stored.
    if precision is not None:
        options.setdefault("dtype", str(precision))


@contextmanager
def report_interruption(stored: Callable[[], str]) -> Iterator[None]:
    """Inside, an interruption is answered with what is stored, where anything is, and with the line that resumes.

    Args:
        stored: says what is stored, such as ``3 results are saved in runs/x``; empty where nothing is.
    """
    try:
        yield
    except KeyboardInterrupt as stop:
        # What is stored is counted now, and not when the command began.
        message = stored()
        raise KeyboardInterrupt(
            f"Interrupted: {message}. To resume: {session.current().command_line}" if message else ""
        ) from stop


def take_options(options_type: type, options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options of one kind from all options, and return them."""
    return {option.name: options.pop(option.name) for option in fields(options_type) if option.name in options}


def check_picture(out: Path | None) -> None:
    """Refuse a figure's file of an unknown kind, or one that cannot be written, before anything is computed."""
    if out is not None:
        # Drawing imports matplotlib, which takes a second that only commands with --out should wait.
        from bathyscope.pages.figures.render import check_format

        check_format(out.suffix.removeprefix("."))
        require_writable(out)
        require_own_picture(out)


def write_picture(out: Path | None, result: TabledResult, quiet: bool = False) -> None:
    """Write the picture of a result, where a file is requested."""
    if out is not None:
        from bathyscope.core.output import write_output
        from bathyscope.pages.figures.render import render

        picture = result.picture()
        if picture is None:
            raise OptionError("Nothing to draw: no number of this result is known. Leave --out away.")
        write_output(out, render(picture, out.suffix.removeprefix(".")))
        say(f"Written: {out}", quiet)


def refuse_word(words: Sequence[str], kind: str, allowed: Mapping[str, object] | Sequence[str]) -> OptionError:
    """Return the error for a word that names none of a command's own commands, or for no word at all."""
    listed = ", ".join(allowed)
    if not words:
        return OptionError(f"Choose a {kind}: {listed}.")
    return OptionError(f"Unknown {kind} {words[0]!r}.{did_you_mean(words[0], list(allowed))} Allowed: {listed}.")
