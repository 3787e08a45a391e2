"""Direct effects: what a block's contribution does to each later block alone, everything between them unchanged.

Source: csordas2025 (local effects).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bathyscope.report.figures.block_effects import REACHES, Effects, describe, effect_map, present
from bathyscope.report.figures.block_effects import panels as effect_panels
from bathyscope.report.figures.heat_map import HeatMap
from bathyscope.report.figures.kind import FigureKind, Panel
from bathyscope.report.figures.options import FigureOptions

if TYPE_CHECKING:
    from bathyscope.store.run import Run


def effects(run: Run, options: FigureOptions) -> dict[str, Effects]:
    """The reaches that have a value, by panel name."""
    data = run["direct"]
    made = {
        reach: Effects(data[f"effect_{reach}"], None, f"Direct effect on {tokens}", own_measured=False)
        for reach, tokens in REACHES.items()
        if f"effect_{reach}" in data
    }
    return present(made, options)


def maps(run: Run, options: FigureOptions) -> dict[str, HeatMap]:
    """The maps over all prompts, by panel name."""
    return {name: effect_map(one, options).heat for name, one in effects(run, options).items()}


def panels(run: Run, options: FigureOptions) -> list[Panel]:
    """For each reach a map over all prompts, and maps of single prompts."""
    return effect_panels(effects(run, options), options)


def note(run: Run, options: FigureOptions) -> str:
    """What is taken away, what is blank, which prompts could be used, and what was clipped."""
    what = (
        "One block's contribution is taken out of the input of one later block, and nothing else changes, so that "
        "only what passes between the two directly is seen. Colour: how much the later block's contribution "
        "changes, relative to its norm. Effect on later tokens: taken out before a position, and measured from "
        "there on. Grey: fixed by the definition (0 for earlier blocks and the block itself)."
    )
    return describe(what, effects(run, options), options)


FIGURE: Final = FigureKind(
    name="direct",
    measure="direct",
    heading="Direct effects",
    needs=("effect_all", "effect_future"),
    panels=panels,
    note=note,
    maps=maps,
)
draw, caption = FIGURE.draw, FIGURE.caption
