"""A panel as SVG inside a page: small, with ids of its own, and with colours that the page may change."""

import gc
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from bathyscope.pages.figures.kind import Panel, draw_panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.heat_map import SIGNED
from bathyscope.pages.figures.render import render

# This style element would apply to the whole page, whose style sheet has the same rule.
_UNWANTED: Final = re.compile(r"<metadata>.*?</metadata>\s*|<style .*?</style>\s*", re.DOTALL)
_TAG: Final = re.compile(r"<[^>]*>")
_ID: Final = re.compile(r' id="([^"]+)"')
_REFERENCE: Final = re.compile(r'(url\(#|href="#)([^")]+)')
_PATH: Final = re.compile(r' d="([^"]*)"')
_PLACES: Final = re.compile(r' (?:x|y|width|height|transform)="[^"]*"')
_DECIMAL: Final = re.compile(r"-?\d+\.\d+")
_COMMAND: Final = re.compile(r"([MLQCz])([^MLQCz]*)")
# matplotlib writes a rotation of 0 on every text. The page sets the font, and HTML needs no version or namespace.
_NOTHING: Final = re.compile(
    r' transform="rotate\(-0 [^"]*"|font-family: [^;"]*; | version="1\.1"| xmlns:xlink="[^"]*"'
)
_EMPTY: Final = re.compile(r"<g/>\s*|<defs>\s*</defs>\s*")
_STYLE: Final = re.compile(r' style="([^"]*)"')
_BETWEEN: Final = re.compile(r">\s*\n\s*<")
_MARKS: Final = re.compile(r'(<g[^>]*)>((?:\s*<use [^>]*?( class="[^"]*")/>)(?:\s*<use [^>]*?\3/>)+\s*)(?=</g>)')
_LABEL: Final = re.compile(r"<text[^>]*>[^<]*</text>")
_TICKS: Final = re.compile(
    rf'(<use href="#[^"]*")[^>]*?( class="[^"]*")/>{_LABEL.pattern}(?:\1[^>]*?\2/>{_LABEL.pattern})+'
)
_MARK_AT: Final = re.compile(r'<use href="#([^"]+)" x="([^"]*)" y="([^"]*)"/>')
_MARK: Final = re.compile(r'<path id="([^"]+)"[^>]*style="stroke')
_USED: Final = re.compile(r'(<use href="#([^"]+)"[^>]*?); stroke[^"]*"')


def inline_svg(panel: Panel, name: str) -> str:
    """Return the panel's ``<svg>`` element.

    Args:
        panel: drawn in its own size; the page scales it.
        name: unique on the page, of letters, digits and hyphens; prefix of all ids.
    """
    with _delay_collection():
        figure = draw_panel(panel)
        for ax in figure.axes:
            # Grid lines end where the axes end. A clip on each would only make the file larger.
            ax.tick_params(grid_clip_on=False, grid_solid_capstyle="butt")
        text = render(figure, "svg", salt=name, text_as_text=True).decode()
    # The prologue before the element is XML and not allowed inside HTML.
    text = _UNWANTED.sub("", text[text.index("<svg") :]).replace("xlink:href", "href")
    # matplotlib can only set ids. Several parts of a picture have this one, which makes it a class.
    text = text.replace(f'id="{SIGNED}"', f'class="{SIGNED}"')
    # The definition of a mark has its stroke already, and every use of it repeats the stroke.
    marks = set(_MARK.findall(text))
    text = _USED.sub(lambda use: f'{use[1]}"' if use[2] in marks else use[0], text)
    pointed_at = {target: str(number) for number, (_, target) in enumerate(dict.fromkeys(_REFERENCE.findall(text)))}
    # Tags are shortened before styles are shared, since equal styles may only become equal then.
    text = _TAG.sub(lambda tag: _shorten_tag(tag[0], name, pointed_at), text)
    text = _BETWEEN.sub("><", _share_styles(_remove_groups(_EMPTY.sub("", text)), name))
    text = _join_marks(text)
    # Last of all: a variable in a style is longer than the colour, and styles are written once by now.
    # The colour after the comma is for programs that open the picture without its page.
    for colour, variable in style.CSS_NAMES.items():
        text = text.replace(f": {colour}", f": var({variable}, {colour})")
    return text


@contextmanager
def _delay_collection() -> Iterator[None]:
    """Delay garbage collection until a figure is finished and freed.

    A figure is 20,000 objects in reference cycles. While it grows, the collector would search it a dozen times, and in
    the end search everything in memory.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _shorten_tag(tag: str, name: str, pointed_at: Mapping[str, str]) -> str:
    """Drop ids that nothing points at, shorten the others, and round places to hundredths of a point."""
    tag = _ID.sub(lambda match: f' id="{name}-{pointed_at[match[1]]}"' if match[1] in pointed_at else "", tag)
    tag = _REFERENCE.sub(lambda match: f"{match[1]}{name}-{pointed_at[match[2]]}", tag)
    tag = _PATH.sub(lambda path: f' d="{shorten_path(path[1])}"', _NOTHING.sub("", tag))
    return _PLACES.sub(
        lambda places: _DECIMAL.sub(lambda number: write_brief(round_hundredths(number[0])), places[0]), tag
    )


def _remove_groups(text: str) -> str:
    """Remove groups without attributes."""
    stays: list[bool] = []

    def keep_with_attributes(tag: re.Match[str]) -> str:
        if tag[0] == "</g>":
            return tag[0] if stays.pop() else ""
        if tag[0] == "<g>" or (tag[0].startswith("<g ") and not tag[0].endswith("/>")):
            stays.append(tag[0] != "<g>")
            return tag[0] if stays[-1] else ""
        return tag[0]

    return _TAG.sub(keep_with_attributes, text)


def _join_marks(text: str) -> str:
    """Draw the marks of each curve, and the ticks of each axis, as one element."""
    defined: set[str] = set()

    def of_curve(curve: re.Match[str]) -> str:
        group, marks, look = curve.groups()
        # a group can carry the class that its marks have in common
        return f"{group}>{joined}" if (joined := draw_once(marks, look)) else f"{group}{look}>{marks.replace(look, '')}"

    def of_axis(axis: re.Match[str]) -> str:
        joined = draw_once(_LABEL.sub("", axis[0]), axis[2])
        return "".join((joined, *_LABEL.findall(axis[0]))) if joined else axis[0]

    def draw_once(marks: str, look: str) -> str | None:
        """Return equal marks of one class at the corners of an invisible line; None where they are not equal."""
        marks = marks.replace(look, "")
        at = _MARK_AT.findall(marks)
        if _MARK_AT.sub("", marks).strip() or len({mark for mark, _, _ in at}) != 1:
            return None
        mark = at[0][0]
        name = f"{mark}{look[8:-1]}"
        corners = shorten_path("M" + "L".join(f"{x} {y} " for _, x, y in at))
        marker = (
            f'<marker id="{name}"{look} markerUnits="userSpaceOnUse" overflow="visible"><use href="#{mark}"/></marker>'
        )
        once = marker if name not in defined else ""
        defined.add(name)
        return f'{once}<path d="{corners}" style="fill: none; stroke: none; marker: url(#{name})"/>'

    return _TICKS.sub(of_axis, _MARKS.sub(of_curve, text))


def _share_styles(text: str, name: str) -> str:
    """Replace styles that several elements share by classes of this picture alone."""
    counts = Counter(look for tag in _TAG.findall(text) if not _ID.search(tag) for look in _STYLE.findall(tag))
    shared = {look: f"c{number}" for number, look in enumerate(look for look, times in counts.items() if times > 1)}
    if not shared:
        return text
    rules = "".join(f"#{name}-p .{short}{{{look}}}" for look, short in shared.items())

    def classed(tag: re.Match[str]) -> str:
        look = _STYLE.search(tag[0])
        # A mark is drawn where it is used, so rules for the elements around its definition do not apply to it.
        if look is None or look[1] not in shared or " class=" in tag[0] or _ID.search(tag[0]):
            return tag[0]
        return f'{tag[0][: look.start()]} class="{shared[look[1]]}"{tag[0][look.end() :]}'

    end = text.index(">")
    return f'{text[:end]} id="{name}-p"><style>{rules}</style>{_TAG.sub(classed, text[end + 1 :])}'


def shorten_path(path: str) -> str:
    """Shorten a path: places to a hundredth of a point, relative where that takes fewer letters.

    Args:
        path: the ``d`` of an SVG path with absolute commands only: ``M``, ``L``, ``Q``, ``C`` and ``z``.
    """
    written, last_command = [], ""
    at = begin = (0, 0)
    for letter, operands in _COMMAND.findall(path):
        if letter == "z":
            written.append("z")
            at, last_command = begin, "z"
            continue
        numbers = [round_hundredths(number) for number in operands.split()]
        texts = {
            command: _write_command(command, values, last_command)
            for command, values in _list_commands(letter, numbers, at)
        }
        last_command = min(texts, key=lambda command: len(texts[command]))
        written.append(texts[last_command])
        at = (numbers[-2], numbers[-1])
        begin = at if letter == "M" else begin
    return "".join(written)


def round_hundredths(number: str) -> int:
    """Round a number to a whole number of hundredths."""
    return round(100 * float(number))


def write_brief(whole: int) -> str:
    """Write hundredths as a number without superfluous digits."""
    sign, size = "-" if whole < 0 else "", abs(whole)
    after = f".{size % 100:02d}".rstrip("0") if size % 100 else ""
    return f"{sign}{size // 100 or ('' if after else '0')}{after}"


def _list_commands(letter: str, numbers: list[int], at: tuple[int, int]) -> list[tuple[str, list[int]]]:
    """Return a command and its numbers in each form: relative to the pen, and absolute."""
    if letter == "M":
        return [(letter, numbers)]
    steps = [number - at[place % 2] for place, number in enumerate(numbers)]
    if letter == "L" and 0 in steps:
        along = 0 if steps[1] == 0 else 1
        return [("hv"[along], [steps[along]]), ("HV"[along], [numbers[along]])]
    return [(letter.lower(), steps), (letter, numbers)]


def _write_command(command: str, numbers: list[int], last_command: str) -> str:
    """Write numbers after their command, which is omitted where it repeats the last one."""
    texts = [write_brief(number) for number in numbers]
    # A minus sign separates a number from the last one without a blank.
    between = [text if text[0] == "-" else f" {text}" for text in texts]
    if command == last_command and command != "M":
        return "".join(between)
    return "".join((command, texts[0], *between[1:]))
