"""Options: dataclasses whose annotations say what is allowed, and the one check of every value.

A choice is a ``Literal``, a range is ``Annotated[int, Range(1, 64)]``, and a list whose items may be given once is
``Annotated[tuple[...], Distinct()]``. A call's keywords, a recipe's values and a shell's flags are all read here,
so that each mistake is refused in the same words, before any model is loaded.
"""

import math
import operator
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, Literal, TypeVar

from bathyscope.errors import OptionError, describe_value, did_you_mean

T = TypeVar("T")
_CHECKED = "_is_checked"
"""The mark of options whose values have been checked; a copy with other values does not have it."""


@dataclass(frozen=True)
class Range:
    """Annotates a number: from ``low`` to ``high``, both allowed.

    Args:
        high: None = no upper limit.
        none: what None means where it is allowed, for messages.
        open: the ends themselves are not allowed.

    Example:
        >>> bathyscope.extend.Range(1, 10).check(11, "k")
        Traceback (most recent call last):
        bathyscope.errors.OptionError: k=11 is out of range; allowed: 1 to 10.
    """

    low: float
    high: float | None = None
    none: str = ""
    open: bool = False

    def __post_init__(self) -> None:
        ends = [end for end in (self.low, self.high) if end is not None]
        if any(isinstance(end, bool) or not isinstance(end, int | float) for end in ends) or ends != sorted(ends):
            raise OptionError(
                f"Range({describe_value(self.low)}, {describe_value(self.high)}) is no range. Give two numbers, the "
                "lower one first, or the lower one alone."
            )

    def __str__(self) -> str:
        if self.open:
            text = f"above {self.low}" if self.high is None else f"above {self.low} and below {self.high}"
        else:
            text = f"{self.low} or more" if self.high is None else f"{self.low} to {self.high}"
        return f"{text}, or None ({self.none})" if self.none else text

    def check(self, value: float, where: str) -> None:
        """Raise OptionError for a number outside."""
        # without an upper limit a number may be as large as it likes, and infinity is none
        is_inside = self.low <= value and (value < math.inf if self.high is None else value <= self.high)
        if not is_inside or (self.open and value in (self.low, self.high)):
            finite = "a finite number of " if value == math.inf else ""
            raise OptionError(f"{where}={value} is out of range; allowed: {finite}{self}.")


@dataclass(frozen=True)
class Distinct:
    """Annotates a list: at least one item, none twice."""

    def check(self, value: Sequence[Any], where: str, choices: str) -> None:
        """Raise OptionError for an empty list, or one that repeats an item."""
        if not value or len(set(value)) < len(value):
            allowed = f"; allowed: {choices}" if choices else ""
            raise OptionError(f"{where}={list(value)} is not allowed; give at least one, each once{allowed}.")


@dataclass(frozen=True)
class TextForm:
    """Annotates a text that has to be of a form.

    Args:
        check: raises OptionError for a text of another form; no model is needed for it.
    """

    check: Callable[[str], object]


@dataclass(frozen=True)
class Repeatable:
    """Annotates an option that a command line may give several times; its value there is the list of texts.

    Args:
        form: of each text; empty = the option's own description says it.
    """

    form: str = ""


@dataclass(frozen=True)
class ByName:
    """Annotates an option whose value may be a dict: a command line gives each entry by its name, --option.NAME."""


Coverage = Annotated[float, Range(0.01, 0.9999)]
"""The coverage of an interval."""
Share = Annotated[float, Range(0, 1, open=True)]
"""A part of a whole, of which something is left on both sides."""
Positive = Annotated[float, Range(0, open=True)]
Seed = Annotated[int, Range(0, (1 << 32) - 1)]
"""What every generator of random numbers takes."""
Resamples = Annotated[int, Range(20, 10_000_000)]
"""The resamples of a bootstrap: fewer tell no spread, nor a p-value below 0.05, as none is below 1/(resamples + 1)."""
Permutations = Annotated[int, Range(1, 10_000_000)]
"""The orders of a permutation test, whose p-value tells how few there are."""


@dataclass(frozen=True)
class NoOptions:
    """The options of a measure that has none."""


def items_of(value: str | Iterable[T], where: str = "") -> list[T]:
    """Return the items of a list; a single text stands for the names in it, with commas between them, as at a shell.

    Args:
        where: what the list is called in an error.

    Raises:
        OptionError: neither, or a dict, whose values would be dropped.

    Example:
        >>> items_of("lens, skip"), items_of(["lens"])
        (['lens', 'skip'], ['lens'])
    """
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]  # type: ignore[misc]
    if not isinstance(value, Iterable):
        raise OptionError(f"{describe_value(value)} is no list; give one, or a text with commas between its items.")
    require_no_dict(value, where)
    return list(value)


def require_no_dict(value: object, where: str) -> None:
    """Refuse a dict where a list is meant, since only its names would be read.

    Raises:
        OptionError: with the list of its names.
    """
    if isinstance(value, Mapping):
        named = f"{where}={describe_value(value)}" if where else describe_value(value)
        listed = describe_value(list(value))
        raise OptionError(f"{named} is a dict, and only a list is read, without values; give one, such as {listed}.")


def require_different(items: Sequence[Any], where: str) -> None:
    """Refuse a list that holds an item twice, where each has a row or a file of its own.

    Raises:
        OptionError: with the item that comes again.
    """
    again = next((item for place, item in enumerate(items) if item in items[:place]), None)
    if again is not None:
        raise OptionError(f"{where}: {describe_value(again)} is given twice; give it once.")


def coerce(options_type: type[T], options: object, where: str) -> T:
    """Return an instance of ``options_type`` from an instance, a mapping of its fields, or None (the defaults).

    Lists become tuples, and a single text is a list as ``items_of`` reads it. An instance that was checked here before
    is returned unchanged.

    Raises:
        OptionError: unknown option (with a near miss), a value of another type, or a value that is not allowed.
    """
    if isinstance(options, options_type) and getattr(options, _CHECKED, False):
        return options
    if isinstance(options, options_type) and is_dataclass(options):
        options = {field.name: getattr(options, field.name) for field in fields(options)}
    options = {} if options is None else options
    if not isinstance(options, Mapping) or not is_dataclass(options_type):
        raise OptionError(f"{where}: options are a dict or {options_type.__name__}; {type(options).__name__} given.")
    # With extras, so that ranges and other marks of ``Annotated`` are seen.
    hints = typing.get_type_hints(options_type, include_extras=True)
    allowed = [f.name for f in fields(options_type)]
    values: dict[str, Any] = {}
    for name, value in options.items():
        if name not in allowed:
            listed = ", ".join(allowed) or "none"
            raise OptionError(f"{where} has no option {name!r}.{did_you_mean(str(name), allowed)} Allowed: {listed}.")
        values[str(name)] = _convert(hints[name], value, f"{where}: {name}")
    instance = options_type(**values)
    if hasattr(instance, "__dict__"):
        # The options are frozen; the mark is no field, so equality and copies with other values ignore it.
        object.__setattr__(instance, _CHECKED, True)
    return instance


def require_allowed(instance: Any, where: str) -> None:
    """Raise OptionError where a field of a dataclass's instance is not what its annotation allows."""
    hints = typing.get_type_hints(type(instance), include_extras=True)
    for field in fields(instance):
        _convert(hints[field.name], getattr(instance, field.name), f"{where}: {field.name}")


def convert(hint: Any, value: Any, where: str) -> Any:
    """Return a value as an annotation has it, for options that tell several kinds of values apart.

    Raises:
        OptionError: a value of another type, or one that is not allowed.
    """
    return _convert(hint, value, where)


def annotations_that_resolve(function: Callable[..., Any], *, include_extras: bool = True) -> dict[str, Any]:
    """Return the annotations that can be read; those of names imported for type checkers alone are not plain ones."""
    hints: dict[str, Any] = {}
    for name, annotation in function.__annotations__.items():
        holder = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            hints |= typing.get_type_hints(holder, function.__globals__, include_extras=include_extras)
        except NameError:
            continue
    return hints


def marks_of(hint: Any) -> tuple[Any, ...]:
    """Return what ``Annotated`` adds to an annotation as a whole, or to the only kind in it other than None."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(mark for kind in typing.get_args(hint) for mark in marks_of(kind))
    return typing.get_args(hint)[1:] if typing.get_origin(hint) is Annotated else ()


def kinds_of(hint: Any) -> list[Any]:
    """Return the kinds of values that an annotation allows besides None, without what ``Annotated`` adds."""
    if typing.get_origin(hint) is Annotated:
        return kinds_of(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return [kind for inner in typing.get_args(hint) for kind in kinds_of(inner)]
    return [] if hint is type(None) else [hint]


def check_plain_options(options_type: type, values: Mapping[str, Any]) -> None:
    """Refuse numbers and choices that a verb would refuse, by its options alone, before the verb is imported.

    Values of other names are ignored.

    Raises:
        OptionError: a value of another type, or one that is not allowed.
    """
    convert_plain_values(typing.get_type_hints(options_type, include_extras=True), values)


def convert_plain_values(hints: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values, those of plain annotations converted and checked."""
    converted = dict(arguments)
    for name, value in arguments.items():
        if name in hints and _is_plain(hints[name]):
            converted[name] = _convert(hints[name], value, name)
        if name == "seed" and converted[name] is not None:
            _convert(Seed, converted[name], name)
    return converted


def _is_plain(hint: Any) -> bool:
    """Say whether values of an annotation are checked: numbers, texts, truth values, choices, and lists of them."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return True
    if origin is Sequence and typing.get_origin(arguments[0]) is Literal:
        return False  # lists of choices may come as one text with commas, which their call takes apart
    if origin is Annotated or origin is Sequence:
        return _is_plain(arguments[0]) or any(isinstance(mark, Distinct) for mark in arguments[1:])
    if origin in (typing.Union, types.UnionType):
        alternatives = [inner for inner in arguments if inner is not type(None)]
        return len(alternatives) == 1 and _is_plain(alternatives[0])
    return hint in (int, float, bool, str)


def choices(hint: Any) -> str:
    """Return in words what an annotation allows: ``block, attention, mlp`` or ``1 to 64``; empty = no limit."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return ", ".join(map(str, arguments))
    if origin is Annotated:
        return ", ".join(str(mark) for mark in arguments[1:] if isinstance(mark, Range)) or choices(arguments[0])
    if origin in (typing.Union, types.UnionType, tuple, Sequence):
        return next((text for inner in arguments if (text := choices(inner))), "")
    return ""


def _convert(hint: Any, value: Any, where: str) -> Any:
    """Return ``value`` as the annotated type, or refuse it."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _convert_annotated(arguments, value, where)
    if origin is Literal:
        if not _is_one_of(value, arguments):
            near_miss = did_you_mean(value, arguments) if isinstance(value, str) else ""
            raise OptionError(f"{where}={describe_value(value)} is unknown.{near_miss} Allowed: {choices(hint)}.")
        return value
    if origin in (typing.Union, types.UnionType):
        return _convert_union(arguments, value, where)
    if origin is Sequence:
        return _convert_list(arguments[0], value, where)
    if origin is tuple:
        return _convert_tuple(arguments[0], value, where)
    return _convert_plain(hint, value, where)


def _is_one_of(value: Any, allowed: tuple[Any, ...]) -> bool:
    """Say whether a value is among the allowed ones; arrays and frames, whose comparisons are arrays, never are."""
    try:
        return value in frozenset(allowed)
    except TypeError:  # what has no hash
        return False


def _convert_annotated(arguments: tuple[Any, ...], value: Any, where: str) -> Any:
    """Convert a value to the type inside ``Annotated`` and check it against the marks."""
    inner, *marks = arguments
    converted = _convert(inner, value, where)
    for mark in marks if converted is not None else ():
        if isinstance(mark, Distinct):
            mark.check(converted, where, choices(inner))
        elif isinstance(mark, Range):
            mark.check(converted, where)
        elif isinstance(mark, TextForm) and isinstance(converted, str):
            mark.check(converted)
    return converted


def _convert_union(arguments: tuple[Any, ...], value: Any, where: str) -> Any:
    """Convert a value to the only type other than None, or leave it to the measure where several are allowed."""
    if value is None and type(None) in arguments:
        return None
    alternatives = [alternative for alternative in arguments if alternative is not type(None)]
    # Only the measure knows how to tell several allowed kinds apart, so the value is refused here only when it is
    # an instance of none of them.
    kinds = tuple(alternative for alternative in alternatives if isinstance(alternative, type))
    has_other_hints = len(kinds) < len(alternatives)
    if len(alternatives) > 1 and (has_other_hints or isinstance(value, kinds)):
        return value
    return _convert(alternatives[0], value, where)


def _convert_list(item_hint: Any, value: Any, where: str) -> list[Any]:
    """Convert a sequence, a set, a text or a single number to a list."""
    if not isinstance(value, Sequence | Set | int | float):
        raise OptionError(f"{where} takes a list; {describe_value(value)} given.")
    if isinstance(value, int | float) and kinds_of(item_hint) == [str]:
        raise OptionError(f"{where} takes a list of texts; {describe_value(value)} given.")
    items = [value] if isinstance(value, int | float) else items_of(value)
    return [_convert(item_hint, item, where) for item in items]


def _convert_tuple(item_hint: Any, value: Any, where: str) -> tuple[Any, ...]:
    """Convert an iterable, a text or a single number to a tuple."""
    items = [value] if isinstance(value, int | float) else value
    if not isinstance(items, Iterable):
        raise OptionError(f"{where} takes a list; {describe_value(value)} given.")
    items = items_of(items, where)
    if typing.get_origin(item_hint) is tuple and any(isinstance(item, str | int | float) for item in items):
        # [3, 7] could be one list for all prompts, or a number for each
        raise OptionError(
            f"{where}={value!r} is no list of lists. Give one for each prompt, such as [[3, 7], [5]], or a single one "
            "for all prompts: [[3, 7]]."
        )
    return tuple(_convert(item_hint, item, where) for item in items)


def _convert_plain(hint: Any, value: Any, where: str) -> Any:
    """Check a truth value or a text, and convert a number; values of any other annotation pass unchanged."""
    if hint is bool and not isinstance(value, bool):
        raise OptionError(f"{where} takes true or false; {describe_value(value)} given.")
    if hint is str and not isinstance(value, str):
        quotes = " Write it in quotes." if isinstance(value, int | float) else ""
        raise OptionError(f"{where} takes a text; {describe_value(value)} given.{quotes}")
    if hint is int:
        return _convert_number(operator.index, value, where, "a whole number")
    if hint is float:
        return _convert_number(float, value, where, "a number")
    return value


def _convert_number(convert: Callable[[Any], float], value: Any, where: str, what: str) -> Any:
    """Convert a value to a number, and refuse truth values, texts and bytes, which Python would take."""
    try:
        if isinstance(value, bool | str | bytes | bytearray):
            raise TypeError("neither a truth value nor a text is a number")
        return convert(value)
    # tensors and arrays of several numbers, and whole numbers beyond all floats
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise OptionError(f"{where} takes {what}; {describe_value(value)} given.") from error
