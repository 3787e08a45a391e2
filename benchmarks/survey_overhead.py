"""Residual, lens, skip and effective depth together against skip alone: what sharing one wavefront is worth."""

from __future__ import annotations

from common import Setting, arguments, prompts, row, timed

from bathyscope import survey


def main() -> None:
    given = arguments(__doc__ or "")
    setting = Setting(blocks=given.blocks, width=given.width, mlp=round(given.width * 8 / 3 / 16) * 16)
    model, ids = setting.model(device=given.device), prompts(setting)
    alone, together, everything = timed(
        lambda: survey(model, ids, ["skip"], progress=False),
        lambda: survey(model, ids, ["residual", "lens", "skip", "effective_depth"], progress=False),
        lambda: survey(model, ids, "all", progress=False),
        repeats=given.repeats,
        device=given.device,
    )
    row(
        f"survey, {setting.blocks} × {setting.width}, {len(ids)} prompts",
        skip_s=alone,
        four_measures_s=together,
        ratio=together / alone,
        all_measures_s=everything,
        all_ratio=everything / alone,
    )


if __name__ == "__main__":
    main()
