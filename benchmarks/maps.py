"""Maps between models: time and peak memory as the number of sources grows, all at once and in blocks of four."""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time

import psutil
from common import Setting, arguments, prompts, row

import bathyscope
from bathyscope.measures.normal_equations import NormalEquations

PROMPTS, LENGTH = 24, 160
BLOCK = 4
SOURCES = (6, 12, 24, 48)
"""Blocks of the source models."""


class Peak:
    """The largest resident set while the context lasts, in GiB, asked for every ten milliseconds.

    The peak that the system keeps is no use here: building the models may have gone higher.
    """

    def __enter__(self) -> Peak:
        self.gib, self._over = resident_gib(), threading.Event()
        self._watch = threading.Thread(target=self._sample)
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watch.join()

    def _sample(self) -> None:
        while not self._over.wait(0.01):
            self.gib = max(self.gib, resident_gib())


def resident_gib() -> float:
    """What the process holds now."""
    return float(psutil.Process().memory_info().rss) / 2**30


def measured(given: argparse.Namespace, blocks: int, per_pass: int | None) -> None:
    """One row: a source model of so many blocks; ``per_pass`` None = all sources at once."""
    width = given.width
    source = Setting(blocks=blocks, width=width, mlp=2 * width).model(device=given.device)
    target_setting = Setting(blocks=given.blocks, width=width, mlp=2 * width)
    target = target_setting.model(device=given.device)
    text = prompts(target_setting, (LENGTH,) * PROMPTS)
    bathyscope.cka(source, target, text[:4])  # loads what any run loads
    loaded, began, worked = resident_gib(), time.perf_counter(), time.process_time()
    options = {"sources_per_pass": per_pass, "memory": 1e3, "resamples": 100, "progress": False}
    with Peak() as peak:
        found = bathyscope.maps(source, target, text, **options)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - worked
    at_once = found.attrs["sources_per_pass"]
    row(
        f"maps, {blocks + 1} sources × {given.blocks + 1} targets, width {width}",
        sources_per_pass=str(at_once),
        passes=str(found.attrs["passes"]),
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        sums_gib=2 * at_once * NormalEquations.bytes(given.blocks + 1, (width, width)) / 2**30,
        above_gib=peak.gib - loaded,
    )


def main() -> None:
    """Each row in a process of its own, since a peak never falls."""
    if len(sys.argv) > 2 and sys.argv[1] == "one":
        blocks, per_pass = int(sys.argv[2]), int(sys.argv[3])
        sys.argv[1:] = sys.argv[4:]
        measured(arguments(__doc__ or ""), blocks, per_pass or None)
        return
    arguments(__doc__ or "")
    for per_pass in (0, BLOCK):
        for blocks in SOURCES:
            own = ["one", str(blocks), str(per_pass), *sys.argv[1:]]
            subprocess.run([sys.executable, __file__, *own], check=True)


if __name__ == "__main__":
    main()
