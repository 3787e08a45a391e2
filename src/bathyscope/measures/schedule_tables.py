"""What the declarations of drop, swap and repeat share: their choices, and the table of their variables."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Final, Literal

from bathyscope.core.descriptions import Doc
from bathyscope.errors import OptionError
from bathyscope.labels import Label
from bathyscope.options import Distinct, Range

Positions = Annotated[
    Literal["next", "published"], Doc('what means are over, ``"next"`` or ``"published"``; as drop\'s.')
]
"""Over which positions of a prompt of T tokens the means go: ``next``, 0 … T−2, those with a next token;
``published``, 0 … T−2 for the loss and 1 … T−1 for everything else."""
Blocks = Annotated[tuple[int, ...] | None, Distinct()]
"""Which blocks are changed, one at a time; None = each."""
PairBlocks = Annotated[Blocks, Doc("the first block of each exchanged pair; None = each but the last.")]
ReadTokens = Annotated[
    int | None,
    Range(2, none="all tokens"),
    Doc(
        "read out only so many tokens of each prompt, drawn at random with those of its answer among them: means stay "
        "unbiased, and their standard errors are given. None = all tokens."
    ),
]
SAMPLING_ERRORS: Final = ("kl", "top1_agreement", "entropy", "loss")
"""Means whose standard error is given where only some tokens are read."""
PANELS: Final = {name: (name,) for name in ("kl", "top1_agreement", "loss", "entropy")}
"""Panels of their figures, with the variable of each."""


def require_next_positions(measure: str, positions: Positions, read_tokens: int | None) -> None:
    """Refuse a sample of the tokens that only a published fault looks at.

    Raises:
        OptionError: with both ways out.
    """
    if read_tokens is not None and positions == "published":
        raise OptionError(
            f"{measure}: read_tokens={read_tokens} does not go with positions='published', which averages over other "
            "tokens; leave one of them out."
        )


def schedule_table(index: str) -> dict[str, Label]:
    """Next-token statistics along ``dropped``, ``swapped`` or ``start``, and those of the normal prediction."""
    source = "lad2024, layer interventions"
    mean = "mean over tokens of "
    by = partial(Label, f"prompt {index}", source=source)
    plain = partial(Label, "prompt", source=source)
    errors = {
        f"{name}_sampling_error": by(
            f"standard error of {name} from reading only some tokens",
            units,
            "stratified sample without replacement; only with read_tokens",
        )
        for name, units in zip(SAMPLING_ERRORS, ("nats", "1", "bits", "nats"), strict=True)
    }
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
        **errors,
        "n_read": plain("tokens that were read out of them; only with read_tokens", "token"),
    }


def further_variables(table: dict[str, Label], suffix: str, index: str, words: str) -> dict[str, Label]:
    """Return the same statistics of a further intervention at every place, where it is measured.

    Args:
        suffix: of the variables' names.
        index: dimension of the places.
        words: what is done there, behind the name of each statistic.
    """
    return {
        f"{name}_{suffix}": replace(
            table[name],
            dims=f"prompt {index}",
            long_name=f"{table[name].long_name}, {words}",
            source="own",
            optional=True,
        )
        for name in SAMPLING_ERRORS
    }


def in_all_loops(table: dict[str, Label]) -> dict[str, Label]:
    """Return the variables of a looped model whose block is left out in all loops, along ``looped``."""
    return further_variables(table, "all_loops", "looped", "the block left out in all loops")
