"""What figures of effects between blocks share: maps over all prompts, and maps of single prompts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bathyscope.report.figures import multiples, style
from bathyscope.report.figures.colours import Colours
from bathyscope.report.figures.effect_map import EffectMap, describe_for_blind, describe_map, draw_map
from bathyscope.report.figures.heat_map import HeatMap, Side
from bathyscope.report.figures.kind import Panel
from bathyscope.report.figures.lines import BLOCK_LABEL, Axis, Look, Series
from bathyscope.report.figures.lines import panel as line_panel
from bathyscope.report.figures.options import FigureOptions
from bathyscope.report.figures.summary import describe as describe_lines
from bathyscope.report.figures.summary import summarise
from bathyscope.statistics.influence import influence_given, influence_received

REACHES: Final = {"all": "all tokens", "future": "later tokens"}

OVER_TOKENS: Final = {
    "mean": "mean over tokens",
    "p95": "95th percentile over tokens",
    "max": "largest over tokens",
}
REDUCTIONS: Final = {
    "mean": "mean over tokens and prompts",
    "p95": "95th percentile over tokens, mean over prompts",
    "max": "largest over tokens and prompts",
}


@dataclass(frozen=True)
class Effects:
    """One kind of effect of a run.

    Args:
        effect: (prompt, reduction, skipped, block), NaN where a prompt has none.
        output: (prompt, reduction, skipped), change of the output; None where it was not measured.
        title: what is seen.
        own_measured: whether the effect on the skipped block itself is a result; where the definition fixes it,
            it stays blank, as effects on earlier blocks always do.
    """

    effect: xr.DataArray
    output: xr.DataArray | None
    title: str
    own_measured: bool


def effect_map(effects: Effects, options: FigureOptions) -> EffectMap:
    """The effects reduced over prompts: the largest of them, or their mean, as the reduction is."""
    chosen = effects.effect.sel(reduction=options.reduction)
    output = None
    if effects.output is not None:
        own = effects.output.sel(reduction=options.reduction)
        output = _over_prompts(own, options).reindex(skipped=_every(chosen)).values
    reduction = REDUCTIONS[options.reduction]
    return EffectMap(_heat(effects, _over_prompts(chosen, options), reduction, options), output, reduction)


def prompt_maps(effects: Effects, options: FigureOptions) -> list[HeatMap]:
    """Maps of the first prompts that have any value, named after the prompts."""
    chosen = effects.effect.sel(reduction=options.reduction)
    filled = np.flatnonzero(chosen.notnull().any(["skipped", "block"]).values)
    shown = [chosen.isel(prompt=int(p)) for p in filled[: options.prompts_shown]]
    reduction = OVER_TOKENS[options.reduction]
    return [
        replace(_heat(effects, one, reduction, options), title=f"prompt {one['prompt_id'].item()}") for one in shown
    ]


def panels(effects: dict[str, Effects], options: FigureOptions) -> list[Panel]:
    """For every kind of effect a map over all prompts, then how much each block gives and receives, then maps of
    single prompts where there are several."""
    whole = {name: effect_map(one, options) for name, one in effects.items()}
    made: list[Panel | None] = [
        Panel(name, partial(draw_map, shown=shown), describe_for_blind(shown), style.MAP_SIZE)
        for name, shown in whole.items()
    ]
    made += [_influence(name, one, options) for name, one in effects.items()]
    for name, one in effects.items():
        single = prompt_maps(one, options)
        if one.effect.sizes["prompt"] > 1 and single:
            made.append(multiples.panel(f"prompts_{name}", single, f"{one.title}, prompt by prompt"))
    return [panel for panel in made if panel is not None]


def present(effects: dict[str, Effects], options: FigureOptions) -> dict[str, Effects]:
    """Those with any value to be seen."""
    return {name: one for name, one in effects.items() if effect_map(one, options).heat.seen.size}


def describe(what: str, effects: dict[str, Effects], options: FigureOptions) -> str:
    """The caption: ``what``, how it was reduced, which prompts are shown and usable, what was clipped."""
    said = [what, f"Shown: {REDUCTIONS[options.reduction]}."]
    several = [one for one in effects.values() if one.effect.sizes["prompt"] > 1]
    shown = max((len(prompt_maps(one, options)) for one in several), default=0)
    if shown:
        said.append(f"Prompt by prompt: {shown} of {several[0].effect.sizes['prompt']} prompts, in the same colours.")
    if effects:
        prompts = next(iter(effects.values())).effect.sizes["prompt"]
        said.append(
            "By block: the mean of a row (given) or column (received) of a prompt's map. "
            + describe_lines(options, prompts, "prompts")
        )
    future = [one.effect for name, one in effects.items() if name.endswith("future")]
    if future and _usable(future[0]) < future[0].sizes["prompt"]:
        said.append(f"Later tokens: {_usable(future[0])} of {future[0].sizes['prompt']} prompts were long enough.")
    said += [describe_map(effect_map(one, options)) for one in effects.values()]
    return " ".join(sentence for sentence in said if sentence)


def _influence(name: str, effects: Effects, options: FigureOptions) -> Panel | None:
    """The mean effect of each block on later ones, and of earlier ones on it, with a band over prompts."""
    every = _every(effects.effect)
    chosen = effects.effect.sel(reduction=options.reduction).reindex(skipped=every, block=every)
    effect_PSL = chosen.transpose("prompt", "skipped", "block").values
    curves = [
        Series(label, every, summarise(values, np.ones(len(values)), options), look)
        for label, values, look in (
            ("given to later blocks", influence_given(effect_PSL), Look(style.BLUE, "o")),
            ("received from earlier blocks", influence_received(effect_PSL), Look(style.VERMILION, "s", "--")),
        )
    ]
    axis = Axis(f"{effects.title}, by block", BLOCK_LABEL, "mean change (dimensionless)", options.scale)
    return line_panel(f"influence_{name}", curves, axis)


def _usable(effect: xr.DataArray) -> int:
    return int(effect.notnull().any([dim for dim in effect.dims if dim != "prompt"]).sum())


def _heat(effects: Effects, effect: xr.DataArray, reduction: str, options: FigureOptions) -> HeatMap:
    every = _every(effect)
    values = effect.reindex(skipped=every, block=every).transpose("skipped", "block").values
    s, b = every[:, None], every[None, :]
    fixed = b < s if effects.own_measured else b <= s
    visible = np.where(fixed, np.nan, values)
    unmeasured = (~fixed).any(1) & ~np.isfinite(visible).any(1)
    return HeatMap(
        values=visible,
        title=effects.title,
        rows=Side("skipped block (0-based index)", "skipped block"),
        columns=Side("affected block (0-based index)", "affected block"),
        quantity=f"relative change of the block's contribution\n(dimensionless, {options.scale} scale; {reduction})",
        short="relative change",
        colours=Colours.spanning(visible, options.scale),
        hatched=tuple(np.flatnonzero(unmeasured).tolist()),
    )


def _over_prompts(values: xr.DataArray, options: FigureOptions) -> xr.DataArray:
    return values.max("prompt") if options.reduction == "max" else values.mean("prompt")


def _every(effect: xr.DataArray) -> NDArray[Any]:
    return np.arange(int(max(effect["skipped"].max(), effect["block"].max())) + 1)
