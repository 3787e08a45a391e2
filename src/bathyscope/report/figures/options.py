"""What a reader may choose about the figures; the data never change with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from bathyscope.errors import OptionError, did_you_mean

PROMPTS_SHOWN_UP_TO: Final = 20
"""More maps would not fit into one image file."""

_ALLOWED: Final = {
    "weighting": ("tokens", "prompts"),
    "band": ("bootstrap", "quartiles", "none"),
    "reduction": ("mean", "p95", "max"),
    "scale": ("linear", "log"),
}


@dataclass(frozen=True)
class FigureOptions:
    """Choices shared by all figures.

    Args:
        weighting: mean over prompts in which each token counts the same (hu2025; csordas2025's norms and
            cosines) or each prompt does (csordas2025's lens).
        band: around a mean, its 95 % bootstrap interval over prompts, the quartiles of the prompts, or none.
        reduction: over the tokens of a prompt, in maps of effects between blocks. ``max`` is taken over prompts
            too, the others are averaged over prompts.
        scale: of the colours in maps without negative values.
        prompts_shown: how many prompts, the first ones, get maps of their own.

    Raises:
        OptionError: a value that is not one of these.
    """

    weighting: Literal["tokens", "prompts"] = "tokens"
    band: Literal["bootstrap", "quartiles", "none"] = "bootstrap"
    reduction: Literal["mean", "p95", "max"] = "max"
    scale: Literal["linear", "log"] = "linear"
    prompts_shown: int = 4

    def __post_init__(self) -> None:
        for name, allowed in _ALLOWED.items():
            given = getattr(self, name)
            if given not in allowed:
                raise OptionError(
                    f"Figure option {name}={given!r} is not known; allowed: {', '.join(allowed)}."
                    f"{did_you_mean(str(given), allowed)}"
                )
        if not (type(self.prompts_shown) is int and 0 <= self.prompts_shown <= PROMPTS_SHOWN_UP_TO):
            raise OptionError(
                f"Figure option prompts_shown={self.prompts_shown!r} is out of range; allowed: whole numbers from 0 "
                f"to {PROMPTS_SHOWN_UP_TO}."
            )
