"""Gradient by depth: how strongly the loss reacts to the residual stream, through its own position and through others.

Source: csordas2025 (integrated gradients and gradients by depth).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bathyscope.report.figures import style
from bathyscope.report.figures.kind import Drawing, FigureKind
from bathyscope.report.figures.lines import BOUNDARY_LABEL, Axis, Look, panel, series, unit
from bathyscope.report.figures.options import FigureOptions
from bathyscope.report.figures.summary import describe

if TYPE_CHECKING:
    from bathyscope.store.run import Run

_CURVES: Final = {
    "norm": ("whole gradient", Look(style.MUTED, "D", "--")),
    "norm_own": ("through the token's own position", Look(style.BLUE, "o")),
    "norm_rest": ("through other positions", Look(style.VERMILION, "s", ":")),
}


_ALONE: Final = {"norm": "Gradient of the loss by depth", "norm_own": "Gradient through the token's own position"}
_BESIDE: Final = (
    "Norm of the gradient of each model's mean loss with respect to its residual stream, over the share of its "
    "depth; lines: means over prompts, bands: as in the figures of the single runs below."
)


def _drawing(run: Run, options: FigureOptions) -> Drawing:
    """The norms of the gradient and of its two parts."""
    data = run["gradient"]
    curves = [
        series(data, name, label, look, options, "prompts") for name, (label, look) in _CURVES.items() if name in data
    ]
    y = f"norm ({unit(data, curves[0].name)} per activation unit)"
    norms = panel("norms", curves, Axis("Gradient of the loss by depth", BOUNDARY_LABEL, y, "log"), _ALONE)
    note = (
        "Norm of the gradient of the mean loss with respect to the residual stream at every boundary; a token's own "
        "position: what reaches the readout of the same token without passing through another one; other positions: "
        "the rest, which is 0 at the last boundary and has no place on a logarithmic axis there. "
        f"{describe(options, data.sizes['prompt'], weighting='prompts')}"
    )
    return Drawing([] if norms is None else [norms], note, _BESIDE)


FIGURE: Final = FigureKind("gradient", "Gradient by depth", tuple(_CURVES), _drawing)
