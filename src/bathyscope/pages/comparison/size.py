"""Ratio of effective depth against the number of blocks, one panel for each data set.

Source: hu2025, effective depth and model size.
"""

from functools import partial
from typing import Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import NullFormatter

from bathyscope.analysis.depths import Comparison
from bathyscope.core.arrays import FloatArray
from bathyscope.core.text import level_text
from bathyscope.pages.figures.kind import Drawing, Panel
from bathyscope.pages.figures.kit import style
from bathyscope.prompts.parts import resampled
from bathyscope.runs.depth_table import estimator_name

_PREFERRED: Final = ("interpolated_cosine", "interpolated_kl", "interpolated_overlap", "centre_of_mass")
_LOOKS: Final = ((style.BLUE, "o"), (style.VERMILION, "s"), (style.GREEN, "^"), (style.PURPLE, "D"))
_ASIDE: Final = 0.012
"""Estimators are shifted by this share of the axis, so that whiskers do not cover each other."""


def drawing(comparison: Comparison) -> Drawing:
    """Draw one panel for each data set whose runs differ in their number of blocks."""
    panels: list[Panel] = []
    for dataset in dict.fromkeys(comparison.runs["dataset"].values.tolist()):
        dataset_runs = comparison.runs.isel(run=comparison.runs["dataset"].values == dataset)
        estimators = _choose_estimators(dataset_runs)
        if len(set(dataset_runs["blocks"].values.tolist())) > 1 and estimators:
            alt = _describe_ratios(dataset_runs, estimators, dataset)
            panels.append(
                Panel(
                    f"size-{len(panels)}",
                    partial(_draw_ratios, runs=dataset_runs, estimators=estimators, dataset=dataset),
                    alt,
                )
            )
    note = (
        "Each mark is one model, placed by its number of blocks (logarithmic); whiskers: "
        f"{level_text(comparison.level)} intervals over "
        f"{resampled(comparison.data.attrs.get('cluster'))}; lines: least squares. A level line means that models of "
        "every size use the same share of their depth."
    )
    return Drawing(panels, note, heading="Ratio against size")


def _choose_estimators(runs: xr.Dataset) -> list[str]:
    """Choose at most four estimators that have a ratio somewhere, real-valued ones first."""
    with_ratio = [str(name) for name in runs["estimator"].values if runs["ratio"].sel(estimator=name).notnull().any()]
    return [name for name in dict.fromkeys((*_PREFERRED, *with_ratio)) if name in with_ratio][: len(_LOOKS)]


def _draw_ratios(figure: FigureBase, runs: xr.Dataset, estimators: list[str], dataset: str) -> None:
    ax = figure.subplots()
    blocks = runs["blocks"].values.astype(np.float64)
    span = np.log2(blocks.max() / blocks.min())
    for number, (name, (colour, marker)) in enumerate(zip(estimators, _LOOKS)):
        depths = runs.sel(estimator=name)
        # The axis is logarithmic, so an equal shift is a factor.
        x = blocks * 2 ** (_ASIDE * span * (number - (len(estimators) - 1) / 2))
        ratio = depths["ratio"].values
        reach = np.abs(np.stack([ratio - depths["ci_low"].values, depths["ci_high"].values - ratio]))
        ax.errorbar(x, ratio, reach, fmt=marker, color=colour, markersize=5, elinewidth=1.4)
        # The legend shows mark and line in one entry; error bars would have an entry of their own.
        ax.plot([], [], marker=marker, color=colour, linestyle="--", label=estimator_name(name))
        _draw_line(ax, blocks, ratio, colour)
    ax.set_xscale("log", base=2)
    ax.set_xticks(sorted(set(blocks)), [f"{count:.0f}" for count in sorted(set(blocks))])
    ax.xaxis.set_minor_formatter(NullFormatter())
    highest = runs[["ratio", "ci_high"]].sel(estimator=estimators).to_array().max().item()
    ax.set_ylim(0, 1.05 * max(1.0, highest))
    ax.set(xlabel="number of blocks (logarithmic)", ylabel="effective depth ratio")
    ax.set_title(f"Ratio against size, {dataset}")
    figure.legend(loc="outside lower center", ncols=2)


def _draw_line(ax: Axes, blocks: FloatArray, ratio: FloatArray, colour: str) -> None:
    finite = np.isfinite(ratio)
    if len(set(blocks[finite])) < 2:
        return
    slope, offset = np.polyfit(np.log2(blocks[finite]), ratio[finite], 1)
    ends = np.array([blocks.min(), blocks.max()])
    ax.plot(ends, offset + slope * np.log2(ends), "--", color=colour, linewidth=1)


def _describe_ratios(runs: xr.Dataset, estimators: list[str], dataset: str) -> str:
    descriptions = []
    for name in estimators:
        pairs = zip(runs["blocks"].values, runs["ratio"].sel(estimator=name).values)
        values = ", ".join(f"{ratio:.2f} with {count} blocks" for count, ratio in pairs if np.isfinite(ratio))
        descriptions.append(f"{estimator_name(name)}: {values}")
    return f"Effective depth ratio against the number of blocks on {dataset}. {'; '.join(descriptions)}."
