"""Peak memory of all rows: 24 blocks × width 256, vocabulary 151,936, 512 tokens × 8 prompts."""

from __future__ import annotations

import resource
import sys

from common import Setting, arguments, prompts, row

from bathyscope import survey


def peak_gib() -> float:
    """Largest resident set of this process so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def main() -> None:
    given = arguments(__doc__ or "")
    setting = Setting(blocks=given.blocks, width=given.width, vocabulary=151_936)
    model = setting.model(device=given.device)
    loaded = peak_gib()
    survey(model, prompts(setting, (512,) * 8), "all", progress=True)
    row(
        f"memory, {setting.blocks} × {setting.width}, V 151,936, 8 × 512 tokens",
        loaded_gib=loaded,
        peak_gib=peak_gib(),
        above_gib=peak_gib() - loaded,
    )


if __name__ == "__main__":
    main()
