"""Test costs of all candidates, a panel for every model and a group of dots for every share of its blocks."""

from __future__ import annotations

from functools import partial
from typing import Final

import pandas as pd
from matplotlib.figure import Figure, FigureBase
from matplotlib.ticker import FixedLocator

from bathyscope.extend.figures import Panel, arrange, style
from studies.pruning.experiment import EXHAUSTIVE, SEARCH

_TICKS: Final = (0, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_LOOKS: Final = {
    SEARCH: (style.INK, "o"),
    EXHAUSTIVE: (style.MUTED, "*"),
    "greedy": (style.BLUE, "s"),
    "pair surrogate": (style.BLUE, "D"),
    "one-shot loss": (style.GREEN, "^"),
    "block influence": (style.VERMILION, "v"),
    "angular distance": (style.PURPLE, "P"),
    "last": (style.MUTED, "<"),
    "random": (style.MUTED, "x"),
}


def draw(found: pd.DataFrame) -> Figure:
    """All models under a caption."""
    caption = (
        "Cost on other text of what is left out, nats per token, by the rule that chose it; whiskers: 95 % intervals "
        "over test prompts. Hollow marks can be told from the best of their group (paired bootstrap, corrected for all "
        "pairs)."
    )
    models = found["model"].drop_duplicates()
    return arrange(
        caption, [Panel(str(name), partial(_panel, own=found[found["model"] == name]), "costs") for name in models]
    )


def _panel(figure: FigureBase, own: pd.DataFrame) -> None:
    ax = figure.subplots()
    shares = own["share"].drop_duplicates().tolist()
    there = [name for name in _LOOKS if (own["candidate"] == name).any()]
    for number, name in enumerate(there):
        colour, marker = _LOOKS[name]
        rows = own[own["candidate"] == name]
        x = [shares.index(share) + 0.08 * (number - (len(there) - 1) / 2) for share in rows["share"]]
        ax.vlines(x, rows["test_cost_low"], rows["test_cost_high"], color=colour, linewidth=1.2, alpha=0.6)
        filled = rows["indistinguishable"].to_numpy(dtype=bool)
        for place, y, fill in zip(x, rows["test_cost"], filled):
            face = colour if fill else style.PAPER
            ax.plot([place], [y], marker, color=colour, markerfacecolor=face, markersize=4)
        ax.plot([], [], marker, color=colour, markersize=4, label=name)
    dropped = own.drop_duplicates("share")["dropped"]
    ax.set_xticks(range(len(shares)), [f"{share} % ({gone})" for share, gone in zip(shares, dropped)])
    ax.set_yscale("symlog", linthresh=0.1)
    ax.yaxis.set_major_locator(FixedLocator(_TICKS))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_ylim(min(0.0, float(own["test_cost_low"].min())), 1.2 * float(own["test_cost_high"].max()))
    ax.set_xlabel(f"blocks left out of {int(own['blocks'].iloc[0])}")
    ax.set_ylabel("cost (nats per token)")
    ax.set_title(str(own["model"].iloc[0]))
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=6)
