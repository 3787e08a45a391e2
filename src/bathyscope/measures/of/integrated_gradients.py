"""Declaration of integrated gradients; their code is ``measures.integrated_gradients``."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Literal

from bathyscope.labels import Label
from bathyscope.measures.declaration import Declaration
from bathyscope.options import Distinct, Range

SITES: Final = ("block", "attention", "mlp")
BASELINES: Final = {"tokens": "mean of x over the prompt's tokens", "channels": "mean of x over channels"}
"""What x̃ is."""
_label = partial(Label, source="csordas2025, integrated gradients")


@dataclass(frozen=True)
class IntegratedGradientsOptions:
    """Options of integrated gradients.

    Args:
        sites: what is integrated over: the block's output, and attention's and the MLP's contribution. Where a
            family has no separable parts, all three (the default) leave NaN for the parts, and any other choice
            that names a part is refused.
        mode: "fast" = Gauss–Legendre nodes; "exact" = the papers' left sum over equal steps.
        steps: of the left sum.
        nodes: of the Gauss–Legendre rule.
        refine: in the fast mode double the nodes, twice at most, at a block and site whose attributions miss what
            they explain by more than 1e-4 of the largest.
        max_tokens: longer prompts are left out, since they cost much; None = no limit.
        shortest: where all prompts are longer, how many of the shortest are measured all the same, up to four times
            as long; 0 = none.
        baseline: "tokens" = x̃ is the mean of x over the prompt's tokens; "channels" = each token's mean over its
            channels (a fault of hu2025's published code).
    """

    sites: Annotated[tuple[Literal["block", "attention", "mlp"], ...], Distinct()] = SITES
    mode: Literal["fast", "exact"] = "fast"
    steps: Annotated[int, Range(1, 65536)] = 256
    nodes: Annotated[int, Range(1, 256)] = 32
    refine: bool = True
    max_tokens: Annotated[int | None, Range(2, none="no limit")] = 64
    shortest: Annotated[int, Range(0)] = 3
    baseline: Literal["tokens", "channels"] = "tokens"


DECLARATION: Final = Declaration(
    "integrated_gradients",
    "Attribution of the answer's probability to tokens, blocks and sites.",
    IntegratedGradientsOptions,
    {
        "attribution": _label(
            "prompt site block token",
            "integrated gradients of the answer's probability",
            formula=f"Σ_d (x − x̃)·∫₀¹ ∂P/∂x dα at α x + (1−α) x̃, x̃ = {{baseline={BASELINES['tokens']}}}",
            direction="positive = what the token carries there raises the probability of the answer",
        ),
        "completeness": _label(
            "prompt site block",
            "completeness residual of the attributions",
            formula="Σ_t attribution − (P(x) − P(x̃))",
            direction="0 = the attributions add up to the difference that they explain",
        ),
        "probability": _label(
            "prompt",
            "sum of the answer tokens' probabilities",
            formula="P(x) = Σ_j p(y_j | all tokens before y_j)",
        ),
        "answer_start": _label("prompt", "first token of the answer (−1 = not measured)", "token"),
    },
    needs_answers=True,
    order=100,
    synonyms=("ig", "attribution"),
    example={"nodes": 4},
    panels={
        **dict.fromkeys(("prompt_", "attention_", "mlp_"), ("attribution",)),
        "completeness": ("completeness",),
    },
    question="which contributions does the answer rest on?",
    rows="backward passes",
)
