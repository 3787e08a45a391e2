"""What keeps experts in use: the entropy of the mean selection, to be kept high while training."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def negative_entropy(scores_BTE: Tensor, mask_BT: Tensor | None = None) -> Tensor:
    """Σ_e p_e ln p_e of the mean p of softmax(scores) over the tokens of the batch, in nats; averaged over choices.

    It is −ln E where all experts are chosen alike, and 0 where all tokens choose the same one. Source: csordas2025
    (MoEUT).

    Args:
        scores_BTE: scores of all experts, [batch, tokens, E] or [batch, tokens, choices, E].
        mask_BT: 0 at tokens that are padding; None = there is none.
    """
    chosen = scores_BTE.softmax(-1)
    tokens = chosen.flatten(0, 1) if mask_BT is None else chosen[mask_BT.bool()]
    mean = tokens.mean(0)
    # 0 · ln 0 = 0, also for the gradient
    return (mean * mean.clamp_min(1e-30).log()).sum(-1).mean()


def balance(steps: Sequence[Tensor], routers: int, mask_BT: Tensor | None) -> Tensor:
    """The mean over execution steps of ``negative_entropy``, summed over the routers of a step.

    Args:
        steps: the scores of every router of every execution step.
        routers: how many of them belong to one step.
    """
    total = sum(negative_entropy(scores, mask_BT) for scores in steps)
    assert isinstance(total, Tensor)
    return total * routers / len(steps)
