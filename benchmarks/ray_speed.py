"""Shards a second of one worker and of two on this machine, one thread each; the files must be the same.

Run it when nothing else does: 24 blocks × width 256, 16 prompts of 200 tokens, a shard each. Starting Ray and loading
are left out: a run of one shard for each worker is timed first.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

# workers have one thread each, and this process is to have as many
os.environ.setdefault("OMP_NUM_THREADS", "1")

from common import Setting, arguments, prompts, row

from bathyscope import survey

MEASURES = "lens,skip,drop"
TOKENS, COUNT, GOAL = 200, 16, 1.7


def hashes(run: Path) -> list[str]:
    """Of every file of results."""
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(run.glob("*.nc"))]


def seconds(folder: Path, given: list[list[int]], out: Path, workers: int) -> float:
    """Of a survey by so many workers, their start included."""
    began = time.perf_counter()
    survey(
        folder, given, MEASURES, out, batch_tokens=TOKENS, engine="ray", workers=workers, address=None, progress=False
    )
    return time.perf_counter() - began


def main() -> None:
    given = arguments(__doc__ or "")
    setting = Setting(blocks=given.blocks, width=given.width)
    with TemporaryDirectory() as place:
        folder = Path(place)
        setting.model().hf.save_pretrained(folder / "model")
        source = [list(prompt) for prompt in prompts(setting, (TOKENS,) * COUNT)]
        rates = {}
        for workers in (1, 2):
            start = seconds(folder / "model", source[:workers], folder / f"start-{workers}", workers)
            whole = seconds(folder / "model", source, folder / f"run-{workers}", workers)
            rates[workers] = (COUNT - workers) / (whole - start)
        same = hashes(folder / "run-1") == hashes(folder / "run-2")
    row("two workers against one", one=rates[1], two=rates[2], ratio=rates[2] / rates[1], goal=GOAL, same_files=same)


if __name__ == "__main__":
    main()
