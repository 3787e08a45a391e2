"""Maps of depth against the tokens of one prompt, with the tokens' texts along the axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase

from bathyscope.report.figures.colours import Colours
from bathyscope.report.figures.heat_map import (
    LABELLED_TOKENS,
    HeatMap,
    Side,
    describe_largest,
    draw_colour_bar,
    draw_heat,
)
from bathyscope.report.figures.kind import Panel
from bathyscope.report.figures.token_text import visible

_TOKEN_INCHES: Final = 0.145
_FRAME_INCHES: Final = 1.9
_NARROWEST: Final = 4.6
_LETTER_INCHES: Final = 0.075
_AROUND_INCHES: Final = 0.6
_TITLE_INCHES: Final = 0.35
_SHORTEST, _TALLEST = 1.7, 4.0
_ROW_INCHES: Final = 0.08
_ID_LETTERS: Final = 40

TOKEN_LABEL: Final = "token (␣ space, ⏎ end of line)"
BOUNDARY_LABEL: Final = "boundary (index)"
BLOCK_LABEL: Final = "block (index)"
_MARKS: Final = "Triangles: tokens at which a token of the answer is predicted."


@dataclass(frozen=True)
class Reading:
    """How maps of tokens are read; all maps of a figure share it.

    Args:
        what: begins the title, e.g. ``"Erasing one token"``.
        rows: the side of the depth axis.
        quantity: of the colours, unit included.
        short: the quantity in a word or two.
    """

    what: str
    rows: Side
    quantity: str
    short: str


def measured_prompts(values: xr.DataArray) -> list[int]:
    """Indices of the prompts with any value."""
    other = [dim for dim in values.dims if dim != "prompt"]
    return np.flatnonzero(values.notnull().any(other).values).tolist()


def token_map(data: xr.Dataset, variable: str, depth: str, reading: Reading, colours: Colours) -> HeatMap:
    """The map of one prompt. Its last token is left out: no answer token is predicted from there on.

    Args:
        data: of one prompt, with the texts of its tokens (``piece``) and the answer's first token
            (``answer_start``) where the run tells them.
        variable: (depth, token) in either order, NaN beyond the prompt's end.
        depth: name of the other dimension.
    """
    values = data[variable].transpose(depth, "token")
    stop = int(data["n_tokens"]) - 1
    start = int(data["answer_start"]) if "answer_start" in data else -1
    pieces = tuple(visible(piece) for piece in _pieces(values)[:stop])
    prompt = str(values["prompt_id"].item())
    name = prompt if len(prompt) <= _ID_LETTERS else f"{prompt[: _ID_LETTERS - 1]}…"
    return HeatMap(
        values=np.asarray(values.values[:, :stop], dtype=np.float64),
        title=f"{reading.what}: prompt {name}",
        rows=reading.rows,
        columns=Side(TOKEN_LABEL, "token", pieces, tuple(range(max(start - 1, 0), stop)) if start >= 0 else ()),
        quantity=reading.quantity,
        short=reading.short,
        colours=colours,
        key=f"{reading.what}: {data['dataset'].item()}, prompt {prompt}",
    )


def token_panel(name: str, maps: Sequence[HeatMap]) -> Panel:
    """Maps of one prompt under each other, as wide as its tokens need; the lowest carries the tokens' texts."""
    return Panel(name, partial(_draw, maps=maps), " ".join(_alt(shown) for shown in maps), panel_size(maps))


def panel_size(
    maps: Sequence[HeatMap], frame: float = _FRAME_INCHES, narrowest: float = _NARROWEST
) -> tuple[float, float]:
    """Width and height in inches at which every labelled token and its text fit.

    Args:
        frame: width of what stands beside the maps.
        narrowest: width that no panel goes below.
    """
    pieces = maps[0].columns.pieces or ()
    width = frame + _TOKEN_INCHES * min(len(pieces), LABELLED_TOKENS)
    height = min(max(_ROW_INCHES * len(maps[0].values), _SHORTEST), _TALLEST) + _TITLE_INCHES
    letters = max((len(piece) for piece in pieces), default=0)
    return max(width, narrowest), len(maps) * height + _LETTER_INCHES * letters + _AROUND_INCHES


def token_panels(maps: Mapping[str, HeatMap]) -> list[Panel]:
    """One panel a prompt.

    Args:
        maps: by ``<what>_<number of the prompt>``, what belongs to one prompt together.
    """
    by_prompt = {
        _prompt(name): [shown for other, shown in maps.items() if _prompt(other) == _prompt(name)] for name in maps
    }
    return [token_panel(f"prompt_{prompt}", own) for prompt, own in by_prompt.items()]


def describe_maps(maps: Mapping[str, HeatMap], measured: Sequence[int], prompts: int) -> str:
    """The sentences of the caption on marks, prompts left out and labels left out.

    Args:
        maps: as for ``token_panels``.
        measured: numbers of the prompts that have values.
        prompts: how many there are in the run.
    """
    said = []
    shown = len({_prompt(name) for name in maps})
    if any(one.columns.marked for one in maps.values()):
        said.append(_MARKS)
    if len(measured) < prompts:
        said.append(f"{len(measured)} of {prompts} prompts were measured; the others have no answer or are too long.")
    if shown < len(measured):
        said.append(f"Shown: the first {shown} of these prompts; {len(measured) - shown} more in the run.")
    if any(len(one.columns.pieces or ()) > LABELLED_TOKENS for one in maps.values()):
        said.append(f"In prompts of more than {LABELLED_TOKENS} tokens not every token is labelled.")
    return " ".join(said)


def _prompt(name: str) -> str:
    return name.rpartition("_")[2]


def _pieces(values: xr.DataArray) -> list[str]:
    if "piece" in values.coords:
        return [str(piece) for piece in values["piece"].values]
    return [str(token) for token in values["token"].values]


def _draw(figure: FigureBase, maps: Sequence[HeatMap]) -> None:
    grid = figure.subplots(len(maps), 1, squeeze=False, sharex=True)
    for ax, shown in zip(grid.flat, maps):
        image = draw_heat(ax, shown)
        ax.label_outer()
        draw_colour_bar(figure, image, [shown], [ax], "right")


def _alt(shown: HeatMap) -> str:
    rows, columns = shown.values.shape
    text = " ".join(shown.columns.pieces or ())
    return (
        f"Heat map of {rows} places in depth by {columns} tokens. {shown.title}, {shown.short}: "
        f"{describe_largest(shown)}. Tokens: {text}"
    )
