"""Qwen4-Exp: refused, several residual streams."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILY = Family(
    name="qwen4_exp",
    model_types=(
        "qwen4_exp",
        "qwen4_exp_text",
    ),
    refused="its hyper-connections mix several residual streams in every block, so no single stream "
    "exists whose contributions could be measured",
)
