"""Stored states of tiny models, as vLLM, speculators and the plain layout have them; written without the engine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from support import naive
from torch import Tensor
from transformers import PreTrainedModel

LAYOUTS = ("vllm", "speculators", "plain", "packed")


def states_of(model: PreTrainedModel, ids: Sequence[int], boundaries: Sequence[int] | None = None) -> Tensor:
    """Return the stream of one prompt at some boundaries, [tokens, boundaries, width], by hooks on the real blocks."""
    states_LTD = naive.boundaries(model, naive.blocks_of(model), ids)
    chosen = range(len(states_LTD)) if boundaries is None else boundaries
    return states_LTD[list(chosen)].transpose(0, 1).contiguous()


def write_states(
    folder: Path,
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    boundaries: Sequence[int] | None = None,
    layout: str = "vllm",
    *,
    record: bool = True,
    served: str | None = None,
) -> Path:
    """Write the states of some prompts.

    Args:
        record: also write which boundaries they are of.
        served: ``top1_ids`` or ``next_logprobs``: what the model predicts behind each token.
    """
    folder.mkdir(parents=True, exist_ok=True)
    contents = []
    for ids in prompts:
        tensors = {"hidden_states": states_of(model, ids, boundaries), "token_ids": torch.tensor(list(ids))}
        if served is not None:
            tensors[served] = predicted(model, ids, served)
        contents.append(tensors)
    if layout == "packed":
        packed = {name: torch.cat([tensors[name] for tensors in contents]) for name in contents[0]}
        save_file(packed | {"lengths": torch.tensor([len(ids) for ids in prompts])}, folder / "states.safetensors")
    else:
        for number, tensors in enumerate(contents):
            name = {"vllm": f"cmpl-{number}-0", "speculators": f"hs_{number}", "plain": f"states-{number}"}[layout]
            save_file(tensors, folder / f"{name}.safetensors")
            if layout == "vllm":
                (folder / f"{name}.safetensors.lock").touch()
    if record:
        chosen = range(len(naive.blocks_of(model)) + 1) if boundaries is None else boundaries
        (folder / "states.json").write_text(json.dumps({"boundaries": list(chosen)}))
    return folder


def predicted(model: PreTrainedModel, ids: Sequence[int], name: str) -> Tensor:
    """Return what a server would tell of each token: the likeliest next one, or the next one's log-probability."""
    logits = naive.logits(model, ids)
    if name == "top1_ids":
        return logits.argmax(-1)
    following = torch.tensor([*ids[1:], 0])
    logprobs = logits.log_softmax(-1).gather(-1, following[:, None])[:, 0]
    logprobs[-1] = torch.nan
    return logprobs
