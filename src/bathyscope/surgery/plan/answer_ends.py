"""Whether the choice of a plan still ends the answers that the full model ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bathyscope.core.text import counted

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class AnswerEnds:
    """The ends of the test answers, each predicted behind the answer as it is given.

    Args:
        answers: test prompts, each of which has an answer.
        ended: of these, how many the full model ends where they end; only there an end counts in the costs.
        remaining: of these, behind how many the end stays the most probable token without the choice.
    """

    answers: int
    ended: int
    remaining: int

    @classmethod
    def of(cls, data: xr.Dataset) -> AnswerEnds | None:
        """Return what a plan's arrays tell; None where costs are over all tokens, and for plans of older versions."""
        if "test_ended" not in data.attrs:
            return None
        ended = int(data.attrs["test_ended"])
        remaining = round(ended * float(data["ends_kept"].values[0])) if ended else 0
        return cls(data.sizes["prompt"], ended, remaining)

    @property
    def lost(self) -> int:
        """Answers that no longer end."""
        return self.ended - self.remaining

    @property
    def text(self) -> str:
        """What becomes of the ends, in a sentence."""
        answers = counted(self.answers, "test answer")
        if not self.ended:
            return f"The full model ends none of {answers} where they end, so the costs say nothing of stopping."
        return (
            f"The full model ends {self.ended} of {answers} where they end, and without the choice the token that ends "
            f"them stays the most probable one in {self.remaining}; it counts among the tokens of an answer."
        )
