"""Skip effects (all + 4 future positions): one wavefront against one lean forward per intervention."""

from __future__ import annotations

import torch
from common import LENGTHS, Floor, Setting, arguments, prompts, row, timed
from naive import skip_effects

from bathyscope import survey
from bathyscope.measures.positions import sample_positions


def flops(setting: Setting, length: int, positions: tuple[int, ...]) -> float:
    """FLOPs the rows of one prompt need: baseline, control, drop rows, tails with their control, readouts."""
    n = setting.blocks
    pairs = n * (n - 1) / 2
    full = n + n + pairs
    total = full * (length * setting.block_flops + setting.attention_flops(length, length / 2))
    reads = (n + 2.0) * length
    for t in positions:
        own = length - t
        total += (pairs + n - 1) * (own * setting.block_flops + setting.attention_flops(own, t + own / 2))
        reads += (n - 1 + 1.0) * own
    return total + reads * setting.readout_flops


def main() -> None:
    given = arguments(__doc__ or "")
    setting = Setting(blocks=given.blocks, width=given.width, mlp=round(given.width * 8 / 3 / 16) * 16)
    model, ids = setting.model(device=given.device), prompts(setting)
    positions = sample_positions([len(p) for p in ids], 0)
    options = {"positions": positions}

    def ours() -> object:
        return survey(model, ids, ["skip"], progress=False, skip=options)

    def naive() -> list[object]:
        return [skip_effects(model, p, t) for p, t in zip(ids, positions)]

    run = survey(model, ids, ["skip"], progress=False, skip=options)["skip"].sel(reduction="max", part="block")
    for index, found in enumerate(naive()):
        for name, value in zip(("effect_all", "output_all", "effect_future", "output_future"), found):
            gap = float((torch.tensor(run[name][index].values) - value).abs().max())
            assert gap < 1e-4, f"{name} of prompt {index} differs from the naive way by {gap}"
    floor = Floor(setting, model, LENGTHS[0], given.device)
    fast, slow, *plain = timed(ours, naive, *floor.runs, repeats=given.repeats, device=given.device)
    needed = sum(flops(setting, len(p), t) for p, t in zip(ids, positions))
    row(
        f"skip, {setting.blocks} × {setting.width}, {len(ids)} prompts",
        wavefront_s=fast,
        naive_s=slow,
        ratio=slow / fast,
        **floor.compared(needed, fast, *plain),
    )


if __name__ == "__main__":
    main()
