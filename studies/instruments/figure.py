"""What the Jacobian lens reads, next to the plain and the translated lens, and how far its halves agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bathyscope.extend.figures import style

LOOKS: Final = {
    "lens": ("plain lens", style.VERMILION, "s"),
    "translated": ("translated lens", style.BLUE, "o"),
    "jacobian": ("Jacobian lens", style.GREEN, "^"),
}
HALVES: Final = {
    "half_agreement": ("halves", style.MUTED, "D"),
    "half_agreement_rest": ("halves without the identity", style.GREEN, "^"),
    "identity_share": ("share of the identity", style.PURPLE, "v"),
}


def draw_lenses(results: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw a column for each model: KL by boundary above, agreement of halves below; untrained models dashed.

    Args:
        results: model → label → what ``read_with_lens`` gives; a model without its trained row is left out.
    """
    models = {name: rows for name, rows in results.items() if "trained" in rows}
    figure = Figure(figsize=(5.2 * max(1, len(models)), 6.4), layout="constrained")
    axes = figure.subplots(2, max(1, len(models)), squeeze=False, sharex="col")
    for column, (name, rows) in enumerate(models.items()):
        _draw_kl(axes[0, column], rows)
        _draw_halves(axes[1, column], rows)
        axes[0, column].set_title(name)
    axes[0, 0].legend(frameon=False, fontsize="small")
    axes[1, 0].legend(frameon=False, fontsize="small")
    return figure


def _draw_kl(ax: Axes, rows: Mapping[str, Any]) -> None:
    trained = rows["trained"]
    places = np.arange(trained["n_blocks"])
    for reader, (title, colour, marker) in LOOKS.items():
        if reader in trained["kl"]:
            mean, low, high = _numbers(trained["kl"][reader][: len(places)]).T
            ax.plot(places, mean, color=colour, marker=marker, markersize=3, label=title)
            ax.fill_between(places, low, high, color=colour, alpha=0.2, linewidth=0)
        for label, other in rows.items():
            if label != "trained" and reader in other["kl"]:
                means = _numbers(other["kl"][reader][: len(places)])[:, 0]
                ax.plot(places, means, color=colour, linestyle="--", linewidth=0.7)
    ax.set(ylabel="KL(final ‖ read) (nats)", yscale="log")
    ax.yaxis.set_major_formatter("{x:g}")


def _draw_halves(ax: Axes, rows: Mapping[str, Any]) -> None:
    for label, row in rows.items():
        places = np.arange(row["n_blocks"])
        for name, (title, colour, marker) in HALVES.items():
            values = _numbers(row[name][: len(places)])
            if label == "trained":
                ax.plot(places, values, color=colour, marker=marker, markersize=3, label=title)
            else:
                ax.plot(places, values, color=colour, linestyle="--", linewidth=0.7)
    ax.set(xlabel="boundary (blocks done)", ylabel="cosine, or share", ylim=(0, 1.02))


def _numbers(values: Sequence[Any]) -> np.ndarray:
    return np.array(values, dtype=np.float64)
