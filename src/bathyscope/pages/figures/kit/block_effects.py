"""What figures of effects between blocks share: maps over all prompts, and maps of single prompts."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from bathyscope.core.text import elided
from bathyscope.pages.figures.kind import Drawing, Panel
from bathyscope.pages.figures.kit import heat_map, multiples, style
from bathyscope.pages.figures.kit.colours import Colours
from bathyscope.pages.figures.kit.heat_map import HeatMap, Side
from bathyscope.pages.figures.kit.lines import BLOCK_LABEL, PLACES, Axis, Curve, Look, Series, chart
from bathyscope.pages.figures.kit.lines import panel as line_panel
from bathyscope.pages.figures.kit.summary import describe, summarise
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.prompts.parts import clusters_in
from bathyscope.statistics.influence import influence_given, influence_received

_ID_LETTERS: Final = 60

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
        effect: (prompt, skipped, block), as it was reduced over tokens, NaN where a prompt has none.
        output: (prompt, skipped), change of the output; None where it was not measured.
        own_measured: whether the effect on the skipped block itself is a result; where the definition fixes it,
            it stays blank, as effects on earlier blocks always do.
        output_reduction: how the output was reduced over tokens, where that is not as the effect.
    """

    effect: xr.DataArray
    output: xr.DataArray | None
    title: str
    own_measured: bool
    output_reduction: str | None = None


def drawing(what: str, effects: Mapping[str, Effects], options: FigureOptions) -> Drawing:
    """For every kind of effect a map over all prompts, then how much each block gives and receives, then maps of
    single prompts where there are several. Effects without any value are left out.

    Args:
        what: the caption's beginning; how it was reduced, which prompts are shown and usable and what was clipped
            are said after it.
        effects: by panel name.
    """
    reduction = REDUCTIONS[options.reduction]
    whole = {name: _heat(one, _over_prompts(one.effect, options), reduction, options) for name, one in effects.items()}
    there = {name: one for name, one in effects.items() if whole[name].seen.size}
    single = {name: _prompt_maps(one, options) for name, one in there.items() if one.effect.sizes["prompt"] > 1}
    made: list[Panel | None] = [_map_panel(name, whole[name], one, options) for name, one in there.items()]
    made += [_influence(name, one, options) for name, one in there.items()]
    made += [_output_by_block(name, one, options) for name, one in there.items()]
    made += [
        multiples.panel(f"prompts_{name}", maps, f"{there[name].title}, prompt by prompt")
        for name, maps in single.items()
        if maps
    ]
    note = _note(what, there, max(map(len, single.values()), default=0), options)
    note += [said for name in there for said in _describe_map(whole[name])]
    beside = (
        f"Effects in each model, {options.reduction} over tokens, as in the figures of the single runs below. Equal "
        "colours are equal values within a row of maps; axes count each model's own blocks."
    )
    return Drawing([panel for panel in made if panel is not None], " ".join(note), beside)


def _note(what: str, effects: Mapping[str, Effects], shown: int, options: FigureOptions) -> list[str]:
    said = [what, f"Shown: {REDUCTIONS[options.reduction]}."]
    if not effects:
        return said
    prompts = next(iter(effects.values())).effect.sizes["prompt"]
    if shown:
        said.append(f"Prompt by prompt: {shown} of {prompts} prompts, in the same colours.")
    said.append(
        "By block: the mean of a row (given) or column (received) of a prompt's map. "
        + describe(options, prompts, "prompts")
    )
    future = [one.effect for name, one in effects.items() if name.endswith("future")]
    others = dict.fromkeys(one.output_reduction for one in effects.values() if one.output_reduction is not None)
    if others:
        measured = " and ".join(REDUCTIONS[reduction] for reduction in others)
        said.append(f"Change of the output: {measured}, since it was not measured otherwise.")
    usable = int(future[0].notnull().any(("skipped", "block")).sum()) if future else prompts
    if usable < prompts:
        said.append(f"Later tokens: {usable} of {prompts} prompts were long enough.")
    return said


def _prompt_maps(effects: Effects, options: FigureOptions) -> list[HeatMap]:
    """Maps of the first prompts that have any value, named after the prompts."""
    filled = np.flatnonzero(effects.effect.notnull().any(["skipped", "block"]).values)
    shown = [effects.effect.isel(prompt=int(p)) for p in filled[: options.prompts_shown]]
    reduction = OVER_TOKENS[options.reduction]
    return [
        replace(
            _heat(effects, one, reduction, options), title=f"prompt {elided(str(one['prompt_id'].item()), _ID_LETTERS)}"
        )
        for one in shown
    ]


def _influence(name: str, effects: Effects, options: FigureOptions) -> Panel | None:
    """The mean effect of each block on later ones, and of earlier ones on it, with a band over prompts."""
    every = _every(effects.effect)
    effect_PSL = effects.effect.reindex(skipped=every, block=every).transpose("prompt", "skipped", "block").values
    cluster = clusters_in(effects.effect, options.cluster)
    curves = [
        Series(label, every, summarise(values, np.ones(len(values)), options, cluster, (0.0, math.inf)), look)
        for label, values, look in (
            ("given to later blocks", influence_given(effect_PSL), Look(style.BLUE, "o")),
            ("received from earlier blocks", influence_received(effect_PSL), Look(style.VERMILION, "s", "--")),
        )
    ]
    axis = Axis(f"{effects.title}, by block", BLOCK_LABEL, "mean change (dimensionless)", options.scale)
    return line_panel(f"influence_{name}", curves, axis)


def _output_by_block(name: str, effects: Effects, options: FigureOptions) -> Panel | None:
    """How far the output moves without each block, with a band over prompts, or the largest where maxima are asked."""
    if effects.output is None:
        return None
    data = effects.output.to_dataset(name=f"output_{name}")
    # by its reduction, since the strip of blocks at a page's head shows means over tokens
    reduction = effects.output_reduction or options.reduction
    curve = Curve(f"output_{name}", OVER_TOKENS[reduction], Look(style.VERMILION), "prompts")
    reach = REACHES.get(name.rpartition("_")[2], "")
    axis = Axis(
        f"Change of the output, {reach}", PLACES["skipped"], "change of the output (L2, 0 to √2)", options.scale
    )
    return chart(curve.name, data.max("prompt") if reduction == "max" else data, axis, [curve], options)


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


def _over_prompts(values: xr.DataArray, options: FigureOptions, reduction: str | None = None) -> xr.DataArray:
    return values.max("prompt") if (reduction or options.reduction) == "max" else values.mean("prompt")


def _every(effect: xr.DataArray) -> NDArray[Any]:
    return np.arange(int(max(effect["skipped"].max(), effect["block"].max())) + 1)


def _map_panel(name: str, heat: HeatMap, effects: Effects, options: FigureOptions) -> Panel:
    """The map with bars of the change of the output (skipped) at its right, NaN where nothing was measured."""
    L, output = len(heat.values), None
    if effects.output is not None:
        over_prompts = _over_prompts(effects.output, options, effects.output_reduction)
        output = over_prompts.reindex(skipped=_every(effects.effect)).values
    alt = (
        f"Heat map of {L} skipped by {L} affected blocks. {heat.title}, {REDUCTIONS[options.reduction]}: "
        f"{heat_map.describe_largest(heat)}. {_describe_output(output)}"
    ).strip()
    return Panel(
        name, partial(_draw_map, heat=heat, output=output), alt, style.MAP_SIZE, (multiples.share(name, heat),)
    )


def _describe_map(heat: HeatMap) -> Iterator[str]:
    """The sentences on clipped colours and unmeasured rows."""
    above = heat.colours.beyond(heat.seen)[1]
    if above:
        cells = f"{above} of {heat.seen.size} cells above {heat.colours.high:.3g} (largest {heat.seen.max():.3g})"
        yield f"{heat.title}: {cells} are drawn in magenta."
    if heat.hatched:
        yield f"{heat.title}: hatched rows ({', '.join(map(str, heat.hatched))}) were not measured."


def _draw_map(figure: FigureBase, heat: HeatMap, output: NDArray[Any] | None) -> None:
    if output is None:
        beside = [figure.subplots()]
    else:
        beside = list(figure.subplots(1, 2, width_ratios=(1, 0.26), sharey=True))
        _draw_output(beside[1], output)
    heat_map.draw_colour_bar(figure, heat_map.draw_heat(beside[0], heat), [heat], beside)


def _describe_output(output: NDArray[Any] | None) -> str:
    if output is None:
        return ""
    if not np.isfinite(output).any():
        return "The change of the output was not measured."
    worst, best = int(np.nanargmax(output)), int(np.nanargmin(output))
    return (
        f"Bars: the output changes most, {output[worst]:.3g}, without block {worst}, and least, "
        f"{output[best]:.3g}, without block {best}."
    )


def _draw_output(ax: Axes, output: NDArray[Any]) -> None:
    height = 0.8 if len(output) <= style.MARKERS_UP_TO else 1.0
    ax.barh(np.arange(len(output)), output, height=height, color=style.VERMILION)
    ax.set_xlim(left=0)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=2))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_xlabel("output change\n(L2, 0 to √2)", fontsize=8)
    ax.grid(visible=False, axis="y")
    ax.tick_params(axis="y", left=False, labelleft=False)
