"""Declaration of swap cosines; their code is ``measures.swap_cosine``."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from bathyscope.labels import Label
from bathyscope.measures.declaration import Declaration
from bathyscope.measures.schedule_tables import Blocks
from bathyscope.options import Range

_cosine = partial(
    Label,
    "prompt part swapped",
    source="lad2024, swap cosines",
    direction="1 = the same direction, 0 = orthogonal, negative = opposed",
)


@dataclass(frozen=True)
class SwapCosineOptions:
    """Options of swap cosines.

    Args:
        blocks: the first block of each exchanged pair; None = each but the last.
        protect_first: how many first tokens keep the standard schedule's residual stream; they enter no mean.
    """

    blocks: Blocks = None
    protect_first: Annotated[int, Range(0)] = 0


DECLARATION: Final = Declaration(
    "swap_cosine",
    "Cosines between contributions of the normal run and of runs in which two neighbouring blocks are swapped.",
    SwapCosineOptions,
    {
        "self": _cosine(
            "cosine of a contribution with its own in the other place", formula="mean over tokens of cos(x_ℓ, x̄_ℓ)"
        ),
        "index": _cosine(
            "cosine of a contribution with that of the other block in the same place",
            formula="mean over tokens of cos(x_ℓ, x̄_{ℓ+1})",
        ),
        "adjacent": _cosine(
            "cosine of the contributions of neighbouring blocks in the normal run",
            formula="mean over tokens of cos(x_ℓ, x_{ℓ+1})",
        ),
        "n_averaged": Label("prompt", "tokens that a prompt's means are over", "token", source="lad2024, swap cosines"),
    },
    order=160,
    panels={"attention": ("self", "index", "adjacent"), "mlp": ("self", "index", "adjacent")},
    question="does a block's work belong to the block or to its place?",
    rows="one per swap",
)
