"""Prediction and suppression neurons by block, and the neurons with the largest effect on "-ing" tokens.

Source: lad2024 (prediction and suppression neurons).
"""

from functools import partial
from typing import Any, Final

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import MaxNLocator

from bathyscope.pages.figures.kind import Drawing, FigureKind, Panel, drop_empty
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.axes import head_figure
from bathyscope.pages.figures.kit.lines import make_chart
from bathyscope.pages.figures.kit.series import BLOCK_LABEL, Axis, Curve, Look
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run

_CLASS: Final = "ing"
_FEWEST_TOKENS: Final = 20
"""With fewer tokens a histogram shows nothing."""
_MOST_HISTOGRAMS: Final = 6
_COLUMNS: Final = 6
_CELL: Final = (1.5, 1.25)
_FRAME: Final = (0.5, 0.8)
_SHARES: Final = Axis("Prediction and suppression neurons", BLOCK_LABEL, "share of neurons (dimensionless)")
_FRACTIONS: Final = (
    Curve("prediction_fraction", "prediction", Look(style.BLUE)),
    Curve("suppression_fraction", "suppression", Look(style.VERMILION, "s", "--")),
)
_QUANTILES: Final = (
    Curve("kurtosis", "largest", Look(style.PURPLE, "^"), at={"quantile": 1.0}),
    Curve("kurtosis", "99th percentile", Look(style.GREEN, "D", "--"), at={"quantile": 0.99}),
    Curve("kurtosis", "median", Look(style.MUTED, "o", ":"), at={"quantile": 0.5}),
)


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """Draw shares of both kinds and kurtosis by block, and histograms of neurons of the class "-ing"."""
    data = run["neurons"]
    tokens = int(data["class_tokens"].sel(token_class=_CLASS))
    listed = data.sel(token_class=_CLASS)
    listed = listed.isel(rank=listed["top_block"].values >= 0).isel(rank=slice(_MOST_HISTOGRAMS))
    top_neurons = listed if tokens >= _FEWEST_TOKENS and listed.sizes["rank"] else None
    panels = [
        make_chart("fractions", data, _SHARES, _FRACTIONS, options),
        _make_kurtosis_panel(data, options),
        None if top_neurons is None else _make_histogram_panel(top_neurons),
    ]
    note = (
        "From the weights alone. A neuron whose effect on the tokens' logits has a kurtosis above "
        f"{data.attrs['kurtosis']:g} (normal: 3) acts on few tokens; it predicts them if the effect is skewed to "
        "the right, and suppresses them if it is skewed to the left. "
    )
    if tokens < _FEWEST_TOKENS:
        note += f'No histograms: {tokens or "none"} of the tokens are known to end in "ing", too few.'
    if top_neurons is not None:
        note += (
            f'Histograms: effect of single neurons on the {tokens} tokens that end in "ing" (outlined) and on all '
            "others (grey), as shares of each group and on one scale, for the neurons with the largest difference "
            "between the two means (above each)."
        )
    return Drawing(drop_empty(panels), note)


def _make_kurtosis_panel(data: xr.Dataset, options: FigureOptions) -> Panel | None:
    kurtosis = data["kurtosis"]
    if not kurtosis.notnull().any():
        return None
    # A model has thousands of neurons in each block, so curves show quantiles over them.
    over_neurons = kurtosis.quantile([curve.at["quantile"] for curve in _QUANTILES], "neuron").to_dataset(
        name="kurtosis"
    )
    rules = {float(data.attrs["kurtosis"]): "threshold"}
    axis = Axis("How heavy-tailed neurons are", BLOCK_LABEL, "kurtosis of z (dimensionless)", "auto", rules)
    return make_chart("kurtosis", over_neurons, axis, _QUANTILES, options)


def _make_histogram_panel(top_neurons: xr.Dataset) -> Panel:
    down = -(-top_neurons.sizes["rank"] // _COLUMNS)
    size = (_COLUMNS * _CELL[0] + _FRAME[0], down * _CELL[1] + _FRAME[1])
    first = "; ".join(
        f"block {int(neuron.top_block)} neuron {int(neuron.top_neuron)}: {float(neuron.top_effect):+.3g}"
        for neuron in (top_neurons.isel(rank=rank) for rank in range(min(5, top_neurons.sizes["rank"])))
    )
    alt = (
        f"{top_neurons.sizes['rank']} histograms of the effect of single neurons on the logits of tokens that end in "
        f'"ing" and of all others. Differences of the means, largest first: {first}.'
    )
    return Panel("top_ing", partial(_draw_histograms, top_neurons=top_neurons), alt, size)


def _draw_histograms(figure: FigureBase, top_neurons: xr.Dataset) -> None:
    # A subfigure measures its own box; the resolution belongs to the whole figure.
    place: Any = figure
    width = place.bbox.width / place.figure.dpi
    count = top_neurons.sizes["rank"]
    across = max(1, min(_COLUMNS, count, round((width - _FRAME[0]) / _CELL[0])))
    axes = figure.subplots(-(-count // across), across, squeeze=False, sharey=True)
    for ax in axes.flat[count:]:
        ax.remove()
    for rank, ax in enumerate(axes.flat[:count]):
        _draw_neuron(ax, top_neurons.isel(rank=rank))
        if rank + across >= count:
            ax.set_xlabel("effect (logits,\ndimensionless)", fontsize=7)
        if rank % across == 0:
            ax.set_ylabel("share of tokens", fontsize=7)
        else:
            ax.yaxis.set_visible(False)
    head_figure(figure, 'Neurons that act most on tokens ending in "ing"')


def _draw_neuron(ax: Axes, neuron_data: xr.Dataset) -> None:
    edges = neuron_data["histogram_edge"].values
    ax.stairs(neuron_data["histogram"].sel(side="others").values, edges, fill=True, color=style.MUTED, alpha=0.45)
    ax.stairs(neuron_data["histogram"].sel(side="class").values, edges, color=style.VERMILION, linewidth=1.1)
    effect = float(neuron_data["top_effect"])
    ax.set_title(
        f"block {int(neuron_data['top_block'])}, {int(neuron_data['top_neuron'])}: {effect:+.2f}",
        fontsize=6.5,
        fontweight="normal",
    )
    ax.tick_params(labelsize=6)
    ax.xaxis.set_major_locator(MaxNLocator(2))
    ax.yaxis.set_major_locator(MaxNLocator(3))


FIGURE: Final = FigureKind("neurons", "Prediction and suppression neurons", ("kurtosis",), _make_drawing)
