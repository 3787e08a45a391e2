"""StableLM: parallel or serial residual, by a flag of the configuration."""

from __future__ import annotations

from bathyscope.anatomy.family import Family

FAMILY = Family(
    name="stablelm",
    model_types=("stablelm",),
    parallel="use_parallel_residual",
)
