"""Residual erasure of one prompt: groups of tails against one lean forward for every boundary and token."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from common import Floor, Setting, arguments, prompts, row, timed
from torch import Tensor

from bathyscope import Prompt, survey
from bathyscope.model import Model

TOKENS = 40
ANSWER = 2
EVERY = 5
"""The naive way erases every fifth token, at all boundaries; its time is scaled to all tokens."""


def flops(setting: Setting, tokens: int, answer: int) -> float:
    """FLOPs that one map needs: reference, baseline, and a row for every boundary and token that can have an effect.

    A row owns the tokens from the erased one to the last that predicts the answer, and the blocks from its boundary
    on; it is read where the answer is predicted. Erasing h_L needs readouts alone.
    """
    n, seen = setting.blocks, tokens - 1
    total = 2.0 * n * (tokens * setting.block_flops + setting.attention_flops(tokens, tokens / 2))
    reads = float(answer)
    for t in range(seen):
        own = seen - t
        visits = n * (n + 1) / 2
        total += visits * (own * setting.block_flops + setting.attention_flops(own, t + own / 2))
        reads += n * min(own, answer)
    return total + (reads + answer) * setting.readout_flops


@torch.no_grad()
def naive(model: Model, ids: Sequence[int], erased: Sequence[int]) -> Tensor:
    """Effects [boundary, erased token]: a full forward with h_b[t] replaced, for every boundary and token."""
    blocks, given = model.anatomy.blocks, torch.tensor([list(ids)], device=model.device)
    first, last = len(ids) - 1 - ANSWER, len(ids) - 1
    stream: list[Tensor] = []
    notes = [block.register_forward_pre_hook(lambda _m, args: stream.append(args[0])) for block in blocks]
    notes.append(blocks[-1].register_forward_hook(lambda _m, _a, out: stream.append(out)))
    base = model.hf(input_ids=given, use_cache=False).logits[0, first:last].double().softmax(-1)
    for note in notes:
        note.remove()
    values = [h.double().mean(1).float() for h in stream]
    found = torch.zeros(len(values), len(erased))
    for b, value in enumerate(values):
        for column, t in enumerate(erased):

            def erase(h: Tensor, t: int = t, value: Tensor = value) -> Tensor:
                h = h.clone()
                h[:, t] = value
                return h

            if b < len(blocks):
                hook = blocks[b].register_forward_pre_hook(lambda _m, args: (erase(args[0]), *args[1:]))
            else:
                hook = blocks[-1].register_forward_hook(lambda _m, _a, out: erase(out))
            new = model.hf(input_ids=given, use_cache=False).logits[0, first:last].double().softmax(-1)
            hook.remove()
            found[b, column] = torch.linalg.vector_norm(new - base, dim=-1).max()
    return found


def main() -> None:
    given = arguments(__doc__ or "")
    setting = Setting(blocks=given.blocks, width=given.width, mlp=round(given.width * 8 / 3 / 16) * 16)
    model = setting.model(device=given.device)
    (ids,) = prompts(setting, (TOKENS,))
    prompt = Prompt(ids=ids, answer_tokens=ANSWER)
    erased = range(0, TOKENS, EVERY)

    def ours() -> Tensor:
        return torch.tensor(survey(model, [prompt], ["erasure"], progress=False)["erasure"].effect.values[0])

    def sample() -> Tensor:
        return naive(model, ids, erased)

    gap = float((ours()[:, list(erased)] - sample()).abs().max())
    assert gap < 1e-5, f"the effects differ from the naive way by {gap}"
    floor = Floor(setting, model, TOKENS, given.device)
    fast, part, *plain = timed(ours, sample, *floor.runs, repeats=given.repeats, device=given.device)
    slow = part * TOKENS / len(erased)
    row(
        f"erasure, {setting.blocks} × {setting.width}, {TOKENS} tokens",
        wavefront_s=fast,
        naive_s=slow,
        naive_timed=f"{len(erased)} of {TOKENS} tokens",
        ratio=slow / fast,
        **floor.compared(flops(setting, TOKENS, ANSWER), fast, *plain),
    )


if __name__ == "__main__":
    main()
