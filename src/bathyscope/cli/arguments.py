"""Flags and steps that several commands share, each said once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Container, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from importlib import import_module
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from cyclopts import App, Parameter

import bathyscope
from bathyscope.cli import session
from bathyscope.cli.console import Format, quiet_libraries, say
from bathyscope.cli.declared import Call
from bathyscope.cli.flags import command, flags, options_of, whole_number
from bathyscope.errors import OptionError, did_you_mean
from bathyscope.options import checked_arguments

if TYPE_CHECKING:
    import xarray as xr

    from bathyscope.surgery.plan import Plan

R = TypeVar("R")
_WIDTH: Final = 80

ModelName = Annotated[str, Parameter(help="name on the hub, a local folder, or a .gguf file.")]
Records = Annotated[Format, Parameter(help="of the output; missing numbers are empty in CSV and null in JSON.")]
Quiet = Annotated[
    bool, Parameter(help="no progress and no messages; warnings and errors remain.", negative=(), show_default=False)
]
Partial = Annotated[
    bool, Parameter(help="read unfinished runs: the prompts that are done.", negative=(), show_default=False)
]
Picture = Annotated[Path | None, Parameter(help="also write a figure (.png, .svg, .pdf).", show_default=False)]
Whole = Annotated[
    int | None, Parameter(converter=lambda _type, tokens: whole_number(tokens[0].value), show_default=False)
]
Given = Annotated[str | None, Parameter(show_default=False)]

OBJECTS = ("model", "tokenizer", "family", "window", "gguf_file")
"""Arguments of ``load`` that a shell cannot give, or gives by its own (a window is something else to some commands, and
a GGUF file has a path)."""
LOADING = options_of("bathyscope:load", leave_out=OBJECTS)
"""How a model is loaded."""
LOADING_SEVERAL = options_of("bathyscope:load", leave_out=(*OBJECTS, "revision"))
"""The same of models that have no revision in common."""


def as_app(
    body: Callable[..., int],
    examples: str | None,
    call: Call | None = None,
    *,
    loading: type | None = None,
    leave_out: Sequence[str] = (),
    texts: Mapping[str, str] | None = None,
    repeated: Container[str] = (),
    beside: Sequence[inspect.Parameter] = (),
    usage: str | None = None,
) -> App:
    """A command: ``body``, whose ``**given`` are flags for the arguments of a Python call that it does not name itself.

    Args:
        examples: below the help.
        loading: options of ``load`` that are flags too.
        leave_out: arguments of the call that the body gives by other names, or that a shell cannot give.
        texts, repeated: as for ``flags``.
        beside: further flags.
        usage: the line at the head of the help, where the parser cannot tell what is needed.
    """
    own = (*inspect.signature(body).parameters, "progress", *leave_out)
    derived = [*(flags(options_of(call, leave_out=own), texts=texts, repeated=repeated) if call else []), *beside]
    made = App(name=body.__module__.rpartition(".")[2].replace("_", "-"), help_epilogue=folded(examples), usage=usage)
    made.default(command(body, [*derived, *(flags(loading) if loading else [])]))
    return made


def folded(text: str | None) -> str | None:
    """The text below a help, 80 columns wide; a long command goes on in the next line as a shell reads it."""
    if text is None:
        return None
    groups = groupby(text.splitlines(), lambda line: bool(line) and not line.startswith(" "))
    return "\n".join(
        line for prose, lines in groups for line in (wrap(" ".join(lines), _WIDTH) if prose else _folded([*lines]))
    )


def _folded(lines: Sequence[str]) -> Iterator[str]:
    """Commands among indented lines are cut before flags."""
    for line in lines:
        parts = re.split(r" (?=--|[>|] )", line) if len(line) > _WIDTH else [line]
        now = parts[0]
        for part in parts[1:]:
            if len(now) + len(part) > _WIDTH - 3:
                yield f"{now} \\"
                now = "     "
            now += f" {part}"
        yield now


def on_models(
    verb: Callable[..., R], models: Sequence[str], *data: Any, given: dict[str, Any], quiet: bool, **told: Any
) -> R:
    """What a Python call finds in models, which are loaded as the flags say; the other flags go to the call."""
    require_plain(verb, given)
    loaded = load_all(models, given, quiet)
    with quiet_libraries(downloads=not quiet):
        return verb(*loaded, *data, progress=not quiet, **told, **given)


def require_plain(verb: Callable[..., Any], given: dict[str, Any]) -> None:
    """Refuses, before a model is loaded, numbers and choices that a Python call would refuse after it."""
    if hasattr(verb, "__wrapped__"):  # it is ``checked``
        checked_arguments(verb, given)


def load_all(models: Sequence[str], given: dict[str, Any], quiet: bool) -> list[bathyscope.Model]:
    """The models, loaded as the flags of ``LOADING`` say, which are taken out of what was given."""
    loading = taken(LOADING, given)
    say(f"Loading {' and '.join(models)}.", quiet)
    with quiet_libraries(downloads=not quiet):
        return [bathyscope.load(model, **loading) for model in models]


def as_planned(plan: Plan, given: dict[str, Any]) -> None:
    """Have the model of a plan loaded in the precision in which the plan was made, where no flag names another."""
    precision = plan.data.attrs.get("precision")  # plans of older versions do not tell
    if precision is not None:
        given.setdefault("dtype", str(precision))


@contextmanager
def interruptible(kept: Callable[[], str]) -> Iterator[None]:
    """Who interrupts what is inside is told what is kept of it, where something is, and the line that goes on."""
    try:
        yield
    except KeyboardInterrupt as stop:
        said = kept()
        raise KeyboardInterrupt(
            f"Interrupted: {said}. To resume: {session.current().command_line}" if said else ""
        ) from stop


def taken(options_type: type, given: dict[str, Any]) -> dict[str, Any]:
    """The options of one kind, taken out of what was given."""
    return {one.name: given.pop(one.name) for one in fields(options_type) if one.name in given}


def check_picture(out: Path | None) -> None:
    """Refuses a figure's file of an unknown kind before anything is computed."""
    if out is not None:
        from bathyscope.pages.render import check_format

        check_format(out.suffix.removeprefix("."))


def write_picture(out: Path | None, figure: str, found: xr.Dataset, quiet: bool = False) -> None:
    """The figure of a result, where a file is asked for; ``figure`` is its module among the report's."""
    if out is not None:
        from bathyscope.pages.export import write_output
        from bathyscope.pages.render import render

        drawn = import_module(f"bathyscope.pages.figures.of.{figure}").drawing(found)
        write_output(out, render(drawn.alone(), out.suffix.removeprefix(".")))
        say(f"Written: {out}", quiet)


def records(
    found: xr.Dataset, columns: Sequence[str] | Mapping[str, str], over: Sequence[Hashable]
) -> list[dict[str, Any]]:
    """A row for every place of some variables, for programs.

    Args:
        columns: variables and coordinates, in order; name → heading where they differ.
        over: the dimensions, the slowest first.
    """
    names, headings = list(columns), list(columns.values() if isinstance(columns, Mapping) else columns)
    frame = found[[name for name in names if name not in over]].to_dataframe(dim_order=list(over)).reset_index()
    return [dict(zip(headings, row)) for row in frame[names].itertuples(index=False, name=None)]


def choose_one(words: Sequence[str], kind: str, allowed: Mapping[str, object] | Sequence[str]) -> OptionError:
    """What is wrong where one of a command's own commands was to be named."""
    listed = ", ".join(allowed)
    if not words:
        return OptionError(f"Say which {kind}: {listed}.")
    return OptionError(f"Unknown {kind} {words[0]!r}.{did_you_mean(words[0], list(allowed))} Allowed: {listed}.")
