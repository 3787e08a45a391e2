"""What a reader may choose about the figures; the data never change with it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Literal

from bathyscope.errors import OptionError, did_you_mean

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
        reduction: over the tokens of a prompt, in the skip maps. ``max`` is taken over prompts too, the
            others are averaged over prompts.
        scale: of the colours in the skip maps.

    Raises:
        OptionError: a value that is not one of these.
    """

    weighting: Literal["tokens", "prompts"] = "tokens"
    band: Literal["bootstrap", "quartiles", "none"] = "bootstrap"
    reduction: Literal["mean", "p95", "max"] = "max"
    scale: Literal["linear", "log"] = "linear"

    def __post_init__(self) -> None:
        for field in fields(self):
            given, allowed = getattr(self, field.name), _ALLOWED[field.name]
            if given not in allowed:
                raise OptionError(
                    f"Figure option {field.name}={given!r} is not known; allowed: {', '.join(allowed)}."
                    f"{did_you_mean(str(given), allowed)}"
                )
