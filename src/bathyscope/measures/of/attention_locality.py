"""Declaration of attention locality; its code is ``measures.attention_locality``."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from bathyscope.labels import Label
from bathyscope.measures.declaration import Declaration
from bathyscope.options import Distinct, Range

_label = partial(Label, source="lad2024, attention to previous tokens")
_POOLED = "mean of A[q,q−i] over i = 1 … 5, q ≥ i"


@dataclass(frozen=True)
class AttentionLocalityOptions:
    """Options of attention locality.

    Args:
        offsets: how many tokens before the query the key stands (1 = the token just before).
    """

    offsets: Annotated[tuple[Annotated[int, Range(1)], ...], Distinct()] = (1, 2, 4, 8, 16)


DECLARATION: Final = Declaration(
    "attention_locality",
    "Attention weights by offset, from one plain forward.",
    AttentionLocalityOptions,
    {
        "weight": _label(
            "prompt block offset",
            "attention weight on the token i before the query",
            formula="mean of A[q,q−i] over q ≥ i",
        ),
        "mean_prev5": _label("prompt block", "attention weight on one of the five tokens before", formula=_POOLED),
        "total_prev5": _label(
            "prompt block", "attention weight on the five tokens before together", formula="5 · mean_prev5"
        ),
        "self_weight": _label("prompt block", "attention weight on the query's own token", formula="mean of A[q,q]"),
        "first_key": _label("prompt block", "attention weight on the first token", formula="mean of A[q,0] over q ≥ 1"),
        "head_prev1": _label(
            "prompt block head", "a head's attention weight on the token before", formula="mean of A[q,q−1]"
        ),
        "head_prev5": _label(
            "prompt block head", "a head's attention weight on one of the five tokens before", formula=_POOLED
        ),
    },
    order=180,
    synonyms=("attention", "attention_distance", "locality"),
    panels={
        "places": ("total_prev5", "self_weight", "first_key"),
        "offsets": ("weight",),
        "heads": ("head_prev5",),
    },
    question="how far back does attention look?",
    rows="the plain forward",
)
