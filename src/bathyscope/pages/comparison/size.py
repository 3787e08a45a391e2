"""Ratio of effective depth against the number of blocks, one panel a data set.

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
from bathyscope.pages.figures.kind import Drawing, Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.table import estimator_name
from bathyscope.prompts.parts import resampled

_PREFERRED: Final = ("interpolated_cosine", "interpolated_kl", "interpolated_overlap", "centre_of_mass")
_LOOKS: Final = ((style.BLUE, "o"), (style.VERMILION, "s"), (style.GREEN, "^"), (style.PURPLE, "D"))
_ASIDE: Final = 0.012
"""Estimators stand beside each other by this share of the axis, so that whiskers do not cover one another."""


def drawing(comparison: Comparison) -> Drawing:
    """One panel for each data set whose runs have different numbers of blocks."""
    made: list[Panel] = []
    for dataset in dict.fromkeys(comparison.runs["dataset"].values.tolist()):
        own = comparison.runs.isel(run=comparison.runs["dataset"].values == dataset)
        shown = _shown(own)
        if len(set(own["blocks"].values.tolist())) > 1 and shown:
            alt = _alt(own, shown, dataset)
            made.append(Panel(f"size-{len(made)}", partial(_draw, own=own, shown=shown, dataset=dataset), alt))
    note = (
        "Each mark is one model, placed by its number of blocks (logarithmic); whiskers: "
        f"{comparison.level:.0%} intervals over "
        f"{resampled(comparison.data.attrs.get('cluster'))}; lines: least squares. A level line means that models use "
        "the same share of their depth whatever their size."
    )
    return Drawing(made, note, heading="Ratio against size")


def _shown(own: xr.Dataset) -> list[str]:
    """At most four estimators that have a ratio somewhere, real-valued ones first."""
    there = [str(name) for name in own["estimator"].values if own["ratio"].sel(estimator=name).notnull().any()]
    return [name for name in dict.fromkeys((*_PREFERRED, *there)) if name in there][: len(_LOOKS)]


def _draw(figure: FigureBase, own: xr.Dataset, shown: list[str], dataset: str) -> None:
    ax = figure.subplots()
    blocks = own["blocks"].values.astype(np.float64)
    span = np.log2(blocks.max() / blocks.min())
    for number, (name, (colour, marker)) in enumerate(zip(shown, _LOOKS)):
        one = own.sel(estimator=name)
        x = blocks * 2 ** (_ASIDE * span * (number - (len(shown) - 1) / 2))
        ratio = one["ratio"].values
        reach = np.abs(np.stack([ratio - one["ci_low"].values, one["ci_high"].values - ratio]))
        ax.errorbar(x, ratio, reach, fmt=marker, color=colour, markersize=5, elinewidth=1.4)
        ax.plot([], [], marker=marker, color=colour, linestyle="--", label=estimator_name(name))
        _draw_line(ax, blocks, ratio, colour)
    ax.set_xscale("log", base=2)
    ax.set_xticks(sorted(set(blocks)), [f"{count:.0f}" for count in sorted(set(blocks))])
    ax.xaxis.set_minor_formatter(NullFormatter())
    highest = own[["ratio", "ci_high"]].sel(estimator=shown).to_array().max().item()
    ax.set_ylim(0, 1.05 * max(1.0, highest))
    ax.set(xlabel="number of blocks (logarithmic)", ylabel="effective depth ratio")
    ax.set_title(f"Ratio against size, {dataset}")
    figure.legend(loc="outside lower center", ncols=2)


def _draw_line(ax: Axes, blocks: FloatArray, ratio: FloatArray, colour: str) -> None:
    there = np.isfinite(ratio)
    if len(set(blocks[there])) < 2:
        return
    slope, offset = np.polyfit(np.log2(blocks[there]), ratio[there], 1)
    ends = np.array([blocks.min(), blocks.max()])
    ax.plot(ends, offset + slope * np.log2(ends), "--", color=colour, linewidth=1)


def _alt(own: xr.Dataset, shown: list[str], dataset: str) -> str:
    said = []
    for name in shown:
        pairs = zip(own["blocks"].values, own["ratio"].sel(estimator=name).values)
        values = ", ".join(f"{ratio:.2f} with {count} blocks" for count, ratio in pairs if np.isfinite(ratio))
        said.append(f"{estimator_name(name)}: {values}")
    return f"Effective depth ratio against the number of blocks on {dataset}. {'; '.join(said)}."
