"""The three curves behind effective depth, all runs together over the share of the depth.

Source: hu2025, residual cosine and logit lens.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bathyscope.analysis.depths import Comparison
from bathyscope.analysis.depths.side import ComparedPrompts
from bathyscope.core.text import elided
from bathyscope.labels import mean_limits
from bathyscope.pages.figures.kind import Drawing, Panel
from bathyscope.pages.figures.kit.lines import make_panel
from bathyscope.pages.figures.kit.lines_together import mark_depths
from bathyscope.pages.figures.kit.series import Axis, Look, Series, looks
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

_VARIABLES: Final = {"cosine": "cos_block", "kl": "kl_lens_final", "overlap": "overlap"}
"""Curve → a variable of its range."""


def drawing(comparison: Comparison) -> Drawing:
    """Draw the curves of all runs: cosine, KL and overlap, without panels that have no value."""
    panels: list[Panel] = []
    for name, axis in _CURVES.items():
        curves = [_make_curve(side, name, look) for side, look in zip(comparison.sides, looks(len(comparison.sides)))]
        curve_panel = make_panel(name, curves, axis)
        if curve_panel is not None:
            ratios = _read_ratios(comparison, name)
            panels.append(
                mark_depths(curve_panel, ratios, "effective depth ratio by this curve") if ratios else curve_panel
            )
    prompts = min(len(side.prompts) for side in comparison.sides)
    options = FigureOptions(cluster=comparison.data.attrs.get("cluster"))
    note = (
        "Each curve is one run over the share of its blocks that are done, so models of different size can be "
        f"compared. {describe(options, prompts)} KL is divided by its largest value, because its threshold is "
        "a share of that value."
    )
    return Drawing(panels, note, heading="Curves of the runs")


def _label_run(side: ComparedPrompts) -> str:
    return f"{elided(side.name, _NAME_LETTERS)} (L = {side.n_blocks})"


def _read_ratios(comparison: Comparison, estimator: str) -> dict[str, float]:
    """Return where each run's curve crosses its threshold, for runs that have the estimator."""
    if estimator not in comparison.runs["estimator"].values:
        return {}
    ratios = comparison.runs["ratio"].sel(estimator=estimator).dropna("run")
    return {
        _label_run(side): float(ratios.sel(run=side.name)) for side in comparison.sides if side.name in ratios["run"]
    }


def _make_curve(side: ComparedPrompts, name: str, look: Look) -> Series:
    values: NDArray[np.float64] = getattr(side.curves, name)
    options, limits = FigureOptions(weighting="tokens"), mean_limits(_VARIABLES[name], values)
    summary = summarise(values, side.curves.weights(name), options, side.curves.cluster, limits)
    largest = np.nanmax(summary.mean, initial=0.0) if name == "kl" else 1.0
    if largest > 0:
        summary = Summary(
            summary.mean / largest, *(None if end is None else end / largest for end in (summary.low, summary.high))
        )
    # A value of the cosine belongs to a whole block, a value of the lens to a boundary: indices are not yet depths.
    x = (np.arange(side.n_blocks) + blocks_done(f"interpolated_{name}")) / side.n_blocks
    return Series(_label_run(side), x, summary, look, name)
