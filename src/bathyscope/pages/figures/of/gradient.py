"""Gradient by depth: how strongly the loss depends on the residual stream, through its own position and others.

Source: csordas2025 (integrated gradients and gradients by depth).
"""

from typing import Final

from bathyscope.pages.figures.kind import Drawing, FigureKind, drop_empty
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.lines import make_chart
from bathyscope.pages.figures.kit.series import BOUNDARY_LABEL, Axis, Curve, Look
from bathyscope.pages.figures.kit.summary import describe
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run

_CURVES: Final = (
    Curve("norm", "whole gradient", Look(style.MUTED, "D", "--"), "prompts"),
    Curve("norm_own", "through the token's own position", Look(style.BLUE, "o"), "prompts"),
    Curve("norm_rest", "through other positions", Look(style.VERMILION, "s", ":"), "prompts"),
)
_AXIS: Final = Axis("Gradient of the loss by depth", BOUNDARY_LABEL, "norm ({unit} per activation unit)", "log")
_JOINT_NOTE: Final = (
    "Norm of the gradient of each model's mean loss with respect to its residual stream, over the share of its "
    "depth; lines: means over prompts, bands: as in the figures of the single runs below."
)


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """Draw the norms of the gradient and of its two parts."""
    data = run["gradient"]
    norms = make_chart("norms", data, _AXIS, _CURVES, options)
    note = (
        "Norm of the gradient of a prompt's mean loss with respect to one token's residual stream at every boundary, "
        "mean over tokens. The mean divides the loss among tokens, so longer prompts have smaller norms. A token's own "
        "position: what reaches the readout of the same token without passing through another token; other positions: "
        "the rest, which is 0 at the last boundary and cannot be shown on a logarithmic axis. "
        f"{describe(options, data.sizes['prompt'], weighting='prompts')}"
    )
    return Drawing(drop_empty([norms]), note, _JOINT_NOTE)


FIGURE: Final = FigureKind("gradient", "Gradient by depth", tuple(curve.name for curve in _CURVES), _make_drawing)
