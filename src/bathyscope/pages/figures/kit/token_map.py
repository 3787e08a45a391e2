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
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.colours import Colours, Kind
from bathyscope.pages.figures.kit.heat_map import (
    LABELLED_TOKENS,
    HeatMap,
    Side,
    describe_largest,
    draw_colour_bar,
    draw_heat,
    measure_token_maps,
)
from bathyscope.pages.figures.kit.multiples import share_map
from bathyscope.pages.figures.kit.texts import fit_line, measure_text
from bathyscope.pages.figures.options import FigureOptions

_ID_LETTERS: Final = 40
_LEFT_INCHES: Final = 0.6
"""Width left of the map, where its title begins."""

TOKEN_LABEL: Final = "token (␣ space, ⏎ end of line)"
SHORT_BOUNDARY_LABEL: Final = "boundary (index)"
SHORT_BLOCK_LABEL: Final = "block (index)"
UNANSWERED: Final = "have no answer or are too long"
_MARKS: Final = "Triangles: tokens at which a token of the answer is predicted."


@dataclass(frozen=True)
class TokenGrid:
    """One quantity for every token and depth, and how its maps are read.

    Args:
        values: (prompt, depth, token) in any order, NaN for unmeasured prompts and beyond a prompt's end.
        what: begins the title, e.g. ``"Erasing one token"``.
        quantity: what colours mean, with the unit; their range is that of all prompts; ``short`` in a word or two.
    """

    values: xr.DataArray
    what: str
    rows: Side
    quantity: str
    short: str
    colours: Kind


def make_token_panels(
    data: xr.Dataset, values_by_name: Mapping[str, TokenGrid], options: FigureOptions, others: str, last: bool = False
) -> tuple[list[Panel], str]:
    """Return a panel for each of the first measured prompts, and what the caption says of them.

    The maps of one prompt stand under each other. The sentences tell of marks, and of prompts and labels left out.

    Args:
        data: has the lengths of prompts and, if the run stores them, texts of tokens (``piece``) and the start of the
            answer (``answer_start``).
        values_by_name: one map of each prompt for each of them, under this name.
        others: ends the sentence on unmeasured prompts: "the others …".
        last: also draw the last token, which predicts no token of an answer.
    """
    if not values_by_name:
        return [], ""
    colours = {
        name: Colours.spanning(np.asarray(token_values.values), token_values.colours, clips=False)
        for name, token_values in values_by_name.items()
    }
    has_values = {
        name: token_values.values.notnull().any(set(token_values.values.dims) - {"prompt"}).values
        for name, token_values in values_by_name.items()
    }
    measured = np.flatnonzero(np.any(list(has_values.values()), axis=0))
    panels: list[Panel] = []
    drawn_maps: list[HeatMap] = []
    for prompt in measured[: options.prompts_shown]:
        prompt_data = data.isel(prompt=prompt)
        maps = {
            f"{name}_{prompt}": _make_map(prompt_data, token_values, colours[name], int(prompt), last)
            for name, token_values in values_by_name.items()
            if has_values[name][prompt]
        }
        panels.append(_make_panel(f"prompt_{prompt}", maps))
        drawn_maps += maps.values()
    return panels, _write_remarks(drawn_maps, len(panels), len(measured), data.sizes["prompt"], others)


def _make_map(prompt_data: xr.Dataset, token_values: TokenGrid, colours: Colours, prompt: int, last: bool) -> HeatMap:
    values = token_values.values.isel(prompt=prompt).transpose(..., "token")
    # Prompts are padded to a common length; the map ends where the prompt does.
    stop = int(prompt_data["n_tokens"]) - (not last)
    start = int(prompt_data["answer_start"]) if "answer_start" in prompt_data else -1
    named = values["piece"] if "piece" in values.coords else values["token"]
    name = str(prompt_data["prompt_id"].item())
    return HeatMap(
        values=np.asarray(values.values[:, :stop], dtype=np.float64),
        title=f"{token_values.what}: prompt {elided(name, _ID_LETTERS)}",
        rows=token_values.rows,
        columns=Side(
            TOKEN_LABEL,
            "token",
            tuple(visible(str(piece)) for piece in named.values[:stop]),
            # A token is predicted one place before it stands, so marks begin before the answer.
            tuple(range(max(start - 1, 0), stop)) if start >= 0 else (),
        ),
        quantity=token_values.quantity,
        short=token_values.short,
        colours=colours,
        key=f"{token_values.what}: {prompt_data['dataset'].item() if 'dataset' in prompt_data else ''}, prompt {name}",
    )


def _make_panel(name: str, maps: Mapping[str, HeatMap]) -> Panel:
    """Stack the maps of one prompt, as wide as its tokens need; the lowest has the tokens' texts."""
    heats = list(maps.values())
    shared = tuple(share_map(map_name, heat) for map_name, heat in maps.items())
    width, height = measure_token_maps(heats)
    titles = [_fit_title(heat.title, width) for heat in heats]
    size = (width, height + style.LINE_INCHES * sum(title.count("\n") for title in titles))
    titled = [replace(heat, title=title) for heat, title in zip(heats, titles)]
    return Panel(name, partial(_draw_maps, maps=titled), " ".join(map(_describe_map, heats)), size, shared)


def _fit_title(title: str, width: float) -> str:
    """Fit a title into the panel's width: where needed, the prompt gets its own line and is cut."""
    room = width - _LEFT_INCHES
    what, _, name = title.rpartition(": prompt ")
    if measure_text(title, style.TITLE_POINTS) <= room:
        return title
    return "\n".join(fit_line(line, room, style.TITLE_POINTS) for line in (what, f"prompt {name}") if line)


def _write_remarks(maps: Sequence[HeatMap], n_shown: int, measured: int, prompts: int, others: str) -> str:
    sentences = []
    if any(heat.columns.marked for heat in maps):
        sentences.append(_MARKS)
    if measured < prompts:
        sentences.append(f"{measured} of {prompts} prompts were measured; the others {others}.")
    if n_shown < measured:
        sentences.append(f"Shown: the first {n_shown} of these prompts; {measured - n_shown} more in the run.")
    if any(len(heat.columns.pieces or ()) > LABELLED_TOKENS for heat in maps):
        sentences.append(f"In prompts of more than {LABELLED_TOKENS} tokens not every token is labelled.")
    return " ".join(sentences)


def _draw_maps(figure: FigureBase, maps: Sequence[HeatMap]) -> None:
    grid = figure.subplots(len(maps), 1, squeeze=False, sharex=True)
    for ax, heat in zip(grid.flat, maps):
        image = draw_heat(ax, heat)
        ax.label_outer()
        # Hidden labels would still take room: token texts are long, and stand upright.
        ax.xaxis.set_visible(ax is grid.flat[-1])
        draw_colour_bar(figure, image, [heat], [ax], "right")


def _describe_map(heat: HeatMap) -> str:
    rows, columns = heat.values.shape
    text = " ".join(heat.columns.pieces or ())
    return (
        f"Heat map of {rows} places in depth by {columns} tokens. {heat.title}, {heat.short}: "
        f"{describe_largest(heat)}. Tokens: {text}"
    )
