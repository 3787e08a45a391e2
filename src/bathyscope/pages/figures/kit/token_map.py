"""Maps of depth against the tokens of one prompt, with the tokens' texts along the axis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase

from bathyscope.core.text import elided, visible
from bathyscope.pages.figures.kind import Panel
from bathyscope.pages.figures.kit.colours import Colours, Kind
from bathyscope.pages.figures.kit.heat_map import (
    LABELLED_TOKENS,
    HeatMap,
    Side,
    describe_largest,
    draw_colour_bar,
    draw_heat,
    tokens_size,
)
from bathyscope.pages.figures.kit.multiples import share
from bathyscope.pages.figures.kit.texts import fitted, inches
from bathyscope.pages.figures.options import FigureOptions

_ID_LETTERS: Final = 40
_TITLE_POINTS: Final = 9.5
_LEFT_INCHES: Final = 0.6
"""Of what stands beside a title's map."""
_LINE_INCHES: Final = 0.16

TOKEN_LABEL: Final = "token (␣ space, ⏎ end of line)"
BOUNDARY_LABEL: Final = "boundary (index)"
BLOCK_LABEL: Final = "block (index)"
UNANSWERED: Final = "have no answer or are too long"
_MARKS: Final = "Triangles: tokens at which a token of the answer is predicted."


@dataclass(frozen=True)
class Reading:
    """One quantity for every token and depth, and how its maps are read.

    Args:
        values: (prompt, depth, token) in any order, NaN where a prompt was not measured and beyond its end.
        what: begins the title, e.g. ``"Erasing one token"``.
        quantity: of the colours, whose range is that of all prompts, unit included; ``short`` in a word or two.
    """

    values: xr.DataArray
    what: str
    rows: Side
    quantity: str
    short: str
    colours: Kind


def token_panels(
    data: xr.Dataset, readings: Mapping[str, Reading], options: FigureOptions, others: str, last: bool = False
) -> tuple[list[Panel], str]:
    """A panel for each of the first prompts that were measured, the readings under each other; and the sentences of
    the caption on marks, prompts left out and labels left out.

    Args:
        data: holds lengths of prompts, and where the run tells them the texts of tokens (``piece``) and where the
            answer begins (``answer_start``).
        readings: by name.
        others: what is so of the prompts that were not measured.
        last: draw the last token too, from which no token of an answer is predicted.
    """
    if not readings:
        return [], ""
    colours = {
        name: Colours.spanning(np.asarray(one.values), one.colours, clips=False) for name, one in readings.items()
    }
    there = {name: one.values.notnull().any(set(one.values.dims) - {"prompt"}).values for name, one in readings.items()}
    measured = np.flatnonzero(np.any(list(there.values()), axis=0))
    panels: list[Panel] = []
    shown: list[HeatMap] = []
    for prompt in measured[: options.prompts_shown]:
        own = data.isel(prompt=prompt)
        maps = {
            f"{name}_{prompt}": _map(own, one, colours[name], int(prompt), last)
            for name, one in readings.items()
            if there[name][prompt]
        }
        panels.append(_panel(f"prompt_{prompt}", maps))
        shown += maps.values()
    return panels, _describe(shown, len(panels), len(measured), data.sizes["prompt"], others)


def _map(own: xr.Dataset, reading: Reading, colours: Colours, prompt: int, last: bool) -> HeatMap:
    values = reading.values.isel(prompt=prompt).transpose(..., "token")
    stop = int(own["n_tokens"]) - (not last)
    start = int(own["answer_start"]) if "answer_start" in own else -1
    named = values["piece"] if "piece" in values.coords else values["token"]
    name = str(own["prompt_id"].item())
    return HeatMap(
        values=np.asarray(values.values[:, :stop], dtype=np.float64),
        title=f"{reading.what}: prompt {elided(name, _ID_LETTERS)}",
        rows=reading.rows,
        columns=Side(
            TOKEN_LABEL,
            "token",
            tuple(visible(str(piece)) for piece in named.values[:stop]),
            tuple(range(max(start - 1, 0), stop)) if start >= 0 else (),
        ),
        quantity=reading.quantity,
        short=reading.short,
        colours=colours,
        key=f"{reading.what}: {own['dataset'].item() if 'dataset' in own else ''}, prompt {name}",
    )


def _panel(name: str, maps: Mapping[str, HeatMap]) -> Panel:
    """Maps of one prompt under each other, as wide as its tokens need; the lowest carries the tokens' texts."""
    shown = list(maps.values())
    shared = tuple(share(own, one) for own, one in maps.items())
    width, height = tokens_size(shown)
    titles = [_lines(one.title, width) for one in shown]
    size = (width, height + _LINE_INCHES * sum(title.count("\n") for title in titles))
    drawn = [replace(one, title=title) for one, title in zip(shown, titles)]
    return Panel(name, partial(_draw, maps=drawn), " ".join(map(_alt, shown)), size, shared)


def _lines(title: str, width: float) -> str:
    """A title that a panel of this width has room for; where needed, the prompt has a line of its own and is cut."""
    room = width - _LEFT_INCHES
    what, _, name = title.rpartition(": prompt ")
    if inches(title, _TITLE_POINTS) <= room:
        return title
    return "\n".join(fitted(line, room, _TITLE_POINTS) for line in (what, f"prompt {name}") if line)


def _describe(maps: Sequence[HeatMap], shown: int, measured: int, prompts: int, others: str) -> str:
    said = []
    if any(one.columns.marked for one in maps):
        said.append(_MARKS)
    if measured < prompts:
        said.append(f"{measured} of {prompts} prompts were measured; the others {others}.")
    if shown < measured:
        said.append(f"Shown: the first {shown} of these prompts; {measured - shown} more in the run.")
    if any(len(one.columns.pieces or ()) > LABELLED_TOKENS for one in maps):
        said.append(f"In prompts of more than {LABELLED_TOKENS} tokens not every token is labelled.")
    return " ".join(said)


def _draw(figure: FigureBase, maps: Sequence[HeatMap]) -> None:
    grid = figure.subplots(len(maps), 1, squeeze=False, sharex=True)
    for ax, shown in zip(grid.flat, maps):
        image = draw_heat(ax, shown)
        ax.label_outer()
        ax.xaxis.set_visible(ax is grid.flat[-1])
        draw_colour_bar(figure, image, [shown], [ax], "right")


def _alt(shown: HeatMap) -> str:
    rows, columns = shown.values.shape
    text = " ".join(shown.columns.pieces or ())
    return (
        f"Heat map of {rows} places in depth by {columns} tokens. {shown.title}, {shown.short}: "
        f"{describe_largest(shown)}. Tokens: {text}"
    )
