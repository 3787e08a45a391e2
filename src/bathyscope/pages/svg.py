"""A panel as SVG inside a page: small, with ids that no other picture uses and colours that the page may change."""

import gc
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from bathyscope.pages.figures.kind import Panel, draw_panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.heat_map import SIGNED
from bathyscope.pages.render import render

# This style element would reach beyond its own picture; the page's style sheet has the same rule.
_UNWANTED: Final = re.compile(r"<metadata>.*?</metadata>\s*|<style .*?</style>\s*", re.DOTALL)
_TAG: Final = re.compile(r"<[^>]*>")
_ID: Final = re.compile(r' id="([^"]+)"')
_REFERENCE: Final = re.compile(r'(url\(#|href="#)([^")]+)')
_PATH: Final = re.compile(r' d="([^"]*)"')
_PLACES: Final = re.compile(r' (?:x|y|width|height|transform)="[^"]*"')
_DECIMAL: Final = re.compile(r"-?\d+\.\d+")
_COMMAND: Final = re.compile(r"([MLQCz])([^MLQCz]*)")
# texts that are not turned say so; the page has a font of its own, and its pictures one version
_NOTHING: Final = re.compile(
    r' transform="rotate\(-0 [^"]*"|font-family: [^;"]*; | version="1\.1"| xmlns:xlink="[^"]*"'
)
_EMPTY: Final = re.compile(r"<g/>\s*|<defs>\s*</defs>\s*")
_STYLE: Final = re.compile(r' style="([^"]*)"')
_BETWEEN: Final = re.compile(r">\s*\n\s*<")
_MARKS: Final = re.compile(r'(<g[^>]*)>((?:\s*<use [^>]*?( class="[^"]*")/>)(?:\s*<use [^>]*?\3/>)+\s*)(?=</g>)')
_MARK: Final = re.compile(r'<path id="([^"]+)"[^>]*style="stroke')
_USED: Final = re.compile(r'(<use href="#([^"]+)"[^>]*?); stroke[^"]*"')


def inline_svg(panel: Panel, name: str) -> str:
    """The panel's ``<svg>`` element.

    Args:
        panel: is drawn in its own size; the page scales it.
        name: unique on the page, letters, digits and hyphens; all ids begin with it.
    """
    with _collected_later():
        figure = draw_panel(panel)
        for ax in figure.axes:
            # the lines of a grid end where the axes do, and need no clip, which each would name
            ax.tick_params(grid_clip_on=False, grid_solid_capstyle="butt")
        text = render(figure, "svg", salt=name, text_as_text=True).decode()
    text = _UNWANTED.sub("", text[text.index("<svg") :]).replace("xlink:href", "href")
    text = text.replace(f'id="{SIGNED}"', f'class="{SIGNED}"')
    # a mark has the stroke that each of its uses would give it once more
    marks = set(_MARK.findall(text))
    text = _USED.sub(lambda use: f'{use[1]}"' if use[2] in marks else use[0], text)
    pointed_at = {target: str(number) for number, (_, target) in enumerate(dict.fromkeys(_REFERENCE.findall(text)))}
    text = _TAG.sub(lambda tag: _slim(tag[0], name, pointed_at), text)
    text = _BETWEEN.sub("><", _styled(_ungrouped(_EMPTY.sub("", text)), name))
    text = _MARKS.sub(lambda marks: f"{marks[1]}{marks[3]}>{marks[2].replace(marks[3], '')}", text)
    for colour, variable in style.CSS_NAMES.items():
        text = text.replace(f": {colour}", f": var({variable}, {colour})")
    return text


@contextmanager
def _collected_later() -> Iterator[None]:
    """The collector of garbage waits until a figure is done with, and then finds all of it at once.

    It would look through a growing figure, 20,000 objects that hold each other, a dozen times, and in the end through
    everything that there is.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _slim(tag: str, name: str, pointed_at: Mapping[str, str]) -> str:
    """A tag without ids that nothing points at, short ones otherwise, and without hundredths of what can be seen."""
    tag = _ID.sub(lambda found: f' id="{name}-{pointed_at[found[1]]}"' if found[1] in pointed_at else "", tag)
    tag = _REFERENCE.sub(lambda found: f"{found[1]}{name}-{pointed_at[found[2]]}", tag)
    tag = _PATH.sub(lambda path: f' d="{shortened(path[1])}"', _NOTHING.sub("", tag))
    return _PLACES.sub(lambda places: _DECIMAL.sub(lambda number: brief(hundredths(number[0])), places[0]), tag)


def _ungrouped(text: str) -> str:
    """Without groups that say nothing of what they hold."""
    said: list[bool] = []

    def kept(tag: re.Match[str]) -> str:
        if tag[0] == "</g>":
            return tag[0] if said.pop() else ""
        if tag[0] == "<g>" or (tag[0].startswith("<g ") and not tag[0].endswith("/>")):
            said.append(tag[0] != "<g>")
            return tag[0] if said[-1] else ""
        return tag[0]

    return _TAG.sub(kept, text)


def _styled(text: str, name: str) -> str:
    """Looks that several elements share are said once, for this picture alone."""
    counts = Counter(look for tag in _TAG.findall(text) if not _ID.search(tag) for look in _STYLE.findall(tag))
    shared = {look: f"c{number}" for number, look in enumerate(look for look, times in counts.items() if times > 1)}
    if not shared:
        return text
    rules = "".join(f"#{name}-p .{short}{{{look}}}" for look, short in shared.items())

    def classed(tag: re.Match[str]) -> str:
        found = _STYLE.search(tag[0])
        # a mark is drawn where it is used, and no rule of what stands around it reaches it there
        if found is None or found[1] not in shared or " class=" in tag[0] or _ID.search(tag[0]):
            return tag[0]
        return f'{tag[0][: found.start()]} class="{shared[found[1]]}"{tag[0][found.end() :]}'

    end = text.index(">")
    return f'{text[:end]} id="{name}-p"><style>{rules}</style>{_TAG.sub(classed, text[end + 1 :])}'


def shortened(path: str) -> str:
    """The same line in few letters: each of its places to a hundredth of a point, by steps where they are shorter.

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
