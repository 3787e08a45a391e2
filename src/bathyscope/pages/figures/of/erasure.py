"""Residual erasure: until which depth the answer depends on what each token's residual stream holds.

Source: csordas2025 (residual erasure).
"""

from typing import Final

from bathyscope.pages.figures.kind import Drawing, FigureKind
from bathyscope.pages.figures.kit.heat_map import Side
from bathyscope.pages.figures.kit.token_map import BOUNDARY_LABEL, UNANSWERED, Reading, token_panels
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run

_TITLES: Final = {"effect": "Erasing one token", "effect_future": "Erasing one token, all later positions"}
_LATER: Final = " All later positions: the same erasure, its effect measured at every position behind the token."


def _drawing(run: Run, options: FigureOptions) -> Drawing:
    """Maps of the first prompts that were measured, in the same colours."""
    data = run["erasure"]
    quantity = f"change of the output\n(L2, 0 to √2, {options.scale})"
    rows = Side(BOUNDARY_LABEL, "boundary")
    readings = {
        name: Reading(data[name], what, rows, quantity, "change of the output", options.scale)
        for name, what in _TITLES.items()
        if name in data
    }
    panels, said = token_panels(data, readings, options, UNANSWERED)
    note = (
        "At one boundary the residual stream of one token is replaced by its mean over a reference set, and "
        "everything after it recomputed. Colour: the largest change of the output probabilities (L2) where the answer "
        "is predicted; where a column fades, the token is no longer needed there."
        f"{_LATER if 'effect_future' in readings else ''} The last token predicts "
        "nothing that is measured and is not drawn. Colours are the same for all prompts. "
        f"A boundary is the input of the block of that index. {said}"
    )
    return Drawing(panels, note)


FIGURE: Final = FigureKind("erasure", "Residual erasure", tuple(_TITLES), _drawing)
