"""Flags, derived from what defines the options: signatures of the Python calls and options dataclasses.

Names, types, defaults and help texts are read from there; nothing about an option is written here again.
A flag's value reaches a command only where it was given, so that presets and recipes keep their say.
"""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields, make_dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from cyclopts import Group, Parameter, Token
from docstring_parser import DocstringStyle, parse

_NESTED = "__"


def options_of(*functions: Callable[..., Any], leave_out: Container[str] = ()) -> type:
    """The arguments of functions as one options dataclass; the first to name an argument defines it."""
    found: dict[str, tuple[str, Any, Any]] = {}
    for function in functions:
        wanted = {
            name: argument
            for name, argument in inspect.signature(function).parameters.items()
            if name not in leave_out and name not in found and argument.kind is not argument.VAR_KEYWORD
        }
        # only theirs: other arguments may have types that are imported for type checkers alone
        annotated = types.SimpleNamespace(__annotations__={n: a.annotation for n, a in wanted.items()})
        hints = get_type_hints(annotated, inspect.unwrap(function).__globals__)
        texts = descriptions(function)
        for name, argument in wanted.items():
            default = None if argument.default is argument.empty else argument.default
            found[name] = (name, hints[name], field(default=default, metadata={"help": texts.get(name, "")}))
    return make_dataclass("Options", list(found.values()), frozen=True)


def descriptions(documented: object) -> dict[str, str]:
    """Argument → its description in a docstring's ``Args``."""
    document = parse(inspect.getdoc(documented) or "", style=DocstringStyle.GOOGLE)
    return {p.arg_name: _in_a_help_text(p.description or "") for p in document.params}


def _in_a_help_text(description: str) -> str:
    """One line; a shell cannot say None, it leaves the flag out."""
    return " ".join(description.replace("``", "").replace("None = ", "not given = ").split())


def flags(
    options_type: type,
    prefix: str = "",
    group: Group | None = None,
    texts: Mapping[str, str] | None = None,
    repeated: Container[str] = (),
) -> list[inspect.Parameter]:
    """One flag for every field: ``--seed``, or ``--skip.protect-first`` with the prefix ``skip``.

    Args:
        texts: help that differs from the field's own, where a shell can give less than Python.
        repeated: flags of text that may be given several times; their value is the list.
    """
    hints = get_type_hints(options_type)
    documented = {**descriptions(options_type), **(texts or {})}
    return [
        _flag(
            one,
            list[str] if one.name in repeated else hints[one.name],
            documented.get(one.name) or one.metadata.get("help", ""),
            prefix,
            group,
        )
        for one in fields(options_type)
    ]


def nested(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, as the Python call takes it: a measure's options as a dict under its name."""
    call: dict[str, Any] = {}
    for key, value in given.items():
        prefix, separator, name = key.partition(_NESTED)
        if separator:
            call.setdefault(prefix, {})[name] = value
        else:
            call[key] = value
    return call


def command(body: Callable[..., int], derived: Sequence[inspect.Parameter]) -> Callable[..., int]:
    """A function for the command line: ``body`` with derived parameters in place of its ``**given``."""
    hints = get_type_hints(body, include_extras=True)
    own = [
        p.replace(annotation=hints[p.name])
        for p in inspect.signature(body).parameters.values()
        if p.kind is not p.VAR_KEYWORD
    ]
    names = {p.name for p in derived}

    def run(*values: Any, **given: Any) -> int:
        return body(*values, **{k: v for k, v in given.items() if v is not None or k not in names})

    parameters = [*own, *derived]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    run.__doc__ = body.__doc__
    return run


def _flag(one: Field[Any], hint: Any, text: str, prefix: str, group: Group | None) -> inspect.Parameter:
    kind, converter = _in_a_shell(hint)
    placed: dict[str, Any] = {} if group is None else {"group": group}
    path = f"{prefix}.".replace("_", "-") if prefix else ""
    name = one.name.replace("_", "-")
    negative: tuple[str, ...] = ()
    if kind is bool and one.default is not False:
        negative = (f"--{path}no-{name}",)
    parameter = Parameter(
        name=f"--{path}{name}",
        help=text,
        show_default=_shown(one.default) or False,
        negative=negative,
        converter=converter,
        metavar="LIST" if converter else None,
        **placed,
    )
    return inspect.Parameter(
        f"{prefix}{_NESTED}{one.name}" if prefix else one.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, parameter],
    )


def _in_a_shell(hint: Any) -> tuple[Any, Callable[..., Any] | None]:
    """The type a shell's text is read as, and the reader of lists."""
    members = [m for m in _members(hint) if m is not type(None)]
    plain = next((kind for kind in (str, bool, int, float) if kind in members), None)
    if plain is not None or hint == list[str]:
        return plain or hint, None
    if get_origin(members[0]) is Literal:
        return members[0], None
    items = get_args(members[0])[0]

    def read(_type: Any, tokens: Sequence[Token]) -> Any:
        return _listed(tokens[0].value, items)

    return str, read


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _listed(text: str, items: Any) -> list[Any]:
    """A list as typed: ``block,mlp``, or JSON. Wrong items are left to the options' own check."""
    if text.lstrip().startswith("["):
        return list(json.loads(text))
    if get_origin(items) not in (None, Literal):
        raise ValueError("give lists in lists as JSON, such as '[[9, 41], [17]]'")
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return [int(part) if items is int and part.lstrip("-").isdecimal() else part for part in parts]


def _shown(default: Any) -> str | None:
    if default is None or default is MISSING or default is False:
        return None
    if isinstance(default, str | int | float):
        return "yes" if default is True else str(default)
    return ",".join(str(item) for item in default)
