"""A panel as SVG inside a page: small, with ids that no other picture uses and colours that the page may change."""

import gc
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from bathyscope.report import paths
from bathyscope.report.figures import style
from bathyscope.report.figures.heat_map import SIGNED
from bathyscope.report.figures.kind import Panel, draw_panel
from bathyscope.report.render import render

# This style element would reach beyond its own picture; the page's style sheet has the same rule.
_UNWANTED: Final = re.compile(r"<metadata>.*?</metadata>\s*|<style .*?</style>\s*", re.DOTALL)
_TAG: Final = re.compile(r"<[^>]*>")
_ID: Final = re.compile(r' id="([^"]+)"')
_REFERENCE: Final = re.compile(r'(url\(#|href="#)([^")]+)')
_PATH: Final = re.compile(r' d="([^"]*)"')
_PLACES: Final = re.compile(r' (?:x|y|width|height|transform)="[^"]*"')
_DECIMAL: Final = re.compile(r"-?\d+\.\d+")
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
    tag = _PATH.sub(lambda path: f' d="{paths.shortened(path[1])}"', _NOTHING.sub("", tag))
    return _PLACES.sub(lambda places: _DECIMAL.sub(_to_hundredths, places[0]), tag)


def _to_hundredths(number: re.Match[str]) -> str:
    return paths.brief(paths.hundredths(number[0]))


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
