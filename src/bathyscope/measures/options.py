"""Options of fitting what measures read with, for calls and flags alike; importing them does not import torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from bathyscope.core.common_options import ReadingOptions
from bathyscope.core.descriptions import Doc
from bathyscope.errors import OptionError
from bathyscope.options import Range

LENS_ENDING: Final = ".safetensors"
"""Of the files of Jacobian lenses."""
Shortest = Annotated[
    int,
    Range(0),
    Doc(
        "where all prompts are longer, how many of the shortest are measured all the same, up to four times as long; "
        "0 = none."
    ),
]
"""Of measures at every token of an answer."""


def require_ending(path: Path, name: str) -> None:
    """Refuse a file for a lens that has another ending.

    Raises:
        OptionError: with the ending that it needs.
    """
    if path.suffix != LENS_ENDING:
        raise OptionError(f"{name}={str(path)!r} must end in {LENS_ENDING}, the kind of file that a lens is.")


@dataclass(frozen=True)
class FitLensOptions(ReadingOptions):
    """Options of ``fit_lens``.

    Args:
        directions: random orthonormal directions of the last boundary for each prompt, unbiased; the lens says its
            error, and the time is that share of the width. None = all directions, exact.
        skip_first: tokens at the beginning of each prompt that it is not fitted to; the last token never is.
        memory: GiB that the lens, and gradients on their way back, may take.
        seed: of the random directions.
    """

    directions: Annotated[int, Range(1, none="all of them")] | None = None
    skip_first: Annotated[int, Range(0)] = 16
    memory: Annotated[float, Range(0.001)] = 4.0
    seed: int = 0
