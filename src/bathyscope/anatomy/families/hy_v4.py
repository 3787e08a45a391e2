"""HY-V4: refused, several residual streams."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILY = Family(
    name="hy_v4",
    model_types=("hy_v4",),
    refused="its hyper-connections mix several residual streams in every block, so no single stream "
    "exists whose contributions could be measured",
)
