"""Skip effects: maps of skipped against affected block, with the change of the output alongside.

Source: csordas2025 (effects on all tokens, and on later tokens only).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import xarray as xr

from bathyscope.report.figures import style
from bathyscope.report.figures.effect_map import EffectMap, describe_for_blind, describe_map, draw_map
from bathyscope.report.figures.kind import FigureKind, Panel
from bathyscope.report.figures.options import FigureOptions

if TYPE_CHECKING:
    from bathyscope.store.run import Run

REACHES: Final = {"all": "all tokens", "future": "later tokens"}

_REDUCTIONS: Final = {
    "mean": "mean over tokens and prompts",
    "p95": "95th percentile over tokens, mean over prompts",
    "max": "largest over tokens and prompts",
}


def effect_map(data: xr.Dataset, reach: str, part: str, options: FigureOptions) -> EffectMap:
    """Effects and output changes reduced over prompts.

    Blank, because the definition fixes them: effects on earlier blocks (0), on the skipped block itself where
    all of its contribution goes (1), and on the skipped block at later tokens, which it did not touch (0).

    Args:
        data: the ``skip`` group.
        reach: ``all`` or ``future``.
        part: one of the group's parts.
        options: gives reduction and scale.
    """
    chosen = data.sel(part=part, reduction=options.reduction)
    every = np.arange(int(max(data["skipped"].max(), data["block"].max())) + 1)
    chosen = chosen[[f"effect_{reach}", f"output_{reach}"]].reindex(skipped=every, block=every)
    reduced = chosen.max("prompt") if options.reduction == "max" else chosen.mean("prompt")
    s, b = every[:, None], every[None, :]
    return EffectMap(
        effect=reduced[f"effect_{reach}"].transpose("skipped", "block").values,
        output=reduced[f"output_{reach}"].values,
        fixed=b <= s if reach == "future" or part == "block" else b < s,
        title=f"Skipping one {_part_name(part)}: effect on {REACHES[reach]}",
        reduction=_REDUCTIONS[options.reduction],
        scale=options.scale,
    )


def maps(run: Run, options: FigureOptions) -> dict[str, EffectMap]:
    """Every map that has a value, by panel name: the reach, after the part where several were skipped."""
    data = run["skip"]
    parts = [str(part) for part in data["part"].values]
    made = {}
    for part in parts:
        for reach in REACHES:
            if f"effect_{reach}" in data:
                name = reach if len(parts) == 1 else f"{part}_{reach}"
                made[name] = effect_map(data, reach, part, options)
    return {name: shown for name, shown in made.items() if shown.seen.size}


def panels(run: Run, options: FigureOptions) -> list[Panel]:
    """One map for each skipped part and each reach."""
    return [
        Panel(name, partial(draw_map, shown=shown), describe_for_blind(shown), style.MAP_SIZE)
        for name, shown in maps(run, options).items()
    ]


def note(run: Run, options: FigureOptions) -> str:
    """What is skipped, what is blank, which prompts could be used, and what was clipped."""
    data = run["skip"]
    said = [
        "One block at a time is skipped, and everything after it recomputed. Colour: how much a later "
        "block's contribution changes, relative to its norm; bars: how far the output probabilities move "
        "(L2, at most √2). Effect on later tokens: the block is skipped before a position, and measured from "
        "there on. Grey: fixed by the definition (0 for earlier blocks; the skipped block itself). "
        f"Shown: {_REDUCTIONS[options.reduction]}."
    ]
    if "effect_future" in data:
        usable = int(data["effect_future"].notnull().any(["part", "reduction", "skipped", "block"]).sum())
        if usable < data.sizes["prompt"]:
            said.append(f"Later tokens: {usable} of {data.sizes['prompt']} prompts were long enough.")
    said += [describe_map(shown) for shown in maps(run, options).values()]
    return " ".join(sentence for sentence in said if sentence)


def _part_name(part: str) -> str:
    return style.PART_NAMES.get(part, part)


FIGURE: Final = FigureKind(
    name="skip",
    measure="skip",
    heading="Skip effects",
    needs=("effect_all", "effect_future"),
    panels=panels,
    note=note,
)
draw, caption = FIGURE.draw, FIGURE.caption
