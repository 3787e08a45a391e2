"""Declarations of drop, swap and repeat, which share a table; their code is ``measures.schedules``."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final, Literal

from bathyscope.labels import Label
from bathyscope.measures.declaration import Declaration
from bathyscope.options import Distinct, Range

Positions = Literal["next", "published"]
"""Over which positions of a prompt of T tokens the means go: ``next``, 0 … T−2, those with a next token;
``published``, 0 … T−2 for the loss and 1 … T−1 for everything else."""
Blocks = Annotated[tuple[int, ...] | None, Distinct()]
"""Which blocks are changed, one at a time; None = each."""


@dataclass(frozen=True)
class DropOptions:
    """Options of drop.

    Args:
        blocks: which blocks are left out, one at a time; None = each.
        protect_first: how many first tokens keep the dropped block's real output.
        positions: what means are over: "next" = the positions with a next token; "published" = these for the loss,
            and all but the first for KL, agreement and entropy, as lad2024's published code has it.
    """

    blocks: Blocks = None
    protect_first: Annotated[int, Range(0)] = 0
    positions: Positions = "next"


@dataclass(frozen=True)
class SwapOptions:
    """Options of swap.

    Args:
        blocks: the first block of each exchanged pair; None = each but the last.
        protect_first: how many first tokens keep the standard schedule's residual stream.
        positions: what means are over, "next" or "published"; as drop's.
    """

    blocks: Blocks = None
    protect_first: Annotated[int, Range(0)] = 0
    positions: Positions = "next"


@dataclass(frozen=True)
class RepeatOptions:
    """Options of repeat.

    Args:
        length: blocks in the window.
        times: how often each block of the window is repeated (1 = it runs twice).
        positions: what means are over, "next" or "published"; as drop's.
    """

    length: Annotated[int, Range(1)] = 5
    times: Annotated[int, Range(1, 100)] = 1
    positions: Positions = "next"


def _table(index: str) -> dict[str, Label]:
    """Next-token statistics along ``dropped``, ``swapped`` or ``start``, and those of the normal prediction."""
    source = "lad2024, layer interventions"
    mean = "mean over tokens of "
    by = partial(Label, f"prompt {index}", source=source)
    plain = partial(Label, "prompt", source=source)
    return {
        "kl": by("KL of the intervened from the normal prediction", "nats", f"{mean}KL(p ‖ p̄)"),
        "top1_agreement": by("top-1 agreement with the normal prediction", "1", f"{mean}[argmax p̄ = argmax p]"),
        "entropy": by("entropy of the intervened prediction", "bits", f"{mean}−Σ p̄ log₂ p̄"),
        "loss": by("cross-entropy of the next token under intervention", "nats", f"{mean}−log p̄(next token)"),
        "baseline_entropy": plain("entropy of the normal prediction", "bits", "−Σ p log₂ p"),
        "baseline_loss": plain(
            "cross-entropy of the next token of the normal prediction", "nats", "−log p(next token)"
        ),
        "n_averaged": plain("tokens that a prompt's means are over", "token"),
    }


DROP: Final = Declaration(
    "drop",
    "Next-token statistics without each block in turn.",
    DropOptions,
    _table("dropped"),
    module="schedules",
)
SWAP: Final = Declaration(
    "swap",
    "Next-token statistics with blocks ℓ and ℓ+1 exchanged, for each ℓ.",
    SwapOptions,
    _table("swapped"),
    module="schedules",
)
REPEAT: Final = Declaration(
    "repeat",
    "Next-token statistics with each window of blocks repeated block by block.",
    RepeatOptions,
    _table("start"),
    module="schedules",
)
