"""Flags, derived from the dataclasses that define options.

Names, types, defaults and help texts are read from the dataclasses; nothing about an option is written here again. A
flag's value reaches a command only where the flag was typed, so that presets and recipes keep their say.
"""

import inspect
import types
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, field, fields, make_dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from cyclopts import Group, Parameter

from bathyscope.cli.words import name_flag, write_for_shells
from bathyscope.core.conditions import Excludes, require_conditions
from bathyscope.core.descriptions import complete, filled_in_by_commands, read_entries, shared_text, texts_of
from bathyscope.core.strict import read_json, whole_number_in
from bathyscope.core.text import elided
from bathyscope.errors import OptionError
from bathyscope.options import ByName, Repeatable, check_plain_options, marks_of

_NESTED = "__"
_OPEN = "__by_name"
"""End of the name of what takes options by whatever names they have."""
_LETTERS = 40
"""Letters of a wrong value that a message repeats."""


def join_options(*types_of_options: type, leave_out: Container[str] = ()) -> type:
    """Return one options dataclass of several; the first that has a field defines it."""
    field_by_name: dict[str, tuple[str, Any, Any]] = {}
    for options_type in types_of_options:
        hints = get_type_hints(options_type, include_extras=True)
        texts = texts_of(options_type)
        for option in fields(options_type):
            if option.name not in leave_out and option.name not in field_by_name:
                metadata = {"help": texts.get(option.name, ""), **option.metadata}
                definition = field(default=option.default, metadata=metadata)
                hint = _without_conditions(hints[option.name], leave_out)
                field_by_name[option.name] = (option.name, hint, definition)
    return make_dataclass("Options", list(field_by_name.values()), frozen=True)


def _without_conditions(hint: Any, leave_out: Container[str]) -> Any:
    """Return an annotation without what it says of options that a command lacks, which cannot be given with it."""
    if get_origin(hint) is not Annotated:
        return hint
    inner, *marks = get_args(hint)
    kept_marks = [mark for mark in marks if not (isinstance(mark, Excludes) and mark.option in leave_out)]
    return Annotated[(inner, *kept_marks)] if kept_marks else inner


def options_of_call(call: Callable[..., Any], leave_out: Container[str] = ()) -> type:
    """Return the arguments of a function as an options dataclass, for functions that are imported already."""
    hints = get_type_hints(call, include_extras=True)
    texts = read_entries(call.__doc__ or "")
    definitions: list[tuple[str, Any, Any]] = []
    for argument in inspect.signature(call).parameters.values():
        if argument.name in leave_out or argument.kind in (argument.VAR_KEYWORD, argument.VAR_POSITIONAL):
            continue
        default = None if argument.default is argument.empty else argument.default
        definition = field(default=default, metadata={"help": texts.get(argument.name, "")})
        definitions.append((argument.name, hints[argument.name], definition))
    return make_dataclass("Options", definitions, frozen=True)


def make_flags(
    options_type: type,
    prefix: str = "",
    group: Callable[[str], Group] | None = None,
    show: Callable[[str], bool] | None = None,
    leave_out: Container[str] = (),
) -> list[inspect.Parameter]:
    """Return one flag for every field: ``--seed``, or ``--skip.protect-first`` with the prefix ``skip``.

    Args:
        group: of each in a help, by its field.
        show: which fields a help lists; None = all.
        leave_out: fields that are no flags.
    """
    hints, marked = get_type_hints(options_type), get_type_hints(options_type, include_extras=True)
    texts = texts_of(options_type)
    names, filled_in = {option.name for option in fields(options_type)}, filled_in_by_commands(options_type)
    flags = [
        _make_flag(
            option,
            # A flag that may be repeated is read as texts; its own options class says what they become.
            list[str] if _is_repeatable(marked[option.name]) else hints[option.name],
            write_for_shells(
                complete(texts.get(option.name) or option.metadata.get("help", ""), marked[option.name], filled_in),
                names,
                prefix,
            ),
            prefix,
            show=show is None or show(option.name),
            **({} if group is None else {"group": group(option.name)}),
        )
        for option in fields(options_type)
        if option.name not in leave_out
    ]
    open_flags = [
        _make_open_flag(option.name, prefix)
        for option in fields(options_type)
        if option.name not in leave_out and any(isinstance(mark, ByName) for mark in marks_of(marked[option.name]))
    ]
    return [*flags, *open_flags]


def nest_options(flag_values: Mapping[str, Any]) -> dict[str, Any]:
    """Return flags' values as the Python call takes them: a measure's options as a dict under its name."""
    call: dict[str, Any] = {}
    for key, value in flag_values.items():
        prefix, separator, name = key.partition(_NESTED)
        if separator:
            call.setdefault(prefix, {})[name] = value
        else:
            call[key] = value
    return call


def add_flags(
    body: Callable[..., int], derived: Sequence[inspect.Parameter], *options_types: type
) -> Callable[..., int]:
    """Return a function for the command line: ``body`` with derived parameters in place of its ``**options``.

    Args:
        options_types: refuse numbers and choices that are not allowed, and options that do not go together.
    """
    hints = get_type_hints(body, include_extras=True)
    parameters = [
        parameter.replace(annotation=_add_help(hints[parameter.name]))
        for parameter in inspect.signature(body).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    ]
    # Flags that were not typed arrive as None and are dropped, so that the defaults of presets and recipes hold.
    derived_names = {parameter.name for parameter in derived}

    def run(*arguments: Any, **flag_values: Any) -> int:
        typed = {name: value for name, value in flag_values.items() if value is not None or name not in derived_names}
        _take_open_flags(typed)
        # A wrong number is refused here in a moment, and not after the seconds in which the verb imports torch.
        for options_type in options_types:
            check_plain_options(options_type, typed)
            require_conditions(options_type, typed)
        return body(*arguments, **typed)

    parameters += derived
    # The parser reads a function's signature and annotations, so a function with computed flags needs both replaced.
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = body.__doc__
    return run


def _add_help(hint: Any) -> Any:
    """Return the annotation of an argument with the words that it shares with a call as its help."""
    text = shared_text(hint)
    return Annotated[hint, Parameter(help=write_for_shells(text, (), ""))] if text else hint


def _make_open_flag(name: str, prefix: str) -> inspect.Parameter:
    """Return what takes ``--chat.enable_thinking false`` next to ``--chat``, which a help lists alone."""
    parameter = Parameter(name=name_flag(name, prefix), accepts_keys=True, show=False, help="entries by their names")
    annotation = Annotated[dict[str, str] | None, parameter]
    inner = f"{prefix}{_NESTED}{name}" if prefix else name
    return inspect.Parameter(f"{inner}{_OPEN}", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _take_open_flags(typed: dict[str, Any]) -> None:
    """Put options of whatever name where their switch is: one of them is enough to switch it on."""
    for name in [name for name in typed if name.endswith(_OPEN)]:
        option = name.removesuffix(_OPEN)
        values = {key: _read_value(text) for key, text in typed.pop(name).items()}
        if typed.get(option, True) is not True:
            flag = name_flag(option.replace(_NESTED, "."))
            raise OptionError(f"{flag} and {flag}.{next(iter(values))} do not go together; give one of them.")
        typed[option] = values


def _read_value(text: str) -> Any:
    """Return a value as JSON has it (false, 3, "3"); any other text as it stands."""
    try:
        return read_json(text)
    except ValueError:
        return text


def _is_repeatable(hint: Any) -> bool:
    """Whether a flag may be given several times."""
    return any(isinstance(mark, Repeatable) for mark in getattr(hint, "__metadata__", ()))


def _make_flag(option: Field[Any], hint: Any, text: str, prefix: str, **placed: Any) -> inspect.Parameter:
    kind, converter, metavar = _shell_type(hint)
    flag = name_flag(option.name, prefix)
    # A switch that is off unless typed needs no --no- form, which would only lengthen the help.
    negative = (name_flag(f"no-{option.name}", prefix),) if kind is bool and option.default is not False else ()
    parameter = Parameter(
        name=flag,
        help=text,
        show_default=_write_default(option.default) or False,
        negative=negative,
        converter=converter,
        metavar=metavar,
        **placed,
    )
    return inspect.Parameter(
        f"{prefix}{_NESTED}{option.name}" if prefix else option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, parameter],
    )


def _shell_type(hint: Any) -> tuple[Any, Callable[..., Any] | None, str | None]:
    """Return the type that a shell's text is read as, its reader, and what stands for the value in help."""
    members = [member for member in _members(hint) if member is not type(None)]
    if hint == list[str]:
        return hint, None, None
    # A text is the widest type: "25%" and 3 are both written for --drop, and the verb tells them apart.
    plain = next((kind for kind in (str, bool, int, float) if kind in members), None)
    if plain is int:
        return int, lambda _type, tokens: read_whole_number(tokens[0].value), None
    if plain is float:
        return float, lambda _type, tokens: _read_number(tokens[0].value), None
    if plain is not None or get_origin(members[0]) is Literal:
        return plain or members[0], None, None
    # Not str: where pydantic is imported, cyclopts has it compare the value that was read with the type.
    return Any, lambda _type, tokens: _read_list_or_entries(tokens[0].value, members), "LIST"


def read_whole_number(text: str) -> int:
    """Return a number as typed; 1.5 and 1e3 are not whole numbers."""
    number = whole_number_in(text.removeprefix("+"))
    if number is None and text.lstrip("+-").isdecimal():
        raise ValueError(f"{elided(repr(text), _LETTERS)} is out of range; a whole number has at most 18 digits")
    if number is None:
        raise ValueError(f"{elided(repr(text), _LETTERS)} is not a whole number; write it in digits, such as 1000")
    return number


def _read_number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"{elided(repr(text), _LETTERS)} is not a number; write it in digits, such as 0.5") from error


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _read_list_or_entries(text: str, members: Sequence[Any]) -> Any:
    """Return a list as typed, or a JSON object where the option has entries with names."""
    lists = [member for member in members if get_origin(member) is not Mapping]
    if len(lists) < len(members) and text.lstrip().startswith("{"):
        try:
            return dict(read_json(text))
        except ValueError as error:
            raise ValueError(f"{elided(repr(text), _LETTERS)} is not a JSON object ({error})") from error
    # entries alone: what is no object is refused by its own check, which says what they are
    return _read_list(text, get_args(lists[0])[0]) if lists else text


def _read_list(text: str, item_hint: Any) -> list[Any]:
    """Return a list as typed: ``block,mlp``, or JSON. Wrong items are left to the options' own check."""
    # A list of lists has no shorter form in a shell than JSON.
    if text.lstrip().startswith("["):
        try:
            return list(read_json(text))
        except ValueError as error:
            raise ValueError(f"{elided(repr(text), _LETTERS)} is not a JSON list ({error})") from error
    if get_origin(item_hint) not in (None, Literal):
        raise ValueError(f"{elided(repr(text), _LETTERS)} is not a list of lists; write it as JSON: '[[9, 41], [17]]'")
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise ValueError(f"{elided(repr(text), _LETTERS)} lists nothing; give one item or more, or leave the flag out")
    return [_read_item(part, item_hint) for part in parts]


def _read_item(text: str, item_hint: Any) -> Any:
    """Return one item of a list; a text that is not what the list holds is left to the options' own check."""
    if item_hint is int:
        number = whole_number_in(text)
        return text if number is None else number
    if item_hint is float:
        return _read_number(text)
    return text


def _write_default(default: Any) -> str | None:
    if default is None or default is MISSING or default is False:
        return None
    if isinstance(default, str | int | float):
        return "yes" if default is True else str(default)
    items: Iterable[Any] = default
    return ",".join(str(item) for item in items)
