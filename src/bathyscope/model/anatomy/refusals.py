"""What is refused of a model whose checks at load fail, with the measured gap."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.gaps import gap
from bathyscope.model.anatomy.independence import gaps_by_neighbours
from bathyscope.model.anatomy.own_path import OwnPath
from bathyscope.model.anatomy.plain import logits_of, plain_forward, vocabulary
from bathyscope.model.anatomy.resolving import near_path
from bathyscope.model.anatomy.sites import submodule
from bathyscope.model.anatomy.steps import BlockWalk


def require_replay(anatomy: Anatomy, no_op: Sequence[float], seen: Sequence[Tensor], allowed: float) -> None:
    """Refuse a model whose replayed blocks differ from its own forward."""
    for index, block_gap in enumerate(no_op):
        if not block_gap <= allowed and not seen[index].isfinite().all():
            dtype = str(seen[index].dtype).removeprefix("torch.")
            raise ModelError(
                f"{anatomy}: block {index} gives NaN or Inf for ordinary tokens in {dtype}. Where its numbers are too "
                "large for that dtype, load it in bfloat16 or float32; otherwise its weights are damaged."
            )
        if not block_gap <= allowed:
            raise ModelError(
                f"{anatomy}: no-op parity fails at block {index}: replaying the recorded block differs from the "
                f"plain forward by {block_gap:.1e} of the largest value (allowed {allowed:.0e}). The family keeps "
                "state that recording does not see; what blocks pass on must be in their arguments."
            )


def require_readout(anatomy: Anatomy, readout: float, allowed: float) -> None:
    """Refuse a readout that does not give the model's logits."""
    if not readout <= allowed:
        family = anatomy.family
        path = family.final_norm
        if path and submodule(anatomy.model, path) is None:
            raise ModelError(
                f"{anatomy}: readout identity fails, by {readout:.1e} of the largest logit (allowed {allowed:.0e}): "
                f"the family's final_norm={path!r} leads nowhere in this model.{near_path(anatomy.model, path)} Give "
                "the path of its final norm."
            )
        raise ModelError(
            f"{anatomy}: readout identity fails: {family.final_norm} and {family.head} give logits that differ "
            f"from the model's by {readout:.1e} of the largest logit (allowed {allowed:.0e}). Declare what the family "
            "does to its logits (scale, softcap, projection): load(model, family=Family(...))."
        )


def require_last_state(anatomy: Anatomy, final_BTD: Tensor, logits: Tensor, allowed: float) -> None:
    """Refuse a model that reads out more than the state behind its last block, which its own path would not show."""
    if not isinstance(anatomy.readout.norm, OwnPath):
        return
    readout = gap(anatomy.readout(final_BTD), logits)
    if not readout <= allowed:
        raise ModelError(
            f"{anatomy} cannot be measured: its logits depend on more than the state behind its last block. That state "
            f"alone gives others, by {readout:.1e} of the largest logit (allowed {allowed:.0e}). Let it read out the "
            "last state."
        )


def require_causal(anatomy: Anatomy, later: Sequence[float], allowed: float) -> None:
    """Refuse a model whose tokens depend on later ones."""

    def fault(boundary: int, difference: str) -> str:
        return (
            "its tokens depend on later ones. With other ids in the second half of a prompt, the first half differs by "
            f"{difference} of its norm {_place(boundary)} (allowed {allowed:.0e}). Only causal models can be measured, "
            "not encoders, models with is_causal=False, or routing that chooses among all tokens."
        )

    _require_within(anatomy, later, allowed, fault)


def require_any_order(anatomy: Anatomy, again: Sequence[float], allowed: float) -> None:
    """Refuse a model whose blocks give other states when they run in another order."""

    def fault(block: int, difference: str) -> str:
        return (
            f"block {block}, run again on the same input after other blocks, differs by {difference} (allowed "
            f"{allowed:.0e}). It reads state that is kept on a module; what blocks pass on must be in their arguments."
        )

    _require_within(anatomy, again, allowed, fault)


def require_own_rows(anatomy: Anatomy, allowed: float) -> None:
    """Require that prompts of one length can share a batch, where those of several cannot."""

    def fault(boundary: int, difference: str) -> str:
        return (
            "its rows depend on each other. In a batch with two other prompts of its length a prompt differs by "
            f"{difference} of its norm {_place(boundary)} (allowed {allowed:.0e}), and histories are computed side by "
            "side."
        )

    # measured only here, since padding that changes nothing shows that other rows do not either
    if not anatomy.padding_gap <= allowed:
        gaps = BlockWalk(gaps_by_neighbours(anatomy, padded=False)).result()
        _require_within(anatomy, gaps, allowed, fault)


def _require_within(anatomy: Anatomy, gaps: Sequence[float], allowed: float, fault: Callable[[int, str], str]) -> None:
    """Refuse a model of which a gap is larger than allowed.

    Args:
        fault: says what is wrong, given the first place of such a gap, and the gap as text.
    """
    for place, measured_gap in enumerate(gaps):
        if not measured_gap <= allowed:
            raise ModelError(f"{anatomy} cannot be measured: {fault(place, f'{measured_gap:.1e}')}")


def _place(boundary: int) -> str:
    return f"behind block {boundary - 1}" if boundary else "before block 0"


def require_an_answer(anatomy: Anatomy, logits_BTV: Tensor, ids_BT: Tensor) -> None:
    """Refuse a model whose logits are the same for any input, such as one of zeros."""
    if not torch.equal(logits_BTV[0], logits_BTV[1]):
        return
    entries = vocabulary(anatomy.model)  # of few entries, both rows may be the same tokens
    other = torch.cat([ids_BT[:1], (ids_BT[:1] + 1) % entries])
    logits = logits_of(plain_forward(anatomy.model, other, anatomy.family.name))
    if torch.equal(logits[0], logits[1]):
        raise ModelError(
            f"{type(anatomy.model).__name__} cannot be measured: this model predicts the same for every input. Its "
            "weights are empty or not its own; download or convert it again."
        )
