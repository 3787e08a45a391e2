"""DeepSeek-V4: refused, several residual streams."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILY = Family(
    name="deepseek_v4",
    model_types=("deepseek_v4",),
    refused="its hyper-connections mix several residual streams in every block, so no single stream "
    "exists whose contributions could be measured",
)
