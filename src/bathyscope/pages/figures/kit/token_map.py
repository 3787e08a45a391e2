"""Maps of the tokens of one prompt against depth: a row for each token, with its words on the left."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import add
from typing import Final

import numpy as np
import xarray as xr
from matplotlib.figure import FigureBase

from bathyscope.core.text import elided, visible
from bathyscope.pages.figures.kind import Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.axes import head_figure
from bathyscope.pages.figures.kit.colours import Colours, Kind
from bathyscope.pages.figures.kit.heat_map import (
    LABELLED_TOKENS,
    HeatMap,
    Side,
    describe_largest,
    draw_colour_bar,
    draw_heat,
    measure_token_map,
)
from bathyscope.pages.figures.kit.multiples import share_map
from bathyscope.pages.figures.kit.texts import fit_line, measure_text, name_place
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.named_places import place_names

_ID_LETTERS: Final = 40
_LEFT_INCHES: Final = 0.2
"""Width that a title leaves free."""

TOKEN_LABEL: Final = "token (␣ space, ⏎ end of line)"
SHORT_BOUNDARY_LABEL: Final = "boundary (index)"
SHORT_BLOCK_LABEL: Final = "block (index)"
UNANSWERED: Final = "have no answer or are too long"
FIXED: Final = "Grey: fixed by the definition (nothing after the last boundary reads another token)."
_MARKS: Final = "Triangles: tokens at which a token of the answer is predicted."


@dataclass(frozen=True)
class TokenGrid:
    """One quantity for every token and depth, and how its maps are read.

    Args:
        values: (prompt, depth, token) in any order, NaN for unmeasured prompts, beyond a prompt's end, and where the
            definition fixes the value.
        what: begins the title, e.g. ``"Erasing one token"``.
        depth: the side of the map along the depth.
        quantity: what colours mean, with the unit; their range is that of all prompts and of all grids with the same
            quantity; ``short`` in a word or two.
        panel: begins the names of its panels, before the number of the prompt.
    """

    values: xr.DataArray
    what: str
    depth: Side
    quantity: str
    short: str
    colours: Kind
    panel: str = "prompt"


def make_token_panels(
    data: xr.Dataset, values_by_name: Mapping[str, TokenGrid], options: FigureOptions, others: str, last: bool = False
) -> tuple[list[Panel], str]:
    """Return a map for each of the first measured prompts, and what the caption says of them.

    Panels are named by their quantity, such as ``mlp_1``, ``mlp_2`` …. The sentences tell of marks, and of prompts
    and labels left out.

    Args:
        data: has the lengths of prompts and, if the run stores them, texts of tokens (``piece``) and the start of the
            answer (``answer_start``).
        values_by_name: one map of each prompt for each of them, under this name.
        others: ends the sentence on unmeasured prompts: "the others …".
        last: also draw the last token, which predicts no token of an answer.
    """
    if not values_by_name:
        return [], ""
    colours = _choose_colours(values_by_name)
    has_values = {
        name: token_values.values.notnull().any(set(token_values.values.dims) - {"prompt"}).values
        for name, token_values in values_by_name.items()
    }
    measured = np.flatnonzero(np.any(list(has_values.values()), axis=0))
    panels: list[Panel] = []
    for name, token_values in values_by_name.items():
        for prompt in measured[: options.prompts_shown]:
            if has_values[name][prompt]:
                heat = _make_map(data.isel(prompt=prompt), token_values, colours[name], int(prompt), last)
                panels.append(_make_panel(f"{token_values.panel}_{prompt}", f"{name}_{prompt}", heat))
    maps = [panel.shared[0].content for panel in panels]
    n_shown = min(len(measured), options.prompts_shown)
    counts = f"{len(measured)} of {data.sizes['prompt']} prompts"
    # A map holds places of a single token. Prompts with longer ones were measured, and have no map.
    left_out = (
        f"{counts} have maps; the others {others}, or have no place of a single token."
        if "place_start" in data
        else f"{counts} were measured; the others {others}."
    )
    if len(measured) == data.sizes["prompt"]:
        left_out = ""
    return panels, _write_remarks(maps, n_shown, len(measured), left_out)


def _choose_colours(values_by_name: Mapping[str, TokenGrid]) -> dict[str, Colours]:
    """Return the colours of each quantity: one range for all grids that show the same, and for all prompts."""
    by_quantity: dict[tuple[str, Kind], list[np.ndarray]] = {}
    for grid in values_by_name.values():
        by_quantity.setdefault((grid.quantity, grid.colours), []).append(np.asarray(grid.values.values).ravel())
    ranges = {key: Colours.spanning(np.concatenate(values), key[1], clips=False) for key, values in by_quantity.items()}
    return {name: ranges[grid.quantity, grid.colours] for name, grid in values_by_name.items()}


def _make_map(prompt_data: xr.Dataset, token_values: TokenGrid, colours: Colours, prompt: int, last: bool) -> HeatMap:
    values = token_values.values.isel(prompt=prompt).transpose("token", ...)
    # Prompts are padded to a common length; the map ends where the prompt does.
    stop = int(prompt_data["n_tokens"]) - (not last)
    start = int(prompt_data["answer_start"]) if "answer_start" in prompt_data else -1
    named = values["piece"] if "piece" in values.coords else values["token"]
    name = str(prompt_data["prompt_id"].item())
    return HeatMap(
        values=np.asarray(values.values[:stop], dtype=np.float64),
        title=f"{token_values.what}: prompt {elided(name, _ID_LETTERS)}",
        rows=Side(
            TOKEN_LABEL,
            "token",
            tuple(map(add, (visible(str(piece)) for piece in named.values[:stop]), _name_tokens(prompt_data, stop))),
            # A token is predicted one place before it stands, so marks begin before the answer.
            tuple(range(max(start - 1, 0), stop)) if start >= 0 else (),
        ),
        columns=token_values.depth,
        quantity=token_values.quantity,
        short=token_values.short,
        colours=colours,
        key=f"{token_values.what}: {prompt_data['dataset'].item() if 'dataset' in prompt_data else ''}, prompt {name}",
    )


def _name_tokens(prompt_data: xr.Dataset, stop: int) -> list[str]:
    """Return what is put behind the text of each of a prompt's first tokens: the names of the places that it is of."""
    names = place_names(prompt_data)
    return ["".join(f" {name_place(name)}" for name in names.get(token, ())) for token in range(stop)]


def _make_panel(name: str, shared_name: str, heat: HeatMap) -> Panel:
    """Make a panel of one prompt's map, as high as its tokens need."""
    width, height = measure_token_map(heat)
    title = _fit_title(heat.title, width)
    size = (width, height + style.LINE_INCHES * title.count("\n"))
    draw = partial(_draw_map, heat=replace(heat, title=title))
    cut = partial(_cut_panel, name=name, shared_name=shared_name, heat=heat)
    return Panel(name, draw, _describe_map(heat), size, (share_map(shared_name, heat),), cut=cut)


def _cut_panel(blocks: range, name: str, shared_name: str, heat: HeatMap) -> Panel | None:
    cut = heat.cut(blocks)
    return None if cut is None else _make_panel(name, shared_name, cut)


def _fit_title(title: str, width: float) -> str:
    """Fit a title into the panel's width: where needed, the prompt gets its own line and is cut."""
    room = width - _LEFT_INCHES
    what, _, name = title.rpartition(": prompt ")
    if measure_text(title, style.TITLE_POINTS) <= room:
        return title
    return "\n".join(fit_line(line, room, style.TITLE_POINTS) for line in (what, f"prompt {name}") if line)


def _write_remarks(maps: Sequence[HeatMap], n_shown: int, measured: int, left_out: str) -> str:
    sentences = []
    if any(heat.rows.marked for heat in maps):
        sentences.append(_MARKS)
    if left_out:
        sentences.append(left_out)
    if n_shown < measured:
        sentences.append(f"Shown: the first {n_shown} of these prompts; {measured - n_shown} more in the run.")
    if any(len(heat.rows.pieces or ()) > LABELLED_TOKENS for heat in maps):
        sentences.append(f"In prompts of more than {LABELLED_TOKENS} tokens not every token is labelled.")
    return " ".join(sentences)


def _draw_map(figure: FigureBase, heat: HeatMap) -> None:
    ax = figure.subplots()
    image = draw_heat(ax, heat)
    # The title begins at the figure's edge, because words of tokens may take half of its width.
    ax.set_title("")
    head_figure(figure, heat.title)
    draw_colour_bar(figure, image, [heat], [ax])


def _describe_map(heat: HeatMap) -> str:
    rows, columns = heat.values.shape
    text = " ".join(heat.rows.pieces or ())
    return (
        f"Heat map of {rows} tokens by {columns} places in depth. {heat.title}, {heat.short}: "
        f"{describe_largest(heat)}. Tokens: {text}"
    )
