"""Held-out loss of a model, source by source."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from bathyscope.lab.corpus import held_out_sources, pack
from bathyscope.lab.recipe import DataMix

READOUT_TOKENS = 512


def held_out_streams(root: Path, tokenizer: Tokenizer, tokens: int) -> dict[str, np.ndarray]:
    """Source → the first ``tokens`` ids of its held-out documents."""
    sources = held_out_sources(root)
    only = {
        "books": DataMix(books=1.0, gsm8k=0.0, generated=0.0),
        "gsm8k": DataMix(books=0.0, gsm8k=1.0, generated=0.0),
        "generated": DataMix(books=0.0, gsm8k=0.0, generated=1.0),
    }
    return {name: pack(sources, mix, tokenizer, tokens) for name, mix in only.items()}


def rows(stream: np.ndarray, start: int, count: int, context: int, bos_id: int) -> torch.Tensor:
    """``count`` consecutive windows from ``start`` (wrapping round), BOS first: int64 [count, context + 1].

    Every token of the stream is predicted exactly once, and position 0 is always BOS, as it is when the
    model reads a prompt.
    """
    picked = np.take(stream, np.arange(start, start + count * context), mode="wrap").astype(np.int64)
    windows = torch.from_numpy(picked).view(count, context)
    return torch.cat([torch.full((count, 1), bos_id), windows], dim=1)


def row_loss(body: Any, head: torch.nn.Module, rows_BT: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy in nats per token of windows [B, T+1].

    ``body`` gives the normed final states, ``head`` the logits, which are compared in float32 and in
    chunks that stay in the processor's cache.
    """
    states = body(input_ids=rows_BT[:, :-1], use_cache=False).last_hidden_state.flatten(0, 1)
    targets = rows_BT[:, 1:].flatten()
    summed = torch.zeros(())
    for chunk, wanted in zip(states.split(READOUT_TOKENS), targets.split(READOUT_TOKENS), strict=True):
        summed = summed + torch.nn.functional.cross_entropy(head(chunk).float(), wanted, reduction="sum")
    return summed / len(targets)


@torch.no_grad()
def held_out_losses(
    model: LlamaForCausalLM, streams: Mapping[str, np.ndarray], context: int, bos_id: int
) -> dict[str, float]:
    """Source → mean loss in nats per token over whole windows of ``context`` tokens."""
    losses = {}
    for name, stream in streams.items():
        count = len(stream) // context
        each = [
            row_loss(model.model, model.lm_head, rows(stream, i * context, 1, context, bos_id)) for i in range(count)
        ]
        losses[name] = float(torch.stack(each).mean())
    return losses
