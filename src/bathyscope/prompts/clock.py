"""The clock of chat templates, which stands still: the same chat has the same tokens every day.

Templates ask for the date by ``strftime_now``. A function cannot be given to them in its place, since transformers
lets plain values through alone; a macro of that name, written before the template, can.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

TEMPLATE_DATE: Final = datetime(2024, 7, 26)
"""What a template that writes the day's date is told: the same every day, so that a run can be resumed."""
CLOCK: Final = "strftime_now"
"""The function by which templates ask for the date."""
ASKED: Final = "the clock was asked"
"""What ``UNASKED`` raises."""

_DIRECTIVES: Final = {
    **{"a": "Fri", "A": "Friday", "b": "Jul", "h": "Jul", "B": "July", "p": "AM", "P": "am"},
    **{"c": "Fri Jul 26 00:00:00 2024", "x": "07/26/24", "D": "07/26/24", "F": "2024-07-26"},
    **{"X": "00:00:00", "T": "00:00:00", "r": "12:00:00 AM", "R": "00:00"},
    **{"Y": "2024", "G": "2024", "C": "20", "y": "24", "g": "24", "m": "07", "d": "26", "e": "26", "j": "208"},
    **{"u": "5", "w": "5", "U": "29", "V": "30", "W": "30"},
    **{"H": "00", "k": " 0", "I": "12", "l": "12", "M": "00", "S": "00", "f": "000000"},
    # seconds since 1970 by UTC; a day without a zone has none to name
    **{"s": "1721952000", "z": "", "Z": "", "n": "\n", "t": "\t"},
}
"""What each letter behind % writes of ``TEMPLATE_DATE``: the same in every locale, time zone and C library."""
_PERCENT: Final = "\ue000"
"""Stands for a written-out % (%%) while letters are replaced."""
_UNKNOWN: Final = (
    "'it asks for the date by ' ~ format ~ ', and %' ~ date.text.split('%')[1][:1] ~ ' is no format of C; "
    "leave chat out'"
)
"""What is raised of a directive that is left over, in the language of templates."""


def _macro() -> str:
    """Return the macro that writes ``TEMPLATE_DATE``, and refuses directives that C does not have."""
    flags: dict[str, Callable[[str], str]] = {
        "": str,
        "E": str,
        "O": str,
        "-": _without_filling,
        "_": lambda text: _without_filling(text).rjust(len(text)),
        "0": lambda text: text.replace(" ", "0") if text.strip().isdigit() else text,
        "^": str.upper,
        "#": lambda text: text.lower() if text.isupper() else text.upper(),
    }
    marks = {f"%{flag}{letter}": of(text) for flag, of in flags.items() for letter, text in _DIRECTIVES.items()}
    replacements = [("%%", _PERCENT), *marks.items()]
    listed = ", ".join(f"({_quoted(mark)}, {_quoted(text)})" for mark, text in replacements)
    # a loop, since some hundred filters behind each other are nested too deeply
    return (
        f"{{% macro {CLOCK}(format) %}}{{% set date = namespace(text=format) %}}{{% for mark, text in [{listed}] %}}"
        "{% set date.text = date.text | replace(mark, text) %}{% endfor %}"
        f"{{% if '%' in date.text %}}{{{{ raise_exception({_UNKNOWN}) }}}}{{% endif %}}"
        f"{{{{ date.text | replace('{_PERCENT}', '%') }}}}{{% endmacro %}}\n"
    )


def _without_filling(text: str) -> str:
    """Return a number without the zeros and blanks in front of it; other texts as they are."""
    return (text.strip().lstrip("0") or "0") if text.strip().isdigit() and len(text) < len("000000") else text


def _quoted(text: str) -> str:
    """Return a text as a literal of a template."""
    return "'" + text.replace("\n", "\\n").replace("\t", "\\t") + "'"


FIXED: Final = _macro()
"""A macro in the clock's place, which writes ``TEMPLATE_DATE`` in every format of C.

Templates are read with ``trim_blocks``, which takes the end of its line away.
"""
UNASKED: Final = f"{{% macro {CLOCK}(format) %}}{{{{ raise_exception('{ASKED}') }}}}{{% endmacro %}}\n"
"""A macro in the clock's place that stops the template, which shows whether it asks for the date."""
