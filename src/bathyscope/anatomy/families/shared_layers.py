"""The laboratory's models whose group of blocks is repeated: every execution step is a block."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILIES = (
    # Block l is the l-th execution step. Steps that run the same block are modules of their own with the same
    # parameters, so that an intervention on one leaves the others alone. A model with blocks that norm the sum has no
    # separable contributions.
    Family(
        name="shared_layers",
        model_types=("bathyscope_moeut", "bathyscope_universal"),
        parts_when=("parts_add", True),
        implementation="bathyscope_lab.models",
    ),
)
