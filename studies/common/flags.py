"""Flags of a study's program, from the dataclass of its options and from the arguments of its experiment."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Container, Sequence
from dataclasses import MISSING, fields
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from cyclopts import Parameter

_DESCRIBED: Final = re.compile(r"(\w+(?:, \w+)*): (.*)")


def options_flags(options_type: type) -> list[inspect.Parameter]:
    """A flag for each field; one that is not typed is None, and ``add_flags`` drops it."""
    hints, texts = get_type_hints(options_type), _descriptions(options_type.__doc__ or "")
    defaults = {one.name: None if one.default is MISSING else one.default for one in fields(options_type)}
    return [_flag(name, hints[name], texts.get(name, ""), default) for name, default in defaults.items()]


def call_flags(call: Callable[..., Any], leave_out: Container[str] = ()) -> list[inspect.Parameter]:
    """The same for the arguments of a function."""
    hints, texts = get_type_hints(call), _descriptions(call.__doc__ or "")
    arguments = {
        name: None if one.default is one.empty else one.default
        for name, one in inspect.signature(call).parameters.items()
        if name not in leave_out
    }
    return [_flag(name, hints[name], texts.get(name, ""), default) for name, default in arguments.items()]


def add_flags(body: Callable[..., int], flags: Sequence[inspect.Parameter]) -> Callable[..., int]:
    """A function for the command line: ``body`` with flags in place of its ``**given``, which gets those typed."""
    hints = get_type_hints(body, include_extras=True)
    own = [
        one.replace(annotation=hints[one.name])
        for one in inspect.signature(body).parameters.values()
        if one.kind is not one.VAR_KEYWORD
    ]
    names = {flag.name for flag in flags}

    def run(*arguments: Any, **typed: Any) -> int:
        return body(*arguments, **{name: one for name, one in typed.items() if one is not None or name not in names})

    parameters = [*own, *flags]
    # the parser reads a function's signature and annotations
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    run.__doc__ = body.__doc__
    return run


def _descriptions(docstring: str) -> dict[str, str]:
    """The text of each name under ``Args:``, in one line."""
    texts: dict[str, str] = {}
    names: list[str] = []
    for line in inspect.cleandoc(docstring).partition("Args:\n")[2].splitlines():
        if line and not line.startswith(" "):
            break
        start = _DESCRIBED.fullmatch(line.removeprefix("    "))
        names = names if start is None else start[1].split(", ")
        for name in names:
            said = line.strip() if start is None else start[2]
            texts[name] = f"{texts.get(name, '')} {said}".strip().replace("``", "")
    return texts


def _flag(name: str, hint: Any, text: str, default: Any) -> inspect.Parameter:
    kind, converter = _read_as(hint)
    shown = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
    switch = kind is bool and default is not False
    parameter = Parameter(
        name=f"--{name.replace('_', '-')}",
        help=text,
        show_default=False if default in (None, False, ()) else lambda _: shown,
        negative=(f"--no-{name.replace('_', '-')}",) if switch else (),
        converter=converter,
        metavar=None if converter is None else "LIST",
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, parameter]
    )


def _read_as(hint: Any) -> tuple[Any, Callable[..., Any] | None]:
    """The type that a word of a shell is read as, and the reader of a list such as ``2,4,8``."""
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    plain = next((kind for kind in (str, bool, int, float) if kind in kinds), None)
    if plain is not None:
        return plain, None
    item = next(get_args(kind)[0] for kind in kinds if get_origin(kind) is tuple)
    return Any, lambda _, tokens: tuple(
        _item(part.strip(), item) for part in tokens[0].value.split(",") if part.strip()
    )


def _item(word: str, item: type) -> Any:
    try:
        return item(word.strip())
    except ValueError as error:
        raise ValueError(f"{word!r} is not a number; write it in digits") from error
