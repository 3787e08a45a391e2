"""What the declarations of drop, swap and repeat share: their choices, and the table of their variables."""

from functools import partial
from typing import Annotated, Literal

from bathyscope.labels import Label
from bathyscope.options import Distinct

Positions = Literal["next", "published"]
"""Over which positions of a prompt of T tokens the means go: ``next``, 0 … T−2, those with a next token;
``published``, 0 … T−2 for the loss and 1 … T−1 for everything else."""
Blocks = Annotated[tuple[int, ...] | None, Distinct()]
"""Which blocks are changed, one at a time; None = each."""


def schedule_table(index: str) -> dict[str, Label]:
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
