"""Direct effects: how a block's contribution changes each later block, with everything between them unchanged.

Source: csordas2025 (local effects).
"""

from typing import Final

from bathyscope.pages.figures.kind import Drawing, FigureKind
from bathyscope.pages.figures.kit.block_effects import REACHES, Effects, drawing
from bathyscope.pages.figures.kit.texts import name_place
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run

_WHAT: Final = (
    "One block's contribution is removed from the input of one later block, and nothing else changes: only the "
    "direct effect between the two is measured. Colour: how much the later block's contribution "
    "changes, relative to its norm. Effect on later tokens: removed before a position, and measured from "
    "this position. Grey: fixed by the definition (0 for earlier blocks and the block itself)."
)


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """Draw a map over all prompts for each reach, and maps of single prompts."""
    data = run["direct"].sel(reduction=options.reduction)
    effects = {
        reach: Effects(data[f"effect_{reach}"], None, f"Direct effect on {tokens}", own_measured=False)
        for reach, tokens in REACHES.items()
        if f"effect_{reach}" in data
    }
    for number, place in enumerate(data["place"].values if "place" in data.dims else ()):
        title = f"Direct effect from {name_place(place)} on"
        effects[f"place_{number}"] = Effects(data["effect_at"].isel(place=number), None, title, own_measured=False)
    return drawing(_WHAT, effects, options)


FIGURE: Final = FigureKind("direct", "Direct effects", ("effect_all", "effect_future"), _make_drawing)
