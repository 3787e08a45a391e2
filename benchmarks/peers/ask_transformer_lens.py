"""TransformerLens: norms of the residual stream, the logit lens, and predictions without one block."""

from __future__ import annotations

from typing import Any

import torch
from exchange import Answers, kl, mean_over_tokens
from transformer_lens.model_bridge import TransformerBridge
from transformers import AutoTokenizer


def main() -> None:
    answers = Answers("transformer-lens")
    folder = answers.request["model"]
    bridge = TransformerBridge.boot_transformers(
        folder,
        hf_model=answers.model("eager"),
        dtype=answers.dtype,
        tokenizer=AutoTokenizer.from_pretrained(folder),
    )
    blocks = bridge.cfg.n_layers

    def norms() -> torch.Tensor:
        return mean_over_tokens([_streams(bridge, ids, blocks)[0].norm(dim=-1) for ids in answers.prompts])

    def divergences() -> torch.Tensor:
        return mean_over_tokens([_lens(bridge, *_streams(bridge, ids, blocks)) for ids in answers.prompts])

    def without(which: int) -> torch.Tensor:
        return torch.stack([_without(bridge, answers.request["few"], block)[which] for block in range(blocks)])

    answers.take("residual norm", norms)
    answers.take("logit lens KL", divergences)
    answers.take("KL without a block", lambda: without(0))
    answers.take("top-1 without a block", lambda: without(1))
    answers.write()


def _streams(bridge: Any, ids: list[int], blocks: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the residual stream [boundaries, tokens, width] and the logits [tokens, vocabulary]."""
    logits, cache = bridge.run_with_cache(torch.tensor([ids]))
    names = ["blocks.0.hook_resid_pre", *(f"blocks.{block}.hook_resid_post" for block in range(blocks))]
    return torch.stack([cache[name][0] for name in names]), logits[0]


def _lens(bridge: Any, stream: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    """Return KL(lens ‖ final), [boundaries, tokens]."""
    return torch.stack([kl(bridge.unembed(bridge.ln_final(resid[None]))[0], logits) for resid in stream])


def _without(bridge: Any, prompts: list[list[int]], block: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return mean KL(full ‖ without) and mean top-1 agreement, over the tokens that have a next one."""
    before: list[torch.Tensor] = []

    def note(resid: torch.Tensor, hook: Any) -> None:
        before[:] = [resid]

    def pass_over(resid: torch.Tensor, hook: Any) -> torch.Tensor:
        return before[0]

    hooks = [(f"blocks.{block}.hook_resid_pre", note), (f"blocks.{block}.hook_resid_post", pass_over)]
    gaps, agreements = [], []
    for ids in prompts:
        tokens = torch.tensor([ids])
        full = bridge(tokens)[0, :-1]
        without = bridge.run_with_hooks(tokens, fwd_hooks=hooks)[0, :-1]
        gaps.append(kl(full, without))
        agreements.append((full.argmax(-1) == without.argmax(-1)).double())
    return mean_over_tokens(gaps), mean_over_tokens(agreements)


if __name__ == "__main__":
    main()
