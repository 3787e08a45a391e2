"""Residual erasure: up to which depth the answer depends on each token's residual stream.

Source: csordas2025 (residual erasure).
"""

from typing import Final

from bathyscope.pages.figures.kind import Drawing, FigureKind
from bathyscope.pages.figures.kit.heat_map import Side
from bathyscope.pages.figures.kit.token_map import SHORT_BOUNDARY_LABEL, UNANSWERED, TokenGrid, make_token_panels
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run

_TITLES: Final = {"effect": "Erasing one token", "effect_future": "Erasing one token, all later positions"}
_LATER: Final = " All later positions: the same erasure, with its effect measured at every position after the token."


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """Draw maps of the first measured prompts in the same colours."""
    data = run["erasure"]
    quantity = f"change of the output\n(L2, 0 to √2, {options.scale})"
    rows = Side(SHORT_BOUNDARY_LABEL, "boundary")
    values_by_name = {
        name: TokenGrid(data[name], what, rows, quantity, "change of the output", options.scale)
        for name, what in _TITLES.items()
        if name in data
    }
    panels, remarks = make_token_panels(data, values_by_name, options, UNANSWERED)
    note = (
        "At one boundary the residual stream of one token is replaced by its mean over a reference set, and "
        "everything after it is recomputed. Colour: the largest change of the output probabilities (L2) where the "
        "answer is predicted; where a column fades, the token is no longer needed."
        f"{_LATER if 'effect_future' in values_by_name else ''} The last token predicts "
        "nothing that is measured and is not drawn. Colours are the same for all prompts. "
        f"A boundary is the input of the block of that index. {remarks}"
    )
    return Drawing(panels, note)


FIGURE: Final = FigureKind("erasure", "Residual erasure", tuple(_TITLES), _make_drawing)
