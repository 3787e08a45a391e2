"""Declaration of the gradient by depth; its code is ``measures.gradient``."""

from functools import partial
from typing import Final

from bathyscope.labels import Label
from bathyscope.measures.declaration import Declaration

_label = partial(
    Label,
    "prompt boundary",
    units="nats",
    source="gradient by depth; csordas2025, integrated gradients",
    direction="higher = the loss reacts more to the residual stream",
)

DECLARATION: Final = Declaration(
    "gradient",
    "Norm of the loss's gradient at every boundary, and its own-position part.",
    table={
        "norm": _label("norm of the mean loss's gradient (mean over tokens)", formula="‖∂(mean loss)/∂h_b[t]‖₂"),
        "norm_own": _label(
            "norm of the gradient through the token's own position (mean over tokens)",
            formula="‖∂(own loss / tokens with a loss)/∂h_b[t]‖₂",
        ),
        "norm_rest": _label(
            "norm of the gradient through other positions (mean over tokens)",
            formula="‖∂(mean loss)/∂h_b[t] − ∂(own loss / tokens with a loss)/∂h_b[t]‖₂",
        ),
    },
    order=110,
    synonyms=("saliency", "gradients", "grad_norm"),
    panels={"norms": ("norm", "norm_own", "norm_rest")},
    question="how does the loss reach each depth?",
    rows="backward passes",
)
