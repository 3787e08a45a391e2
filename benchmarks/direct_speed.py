"""Direct effects (all + 4 future positions): one wavefront against one lean forward per block and position."""

from __future__ import annotations

import torch
from common import LENGTHS, Floor, Setting, arguments, prompts, row, timed
from naive import direct_effects

from bathyscope import survey
from bathyscope.measures.positions import sample_positions


def flops(setting: Setting, length: int, positions: tuple[int, ...]) -> float:
    """FLOPs the rows of one prompt need: baseline, control, a row and a tail for every pair of blocks."""
    n = setting.blocks
    pairs = n * (n - 1) / 2
    total = (n + n - 1 + pairs) * (length * setting.block_flops + setting.attention_flops(length, length / 2))
    for t in positions:
        own = length - t
        total += (pairs + n - 1) * (own * setting.block_flops + setting.attention_flops(own, t + own / 2))
    return total


def main() -> None:
    given = arguments(__doc__ or "")
    setting = Setting(blocks=given.blocks, width=given.width, mlp=round(given.width * 8 / 3 / 16) * 16)
    model, ids = setting.model(device=given.device), prompts(setting)
    positions = sample_positions([len(p) for p in ids], 0)
    options = {"positions": positions}

    def ours() -> object:
        return survey(model, ids, ["direct"], progress=False, direct=options)

    def naive() -> list[object]:
        return [direct_effects(model, p, t) for p, t in zip(ids, positions)]

    run = survey(model, ids, ["direct"], progress=False, direct=options)["direct"].sel(reduction="max")
    for index, found in enumerate(naive()):
        for name, value in zip(("effect_all", "effect_future"), found):
            gap = float((torch.tensor(run[name][index].values) - value).abs().max())
            assert gap < 1e-4, f"{name} of prompt {index} differs from the naive way by {gap}"
    floor = Floor(setting, model, LENGTHS[0], given.device)
    fast, slow, *plain = timed(ours, naive, *floor.runs, repeats=given.repeats, device=given.device)
    needed = sum(flops(setting, len(p), t) for p, t in zip(ids, positions))
    row(
        f"direct, {setting.blocks} × {setting.width}, {len(ids)} prompts",
        wavefront_s=fast,
        naive_s=slow,
        ratio=slow / fast,
        **floor.compared(needed, fast, *plain),
    )


if __name__ == "__main__":
    main()
