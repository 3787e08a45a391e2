"""MiniMax: refused, no identity residual."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILY = Family(
    name="minimax",
    model_types=("minimax",),
    refused="its blocks return α·norm(x) + β·f(norm(x)), so there is no identity residual stream to which blocks add",
)
