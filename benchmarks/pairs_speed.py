"""Costs of all pairs of blocks, with each alone: one tree of histories against a forward for each."""

from __future__ import annotations

import math

from common import Setting, arguments, prompts, row, timed
from naive import schedules

from bathyscope import Schedule, survey


def main() -> None:
    given = arguments(__doc__ or "")
    setting = Setting(blocks=given.blocks, width=given.width, mlp=round(given.width * 8 / 3 / 16) * 16)
    model, ids = setting.model(device=given.device), prompts(setting, (200,))
    n, standard = setting.blocks, Schedule.standard(setting.blocks)
    pairs = [(a, b) for a in range(n) for b in range(a + 1, n)]
    orders = [standard.drop(a).drop(b).order for a, b in pairs] + [standard.drop(a).order for a in range(n)]
    found, wanted = [], []

    def ours() -> None:
        found.append(survey(model, ids, ["pairs"], progress=False)["pairs"])

    def naive() -> None:
        wanted.append([schedules(model, prompt, orders, baseline_each=False) for prompt in ids])

    fast, slow = timed(ours, naive, repeats=given.repeats, device=given.device)
    for index, stats in enumerate(wanted[0]):
        own = found[0].isel(prompt=index)
        for column, name in ((0, "kl"), (1, "top1_agreement")):
            gap = max(abs(float(own[name][a, b]) - float(stats[place, column])) for place, (a, b) in enumerate(pairs))
            assert gap < 1e-4, f"{name} of prompt {index} differs from the naive way by {gap}"
    calls = math.comb(n, 3) + n * (n - 1) // 2 + n
    row(
        f"pairs, {n} × {setting.width}, {len(ids)} prompt",
        tree_s=fast,
        naive_s=slow,
        ratio=slow / fast,
        calls=float(calls),
        naive_calls=float(sum(map(len, orders)) + n),
    )


if __name__ == "__main__":
    main()
