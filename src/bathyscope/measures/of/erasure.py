"""Declaration of residual erasure; its code is ``measures.erasure``."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Literal

from bathyscope.labels import Label
from bathyscope.measures.declaration import Declaration
from bathyscope.measures.operand_tables import OPERANDS
from bathyscope.options import Range
from bathyscope.prompts.prompt import PromptSet
from bathyscope.prompts.source import Source, kept_source

_label = partial(Label, source="csordas2025, residual erasure; hu2025, residual erasure")
_effect = partial(
    _label,
    "prompt boundary token",
    direction="higher = the predictions need what the token carries at this boundary",
)


@dataclass(frozen=True)
class ErasureOptions:
    """Options of residual erasure.

    Args:
        reference: the prompts whose mean residual stream takes the erased one's place, given as the survey's
            prompts are (such as gsm8k:10); None = the survey's own prompts, measured or not.
        include_first: position 0 of the reference prompts counts in the mean.
        future: also measure the change at all positions after the erased token.
        max_tokens: longer prompts are left out, since the cost grows with the square of the length; None lifts the
            limit.
        shortest: where all prompts are longer, how many of the shortest are measured all the same, up to four times
            as long; 0 = none.
        reference_scale: "mean" = the mean over tokens; "width" = the sum over tokens per prompt, divided by the
            width of the stream instead of the tokens (a fault of hu2025's published code).
    """

    # not a text first: whatever else is given is checked where prompts are resolved
    reference: PromptSet | Source | None = None
    include_first: bool = True
    future: bool = False
    max_tokens: Annotated[int | None, Range(2, none="no limit")] = 64
    shortest: Annotated[int, Range(0)] = 3
    reference_scale: Literal["mean", "width"] = "mean"

    def __post_init__(self) -> None:
        object.__setattr__(self, "reference", kept_source(self.reference))


DECLARATION: Final = Declaration(
    "erasure",
    "Effect of erasing one token's residual stream at one boundary on the prediction of the answer.",
    ErasureOptions,
    {
        "effect": _effect(
            "change of the predictions of the answer when one token's residual stream is erased",
            formula="h_b[t] := h̃_b; max over the answer-predicting positions of ‖y − ȳ‖₂",
        ),
        "effect_future": _effect(
            "change of the predictions of later tokens when one token's residual stream is erased",
            formula="h_b[t] := h̃_b; max over positions > t of ‖y − ȳ‖₂",
            optional=True,
        ),
        "answer_start": _label("prompt", "first token of the answer (−1 = not measured)", "token"),
        **OPERANDS,
    },
    needs_answers=True,
    order=80,
    panels={"prompt_": ("effect",), "later_": ("effect_future",)},
    question="until which boundary does a token matter to the answer?",
    rows="one per boundary and token",
)
