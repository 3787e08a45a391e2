"""Drop + swap with all four statistics: one wavefront against a forward per intervention, and the published way."""

from __future__ import annotations

import torch
from common import LENGTHS, Floor, Setting, arguments, prompts, row, timed
from naive import schedules

from bathyscope import Schedule, survey


def flops(setting: Setting, length: int) -> float:
    """FLOPs the rows of one prompt need: baseline, control, drop and swap rows with shared prefixes, readouts."""
    n = setting.blocks
    steps = 2 * n + n * (n - 1) / 2 + n * (n - 1) / 2
    reads = (2 * n - 1 + 2 + 1) * length
    block = length * setting.block_flops + setting.attention_flops(length, length / 2)
    return steps * block + reads * setting.readout_flops


def main() -> None:
    given = arguments(__doc__ or "")
    setting = Setting(blocks=given.blocks, width=given.width, mlp=round(given.width * 8 / 3 / 16) * 16)
    model, ids = setting.model(device=given.device), prompts(setting)
    standard = Schedule.standard(setting.blocks)
    orders = [standard.drop(b).order for b in range(setting.blocks)]
    orders += [standard.swap(b).order for b in range(setting.blocks - 1)]

    def ours() -> object:
        return survey(model, ids, ["drop", "swap"], progress=False)

    run = survey(model, ids, ["drop", "swap"], progress=False)
    for index, prompt in enumerate(ids):
        wanted = schedules(model, prompt, orders, baseline_each=False)
        for column, name in enumerate(("kl", "top1_agreement", "entropy", "loss")):
            found = torch.cat([torch.tensor(run[m][name][index].values) for m in ("drop", "swap")])
            gap = float((found - wanted[:, column]).abs().max())
            assert gap < 1e-4, f"{name} of prompt {index} differs from the naive way by {gap}"
    floor = Floor(setting, model, LENGTHS[0], given.device)
    fast, lean, published, *plain = timed(
        ours,
        lambda: [schedules(model, p, orders, baseline_each=False) for p in ids],
        lambda: [schedules(model, p, orders, baseline_each=True) for p in ids],
        *floor.runs,
        repeats=given.repeats,
        device=given.device,
    )
    needed = sum(flops(setting, len(p)) for p in ids)
    row(
        f"drop + swap, {setting.blocks} × {setting.width}, {len(ids)} prompts",
        wavefront_s=fast,
        naive_s=lean,
        ratio=lean / fast,
        published_s=published,
        published_ratio=published / fast,
        **floor.compared(needed, fast, *plain),
    )


if __name__ == "__main__":
    main()
