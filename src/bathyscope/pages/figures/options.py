"""What a reader may choose about the figures; the data never change with it."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from bathyscope.options import Range, require_allowed

PROMPTS_SHOWN_UP_TO: Final = 20
"""More maps would not fit into one image file."""


@dataclass(frozen=True)
class FigureOptions:
    """Choices shared by all figures.

    Args:
        weighting: mean over prompts in which each prompt counts the same, as in the verdict and all other numbers
            of a page, or each token does (hu2025; csordas2025's norms and cosines).
        band: around a mean, its 95 % bootstrap interval over prompts, the quartiles of the prompts, or none.
        reduction: over the tokens of a prompt, in maps of effects between blocks. ``max`` is taken over prompts
            too, the others are averaged over prompts.
        scale: of the colours in maps without negative values.
        prompts_shown: how many prompts, the first ones, get maps of their own.
        cluster: label of prompts that belong together, such as document; intervals and bands resample them as one.

    Raises:
        OptionError: a value that is not one of these.
    """

    weighting: Literal["prompts", "tokens"] = "prompts"
    band: Literal["bootstrap", "quartiles", "none"] = "bootstrap"
    reduction: Literal["mean", "p95", "max"] = "max"
    scale: Literal["linear", "log"] = "linear"
    prompts_shown: Annotated[int, Range(0, PROMPTS_SHOWN_UP_TO)] = 4
    cluster: str | None = None

    def __post_init__(self) -> None:
        require_allowed(self, "figures")


@dataclass(frozen=True)
class RunOptions(FigureOptions):
    """What a reader chose, with what a run fixes.

    Args:
        seed: of the resampling, the run's, so that a mean has one interval wherever it stands.
    """

    seed: int = 0


def options_of(options: FigureOptions | None, seed: int) -> RunOptions:
    """Return a reader's choices, or the defaults, for a run of this seed."""
    return RunOptions(**{**vars(options or FigureOptions()), "seed": seed})
