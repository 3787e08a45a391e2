"""Shared parts of figures of effects between blocks: maps over all prompts, and maps of single prompts."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Self

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from bathyscope.core.text import elided
from bathyscope.pages.figures.kind import Drawing, Panel, drop_empty
from bathyscope.pages.figures.kit import heat_map, multiples, style
from bathyscope.pages.figures.kit.colours import Colours, choose_scale
from bathyscope.pages.figures.kit.heat_map import HeatMap, Side
from bathyscope.pages.figures.kit.lines import make_chart
from bathyscope.pages.figures.kit.lines import make_panel as line_panel
from bathyscope.pages.figures.kit.series import BLOCK_LABEL, PLACES, Axis, Curve, Look, Series
from bathyscope.pages.figures.kit.summary import Summary, describe, summarise
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.prompts.parts import clusters_in
from bathyscope.statistics.influence import influence_given, influence_received

_ID_LETTERS: Final = 60
_MAP_SIZE: Final = (6.8, 4.6)
"""Of a map with its profile, in inches."""

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
        reach: tokens at which the output is measured, as the title of its panel says.
    """

    effect: xr.DataArray
    output: xr.DataArray | None
    title: str
    own_measured: bool
    output_reduction: str | None = None
    reach: str = ""


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
    title = f"Change of the output, {effects.reach}"
    axis = Axis(title, PLACES["skipped"], "change of the output (L2, 0 to √2)", options.scale)
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
    scale = choose_scale(visible, options.scale)
    return HeatMap(
        values=visible,
        title=effects.title,
        rows=Side("skipped block (0-based index)", "skipped block"),
        columns=Side("affected block (0-based index)", "affected block"),
        quantity=f"relative change of the block's contribution\n(dimensionless, {scale} scale; {reduction})",
        short="relative change",
        colours=Colours.spanning(visible, scale),
        hatched=tuple(np.flatnonzero(unmeasured).tolist()),
    )


def _reduce_prompts(values: xr.DataArray, options: FigureOptions) -> xr.DataArray:
    return values.max("prompt") if options.reduction == "max" else values.mean("prompt")


def _list_blocks(effect: xr.DataArray) -> NDArray[Any]:
    return np.arange(int(max(effect["skipped"].max(), effect["block"].max())) + 1)


@dataclass(frozen=True)
class _Profile:
    """One number for each row of a map (L,), with its interval over prompts.

    Args:
        label: of its axis.
        start: block of the first row.
    """

    label: str
    summary: Summary
    start: int = 0

    def cut(self, blocks: range) -> Self | None:
        """Return the profile of some blocks; None where none of them has a value."""
        edges = (self.summary.mean, self.summary.low, self.summary.high)
        mean, low, high = (None if edge is None else edge[blocks.start : blocks.stop] for edge in edges)
        if mean is None or not np.isfinite(mean).any():
            return None
        return replace(self, summary=Summary(mean, low, high), start=blocks.start)

    @property
    def is_logarithmic(self) -> bool:
        mean = self.summary.mean
        return bool(np.nanmin(mean) > 0 and choose_scale(mean, "auto") == "log")


def _make_profile(effects: Effects, options: FigureOptions) -> _Profile | None:
    """Make the profile next to a map: the change of the output, or the mean of each row; None without a value."""
    every = _list_blocks(effects.effect)
    cluster = clusters_in(effects.effect, options.cluster)
    if effects.output is not None:
        label, limits = "output change\n(L2, 0 to √2)", (0.0, math.sqrt(2))
        values_PL = effects.output.reindex(skipped=every).transpose("prompt", "skipped").values
    else:
        label, limits = "mean of the row\n(dimensionless)", (0.0, math.inf)
        effect = effects.effect.reindex(skipped=every, block=every).transpose("prompt", "skipped", "block")
        values_PL = influence_given(effect.values)
    if not np.isfinite(values_PL).any():
        return None
    if (effects.output_reduction or options.reduction) == "max":
        # A maximum over prompts has no interval.
        with np.errstate(all="ignore"):
            largest = np.where(np.isfinite(values_PL).any(0), np.nanmax(values_PL, axis=0, initial=-np.inf), np.nan)
        return _Profile(label, Summary(largest, None, None))
    return _Profile(label, summarise(values_PL, np.ones(len(values_PL)), options, cluster, limits))


def _make_map_panel(name: str, heat: HeatMap, effects: Effects, options: FigureOptions) -> Panel:
    """Make a panel of the map, with a profile of its rows on the right."""
    profile = _make_profile(effects, options)
    cut = partial(_cut_map_panel, name=name, heat=heat, effects=effects, options=options)
    return replace(_make_panel(name, heat, profile, effects, options), cut=cut)


def _cut_map_panel(blocks: range, name: str, heat: HeatMap, effects: Effects, options: FigureOptions) -> Panel | None:
    cut, profile = heat.cut(blocks), _make_profile(effects, options)
    if cut is None:
        return None
    return _make_panel(name, cut, None if profile is None else profile.cut(blocks), effects, options)


def _make_panel(name: str, heat: HeatMap, profile: _Profile | None, effects: Effects, options: FigureOptions) -> Panel:
    L = len(heat.values)
    alt = (
        f"Heat map of {L} skipped by {L} affected blocks. {heat.title}, {REDUCTIONS[options.reduction]}: "
        f"{heat_map.describe_largest(heat)}. {_describe_profile(profile, effects)}"
    ).strip()
    draw = partial(_draw_map, heat=heat, profile=profile)
    return Panel(
        name,
        draw,
        alt,
        _MAP_SIZE if profile else style.MAP_SIZE,
        (multiples.share_map(name, heat),),
        # One axes has room for the map alone; the profile is a panel of its own too.
        draw_one=partial(_draw_map, heat=heat, profile=None),
    )


def _describe_map(heat: HeatMap) -> Iterator[str]:
    """Yield sentences on clipped colours and unmeasured rows."""
    above = heat.colours.beyond(heat.seen)[1]
    if above:
        cells = f"{above} of {heat.seen.size} cells above {heat.colours.high:.3g} (largest {heat.seen.max():.3g})"
        yield f"{heat.title}: {cells} are drawn in magenta."
    if heat.hatched:
        yield f"{heat.title}: hatched rows ({', '.join(map(str, heat.hatched))}) were not measured."


def _draw_map(figure: FigureBase, heat: HeatMap, profile: _Profile | None) -> None:
    if profile is None:
        axes = [figure.subplots()]
    else:
        axes = list(figure.subplots(1, 2, width_ratios=(1, 0.45), sharey=True))
        _draw_profile(axes[1], profile)
    heat_map.draw_colour_bar(figure, heat_map.draw_heat(axes[0], heat), [heat], axes)


def _describe_profile(profile: _Profile | None, effects: Effects) -> str:
    if profile is None:
        return "" if effects.output is None else "The change of the output was not measured."
    mean = profile.summary.mean
    most, least = int(np.nanargmax(mean)), int(np.nanargmin(mean))
    start = profile.start
    what = "the output changes" if effects.output is not None else "later blocks change"
    return (
        f"Profile: {what} most, {mean[most]:.3g}, without block {most + start}, and least, {mean[least]:.3g}, "
        f"without block {least + start}."
    )


def _draw_profile(ax: Axes, profile: _Profile) -> None:
    mean, low, high = profile.summary.mean, profile.summary.low, profile.summary.high
    rows = np.arange(len(mean)) + profile.start
    few = len(mean) <= style.MARKERS_UP_TO
    if low is not None and high is not None:
        ax.hlines(rows, low, high, color=style.VERMILION, linewidth=2 if few else 1, alpha=0.5)
    ax.plot(mean, rows, "o", color=style.VERMILION, markersize=3.5 if few else 1.5)
    label = profile.label
    if profile.is_logarithmic:
        ax.set_xscale("log")
        low_end, high_end = ax.get_xlim()
        ax.set_xlim(max(low_end, float(np.nanmin(mean)) / 2), high_end)
        ax.xaxis.set_major_locator(LogLocator(numticks=4))
        ax.xaxis.set_minor_locator(NullLocator())
        label = label.replace(")", ", log)")
    else:
        ax.set_xlim(left=0)
        ax.xaxis.set_major_locator(MaxNLocator(nbins=3))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_xlabel(label)
    ax.tick_params(axis="y", left=False, labelleft=False)
