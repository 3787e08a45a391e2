"""Prediction and suppression neurons by block, and how the neurons that act most on "-ing" tokens treat them.

Source: lad2024 (prediction and suppression neurons).
"""

from functools import partial
from typing import Final

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import MaxNLocator

from bathyscope.pages.figures.kind import Drawing, FigureKind, Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.lines import BLOCK_LABEL, Axis, Curve, Look, chart
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run

_CLASS: Final = "ing"
_FEWEST_TOKENS: Final = 20
"""Whose shares can be seen in a histogram."""
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


def _drawing(run: Run, options: FigureOptions) -> Drawing:
    """Shares of both kinds by block, kurtosis by block, and histograms of the neurons of the class "-ing"."""
    data = run["neurons"]
    tokens = int(data["class_tokens"].sel(token_class=_CLASS))
    listed = data.sel(token_class=_CLASS)
    listed = listed.isel(rank=listed["top_block"].values >= 0)
    shown = listed if tokens >= _FEWEST_TOKENS and listed.sizes["rank"] else None
    made = [
        chart("fractions", data, _SHARES, _FRACTIONS, options),
        _kurtosis(data, options),
        None if shown is None else _top(shown),
    ]
    note = (
        "From the weights alone. A neuron whose effect on the tokens' logits has a kurtosis above "
        f"{data.attrs['kurtosis']:g} (normal: 3) acts on few tokens; it predicts them where the effect is skewed to "
        "the right and suppresses them where it is skewed to the left. "
    )
    if tokens < _FEWEST_TOKENS:
        note += f'No histograms: {tokens or "none"} of the tokens are known to end in "ing", too few.'
    if shown is not None:
        note += (
            f'Histograms: effect of single neurons on the {tokens} tokens that end in "ing" (outlined) and on all '
            "others (grey), each as shares of their own number and all on one scale; the neurons with the largest "
            "difference between the two means, which is given above each."
        )
    return Drawing([one for one in made if one is not None], note)


def _kurtosis(data: xr.Dataset, options: FigureOptions) -> Panel | None:
    kurtosis = data["kurtosis"]
    if not kurtosis.notnull().any():
        return None
    over_neurons = kurtosis.quantile([one.at["quantile"] for one in _QUANTILES], "neuron").to_dataset(name="kurtosis")
    rules = {float(data.attrs["kurtosis"]): "threshold"}
    axis = Axis("How heavy-tailed neurons are", BLOCK_LABEL, "kurtosis of z (dimensionless)", "auto", rules)
    return chart("kurtosis", over_neurons, axis, _QUANTILES, options)


def _top(shown: xr.Dataset) -> Panel:
    down = -(-shown.sizes["rank"] // _COLUMNS)
    size = (_COLUMNS * _CELL[0] + _FRAME[0], down * _CELL[1] + _FRAME[1])
    first = "; ".join(
        f"block {int(one.top_block)} neuron {int(one.top_neuron)}: {float(one.top_effect):+.3g}"
        for one in (shown.isel(rank=rank) for rank in range(min(5, shown.sizes["rank"])))
    )
    alt = (
        f'{shown.sizes["rank"]} histograms of the effect of single neurons on the logits of tokens that end in "ing" '
        f"and of all others. Differences of the means, largest first: {first}."
    )
    return Panel("top_ing", partial(_draw, shown=shown, down=down), alt, size)


def _draw(figure: FigureBase, shown: xr.Dataset, down: int) -> None:
    axes = figure.subplots(down, _COLUMNS, squeeze=False, sharey=True)
    count = shown.sizes["rank"]
    for ax in axes.flat[count:]:
        ax.remove()
    for rank, ax in enumerate(axes.flat[:count]):
        _draw_neuron(ax, shown.isel(rank=rank))
        if rank + _COLUMNS >= count:
            ax.set_xlabel("effect (logits,\ndimensionless)", fontsize=7)
        if rank % _COLUMNS == 0:
            ax.set_ylabel("share of tokens", fontsize=7)
        else:
            ax.yaxis.set_visible(False)
    figure.suptitle(
        'Neurons that act most on tokens ending in "ing"', x=0.01, ha="left", fontsize=9.5, fontweight="bold"
    )


def _draw_neuron(ax: Axes, one: xr.Dataset) -> None:
    edges = one["histogram_edge"].values
    ax.stairs(one["histogram"].sel(side="others").values, edges, fill=True, color=style.MUTED, alpha=0.45)
    ax.stairs(one["histogram"].sel(side="class").values, edges, color=style.VERMILION, linewidth=1.1)
    block, neuron, effect = int(one["top_block"]), int(one["top_neuron"]), float(one["top_effect"])
    ax.set_title(f"block {block}, {neuron}: {effect:+.2f}", fontsize=6.5, fontweight="normal")
    ax.tick_params(labelsize=6)
    ax.xaxis.set_major_locator(MaxNLocator(2))
    ax.yaxis.set_major_locator(MaxNLocator(3))


FIGURE: Final = FigureKind("neurons", "Prediction and suppression neurons", ("kurtosis",), _drawing)
