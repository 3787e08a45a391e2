"""Integrated gradients of one prompt: batched rows from the stored stream against a lean pass for every step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
import xarray as xr
from common import Floor, Setting, arguments, prompts, row, timed
from torch import Tensor

from bathyscope import Prompt, survey
from bathyscope.model import Model

TOKENS = 40
ANSWER = 2
STEPS, NODES = 256, 32
SITES = ("block", "attention", "mlp")
SAMPLED_STEPS = 8
"""The naive way takes this many steps, at blocks whose mean depth is that of all; its time is scaled to all."""


def flops(setting: Setting, tokens: int, points: int) -> float:
    """FLOPs of ``points`` forward and backward passes for every block and site, from where the site is on.

    Blocks after the site twice (the backward pass is one with respect to inputs alone), attention's two products
    once and their gradients twice, the block's own MLP where attention's contribution moves, the readout.
    """
    matrices = 2 * tokens * setting.block_flops + 3 * setting.attention_flops(tokens, tokens / 2)
    later = sum(setting.blocks - 1 - index for index in range(setting.blocks))
    own_mlp = 2 * tokens * 2.0 * 3 * setting.width * setting.mlp
    reads = len(SITES) * setting.blocks * 2 * ANSWER * setting.readout_flops
    return points * (len(SITES) * later * matrices + setting.blocks * own_mlp + reads)


@contextmanager
def placed(model: Model, index: int, site: str, value: Tensor) -> Iterator[None]:
    """One block gives ``value`` in the place of its output or of one part's contribution."""
    block = model.anatomy.blocks[index]
    module = {"block": block, "attention": block.self_attn, "mlp": block.mlp}[site]

    def put(_module: object, _args: object, output: object) -> object:
        return (value, *output[1:]) if isinstance(output, tuple) else value

    handle = module.register_forward_hook(put)
    try:
        yield
    finally:
        handle.remove()


def activations(model: Model, ids: Tensor) -> dict[str, list[Tensor]]:
    """Outputs and contributions of all blocks, from one plain forward."""
    found: dict[str, list[Tensor]] = {site: [] for site in SITES}
    handles = []
    for block in model.anatomy.blocks:
        for site, module in (("block", block), ("attention", block.self_attn), ("mlp", block.mlp)):

            def note(_module: object, _args: object, output: object, site: str = site) -> None:
                found[site].append(output[0] if isinstance(output, tuple) else output)

            handles.append(module.register_forward_hook(note))
    with torch.no_grad():
        model.hf(input_ids=ids, use_cache=False)
    for handle in handles:
        handle.remove()
    return found


def naive(model: Model, ids: Sequence[int], blocks: Sequence[int], steps: int) -> np.ndarray:
    """Attributions [site, block, token] by the left sum: a forward and a backward for each step, without weights."""
    tokens = torch.tensor([list(ids)], device=model.device)
    answer, seen = tokens[0, -ANSWER:, None], slice(-1 - ANSWER, -1)
    actual = activations(model, tokens)
    for weight in model.hf.parameters():
        weight.requires_grad_(False)
    found = np.zeros((len(SITES), len(blocks), len(ids)))
    for s, site in enumerate(SITES):
        for column, index in enumerate(blocks):
            x = actual[site][index]
            start, total = x.mean(1, keepdim=True), torch.zeros_like(x)
            for k in range(steps):
                leaf = (start + k / steps * (x - start)).requires_grad_()
                with placed(model, index, site, leaf):
                    logits = model.hf(input_ids=tokens, use_cache=False, logits_to_keep=ANSWER + 1).logits
                score = logits[0, seen].softmax(-1).gather(-1, answer).sum()
                total += torch.autograd.grad(score, leaf)[0]
            found[s, column] = ((x - start) * total / steps).sum(-1)[0].cpu().numpy()
    return found


def main() -> None:
    given = arguments(__doc__ or "")
    setting = Setting(blocks=given.blocks, width=given.width, mlp=round(given.width * 8 / 3 / 16) * 16)
    model = setting.model(device=given.device)
    (ids,) = prompts(setting, (TOKENS,))
    prompt = Prompt(ids=ids, answer_tokens=ANSWER)
    # symmetric about the middle, so that their mean cost is that of all blocks
    half = setting.blocks // 2
    blocks = sorted(
        {half // 4, half - 1 - half // 4, *(setting.blocks - 1 - b for b in (half // 4, half - 1 - half // 4))}
    )

    def ours(**options: object) -> xr.Dataset:
        run = survey(model, [prompt], ["integrated_gradients"], progress=False, integrated_gradients=options)
        return run["integrated_gradients"].isel(prompt=0)

    def sample() -> np.ndarray:
        return naive(model, ids, blocks, SAMPLED_STEPS)

    same = ours(mode="exact", steps=SAMPLED_STEPS).attribution.isel(block=blocks).values
    gap = np.abs(same - sample()).max() / np.abs(same).max()
    assert gap < 1e-4, f"attributions differ from the naive way by {gap} of the largest"
    floor = Floor(setting, model, TOKENS, given.device, backward=True)
    fast, part, one, *plain = timed(
        lambda: ours(mode="fast", nodes=NODES),
        lambda: ours(mode="exact", steps=NODES),
        sample,
        *floor.runs,
        repeats=given.repeats,
        device=given.device,
    )
    naive_s = one * STEPS / SAMPLED_STEPS * setting.blocks / len(blocks)
    measured = {
        "fast": (fast, NODES, ours(mode="fast", nodes=NODES), "in full"),
        "exact": (part * STEPS / NODES, STEPS, ours(mode="exact", steps=STEPS), f"{NODES} of {STEPS} steps"),
    }
    for mode, (seconds, points, found, how) in measured.items():
        row(
            f"integrated gradients ({mode}), {setting.blocks} × {setting.width}, {TOKENS} tokens",
            rows_s=seconds,
            timed=how,
            naive_s=naive_s,
            naive_timed=f"{SAMPLED_STEPS} of {STEPS} steps, blocks {blocks}",
            ratio=naive_s / seconds,
            completeness=f"{float(np.abs(found.completeness).max()):.1e}",
            **floor.compared(flops(setting, TOKENS - 1, points), seconds, *plain),
        )


if __name__ == "__main__":
    main()
