"""What a reader can choose about figures; no choice changes the data."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from bathyscope.options import Range, require_allowed

PROMPTS_SHOWN_UP_TO: Final = 20
"""More maps would not fit into one image file."""


@dataclass(frozen=True)
class FigureOptions:
    """Choices shared by all figures.

    Args:
        weighting: whether prompts count the same in a mean, as in the verdict and all other numbers of a page, or
            tokens do (hu2025; csordas2025's norms and cosines).
        band: around a mean, its 95 % bootstrap interval over prompts, the quartiles of the prompts, or none.
        reduction: over the tokens of a prompt, in maps of effects between blocks. ``max`` is also taken over prompts;
            the others are averaged over prompts. ``auto`` is the mean, and the maximum for runs with the preset of a
            paper that draws maxima.
        scale: of effects in maps and curves without negative values; ``auto`` is logarithmic where the largest value
            exceeds ten times the median.
        prompts_shown: how many prompts, from the first, have maps of their own.
        cluster: label of prompts that belong together, such as document; intervals and bands resample them as one.
        heading: whether exported files carry model, data and numbers above the panels.

    Raises:
        OptionError: a value that is not allowed.
    """

    weighting: Literal["prompts", "tokens"] = "prompts"
    band: Literal["bootstrap", "quartiles", "none"] = "bootstrap"
    reduction: Literal["auto", "mean", "p95", "max"] = "auto"
    scale: Literal["auto", "linear", "log"] = "auto"
    prompts_shown: Annotated[int, Range(0, PROMPTS_SHOWN_UP_TO)] = 4
    cluster: str | None = None
    heading: bool = True

    def __post_init__(self) -> None:
        require_allowed(self, "figures")


@dataclass(frozen=True)
class RunOptions(FigureOptions):
    """A reader's choices with the settings of a run; its reduction is never ``auto``.

    Args:
        seed: the run's seed of the resampling, so that a mean has the same interval everywhere.
    """

    seed: int = 0


_DRAW_MAXIMA: Final = ("csordas2025", "hu2025")
"""Presets of papers whose maps are maxima over tokens and prompts."""


def options_of(options: FigureOptions | None, seed: int, preset: str | None = None) -> RunOptions:
    """Return a reader's choices, or the defaults, for a run with this seed that follows a paper's preset or none."""
    settings = {**vars(options or FigureOptions()), "seed": seed}
    if settings["reduction"] == "auto":
        settings["reduction"] = "max" if preset in _DRAW_MAXIMA else "mean"
    return RunOptions(**settings)
