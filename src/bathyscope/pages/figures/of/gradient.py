"""Gradient by depth: how strongly the loss reacts to the residual stream, through its own position and through others.

Source: csordas2025 (integrated gradients and gradients by depth).
"""

from typing import Final

from bathyscope.pages.figures.kind import Drawing, FigureKind
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.lines import BOUNDARY_LABEL, Axis, Curve, Look, chart
from bathyscope.pages.figures.kit.summary import describe
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run

_CURVES: Final = (
    Curve("norm", "whole gradient", Look(style.MUTED, "D", "--"), "prompts"),
    Curve("norm_own", "through the token's own position", Look(style.BLUE, "o"), "prompts"),
    Curve("norm_rest", "through other positions", Look(style.VERMILION, "s", ":"), "prompts"),
)
_AXIS: Final = Axis("Gradient of the loss by depth", BOUNDARY_LABEL, "norm ({unit} per activation unit)", "log")
_BESIDE: Final = (
    "Norm of the gradient of each model's mean loss with respect to its residual stream, over the share of its "
    "depth; lines: means over prompts, bands: as in the figures of the single runs below."
)


def _drawing(run: Run, options: FigureOptions) -> Drawing:
    """The norms of the gradient and of its two parts."""
    data = run["gradient"]
    norms = chart("norms", data, _AXIS, _CURVES, options)
    note = (
        "Norm of the gradient of a prompt's mean loss with respect to one token's residual stream at every boundary, "
        "mean over its tokens, among which the mean shares the loss: longer prompts have smaller ones. A token's own "
        "position: what reaches the readout of the same token without passing through another one; other positions: "
        "the rest, which is 0 at the last boundary and has no place on a logarithmic axis there. "
        f"{describe(options, data.sizes['prompt'], weighting='prompts')}"
    )
    return Drawing([] if norms is None else [norms], note, _BESIDE)


FIGURE: Final = FigureKind("gradient", "Gradient by depth", tuple(one.name for one in _CURVES), _drawing)
