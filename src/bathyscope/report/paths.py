"""Paths of an SVG in few letters: hundredths of a point, and steps where they are shorter than places."""

import re
from typing import Final

_COMMAND: Final = re.compile(r"([MLQCz])([^MLQCz]*)")


def shortened(path: str) -> str:
    """The same line, each of its places to a hundredth of a point.

    Args:
        path: the ``d`` of an SVG's path, in places alone: commands ``M``, ``L``, ``Q``, ``C`` and ``z``.
    """
    written, said = [], ""
    at = begin = (0, 0)
    for letter, given in _COMMAND.findall(path):
        if letter == "z":
            written.append("z")
            at, said = begin, "z"
            continue
        numbers = [hundredths(number) for number in given.split()]
        texts = {command: _written(command, values, said) for command, values in _ways(letter, numbers, at)}
        said = min(texts, key=lambda command: len(texts[command]))
        written.append(texts[said])
        at = (numbers[-2], numbers[-1])
        begin = at if letter == "M" else begin
    return "".join(written)


def hundredths(number: str) -> int:
    """The whole number of hundredths next to it."""
    return round(100 * float(number))


def brief(whole: int) -> str:
    """Hundredths as a number without what need not be written."""
    sign, size = "-" if whole < 0 else "", abs(whole)
    after = f".{size % 100:02d}".rstrip("0") if size % 100 else ""
    return f"{sign}{size // 100 or ('' if after else '0')}{after}"


def _ways(letter: str, numbers: list[int], at: tuple[int, int]) -> list[tuple[str, list[int]]]:
    """A command and its numbers: by a step from where the pen is, or to a place."""
    if letter == "M":
        return [(letter, numbers)]
    steps = [number - at[place % 2] for place, number in enumerate(numbers)]
    if letter == "L" and 0 in steps:
        along = 0 if steps[1] == 0 else 1
        return [("hv"[along], [steps[along]]), ("HV"[along], [numbers[along]])]
    return [(letter.lower(), steps), (letter, numbers)]


def _written(command: str, numbers: list[int], said: str) -> str:
    """Numbers behind their command, which is left out where it was the last one that was said."""
    texts = [brief(number) for number in numbers]
    # a minus tells a number from the one before
    between = [text if text[0] == "-" else f" {text}" for text in texts]
    if command == said and command != "M":
        return "".join(between)
    return "".join((command, texts[0], *between[1:]))
