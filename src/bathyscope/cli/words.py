"""What an option is, in the words of a shell: descriptions are written for calls, and one rule rewrites them."""

import re
from collections.abc import Container
from typing import Final

from bathyscope.core.commands import name_command

_CODE: Final = re.compile(r"``([^`]+)``")
_OPTION: Final = re.compile(r"(\w+)(?:=(.+))?")
_VERB: Final = re.compile(r"bathyscope\.(\w+)")
_VALUES: Final = {"None": "not given", "True": "yes", "False": "no"}


def write_for_shells(text: str, options: Container[str] = (), prefix: str = "") -> str:
    """Return a description for a shell, which cannot write None: it leaves the flag out.

    Args:
        text: in the words of a call, with code between double backticks.
        options: names that are flags.
        prefix: of the flags, such as the name of their measure.

    Example:
        >>> write_for_shells("time for ``until``, such as ``10min``; None = no limit.", ["until"])
        'time for --until, such as 10min; not given = no limit.'
    """
    plain = _CODE.sub(lambda code: _write_code(code[1], options, prefix), text)
    for value, word in _VALUES.items():
        plain = plain.replace(f"{value} = ", f"{word} = ").replace(f"or {value} (", f"or {word} (")
    return plain.replace(". not given = ", ". Not given = ")


def name_flag(name: str, prefix: str = "") -> str:
    """Return the flag of an option: ``--seed``, or ``--skip.protect-first`` with the prefix ``skip``."""
    return f"--{f'{prefix}.' if prefix else ''}{name}".replace("_", "-")


def _write_code(code: str, options: Container[str], prefix: str) -> str:
    """Return an option as its flag, a verb as its command, and a value without quotation marks."""
    verb = _VERB.fullmatch(code)
    if verb is not None:
        return name_command(verb[1].replace("_", "-"))
    option = _OPTION.fullmatch(code)
    if option is None or option[1] not in options:
        return code.strip("\"'")
    flag = name_flag(option[1], prefix)
    return flag if option[2] is None else f"{flag} {option[2].strip(chr(34) + chr(39))}"
