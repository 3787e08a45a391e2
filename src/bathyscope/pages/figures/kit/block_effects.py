"""Shared parts of figures of effects between blocks: maps over all prompts, and maps of single prompts."""

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
from bathyscope.pages.figures.kind import Drawing, Panel, drop_empty
from bathyscope.pages.figures.kit import heat_map, multiples, style
from bathyscope.pages.figures.kit.colours import Colours
from bathyscope.pages.figures.kit.heat_map import HeatMap, Side
from bathyscope.pages.figures.kit.lines import make_chart
from bathyscope.pages.figures.kit.lines import make_panel as line_panel
from bathyscope.pages.figures.kit.series import BLOCK_LABEL, PLACES, Axis, Curve, Look, Series
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
        effect: (prompt, skipped, block), reduced over tokens, NaN where a prompt has no value.
        output: (prompt, skipped), change of the output; None where not measured.
        own_measured: whether the effect on the skipped block itself is a result. Where the definition fixes it, it is
            blank, as effects on earlier blocks always are.
        output_reduction: reduction of the output over tokens, where it differs from that of the effect.
    """

    effect: xr.DataArray
    output: xr.DataArray | None
    title: str
    own_measured: bool
    output_reduction: str | None = None


def drawing(what: str, effects: Mapping[str, Effects], options: FigureOptions) -> Drawing:
    """Draw maps over all prompts, effects by block, and maps of single prompts.

    Single prompts have maps where there are several of them. Kinds of effect without a value are left out.

    Args:
        what: begins the caption; the reduction, shown and usable prompts, and clipped values follow.
        effects: by panel name.
    """
    reduction = REDUCTIONS[options.reduction]
    whole = {
        name: _make_map(kind, _reduce_prompts(kind.effect, options), reduction, options)
        for name, kind in effects.items()
    }
    present = {name: kind for name, kind in effects.items() if whole[name].seen.size}
    single = {
        name: _make_prompt_maps(kind, options) for name, kind in present.items() if kind.effect.sizes["prompt"] > 1
    }
    panels: list[Panel | None] = [_make_map_panel(name, whole[name], kind, options) for name, kind in present.items()]
    panels += [_make_influence_panel(name, kind, options) for name, kind in present.items()]
    panels += [_make_output_panel(name, kind, options) for name, kind in present.items()]
    panels += [
        multiples.make_panel(f"prompts_{name}", maps, f"{present[name].title}, prompt by prompt")
        for name, maps in single.items()
        if maps
    ]
    note = _write_note(what, present, max(map(len, single.values()), default=0), options)
    note += [sentence for name in present for sentence in _describe_map(whole[name])]
    joint_note = (
        f"Effects in each model, {options.reduction} over tokens, as in the figures of the single runs below. Equal "
        "colours are equal values within a row of maps; axes count each model's own blocks."
    )
    return Drawing(drop_empty(panels), " ".join(note), joint_note)


def _write_note(what: str, effects: Mapping[str, Effects], n_shown: int, options: FigureOptions) -> list[str]:
    sentences = [what, f"Shown: {REDUCTIONS[options.reduction]}."]
    if not effects:
        return sentences
    prompts = next(iter(effects.values())).effect.sizes["prompt"]
    if n_shown:
        sentences.append(f"Prompt by prompt: {n_shown} of {prompts} prompts, in the same colours.")
    sentences.append(
        "By block: the mean of a row (given) or column (received) of a prompt's map. "
        + describe(options, prompts, "prompts")
    )
    future = [kind.effect for name, kind in effects.items() if name.endswith("future")]
    others = dict.fromkeys(kind.output_reduction for kind in effects.values() if kind.output_reduction is not None)
    if others:
        measured = " and ".join(REDUCTIONS[reduction] for reduction in others)
        sentences.append(f"Change of the output: {measured}, the only reduction that was measured.")
    usable = int(future[0].notnull().any(("skipped", "block")).sum()) if future else prompts
    if usable < prompts:
        sentences.append(f"Later tokens: {usable} of {prompts} prompts were long enough.")
    return sentences


def _make_prompt_maps(effects: Effects, options: FigureOptions) -> list[HeatMap]:
    """Make maps of the first prompts that have a value, titled by prompt."""
    filled = np.flatnonzero(effects.effect.notnull().any(["skipped", "block"]).values)
    prompt_effects = [effects.effect.isel(prompt=int(p)) for p in filled[: options.prompts_shown]]
    reduction = OVER_TOKENS[options.reduction]
    return [
        replace(
            _make_map(effects, prompt_effect, reduction, options),
            title=f"prompt {elided(str(prompt_effect['prompt_id'].item()), _ID_LETTERS)}",
        )
        for prompt_effect in prompt_effects
    ]


def _make_influence_panel(name: str, effects: Effects, options: FigureOptions) -> Panel | None:
    """Make a panel of each block's mean effect on later blocks, and of earlier blocks' effect on it."""
    every = _list_blocks(effects.effect)
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


def _make_output_panel(name: str, effects: Effects, options: FigureOptions) -> Panel | None:
    """Make a panel of how far the output moves without each block, or of the largest move."""
    if effects.output is None:
        return None
    data = effects.output.to_dataset(name=f"output_{name}")
    # The label names the reduction, because the strip of blocks at the top of a page shows means over tokens.
    reduction = effects.output_reduction or options.reduction
    curve = Curve(f"output_{name}", OVER_TOKENS[reduction], Look(style.VERMILION), "prompts")
    reach = REACHES.get(name.rpartition("_")[2], "")
    axis = Axis(
        f"Change of the output, {reach}", PLACES["skipped"], "change of the output (L2, 0 to √2)", options.scale
    )
    return make_chart(curve.name, data.max("prompt") if reduction == "max" else data, axis, [curve], options)


def _make_map(effects: Effects, effect: xr.DataArray, reduction: str, options: FigureOptions) -> HeatMap:
    every = _list_blocks(effect)
    values = effect.reindex(skipped=every, block=every).transpose("skipped", "block").values
    s, b = every[:, None], every[None, :]
    # Earlier blocks run before the skipped one, so the definition fixes their effect at 0. That is not a measurement.
    fixed = b < s if effects.own_measured else b <= s
    visible = np.where(fixed, np.nan, values)
    # Hatching separates rows without a measurement from cells that the definition leaves blank.
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


def _reduce_prompts(values: xr.DataArray, options: FigureOptions, reduction: str | None = None) -> xr.DataArray:
    return values.max("prompt") if (reduction or options.reduction) == "max" else values.mean("prompt")


def _list_blocks(effect: xr.DataArray) -> NDArray[Any]:
    return np.arange(int(max(effect["skipped"].max(), effect["block"].max())) + 1)


def _make_map_panel(name: str, heat: HeatMap, effects: Effects, options: FigureOptions) -> Panel:
    """Make a panel of the map, with the change of the output as bars on its right."""
    L, output = len(heat.values), None
    if effects.output is not None:
        reduced = _reduce_prompts(effects.output, options, effects.output_reduction)
        output = reduced.reindex(skipped=_list_blocks(effects.effect)).values
    alt = (
        f"Heat map of {L} skipped by {L} affected blocks. {heat.title}, {REDUCTIONS[options.reduction]}: "
        f"{heat_map.describe_largest(heat)}. {_describe_output(output)}"
    ).strip()
    return Panel(
        name, partial(_draw_map, heat=heat, output=output), alt, style.MAP_SIZE, (multiples.share_map(name, heat),)
    )


def _describe_map(heat: HeatMap) -> Iterator[str]:
    """Yield sentences on clipped colours and unmeasured rows."""
    above = heat.colours.beyond(heat.seen)[1]
    if above:
        cells = f"{above} of {heat.seen.size} cells above {heat.colours.high:.3g} (largest {heat.seen.max():.3g})"
        yield f"{heat.title}: {cells} are drawn in magenta."
    if heat.hatched:
        yield f"{heat.title}: hatched rows ({', '.join(map(str, heat.hatched))}) were not measured."


def _draw_map(figure: FigureBase, heat: HeatMap, output: NDArray[Any] | None) -> None:
    if output is None:
        axes = [figure.subplots()]
    else:
        axes = list(figure.subplots(1, 2, width_ratios=(1, 0.26), sharey=True))
        _draw_output(axes[1], output)
    heat_map.draw_colour_bar(figure, heat_map.draw_heat(axes[0], heat), [heat], axes)


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
    # The bars of deep models touch: gaps narrower than a pixel would show as stripes.
    height = 0.8 if len(output) <= style.MARKERS_UP_TO else 1.0
    ax.barh(np.arange(len(output)), output, height=height, color=style.VERMILION)
    ax.set_xlim(left=0)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=2))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_xlabel("output change\n(L2, 0 to √2)", fontsize=8)
    ax.grid(visible=False, axis="y")
    ax.tick_params(axis="y", left=False, labelleft=False)
