"""Options of fitting what measures read with, for calls and flags alike; importing them does not import torch."""

from dataclasses import dataclass
from typing import Annotated

from bathyscope.options import Range


@dataclass(frozen=True)
class FitLensOptions:
    """Options of ``fit_lens``.

    Args:
        directions: random directions of each prompt, unbiased; not given = all, exact.
        skip_first: tokens at the beginning of each prompt that it is not fitted to.
        memory: GiB that the lens, and gradients on their way back, may take.
        seed: of the random directions.
        beyond_context: run prompts longer than the context that the model declares, as for survey.
    """

    directions: Annotated[int, Range(1, none="all of them")] | None = None
    skip_first: Annotated[int, Range(0)] = 16
    memory: Annotated[float, Range(0.001)] = 4.0
    seed: int = 0
    beyond_context: bool | None = None
