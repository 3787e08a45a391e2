"""What each option is, in words: written once, in the dataclass that declares it, and read from there.

The text is the option's entry under ``Args`` in the dataclass's docstring, or a ``Doc`` of its annotation where several
dataclasses share the option. It is written for Python; ``cli/words.py`` says the same for a shell.
"""

import inspect
import re
import typing
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from textwrap import wrap
from typing import Any, Final, Literal, TypeVar

from bathyscope.core.conditions import conditions_of
from bathyscope.options import Repeatable, annotations_that_resolve, choices, kinds_of, marks_of

T = TypeVar("T")
_ENTRY: Final = re.compile(r"    (\.{3}|\*{0,2}\w+(?:, \w+)*): (.*)")
_HEAD: Final = "\n\nArgs:\n"
_SECTION: Final = re.compile(r"\n\n[A-Z]\w+:\n    ")
_COLUMNS: Final = 112
"""Of a docstring without its indentation."""
DEFERRED: Final = "..."
"""Entry of a verb's docstring, for those who read the source: it names the dataclasses that hold the other entries."""


@dataclass(frozen=True)
class Doc:
    """Annotates an option that several dataclasses share: what it is."""

    text: str


@dataclass(frozen=True)
class Unset:
    """Annotates an option that the command line fills in where nobody does.

    Args:
        call: what None means in a call.
        shell: what the command line takes instead.
    """

    call: str
    shell: str


def filled_in_by_commands(options_type: type) -> set[str]:
    """Return the options that the command line fills in where nobody gives them."""
    hints = typing.get_type_hints(options_type, include_extras=True)
    return {name for name, hint in hints.items() if any(isinstance(mark, Unset) for mark in marks_of(hint))}


def read_entries(docstring: str) -> dict[str, str]:
    """Return the text of each argument under ``Args:`` as one line."""
    texts: dict[str, str] = {}
    for names, lines in _split_entries(_split_docstring(docstring)[1]):
        text = " ".join(line.strip() for line in [lines[0].partition(": ")[2], *lines[1:]])
        texts |= dict.fromkeys(names, text)
    return texts


def texts_of(options_type: type) -> dict[str, str]:
    """Return what the options of a dataclass are, for those that have a text; ranges and conditions are not in it.

    A class that is derived from others has their entries too.
    """
    entries: dict[str, str] = {}
    for kind in reversed(options_type.__mro__):
        entries |= read_entries(kind.__doc__ or "")
    hints = typing.get_type_hints(options_type, include_extras=True)
    texts = {name: entries.get(name) or shared_text(hint) for name, hint in hints.items()}
    return {name: text for name, text in texts.items() if text}


def complete(text: str, hint: Any, filled_in: Container[str] | None = None) -> str:
    """Return what an option is, with the default, the range and the conditions that its annotation holds.

    Args:
        filled_in: options that a shell need not give, since the command does. None = the option is of a call.
    """
    is_call = filled_in is None
    unset = next((mark for mark in marks_of(hint) if isinstance(mark, Unset)), None)
    if unset is not None:
        text = f"{text} None = {unset.call if is_call else unset.shell}."
    forms = [mark.form for mark in marks_of(hint) if isinstance(mark, Repeatable) and mark.form]
    if forms and not is_call:
        text = f"{text.rstrip('.')}, as {forms[0]}; may be given several times."
    # signatures and parsers list the alternatives of a single choice
    is_choice = [typing.get_origin(kind) for kind in kinds_of(hint)] == [Literal]
    allowed = "" if is_choice else choices(hint)
    text = f"{text.rstrip('.')}; allowed: {allowed}." if allowed else text
    conditions = [str(condition) for condition in conditions_of(hint) if condition.option not in (filled_in or ())]
    return " ".join([text, *conditions])


def describe_arguments(
    function: Callable[..., Any], options_types: Sequence[type], bundles: Mapping[str, type] | None = None
) -> str | None:
    """Return a verb's docstring with the entry of every option, in the order of the signature.

    What the docstring itself says of an option, such as of values that a shell cannot write, follows the option's text.

    Args:
        bundles: arguments that hold several options each, whose entries follow theirs.
    """
    if function.__doc__ is None:
        return None
    texts = _texts_of_signature(function)
    for options_type in options_types:
        hints = typing.get_type_hints(options_type, include_extras=True)
        texts |= {name: complete(text, hints[name]) for name, text in texts_of(options_type).items()}
    before, section, after = _split_docstring(function.__doc__)
    lines_by_name = {names[0]: lines for names, lines in _split_entries(section)}
    additions = read_entries(function.__doc__)
    lines_by_name.pop(DEFERRED, None)
    rows: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        lines = lines_by_name.pop(f"{_stars(parameter)}{parameter.name}", [])
        kind = (bundles or {}).get(parameter.name)
        inside = [] if kind is None else [option.name for option in fields(kind)]
        if kind is not None:
            listed = ", ".join(f"``{name}``" for name in inside)
            lines = _write_entry(parameter.name, f"``{kind.__name__}`` or a dict: {listed}, which are keywords too.")
        rows += [] if parameter.name in texts else lines
        for name in (parameter.name, *inside):
            if name in texts:
                lines_by_name.pop(name, None)
                rows += _write_entry(name, f"{texts[name]} {additions.get(name, '')}".strip())
    rows += [line for lines in lines_by_name.values() for line in lines]
    return before + _HEAD + "\n".join(rows) + after if rows else before + after


def described(options_type: type[T]) -> type[T]:
    """Return an options class that people make themselves, its docstring with an entry for each shared option too."""
    if options_type.__doc__ is not None:
        before, _, after = _split_docstring(options_type.__doc__)
        rows = [row for name, text in texts_of(options_type).items() for row in _write_entry(name, text)]
        options_type.__doc__ = before + _HEAD + "\n".join(rows) + after
    return options_type


def _write_entry(name: str, text: str) -> list[str]:
    """Return the lines of an entry under ``Args``."""
    return wrap(f"{name}: {text}", _COLUMNS, initial_indent=" " * 4, subsequent_indent=" " * 8, break_on_hyphens=False)


def _stars(parameter: inspect.Parameter) -> str:
    """Return what is before the name of a parameter that takes any number of arguments."""
    if parameter.kind is parameter.VAR_POSITIONAL:
        return "*"
    return "**" if parameter.kind is parameter.VAR_KEYWORD else ""


def shared_text(hint: Any) -> str:
    """Return what an annotation says of its option; empty where it says nothing."""
    return next((mark.text for mark in marks_of(hint) if isinstance(mark, Doc)), "")


def _texts_of_signature(function: Callable[..., Any]) -> dict[str, str]:
    """Return the texts that the annotations of a function hold themselves."""
    hints = annotations_that_resolve(function)
    return {name: text for name, hint in hints.items() if (text := shared_text(hint))}


def _split_docstring(docstring: str) -> tuple[str, str, str]:
    """Return what is before the entries under ``Args:``, the entries, and what follows them."""
    before, head, rest = inspect.cleandoc(docstring).partition(_HEAD)
    if not head:
        section = _SECTION.search(before)
        end = len(before) if section is None else section.start()
        return before[:end], "", before[end:]
    entries, gap, after = rest.partition("\n\n")
    return before, entries, gap + after


def _split_entries(section: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the names and the lines of each entry."""
    entry: tuple[list[str], list[str]] | None = None
    for line in section.splitlines():
        start = _ENTRY.fullmatch(line)
        if start is not None:
            if entry is not None:
                yield entry
            entry = (start[1].split(", "), [line])
        elif entry is not None:
            entry[1].append(line)
    if entry is not None:
        yield entry
