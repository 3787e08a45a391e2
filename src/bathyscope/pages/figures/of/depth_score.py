"""Depth score: whether harder prompts need deeper blocks, level by level.

Source: csordas2025 (depth score).
"""

import re
from functools import partial
from typing import Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from bathyscope.core.text import elided
from bathyscope.pages.figures.kind import Drawing, FigureKind, Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.block_effects import OVER_TOKENS
from bathyscope.pages.figures.kit.lines import PLACES, Axis, Series, looks, panel
from bathyscope.pages.figures.kit.strip import spread
from bathyscope.pages.figures.kit.summary import summarise
from bathyscope.pages.figures.kit.texts import drawn_text
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.provenance import measure_options
from bathyscope.prompts.parts import clusters_in, resampled
from bathyscope.runs.run import Run

_TITLES: Final = {"layer": "Depth score by effect on later blocks", "output": "Depth score by effect on the output"}
_ON: Final = {"layer": "later blocks", "output": "the output"}
_EFFECTS: Final = {"layer": "mean relative change (dimensionless)", "output": "change of the output (L2, 0 to √2)"}
_OVER_PROMPTS: Final = {
    "mean": "largest over tokens, mean over prompts",
    "p95": "largest over tokens, 95th percentile over prompts",
    "max": "largest over tokens and prompts",
}
"""How a level's effects are reduced; those of a prompt by itself, and so the trend, are reduced over tokens."""
_LINES_UP_TO: Final = 7
"""Levels that can be told apart as lines."""
_TREND_POINTS: Final = 8
_LEVEL_LETTERS: Final = 20
# Prompts stand to the left of their level's mark, the level's own score to the right.
_ASIDE: Final = 0.15
_LABEL: Final = re.compile(r"label '(.*)' of the prompts")


def _drawing(run: Run, options: FigureOptions) -> Drawing:
    """One panel for the effect on later blocks, one for the effect on the output."""
    data = run["depth_score"].sel(reduction=options.reduction)
    size = (max(style.PANEL_SIZE[0], 1.2 + 0.45 * data.sizes["level"]), style.PANEL_SIZE[1] + 0.3)
    panels = [
        Panel(kind, partial(_draw, data=data, kind=kind), _alt(data, kind), size)
        for kind in _TITLES
        if f"score_{kind}" in data and np.isfinite(data[f"score_{kind}"]).any()
    ]
    panels += [one for one in [_by_level(data, score.name, options) for score in panels] if one is not None]
    asked = measure_options(run, "depth_score")
    percent, units = asked.get("coverage"), resampled(asked.get("cluster"))
    interval = "bootstrap intervals" if percent is None else f"{percent:.0%} bootstrap intervals"
    note = (
        "Depth score: the centre, in blocks, of the effects that skipped blocks have where the answer is predicted; a "
        f"higher score is a deeper one. Diamonds: scores of levels (effects {_OVER_PROMPTS[options.reduction]}); "
        f"bars: {interval}, resampling {units}; dots: prompts, each on its own ({OVER_TOKENS[options.reduction]}). "
        "Line: least squares over the dots; p: "
        f"wild bootstrap test over {units}, two-sided; effect size: slope in standard deviations within a level."
    )
    return Drawing(panels, " ".join([note, *_reasons(data)]))


def _draw(figure: FigureBase, data: xr.Dataset, kind: str) -> None:
    ax = figure.subplots()
    levels = data["level"].values
    member, label = _member(data), _label(data)
    scores = data[f"prompt_score_{kind}"].values
    for place in range(len(levels)):
        own = scores[(member == place) & np.isfinite(scores)]
        ax.plot(place - _ASIDE + spread(len(own)), own, "o", color=style.BLUE, alpha=0.55, markersize=3.5, zorder=1)
    low, high = (data[name].sel(score=kind).values for name in ("ci_low", "ci_high"))
    places = np.arange(len(levels)) + _ASIDE
    ax.vlines(places, low, high, color=style.VERMILION, linewidth=2.5)
    ax.plot(places, data[f"score_{kind}"].values, "D", color=style.VERMILION, markersize=6, label="levels")
    _draw_trend(ax, data, kind, member)
    ax.set_xticks(range(len(levels)), [_on_axis(level) for level in levels])
    ax.set_xlim(-0.6, len(levels) - 0.4)
    ax.yaxis.set_major_locator(MaxNLocator(nbins=7))
    ax.grid(visible=False, axis="x")
    ax.set_xlabel("all prompts (no level)" if label is None else f"{elided(label, 60)} (label of the prompts)")
    ax.set_ylabel("depth score (block, 0-based index)")
    ax.set_title(f"{_TITLES[kind]}\n", loc="left")
    ax.text(0, 1.02, _trend_text(data, kind), transform=ax.transAxes, fontsize=_TREND_POINTS, va="bottom")


def _by_level(data: xr.Dataset, kind: str, options: FigureOptions) -> Panel | None:
    """The effect of each skipped block, a line a level: whether later blocks matter more where prompts are harder."""
    if f"{kind}_effect" not in data or not 1 < data.sizes["level"] <= _LINES_UP_TO:
        return None
    effect_PS, member = data[f"{kind}_effect"].transpose("prompt", "skipped"), _member(data)
    cluster = clusters_in(effect_PS, options.cluster)
    curves = []
    for place, (level, look) in enumerate(zip(data["level"].values, looks(data.sizes["level"]))):
        own = effect_PS.values[member == place]
        together = None if cluster is None else cluster[member == place]
        if len(own):
            label = f"{elided(_label(data) or 'level', _LEVEL_LETTERS)} {_on_axis(level)}"
            summary = summarise(own, np.ones(len(own)), options, together)
            curves.append(Series(label, effect_PS["skipped"].values, summary, look))
    title = f"Effect of each block on {_ON[kind]}, by level"
    return panel(f"by_level_{kind}", curves, Axis(title, PLACES["skipped"], _EFFECTS[kind], "auto"))


def _draw_trend(ax: Axes, data: xr.Dataset, kind: str, member: NDArray[np.intp]) -> None:
    """The least-squares line through the prompts, over levels that are numbers."""
    slope = float(data["trend_slope"].sel(score=kind))
    scores = data[f"prompt_score_{kind}"].values
    kept = (member >= 0) & np.isfinite(scores)
    if not (np.isfinite(slope) and kept.any()):
        return
    numbers = data["level"].values.astype(np.float64)
    heights = scores[kept].mean() + slope * (numbers - numbers[member[kept]].mean())
    ax.plot(np.arange(len(numbers)), heights, "--", color=style.MUTED, linewidth=1.2, label="trend", zorder=1)


def _trend_text(data: xr.Dataset, kind: str) -> str:
    own = data.sel(score=kind)
    if not np.isfinite(own["trend_slope"].item()):
        return "no trend"
    slope, low, high, p, size = (
        own[f"trend_{name}"].item() for name in ("slope", "ci_low", "ci_high", "p_value", "effect_size")
    )
    units = data["trend_slope"].attrs.get("units", "")
    between = f" ({low:.2g} to {high:.2g})" if np.isfinite(low) else ""
    said = f"slope {slope:.2g}{between} {units}, p = {p:.2g}"
    return f"{said}, effect size {size:.2g}" if np.isfinite(size) else said


def _label(data: xr.Dataset) -> str | None:
    """The prompts' label that the levels are values of; None where there is one level for all prompts."""
    found = _LABEL.fullmatch(str(data["level"].attrs.get("long_name", "")))
    return found[1] if found else None


def _member(data: xr.Dataset) -> NDArray[np.intp]:
    """Each prompt's place among the levels, −1 where it has none."""
    label = _label(data)
    if label is None:
        return np.zeros(data.sizes["prompt"], dtype=np.intp)
    # a label called like a result or dimension has made room for it: then ``prompt_`` stands before it, or more
    # than one of them where another label is called that already
    names = [str(name) for name, values in data.coords.items() if values.dims == ("prompt",)]
    if label not in names:
        label = max((name for name in names if re.fullmatch(rf"(prompt_)+{re.escape(label)}", name)), key=len)
    places = {_shown(level): place for place, level in enumerate(data["level"].values)}
    return np.array([places.get(_shown(value), -1) for value in data[label].values], dtype=np.intp)


def _shown(level: object) -> str:
    """A level as text; ``3.0``, which stands for 3 where another prompt has no level, as ``3``."""
    return f"{level:g}" if isinstance(level, float) else str(level)


def _on_axis(level: object) -> str:
    return drawn_text(elided(_shown(level), _LEVEL_LETTERS))


def _reasons(data: xr.Dataset) -> list[str]:
    """Why scores, intervals or trends are missing, each reason once, with the levels it is about."""
    by_reason: dict[str, dict[str, None]] = {}
    for level in data["level"].values:
        for reason in data["reason"].sel(level=level).values.flat:
            by_reason.setdefault(str(reason), {})[_shown(level)] = None
    said = [f"{', '.join(levels)}: {reason}." for reason, levels in by_reason.items() if reason]
    trends = dict.fromkeys(str(reason) for reason in data["trend_reason"].values.flat)
    return said + [f"Trend: {reason}." for reason in trends if reason]


def _alt(data: xr.Dataset, kind: str) -> str:
    rows = []
    for level in data["level"].values:
        own = data.sel(level=level)
        low, high = (float(own[name].sel(score=kind)) for name in ("ci_low", "ci_high"))
        score = float(own[f"score_{kind}"])
        between = f" (interval {low:.3g} to {high:.3g})" if np.isfinite(low) else ""
        rows.append(f"{_shown(level)}: {f'{score:.3g}' if np.isfinite(score) else 'no score'}{between}")
    return f"Diamonds with bars, {_TITLES[kind].lower()}, by level: {'; '.join(rows)}. {_trend_text(data, kind)}."


FIGURE: Final = FigureKind("depth_score", "Depth score", ("score_layer", "score_output"), _drawing)
