"""Depth score: whether harder prompts need deeper blocks, level by level.

Source: csordas2025 (depth score).
"""

import math
import re
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from bathyscope.core.estimates import Estimate
from bathyscope.core.text import elided, level_text
from bathyscope.labels import mean_limits
from bathyscope.pages.figures.kind import Drawing, FigureKind, Panel, drop_empty
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.axes import head_figure
from bathyscope.pages.figures.kit.block_effects import OVER_TOKENS
from bathyscope.pages.figures.kit.lines import make_panel
from bathyscope.pages.figures.kit.series import PLACES, Axis, Series, looks
from bathyscope.pages.figures.kit.strip import spread
from bathyscope.pages.figures.kit.summary import LEVEL, Summary, summarise
from bathyscope.pages.figures.kit.texts import drawn_text
from bathyscope.pages.figures.options import FigureOptions, RunOptions
from bathyscope.pages.text.provenance import measure_options
from bathyscope.prompts.parts import clusters_in, resampled
from bathyscope.runs.run import Run
from bathyscope.statistics.sampling import Sampling

_TITLES: Final = {"layer": "Depth score by effect on later blocks", "output": "Depth score by effect on the output"}
_ON: Final = {"layer": "later blocks", "output": "the output"}
_EFFECTS: Final = {"layer": "mean relative change (dimensionless)", "output": "change of the output (L2, 0 to √2)"}
_LINES_UP_TO: Final = 7
"""Levels that can be distinguished as lines."""
_TREND_POINTS: Final = 8
_LEVEL_LETTERS: Final = 20
# Prompts stand to the left of their level's mark, the level's own score to the right.
_ASIDE: Final = 0.15
_LABEL: Final = re.compile(r"label '(.*)' of the prompts")


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """Draw one panel for the effect on later blocks, and one for the effect on the output."""
    data = run["depth_score"].sel(reduction=options.reduction)
    size = (max(style.PANEL_SIZE[0], 1.2 + 0.45 * data.sizes["level"]), style.PANEL_SIZE[1] + 0.3)
    scores = {
        kind: _read_scores(data, kind, options)
        for kind in _TITLES
        if f"score_{kind}" in data and np.isfinite(data[f"score_{kind}"]).any()
    }
    panels = [
        Panel(
            kind, partial(_draw_scores, data=data, kind=kind, scores=score), _describe_scores(data, kind, score), size
        )
        for kind, score in scores.items()
    ]
    panels += drop_empty([_make_level_panel(data, panel.name, options) for panel in panels])
    settings = measure_options(run, "depth_score")
    percent, units = settings.get("coverage"), resampled(settings.get("cluster"))
    interval = "bootstrap intervals" if percent is None else f"{level_text(percent)} bootstrap intervals"
    levels = (
        "levels, from the largest effects over tokens and prompts"
        if options.reduction == "max"
        else "means of a level's dots"
    )
    note = (
        "Depth score: the centre, in blocks, of the effects of skipped blocks where the answer is predicted; a higher "
        f"score is deeper. Dots: prompts (effects {OVER_TOKENS[options.reduction]}); diamonds: {levels}; "
        f"bars: {interval}, resampling {units}. "
        f"Line: least squares over the dots, with its 95 % bootstrap band over {units}; p: "
        f"wild bootstrap test over {units}, two-sided; effect size: slope in standard deviations within a level."
    )
    return Drawing(panels, " ".join([note, *_list_reasons(data)]))


@dataclass(frozen=True)
class _LevelScores:
    """Scores of levels (N,) with their intervals, and the band (N,) of the line through the prompts, if any."""

    level: Summary
    band: tuple[NDArray[np.float64], NDArray[np.float64]] | None


def _read_scores(data: xr.Dataset, kind: str, options: FigureOptions) -> _LevelScores:
    """Return scores of levels, reduced over tokens as those of prompts are.

    The measure's own scores of levels are the paper's: they take the largest effects over tokens. Next to prompts
    whose effects are means, a level is the mean of its prompts.
    """
    scores, member = data[f"prompt_score_{kind}"].values, _match_levels(data)
    cluster = clusters_in(data[f"prompt_score_{kind}"], options.cluster)
    band = _resample_line(data, kind, options, cluster)
    if options.reduction == "max":
        low, high = (data[name].sel(score=kind).values for name in ("ci_low", "ci_high"))
        return _LevelScores(Summary(data[f"score_{kind}"].values, low, high), band)
    by_level = []
    for place in range(data.sizes["level"]):
        chosen = member == place
        together = None if cluster is None else cluster[chosen]
        limits = (0.0, float(data["skipped"].max()))
        by_level.append(summarise(scores[chosen][:, None], np.ones(chosen.sum()), options, together, limits))
    mean = np.array([summary.mean[0] for summary in by_level])
    low, high = (
        np.array([math.nan if end is None else end[0] for end in ends])
        for ends in zip(*((summary.low, summary.high) for summary in by_level))
    )
    return _LevelScores(Summary(mean, low, high), band)


def _resample_line(
    data: xr.Dataset, kind: str, options: FigureOptions, cluster: NDArray[Any] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the band of the least-squares line at each level, over resamples of prompts; None without a line."""
    if options.band == "none" or not np.isfinite(float(data["trend_slope"].sel(score=kind))):
        return None
    member, scores = _match_levels(data), data[f"prompt_score_{kind}"].values
    scored = (member >= 0) & np.isfinite(scores)
    levels = data["level"].values.astype(np.float64)
    x, y = levels[member[scored]], scores[scored]
    seed = options.seed if isinstance(options, RunOptions) else 0
    weights_RP = Sampling(seed=seed, cluster=cluster).take(scored).counts(len(y))
    total = weights_RP.sum(1)
    mean_x, mean_y = weights_RP @ x / total, weights_RP @ y / total
    spread = weights_RP @ (x * x) / total - mean_x**2
    # A resample of prompts of one level has no slope.
    usable = spread > 1e-12 * np.ptp(levels) ** 2
    if not usable.any():
        return None
    slope = (weights_RP @ (x * y) / total - mean_x * mean_y)[usable] / spread[usable]
    heights = mean_y[usable, None] + slope[:, None] * (levels - mean_x[usable, None])
    low, high = np.quantile(heights, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return low, high


def _draw_scores(figure: FigureBase, data: xr.Dataset, kind: str, scores: _LevelScores) -> None:
    ax = figure.subplots()
    levels = data["level"].values
    member, label = _match_levels(data), _find_label(data)
    prompt_scores = data[f"prompt_score_{kind}"].values
    for place in range(len(levels)):
        level_scores = prompt_scores[(member == place) & np.isfinite(prompt_scores)]
        ax.plot(
            place - _ASIDE + spread(len(level_scores)),
            level_scores,
            "o",
            color=style.BLUE,
            alpha=0.55,
            markersize=3.5,
            zorder=1,
        )
    places = np.arange(len(levels)) + _ASIDE
    if scores.level.low is not None and scores.level.high is not None:
        ax.vlines(places, scores.level.low, scores.level.high, color=style.VERMILION, linewidth=2.5)
    ax.plot(places, scores.level.mean, "D", color=style.VERMILION, markersize=6, label="levels")
    if scores.band is not None:
        ax.fill_between(range(len(levels)), *scores.band, color=style.MUTED, alpha=0.2, linewidth=0, zorder=0)
    _draw_trend(ax, data, kind, member)
    ax.set_xticks(range(len(levels)), [_label_level(level) for level in levels])
    ax.set_xlim(-0.6, len(levels) - 0.4)
    ax.yaxis.set_major_locator(MaxNLocator(nbins=7))
    ax.grid(visible=False, axis="x")
    ax.set_xlabel("all prompts (no level)" if label is None else f"{elided(label, 60)} (label of the prompts)")
    ax.set_ylabel("depth score (block, 0-based index)")
    # The trend is between the axes and the title, and may need more than one line.
    ax.set_title(_describe_trend(data, kind), fontsize=_TREND_POINTS, fontweight="normal")
    head_figure(figure, _TITLES[kind])


def _make_level_panel(data: xr.Dataset, kind: str, options: FigureOptions) -> Panel | None:
    """Draw the effect of each skipped block, one line for each level of difficulty."""
    if f"{kind}_effect" not in data or not 1 < data.sizes["level"] <= _LINES_UP_TO:
        return None
    effect_PS, member = data[f"{kind}_effect"].transpose("prompt", "skipped"), _match_levels(data)
    cluster = clusters_in(effect_PS, options.cluster)
    curves = []
    for place, (level, look) in enumerate(zip(data["level"].values, looks(data.sizes["level"]))):
        level_effects = effect_PS.values[member == place]
        together = None if cluster is None else cluster[member == place]
        if len(level_effects):
            label = f"{elided(_find_label(data) or 'level', _LEVEL_LETTERS)} {_label_level(level)}"
            limits = mean_limits(f"{kind}_effect", level_effects)
            summary = summarise(level_effects, np.ones(len(level_effects)), options, together, limits)
            curves.append(Series(label, effect_PS["skipped"].values, summary, look))
    title = f"Effect of each block on {_ON[kind]}, by level"
    return make_panel(f"by_level_{kind}", curves, Axis(title, PLACES["skipped"], _EFFECTS[kind], "auto"))


def _draw_trend(ax: Axes, data: xr.Dataset, kind: str, member: NDArray[np.intp]) -> None:
    """Draw the least-squares line through the prompts, for levels that are numbers."""
    slope = float(data["trend_slope"].sel(score=kind))
    scores = data[f"prompt_score_{kind}"].values
    scored = (member >= 0) & np.isfinite(scores)
    if not (np.isfinite(slope) and scored.any()):
        return
    numbers = data["level"].values.astype(np.float64)
    # A least-squares line passes through the means of both variables.
    heights = scores[scored].mean() + slope * (numbers - numbers[member[scored]].mean())
    ax.plot(np.arange(len(numbers)), heights, "--", color=style.MUTED, linewidth=1.2, label="trend", zorder=1)


def _describe_trend(data: xr.Dataset, kind: str) -> str:
    trend = data.sel(score=kind)
    if not np.isfinite(trend["trend_slope"].item()):
        return "no trend"
    p, size = (trend[f"trend_{name}"].item() for name in ("p_value", "effect_size"))
    units = data["trend_slope"].attrs.get("units", "")
    text = f"slope {Estimate.of(trend, 'trend_slope', 'trend_ci'):.2g} {units}, p = {p:.2g}"
    return f"{text}, effect size {size:.2g}" if np.isfinite(size) else text


def _find_label(data: xr.Dataset) -> str | None:
    """Return the prompts' label whose values are the levels; None where all prompts have one level."""
    match = _LABEL.fullmatch(str(data["level"].attrs.get("long_name", "")))
    return match[1] if match else None


def _match_levels(data: xr.Dataset) -> NDArray[np.intp]:
    """Return the index of each prompt's level, −1 for a prompt without one."""
    label = _find_label(data)
    if label is None:
        return np.zeros(data.sizes["prompt"], dtype=np.intp)
    # A label with the name of a result or dimension is stored with the prefix ``prompt_``, or with several of them
    # where another label already has that name.
    names = [str(name) for name, values in data.coords.items() if values.dims == ("prompt",)]
    if label not in names:
        label = max((name for name in names if re.fullmatch(rf"(prompt_)+{re.escape(label)}", name)), key=len)
    places = {_format_level(level): place for place, level in enumerate(data["level"].values)}
    return np.array([places.get(_format_level(value), -1) for value in data[label].values], dtype=np.intp)


def _format_level(level: object) -> str:
    """Write a level; ``3.0``, which stands for 3 where another prompt has no level, becomes ``3``."""
    return f"{level:g}" if isinstance(level, float) else str(level)


def _label_level(level: object) -> str:
    return drawn_text(elided(_format_level(level), _LEVEL_LETTERS))


def _list_reasons(data: xr.Dataset) -> list[str]:
    """Explain missing scores, intervals and trends: each reason once, with its levels."""
    by_reason: dict[str, dict[str, None]] = {}
    for level in data["level"].values:
        for reason in data["reason"].sel(level=level).values.flat:
            by_reason.setdefault(str(reason), {})[_format_level(level)] = None
    sentences = [f"{', '.join(levels)}: {reason}." for reason, levels in by_reason.items() if reason]
    trends = dict.fromkeys(str(reason) for reason in data["trend_reason"].values.flat)
    return sentences + [f"Trend: {reason}." for reason in trends if reason]


def _describe_scores(data: xr.Dataset, kind: str, scores: _LevelScores) -> str:
    rows = []
    summary = scores.level
    for place, level in enumerate(data["level"].values):
        score = Estimate(summary.mean[place])
        if summary.low is not None and summary.high is not None:
            score = Estimate(score.value, summary.low[place], summary.high[place])
        rows.append(f"{_format_level(level)}: {f'{score:.3g}' if np.isfinite(score.value) else 'no score'}")
    return f"Diamonds with bars, {_TITLES[kind].lower()}, by level: {'; '.join(rows)}. {_describe_trend(data, kind)}."


FIGURE: Final = FigureKind("depth_score", "Depth score", ("score_layer", "score_output"), _make_drawing)
