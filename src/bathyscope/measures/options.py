"""Options of fitting what measures read with, for calls and flags alike; importing them does not import torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from bathyscope.errors import OptionError
from bathyscope.options import Range

LENS_ENDING: Final = ".safetensors"
"""Of the files of Jacobian lenses."""


def require_ending(path: Path, name: str) -> None:
    """Refuse a file for a lens that has another ending.

    Raises:
        OptionError: with the ending that it needs.
    """
    if path.suffix != LENS_ENDING:
        raise OptionError(f"{name}={str(path)!r} must end in {LENS_ENDING}, the kind of file that a lens is.")


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
