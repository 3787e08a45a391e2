"""The three curves behind effective depth, all runs together over the share of the depth.

Source: hu2025, residual cosine and logit lens.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bathyscope.analysis.depths import Comparison
from bathyscope.analysis.depths.side import ComparedPrompts
from bathyscope.core.text import elided
from bathyscope.pages.figures.kind import Drawing, Panel
from bathyscope.pages.figures.kit.lines import Axis, Look, Series, looks, mark, panel
from bathyscope.pages.figures.kit.summary import Summary, describe, summarise
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.statistics.effective_depth import blocks_done

_NAME_LETTERS: Final = 30
_X: Final = "blocks done / L"
_CURVES: Final = {
    "cosine": Axis("Mean of the three cosines", _X, "cosine", rules={0.0: ""}, whole=False),
    "kl": Axis("KL of the lens from the final prediction", _X, "KL over its maximum", whole=False),
    "overlap": Axis("Top-k overlap of lens and final prediction", _X, "overlap (share)", whole=False),
}


def drawing(comparison: Comparison) -> Drawing:
    """Three panels, cosine, KL and overlap, with a curve a run; those without any value left out."""
    made: list[Panel] = []
    for name, axis in _CURVES.items():
        curves = [_curve(side, name, look) for side, look in zip(comparison.sides, looks(len(comparison.sides)))]
        shown = panel(name, curves, axis)
        if shown is not None:
            ratios = _ratios(comparison, name)
            made.append(mark(shown, ratios, "effective depth ratio by this curve") if ratios else shown)
    prompts = min(len(side.prompts) for side in comparison.sides)
    options = FigureOptions(cluster=comparison.data.attrs.get("cluster"))
    note = (
        "Each curve is one run, over the share of its blocks that are done, so that models of different size lie on "
        f"each other. {describe(options, prompts)} KL is divided by its largest value, since its threshold is "
        "a share of that."
    )
    return Drawing(made, note, heading="Curves of the runs")


def _label(side: ComparedPrompts) -> str:
    return f"{elided(side.name, _NAME_LETTERS)} (L = {side.n_blocks})"


def _ratios(comparison: Comparison, estimator: str) -> dict[str, float]:
    """Where the curves of those that have the estimator cross."""
    if estimator not in comparison.runs["estimator"].values:
        return {}
    ratios = comparison.runs["ratio"].sel(estimator=estimator).dropna("run")
    return {_label(side): float(ratios.sel(run=side.name)) for side in comparison.sides if side.name in ratios["run"]}


def _curve(side: ComparedPrompts, name: str, look: Look) -> Series:
    values: NDArray[np.float64] = getattr(side.curves, name)
    found = summarise(values, side.curves.weights(name), FigureOptions(weighting="tokens"), side.curves.cluster)
    largest = np.nanmax(found.mean, initial=0.0) if name == "kl" else 1.0
    if largest > 0:
        found = Summary(
            found.mean / largest, *(None if end is None else end / largest for end in (found.low, found.high))
        )
    x = (np.arange(side.n_blocks) + blocks_done(f"interpolated_{name}")) / side.n_blocks
    return Series(_label(side), x, found, look, name)
