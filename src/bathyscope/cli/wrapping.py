"""Lines of a terminal's width: they end between words, and an interval stays in one piece."""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = r"[−+-]?\d[\d.,e−+-]*(?:\s?%)?"
_UNIT: Final = re.compile(
    # An interval in either notation, a number with its percent sign, or a word, with what clings to them.
    rf"[(\[]?{_NUMBER}\s(?:to|…)\s{_NUMBER}\S*|\[{_NUMBER},\s{_NUMBER}\]\S*|\S*\d\s%\S*|\S+"
)

_LABEL: Final = re.compile(r"\w+:\s{2,}(?=\S)")


def units(text: str) -> list[str]:
    """Return the pieces of a line that are not broken: words, intervals, and numbers with their sign."""
    return [match[0] for match in _UNIT.finditer(text)]


def wrap(text: str, width: int) -> list[str]:
    """Break a line where units end; a unit that is wider than a line has one for itself.

    Lines after the first keep the indentation. Lines of tables, whose columns are set apart by blanks, stay whole.
    """
    # Letters of some scripts are two columns wide, so the length of a text is not its width.
    from rich.cells import cell_len

    # A line such as "Time:   about 1.4 s …" has its label in a column of its own.
    label = _LABEL.match(text)
    if label and cell_len(text) > width > 2 * cell_len(label[0]):
        first, *others = wrap(text[label.end() :], width - cell_len(label[0]))
        return [label[0] + first, *(" " * cell_len(label[0]) + line for line in others)]
    indent = text[: len(text) - len(text.lstrip())]
    if cell_len(text) <= width or "  " in text.strip():
        return [text]
    lines: list[str] = []
    for unit in units(text):
        if lines and cell_len(lines[-1]) + 1 + cell_len(unit) <= width:
            lines[-1] += f" {unit}"
        else:
            lines.append(indent + unit)
    return lines


def cut(text: str, width: int) -> str:
    """Return a line that ends with an ellipsis behind the last whole word that fits."""
    from rich.cells import cell_len

    while cell_len(text) > width:
        text = f"{text.removesuffix('…').rstrip().rpartition(' ')[0].rstrip(',;:')}…"
    return text
