"""Skip effects: maps of skipped against affected block, with the change of the output alongside.

Source: csordas2025 (effects on all tokens, and on later tokens only).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bathyscope.report.figures.block_effects import REACHES, Effects, describe, effect_map, present
from bathyscope.report.figures.block_effects import panels as effect_panels
from bathyscope.report.figures.heat_map import HeatMap
from bathyscope.report.figures.kind import FigureKind, Panel
from bathyscope.report.figures.options import FigureOptions
from bathyscope.report.provenance import measure_options

if TYPE_CHECKING:
    from bathyscope.store.run import Run


def effects(run: Run, options: FigureOptions) -> dict[str, Effects]:
    """Every kind of effect that has a value, by panel name: the reach, after the part where several were skipped.

    The effect on the skipped block itself is fixed where all of its contribution goes (1), and at later tokens,
    which skip nothing (0).
    """
    data = run["skip"]
    parts = [str(part) for part in data["part"].values]
    # skipped channels reach every token, and so the block itself, at later tokens too
    channels = measure_options(run, "skip").get("axis") == "channels"
    made = {}
    for part in parts:
        for reach in REACHES:
            if f"effect_{reach}" not in data:
                continue
            chosen = data.sel(part=part)
            output = f"output_{reach}"
            made[reach if len(parts) == 1 else f"{part}_{reach}"] = Effects(
                effect=chosen[f"effect_{reach}"],
                output=chosen[output] if output in data else None,
                title=f"Skipping one {_part_name(part)}: effect on {REACHES[reach]}",
                own_measured=channels if reach == "future" else part != "block",
            )
    return present(made, options)


def maps(run: Run, options: FigureOptions) -> dict[str, HeatMap]:
    """The maps over all prompts, by panel name."""
    return {name: effect_map(one, options).heat for name, one in effects(run, options).items()}


def panels(run: Run, options: FigureOptions) -> list[Panel]:
    """For each skipped part and each reach a map over all prompts, and maps of single prompts."""
    return effect_panels(effects(run, options), options)


def note(run: Run, options: FigureOptions) -> str:
    """What is skipped, what is blank, which prompts could be used, and what was clipped."""
    what = (
        "One block at a time is skipped, and everything after it recomputed. Colour: how much a later "
        "block's contribution changes, relative to its norm; bars: how far the output probabilities move "
        "(L2, at most √2). Effect on later tokens: the block is skipped before a position, and measured from "
        "there on. Grey: fixed by the definition (0 for earlier blocks; the skipped block itself)."
    )
    return describe(what, effects(run, options), options)


def _part_name(part: str) -> str:
    return {"block": "block", "attention": "block's attention", "mlp": "block's MLP"}.get(part, part)


FIGURE: Final = FigureKind(
    name="skip",
    measure="skip",
    heading="Skip effects",
    needs=("effect_all", "effect_future"),
    panels=panels,
    note=note,
    maps=maps,
)
draw, caption = FIGURE.draw, FIGURE.caption
