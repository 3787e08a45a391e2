"""How attention is computed: the implementations that a model may be loaded with."""

from __future__ import annotations

from typing import Final, Literal, get_args

from bathyscope.errors import ModelError, did_you_mean

Attention = Literal["eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention"]
ATTENTIONS: Final[tuple[Attention, ...]] = get_args(Attention)


def require_attention(attn: str | None) -> None:
    """Refuses what is no implementation of attention, before anything is looked for.

    Raises:
        ModelError: another word.
    """
    if attn is not None and attn not in ATTENTIONS:
        raise ModelError(f"attn={attn!r} is unknown.{did_you_mean(attn, ATTENTIONS)} Allowed: {', '.join(ATTENTIONS)}.")
