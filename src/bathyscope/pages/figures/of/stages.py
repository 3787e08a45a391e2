"""Stages of inference: signatures over the blocks with the boundaries of stages, and how many stages there are.

Source: lad2024 (stages of inference).
"""

from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from bathyscope.core.estimates import Estimate
from bathyscope.core.text import level_text
from bathyscope.pages.figures.kind import Drawing, FigureKind, Panel, Shared
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.axes import block_axis, plain_log_axis, whole_numbers
from bathyscope.pages.figures.kit.legend import draw_legend
from bathyscope.pages.figures.kit.series import BLOCK_LABEL
from bathyscope.pages.figures.kit.summary import describe_few
from bathyscope.pages.figures.of import stages_together
from bathyscope.pages.figures.of.loop_panels import describe_shares, make_shares
from bathyscope.pages.figures.of.stages_together import ROW_INCHES, WIDTH, label_row, label_signature, select_usable
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.prompts.parts import resampled
from bathyscope.runs.run import Run

_AROUND_INCHES: Final = 1.1
_INTERVAL_ALPHA: Final = 0.2


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """Draw the signatures with the boundaries that cut them, and the error on held-out prompts."""
    data = run["stages"]
    panels = []
    signatures = select_usable(data)
    if signatures.sizes["curve"]:
        size = (WIDTH, _AROUND_INCHES + ROW_INCHES * signatures.sizes["curve"])
        draw = partial(_draw_signatures, data=signatures, band=options.band != "none")
        shared = Shared("signatures", "signatures", data, stages_together.make_panel)
        panels.append(Panel("signatures", draw, _describe_signatures(signatures), size, (shared,)))
    if data["heldout_error"].notnull().any():
        panels.append(Panel("held_out", partial(_draw_evidence, data=data), _describe_evidence(data)))
    shares = make_shares(data)
    if shares is not None:
        panels.append(shares)
    return Drawing(panels, _write_note(data), stages_together.NOTE)


def _write_note(data: xr.Dataset) -> str:
    """Write what is cut and how, the stages' names, missing signatures, and the number of stages."""
    prompts, cluster = int(data.attrs["n_prompts"]), data.attrs.get("cluster")
    few = "" if cluster or prompts < 2 else describe_few(prompts)
    left_out = "; ".join(f"{name} ({reason})" for name, reason in data["left_out"].to_series().items() if reason)
    sentences = [
        "Signatures of how the model works at each block, all cut at the same boundaries: where the curves, "
        "standardised over the blocks, are nearest to steps. Lines: means over prompts (each prompt counts the same), "
        f"with {level_text(data.attrs['level'])} bootstrap intervals over "
        f"{resampled(cluster)}{few}; vertical lines: boundaries, shaded over their intervals.",
        _describe_names(data),
        left_out and f"Left out: {left_out}",
        str(data["boundary_reason"].values),
        _describe_count(data),
        describe_shares(data),
    ]
    return " ".join(f"{text.rstrip('.')}." for text in sentences if text)


def _describe_names(data: xr.Dataset) -> str:
    if "stage_name" not in data.coords or data["boundary"].isnull().all():
        return ""
    return (
        f"lad2024 calls what follows the boundaries {', '.join(data['stage_name'].values)}, after detokenization at "
        "the beginning; the cut does not depend on what the model does there"
    )


def _describe_count(data: xr.Dataset) -> str:
    """Write what the held-out error says about the number of stages."""
    if data["best_k"].isnull():
        return str(data["heldout_reason"].values)
    best, most = int(data["best_k"]), int(data["k"].values[data["heldout_error"].notnull().values][-1])
    many = f"; more than {most} were not tried, and may be better" if best == most else ""
    return (
        "Held-out error: breaks and levels are chosen on some prompts and measured on others; whiskers: standard "
        "errors. Every further step also fits smooth curves better, as the dotted line shows for straight curves: "
        "an error above this line is no evidence of stages. Fewest stages not clearly worse than the best: "
        f"{best}{many}"
    )


def _draw_signatures(figure: FigureBase, data: xr.Dataset, band: bool) -> None:
    count = data.sizes["curve"]
    axes = figure.subplots(count, 1, sharex=True, squeeze=False)[:, 0]
    x = data["block"].values
    for row, ax in enumerate(axes):
        signature = data.isel(curve=row)
        marker = "o" if len(x) <= style.MARKERS_UP_TO else ""
        ax.plot(x, signature["signature"].values, "-", marker=marker, color=style.BLUE)
        if band:
            ends = signature["signature_low"].values, signature["signature_high"].values
            ax.fill_between(x, *ends, color=style.BLUE, alpha=_INTERVAL_ALPHA, linewidth=0)
        _format_value_axis(ax, signature)
        _mark_boundaries(ax, data)
    figure.align_ylabels(axes)
    block_axis(axes[-1], BLOCK_LABEL, 0, len(x) - 1)
    for ax in axes[:-1]:
        ax.tick_params(axis="x", labelbottom=False)
    _number_stages(axes[0], data)
    # The numbers of the stages are between the axes and the title.
    axes[0].set_title("Signatures of the stages of inference", pad=16)


def _format_value_axis(ax: Axes, signature: xr.Dataset) -> None:
    label = label_signature(signature)
    if signature["curve_scale"].item() == "log":
        plain_log_axis(ax)
        label += ", log scale"
    else:
        ax.yaxis.set_major_locator(MaxNLocator(3))
    label_row(ax, label)
    ax.tick_params(axis="y", labelsize=7)


def _mark_boundaries(ax: Axes, data: xr.Dataset) -> None:
    """Mark each boundary between two blocks, half a block before the first block of a stage."""
    for place, low, high in zip(*(data[name].values - 0.5 for name in ("boundary", "ci_low", "ci_high"))):
        if np.isfinite(place):
            ax.vlines(place, 0, 1, transform=ax.get_xaxis_transform(), color=style.VERMILION, linewidth=1.2)
        if np.isfinite(low):
            ax.axvspan(low, high, color=style.VERMILION, alpha=_INTERVAL_ALPHA, linewidth=0)


def _number_stages(ax: Axes, data: xr.Dataset) -> None:
    """Write 1, 2, … above the stages."""
    for stage, (first, end) in enumerate(pairwise(_find_edges(data)), start=1):
        place = (first + end - 1) / 2
        above = ax.get_xaxis_transform()
        ax.text(place, 1.03, str(stage), transform=above, ha="center", va="bottom", color=style.VERMILION, fontsize=8)


def _find_edges(data: xr.Dataset) -> NDArray[np.float64]:
    """Return the first blocks of all stages, and L; empty without boundaries."""
    inner = data["boundary"].values
    return np.array([]) if np.isnan(inner).any() else np.array([0.0, *inner, data.attrs["n_blocks"]])


def _draw_evidence(figure: FigureBase, data: xr.Dataset) -> None:
    ax = figure.subplots()
    k, error = data["k"].values, data["heldout_error"].values
    floor = float(data["floor"])
    ramp = floor + (error[0] - floor) * data["unexplained_ramp"].values
    ax.plot(k, ramp, ":", color=style.MUTED, marker="", label="if all curves were straight lines")
    ax.errorbar(k, error, data["heldout_stderr"].values, fmt="o-", color=style.BLUE, label="held-out prompts")
    best = int(data["best_k"])
    label = "fewest not clearly worse"
    ax.scatter([best], [error[best - 1]], s=90, facecolors="none", edgecolors=style.VERMILION, label=label, zorder=3)
    ax.axhline(floor, **style.BROKEN, label="a stage for every block")
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(whole_numbers())
    ax.set(xlabel="number of stages (dimensionless)", ylabel="squared error (dimensionless)")
    ax.set_title("How many stages")
    draw_legend(figure, *ax.get_legend_handles_labels())


def _describe_signatures(data: xr.Dataset) -> str:
    starts = [
        f"block {Estimate(boundary, low, high):g}"
        for boundary, low, high in zip(data["boundary"].values, data["ci_low"].values, data["ci_high"].values)
    ]
    where = f"Stages begin at {', '.join(starts)}" if len(_find_edges(data)) else "No stages were found"
    every = [data.isel(curve=row) for row in range(data.sizes["curve"])]
    ends = [
        (label_signature(signature), signature["signature"].values[0], signature["signature"].values[-1])
        for signature in every
    ]
    curves = "; ".join(
        f"{label}: {first:.3g} at the first block, {last:.3g} at the last" for label, first, last in ends
    )
    return f"Line charts beneath each other, one a signature, against the block. {where}. {curves}."


def _describe_evidence(data: xr.Dataset) -> str:
    pairs = zip(data["k"].values, data["heldout_error"].values)
    errors = "; ".join(f"{error:.3g} with {k}" for k, error in pairs if np.isfinite(error))
    return f"Line chart, error of steps on held-out prompts against the number of stages: {errors}."


FIGURE: Final = FigureKind("stages", "Stages of inference", ("signature",), _make_drawing)
