"""Declaration of CKA; its code is ``measures.cka``."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from bathyscope.labels import Label, interval
from bathyscope.measures.declaration import Declaration
from bathyscope.options import Coverage, Range

GROUPS: Final = 16
"""Groups of prompts of a minibatch that are left out one at a time for the interval."""
_label = partial(Label, source="lad2024, representational similarity")
_pairs = partial(_label, "tokens boundary boundary_other")


@dataclass(frozen=True)
class CkaOptions:
    """Options of CKA.

    Args:
        batch: prompts of a minibatch, at most; all minibatches are of nearly equal size.
        tokens_batch: how many tokens of a minibatch's prompts are drawn for the comparison of tokens.
        level: coverage of the intervals.
    """

    batch: Annotated[int, Range(4, 4096)] = 128
    tokens_batch: Annotated[int, Range(16, 8192)] = 512
    level: Coverage = 0.95


DECLARATION: Final = Declaration(
    "cka",
    "Similarity of representations between all pairs of boundaries.",
    CkaOptions,
    {
        "hsic": _pairs("unbiased HSIC of two boundaries, summed over minibatches", formula="Σ HSIC₁(K_b, K_b')"),
        "hsic_covariance": _label(
            "term tokens boundary boundary_other",
            "sampling covariance of HSIC₁, summed over minibatches",
            formula=f"jackknife over at most {GROUPS} groups of prompts",
        ),
        "cka": _pairs(
            "CKA: similarity of the representations at two boundaries",
            formula="Σ HSIC₁(K_b, K_b') / √(Σ HSIC₁(K_b, K_b) · Σ HSIC₁(K_b', K_b')), sums over minibatches",
            direction="1 = the same up to rotation and scale, 0 = unrelated",
        ),
        **interval(
            "ci",
            _pairs,
            "the {percent=95 %} interval of the CKA",
            formula="tanh(artanh CKA ± Student's quantile × its standard error), by a jackknife over groups of prompts",
        ),
    },
    order=170,
    synonyms=("representation_similarity", "centred_kernel_alignment", "centered_kernel_alignment"),
    panels={"last": ("cka",), "all": ("cka",), "rest": ("cka",), "neighbours": ("cka",)},
    question="which boundaries are alike?",
    rows="a plain forward",
)
