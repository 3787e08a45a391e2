"""Flags, derived from what defines the options: signatures of the Python calls and options dataclasses.

Names, types, defaults and help texts are read from there; nothing about an option is written here again.
A flag's value reaches a command only where it was given, so that presets and recipes keep their say.
"""

import inspect
import types
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields, make_dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from cyclopts import Group, Parameter

from bathyscope.cli.declared import Call, declared, descriptions
from bathyscope.core.strict import read_json, whole_number_in
from bathyscope.core.text import elided
from bathyscope.options import choices

_NESTED = "__"
_SHOWN = 40
"""Letters of a wrong value that a message repeats."""


def options_of(*calls: Call, leave_out: Container[str] = ()) -> type:
    """The arguments of calls as one options dataclass; the first to name an argument defines it."""
    found: dict[str, tuple[str, Any, Any]] = {}
    for call in calls:
        for one in declared(call):
            if one.name not in leave_out and one.name not in found:
                found[one.name] = (one.name, one.hint, field(default=one.default, metadata={"help": one.help}))
    return make_dataclass("Options", list(found.values()), frozen=True)


def flags(
    options_type: type,
    prefix: str = "",
    group: Callable[[str], Group] | None = None,
    texts: Mapping[str, str] | None = None,
    repeated: Container[str] = (),
    show: Callable[[str], bool] | None = None,
) -> list[inspect.Parameter]:
    """One flag for every field: ``--seed``, or ``--skip.protect-first`` with the prefix ``skip``.

    Args:
        group: of each in a help, by its field.
        texts: help that differs from the field's own, where a shell can give less than Python.
        repeated: flags of text that may be given several times; their value is the list.
        show: which fields a help lists; None = all.
    """
    hints, marked = get_type_hints(options_type), get_type_hints(options_type, include_extras=True)
    documented = {**descriptions(options_type.__doc__ or ""), **(texts or {})}
    return [
        _flag(
            one,
            list[str] if one.name in repeated else hints[one.name],
            _with_choices(documented.get(one.name) or one.metadata.get("help", ""), marked[one.name]),
            prefix,
            show=show is None or show(one.name),
            **({} if group is None else {"group": group(one.name)}),
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


def _with_choices(text: str, hint: Any) -> str:
    """The help text with the range or the names allowed; those of a single choice are listed by the parser."""
    plain = [one for one in _members(hint) if one is not type(None)]
    listed = len(plain) == 1 and get_origin(plain[0]) is Literal
    allowed = "" if listed else choices(hint).replace("or None (", "or not given (")
    return f"{text.rstrip('.')}; allowed: {allowed}." if allowed else text


def _flag(one: Field[Any], hint: Any, text: str, prefix: str, **placed: Any) -> inspect.Parameter:
    kind, converter, metavar = _in_a_shell(hint)
    path = f"{prefix}.".replace("_", "-") if prefix else ""
    name = one.name.replace("_", "-")
    negative = (f"--{path}no-{name}",) if kind is bool and one.default is not False else ()
    parameter = Parameter(
        name=f"--{path}{name}",
        help=text,
        show_default=_shown(one.default) or False,
        negative=negative,
        converter=converter,
        metavar=metavar,
        **placed,
    )
    return inspect.Parameter(
        f"{prefix}{_NESTED}{one.name}" if prefix else one.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, parameter],
    )


def _in_a_shell(hint: Any) -> tuple[Any, Callable[..., Any] | None, str | None]:
    """The type a shell's text is read as, the reader of numbers and lists, and what stands for the value in help."""
    members = [m for m in _members(hint) if m is not type(None)]
    if hint == list[str]:
        return hint, None, None
    plain = next((kind for kind in (str, bool, int, float) if kind in members), None)
    if plain is int:
        return int, lambda _type, tokens: whole_number(tokens[0].value), None
    if plain is float:
        return float, lambda _type, tokens: _number(tokens[0].value), None
    if plain is not None or get_origin(members[0]) is Literal:
        return plain or members[0], None, None
    items = get_args(members[0])[0]
    # not str: where pydantic is imported, cyclopts has it compare what was read with the type
    return Any, lambda _type, tokens: _listed(tokens[0].value, items), "LIST"


def whole_number(text: str) -> int:
    """Return a number as typed; 1.5 and 1e3 are not whole numbers."""
    number = whole_number_in(text.removeprefix("+"))
    if number is None:
        raise ValueError(f"{elided(repr(text), _SHOWN)} is not a whole number; write it in digits, such as 1000")
    return number


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"{elided(repr(text), _SHOWN)} is not a number; write it in digits, such as 0.5") from error


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _listed(text: str, items: Any) -> list[Any]:
    """A list as typed: ``block,mlp``, or JSON. Wrong items are left to the options' own check."""
    if text.lstrip().startswith("["):
        try:
            return list(read_json(text))
        except ValueError as error:
            raise ValueError(f"{elided(repr(text), _SHOWN)} is not a JSON list ({error})") from error
    if get_origin(items) not in (None, Literal):
        raise ValueError(f"{elided(repr(text), _SHOWN)} is no list of lists; write it as JSON: '[[9, 41], [17]]'")
    parts = [part.strip() for part in text.split(",") if part.strip()]
    numbers = [whole_number_in(part) if items is int else None for part in parts]
    return [part if number is None else number for part, number in zip(parts, numbers)]


def _shown(default: Any) -> str | None:
    if default is None or default is MISSING or default is False:
        return None
    if isinstance(default, str | int | float):
        return "yes" if default is True else str(default)
    return ",".join(str(item) for item in default)
