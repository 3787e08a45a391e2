"""Stages of several models over the share of their depth: signatures beneath each other, boundaries side by side.

Source: lad2024 (stages of inference).
"""

import textwrap
from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import MaxNLocator

from bathyscope.core.text import elided
from bathyscope.pages.figures.kind import Member, Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.series import Look, nth_look

NOTE: Final = (
    "Signatures of each model over the share of its depth, (block + ½)/L, each standardised over the model's own "
    "blocks: shapes can be compared, sizes cannot. At the bottom the boundaries of the stages, boundary/L, "
    "with their intervals; each row is a model."
)

WIDTH: Final = 7.2
ROW_INCHES: Final = 0.85
"""Height of one signature."""
_LABEL_LETTERS: Final = 20

NAMES: Final = {
    "drop_kl": "KL without the block",
    "attention_prev5": "attention to the previous 5 tokens",
    "prediction_neurons": "prediction neurons",
    "suppression_neurons": "suppression neurons",
    "lens_entropy": "lens entropy behind the block",
    "lens_kl": "lens KL behind the block",
    "mlp_norm": "norm of the MLP's contribution",
}
_UNITS: Final = {
    "attention_prev5": "dimensionless",
    "prediction_neurons": "share, dimensionless",
    "suppression_neurons": "share, dimensionless",
    "mlp_norm": "activation units",
}
Model = tuple[str, Look, xr.Dataset]
"""A model's name, its look, and its measure ``stages``."""
_AROUND_INCHES: Final = 1.0
_MODEL_INCHES: Final = 0.3
_NAME_LETTERS: Final = 40
_REASON_LETTERS: Final = 80


def select_usable(data: xr.Dataset) -> xr.Dataset:
    """Return the dataset with the signatures that are cut."""
    return data.isel(curve=data["left_out"].values == "")


def label_signature(signature: xr.Dataset) -> str:
    """Name and unit of a signature."""
    name = str(signature["curve"].item())
    return f"{NAMES[name]} ({_UNITS.get(name, signature['curve_units'].item())})"


def label_row(ax: Axes, text: str) -> None:
    """Write a label at the left of a row, in as many lines as it needs."""
    ax.set_ylabel(textwrap.fill(text, _LABEL_LETTERS), rotation=0, ha="right", va="center", fontsize=7.5)


def make_panel(name: str, members: Sequence[Member]) -> Panel | None:
    """Make one panel of all models; None where no signature is usable in two of them."""
    models = [(elided(member.run, _NAME_LETTERS), nth_look(member.number), member.content) for member in members]
    # A signature of one model alone has nothing to be compared with.
    usable_names = [str(curve) for *_, data in models for curve in select_usable(data)["curve"].values]
    common_names = [curve for curve in NAMES if usable_names.count(curve) > 1]
    if not common_names:
        return None
    size = (WIDTH, _AROUND_INCHES + ROW_INCHES * len(common_names) + 2 * _MODEL_INCHES * len(models))
    return Panel(
        name,
        partial(_draw_signatures, models=models, curves=common_names),
        _describe_boundaries(models, common_names),
        size,
    )


def _draw_signatures(figure: FigureBase, models: Sequence[Model], curves: Sequence[str]) -> None:
    heights = [ROW_INCHES] * len(curves) + [_MODEL_INCHES * (len(models) + 0.5)]
    axes = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    for ax, curve in zip(axes, curves):
        for _, look, data in models:
            _draw_curve(ax, data, curve, look)
        ax.yaxis.set_major_locator(MaxNLocator(3))
        label_row(ax, f"{NAMES[curve]} (standardised, dimensionless)")
        ax.tick_params(axis="x", labelbottom=False)
        ax.tick_params(axis="y", labelsize=7)
    _draw_boundaries(axes[-1], models)
    figure.align_ylabels(axes)
    axes[0].set_title("Signatures of the stages of inference, model by model")
    handles = [
        axes[0].plot([], [], look.line, color=look.colour, marker=look.marker, label=name)[0]
        for name, look, _ in models
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)


def _draw_curve(ax: Axes, data: xr.Dataset, curve: str, look: Look) -> None:
    values = data["standardised"].sel(curve=curve).values
    if np.isfinite(values).all():
        marker = look.marker if len(values) <= style.MARKERS_UP_TO else ""
        ax.plot((data["block"].values + 0.5) / len(values), values, look.line, color=look.colour, marker=marker)


def _draw_boundaries(ax: Axes, models: Sequence[Model]) -> None:
    """Draw a row for each model: where its later stages begin, with intervals."""
    for row, (_, look, data) in enumerate(models):
        n_blocks = data.attrs["n_blocks"]
        if data["boundary"].isnull().all():
            reason = textwrap.shorten(f"none: {data['boundary_reason'].item()}", _REASON_LETTERS, placeholder=" …")
            ax.text(0.01, row, reason, va="center", color=look.colour, fontstyle="italic", fontsize=7)
            continue
        place = data["boundary"].values / n_blocks
        ends = [data[name].values / n_blocks for name in ("ci_low", "ci_high")]
        ax.hlines([row] * len(place), *ends, color=look.colour, linewidth=2, alpha=0.6)
        ax.plot(place, [row] * len(place), linestyle="", color=look.colour, marker=look.marker, markersize=5)
    ax.set_yticks([])
    ax.set_ylim(len(models) - 0.4, -0.6)
    label_row(ax, "boundaries of the stages (index)")
    ax.set(xlim=(0, 1), xlabel="share of the depth (dimensionless)")


def _describe_boundaries(models: Sequence[Model], curves: Sequence[str]) -> str:
    descriptions = []
    for name, _, data in models:
        shares = ", ".join(f"{share:.2f}" for share in data["relative_depth"].values if np.isfinite(share))
        descriptions.append(f"{name}: {shares or 'none'}")
    listed = ", ".join(NAMES[curve] for curve in curves)
    return (
        f"Line charts beneath each other over the share of the depth, one line a model: {listed}. Stages begin at "
        f"these shares of the depth: {'; '.join(descriptions)}."
    )
