"""Residual erasure: until which depth the answer depends on what each token's residual stream holds.

Source: csordas2025 (residual erasure).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bathyscope.report.figures.colours import Colours
from bathyscope.report.figures.heat_map import HeatMap, Side
from bathyscope.report.figures.kind import FigureKind, Panel
from bathyscope.report.figures.options import FigureOptions
from bathyscope.report.figures.token_map import (
    BOUNDARY_LABEL,
    Reading,
    describe_maps,
    measured_prompts,
    token_map,
    token_panels,
)

if TYPE_CHECKING:
    from bathyscope.store.run import Run

_TITLES: Final = {"effect": "Erasing one token", "effect_future": "Erasing one token, all later positions"}


def maps(run: Run, options: FigureOptions) -> dict[str, HeatMap]:
    """Maps of the first prompts that were measured, in the same colours, by panel name."""
    data = run["erasure"]
    there = [name for name in _TITLES if name in data]
    colours = {name: Colours.spanning(np.asarray(data[name]), options.scale, clips=False) for name in there}
    return {
        f"{name}_{prompt}": token_map(
            data.isel(prompt=prompt), name, "boundary", _reading(name, options), colours[name]
        )
        for prompt in measured_prompts(data[there[0]])[: options.prompts_shown]
        for name in there
    }


def panels(run: Run, options: FigureOptions) -> list[Panel]:
    """The maps of each prompt shown."""
    return token_panels(maps(run, options))


def _reading(name: str, options: FigureOptions) -> Reading:
    return Reading(
        _TITLES[name],
        Side(BOUNDARY_LABEL, "boundary"),
        f"change of the output\n(L2, 0 to √2, {options.scale})",
        "change of the output",
    )


def note(run: Run, options: FigureOptions) -> str:
    """What is erased and measured, and which prompts are shown."""
    data, shown = run["erasure"], maps(run, options)
    first = next(name for name in _TITLES if name in data)
    later = (
        " All later positions: the same erasure, its effect measured at every position behind the token."
        if "effect_future" in data
        else ""
    )
    return (
        "At one boundary the residual stream of one token is replaced by its mean over a reference set, and "
        "everything after it recomputed. Colour: the largest change of the output probabilities (L2) where the answer "
        f"is predicted; where a column fades, the token is no longer needed there.{later} The last token predicts "
        "nothing that is measured and is not drawn. Colours are the same for all prompts. "
        "A boundary is the input of the block of that index. "
        + describe_maps(shown, measured_prompts(data[first]), data.sizes["prompt"])
    )


FIGURE: Final = FigureKind(
    name="erasure",
    measure="erasure",
    heading="Residual erasure",
    needs=tuple(_TITLES),
    panels=panels,
    note=note,
    maps=maps,
)
draw, caption = FIGURE.draw, FIGURE.caption
