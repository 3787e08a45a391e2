"""Residual erasure: up to which depth the answer depends on each token's residual stream.

Source: csordas2025 (residual erasure).
"""

from typing import Final

import numpy as np
import xarray as xr

from bathyscope.pages.figures.by_dimensions import place_panels
from bathyscope.pages.figures.kind import Drawing, FigureKind
from bathyscope.pages.figures.kit.colours import choose_scale
from bathyscope.pages.figures.kit.heat_map import Side
from bathyscope.pages.figures.kit.token_map import (
    FIXED,
    SHORT_BOUNDARY_LABEL,
    UNANSWERED,
    TokenGrid,
    make_token_panels,
)
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run

_TITLES: Final = {"effect": "Erasing one token", "effect_future": "Erasing one token, all later positions"}
_PANELS: Final = {"effect": "prompt", "effect_future": "later"}
"""Names of panels, before the number of the prompt."""
_LATER: Final = " All later positions: the same erasure, with its effect measured at every position after the token."


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """Draw maps of the first measured prompts in the same colours."""
    data = run["erasure"]
    values = {name: _blank_fixed(data, name) for name in _TITLES if name in data}
    # One scale for both effects, so that their maps can be compared.
    scale = choose_scale(np.concatenate([np.ravel(effect) for effect in values.values()]), options.scale)
    quantity = f"change of the output (L2, 0 to √2, {scale})"
    depth = Side(SHORT_BOUNDARY_LABEL, "boundary")
    values_by_name = {
        name: TokenGrid(effect, _TITLES[name], depth, quantity, "change of the output", scale, _PANELS[name])
        for name, effect in values.items()
    }
    panels, remarks = make_token_panels(data, values_by_name, options, UNANSWERED)
    note = (
        "At one boundary the residual stream of one token is replaced by its mean over all tokens of the reference "
        "prompts (these prompts, unless others are given) at that boundary, and everything after it is recomputed. "
        "Colour: the largest change of the output probabilities (L2) where the answer is predicted; where a row fades, "
        "the token is no longer needed. Where the model never has a stream like that mean, part of the change may be "
        "due to its strangeness; patching puts another prompt's stream in."
        f"{_LATER if 'effect_future' in values else ''} {FIXED} The last token predicts "
        "nothing that is measured and is not drawn. Colours are the same for all prompts. "
        f"A boundary is the input of the block of that index. {remarks}"
    )
    panels += place_panels(data, ("effect_at", "effect_future_at"), options)
    return Drawing(panels, note)


def _blank_fixed(data: xr.Dataset, name: str) -> xr.DataArray:
    """Blank what the definition fixes at 0: behind the last boundary a token changes its own prediction alone."""
    values = data[name]
    at_end = values["boundary"] == values["boundary"].max()
    if name == "effect_future":
        return values.where(~at_end)
    if "answer_start" not in data:
        return values
    return values.where(~(at_end & (values["token"] < data["answer_start"] - 1)))


FIGURE: Final = FigureKind("erasure", "Residual erasure", tuple(_TITLES), _make_drawing)
