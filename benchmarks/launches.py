"""What a survey asks of an accelerator: launches, copies and waits, counted on a device that is none.

Five measures on one prompt of 300 tokens, 24 blocks: kernels of the model's own calls, and those around them. No time
is measured, so that a busy machine is as good as any.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

# the fake device must be known before the first gradient of the process
from support.fake_accelerator import Accelerator  # isort: skip

from common import LlamaSizes, Setting, prompts, row

from bathyscope import load, survey

FIVE = ["residual", "lens", "skip", "drop", "swap"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--lines", type=int, default=0, help="how many lines of code to name, those with most launches")
    given = parser.parse_args()
    # widths do not matter where nothing is timed
    hf = LlamaSizes(given.blocks, 32, 64, 2, 1, 4096).build(max_position_embeddings=8192)
    with Accelerator() as device:
        model = load(device.moved(hf))
        with device.counted() as found:
            survey(model, prompts(Setting(), (given.tokens,)), FIVE, progress=False)
    row(
        f"launches, {given.blocks} blocks, {given.tokens} tokens",
        launches=found.launches.total(),
        models=found.launches.total() - found.own_launches,
        copies_in=found.copies_in.total(),
        waits=found.waits.total(),
        waits_in_blocks=found.in_block.total(),
    )
    for line, count in found.launches.most_common(given.lines):
        print(f"  {count:6} {line}")


if __name__ == "__main__":
    main()
