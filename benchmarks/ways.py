"""What each of the five ways of running costs: one survey of one model, as commands, counted from outside.

Each way is run twice: on a model of no size, which says what starting costs, and on the model itself. CPU seconds are
those of all processes of a way, and a process's peak is its largest resident set less that of its twin on the small
model. The numbers in ``docs/ways.csv`` are ratios to one process. Linux only; about ten minutes on one core.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from common import LlamaSizes, row

ROOT: Final = Path(__file__).resolve().parents[1]
TABLE: Final = ROOT / "docs" / "ways.csv"
SIZES: Final = LlamaSizes(blocks=8, width=1024, inner=4096, heads=8, key_heads=8, vocabulary=4096)
SMALL: Final = LlamaSizes(blocks=2, width=64, inner=64, heads=2, key_heads=2, vocabulary=4096)
LENGTH: Final = 64
COUNT: Final = 6
MEASURES: Final = "residual,lens,drop"
WORKERS: Final = 2
ONE: Final = "one process"
_SUBREAPER: Final = 36
_TICK: Final = 0.1
_PLACED: Final = """
import json, sys
import bathyscope
from transformers import AutoModelForCausalLM
folder, prompts, out, blocks, measures, tokens = sys.argv[1:]
half = int(blocks) // 2
outside = {name: "cpu" for name in ("model.embed_tokens", "model.norm", "model.rotary_emb", "lm_head")}
places = {f"model.layers.{index}": "cpu" if index < half else "disk" for index in range(int(blocks))}
model = AutoModelForCausalLM.from_pretrained(folder, device_map=outside | places, offload_folder=out + "-offloaded")
ids = [json.loads(line)["ids"] for line in open(prompts)]
bathyscope.survey(model, ids, measures.split(","), out, batch_tokens=int(tokens), progress=False)
"""
"""``device_map`` without accelerators: half of the blocks stay on disk."""


@dataclass(frozen=True)
class Cost:
    """What one way took, as ratios.

    Args:
        way: its name.
        processes: how many have weights at one time.
        cpu: CPU seconds of all processes beyond starting, over those of one process.
        start: CPU seconds of starting all processes, over those of one process.
        largest: peak of the largest process beyond its libraries, over the bytes of the weights.
        all: the sum of these peaks over all processes that run at one time, over the bytes of the weights.
        gap: the largest difference of results from those of one process, relative to max(1, |value|); 0 = same bits.
    """

    way: str
    processes: int
    cpu: float
    start: float
    largest: float
    all: float
    gap: str


@dataclass
class Usage:
    """CPU seconds of all processes of a command, and their peaks, the largest first."""

    cpu: float
    peaks: list[int]


def commands_of(way: str, model: Path, prompts: Path, out: Path, sizes: LlamaSizes) -> list[list[str]]:
    """Return the commands of a way, which run one after another."""
    words = ["survey", str(model), "--prompts", str(prompts), "--measures", MEASURES, "--batch-tokens", str(LENGTH)]
    words.append("--quiet")
    program = [sys.executable, "-m", "bathyscope"]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(WORKERS)]
    if way == "device_map":
        numbers = [str(sizes.blocks), MEASURES, str(LENGTH)]
        return [[sys.executable, "-c", _PLACED, str(model), str(prompts), str(out), *numbers]]
    if way == "tensor parallel":
        return [[*launcher, "-m", "bathyscope", *words, "--tensor-parallel", "auto", "--out", str(out)]]
    if way == "parts":
        parts = [f"{out}-part-{number}" for number in range(1, WORKERS + 1)]
        surveys = [
            [*program, *words, "--part", f"{number}/{WORKERS}", "--out", part] for number, part in enumerate(parts, 1)
        ]
        return [*surveys, [*program, "survey", "join", *parts, "--out", str(out)]]
    flags = {
        ONE: ["--placement", "resident"],
        "streaming": ["--placement", "stream", "--window", "1"],
        "Ray": ["--engine", "ray", "--workers", str(WORKERS)],
    }
    return [[*program, *words, *flags[way], "--out", str(out)]]


WAYS: Final = (ONE, "device_map", "tensor parallel", "streaming", "parts", "Ray")
TOGETHER: Final = {"tensor parallel": WORKERS, "Ray": WORKERS}
"""Processes with weights at one time, where there are several."""


def watched(command: Sequence[str]) -> Usage:
    """Run a command to its end, and count what it and all of its descendants take."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    # processes that outlive their parents stay among the descendants
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    main = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    cpu: dict[tuple[int, int], float] = {}
    peaks: dict[tuple[int, int], int] = {}
    while main.poll() is None:
        for process, seconds, peak in descendants(os.getpid()):
            cpu[process] = seconds
            peaks[process] = max(peak, peaks.get(process, 0))
        time.sleep(_TICK)
    assert main.stderr is not None
    said = main.stderr.read().decode(errors="replace")
    if main.returncode:
        raise RuntimeError(f"{command} ended with {main.returncode}: {said[-2000:]}")
    return Usage(sum(cpu.values()), sorted(peaks.values(), reverse=True))


def descendants(ancestor: int) -> list[tuple[tuple[int, int], float, int]]:
    """Return of every living descendant its number and start, its CPU seconds and its peak in bytes."""
    parents: dict[int, int] = {}
    counted: dict[int, tuple[tuple[int, int], float, int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            values = (folder / "stat").read_text().rpartition(")")[2].split()
            status = (folder / "status").read_text()
        except OSError:
            continue  # it has ended meanwhile
        number = int(folder.name)
        parents[number] = int(values[1])
        seconds = (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")
        peak = int(status.split("VmHWM:")[1].split()[0]) << 10 if "VmHWM:" in status else 0
        counted[number] = ((number, int(values[19])), seconds, peak)

    def is_below(number: int) -> bool:
        while number in parents:
            number = parents[number]
            if number == ancestor:
                return True
        return False

    return [counted[number] for number in counted if is_below(number)]


def usage_of(way: str, folder: Path, sizes: LlamaSizes) -> Usage:
    """Run all commands of a way; peaks are those of processes that are there at one time."""
    out = folder / way.replace(" ", "-")
    usages = [watched(command) for command in commands_of(way, folder / "model", folder / "p.jsonl", out, sizes)]
    largest = max(usages, key=lambda usage: usage.peaks[0])
    return Usage(sum(usage.cpu for usage in usages), largest.peaks)


def build(folder: Path, sizes: LlamaSizes) -> int:
    """Write a model and prompts, a shard each; return the bytes of the weights."""
    model = sizes.build(initializer_range=0.05)
    model.save_pretrained(folder / "model")
    draw = random.Random(0)
    prompts = [[draw.randrange(3, sizes.vocabulary) for _ in range(LENGTH)] for _ in range(COUNT)]
    (folder / "p.jsonl").write_text("\n".join(json.dumps({"ids": ids}) for ids in prompts), encoding="utf-8")
    return sum(value.nbytes for value in model.parameters())


def largest_gap(run: Path, reference: Path) -> float:
    """Return the largest difference between the results of two runs, relative to max(1, |value|)."""
    import numpy as np

    import bathyscope

    ours, theirs = bathyscope.open(run), bathyscope.open(reference)
    gap = 0.0
    for measure in MEASURES.split(","):
        for name, expected in theirs[measure].data_vars.items():
            if expected.dtype.kind == "f":
                sizes = np.maximum(1, np.abs(expected.values))
                gap = max(gap, float(np.nanmax(np.abs(ours[measure][name].values - expected.values) / sizes)))
    return gap


def compare(ways: Sequence[str], sizes: LlamaSizes, table: Path) -> None:
    """Measure ways and store each when it is finished; the first is one process, to which the others are ratios."""
    with TemporaryDirectory(prefix="bathyscope-benchmark-") as place:
        small, large = Path(place) / "small", Path(place) / "large"
        build(small, SMALL)
        weights = build(large, sizes)
        costs: list[Cost] = []
        unit: tuple[float, float] | None = None
        for way in (ONE, *(way for way in ways if way != ONE)):
            start, whole = usage_of(way, small, SMALL), usage_of(way, large, sizes)
            beyond = [peak - before for peak, before in zip(whole.peaks, start.peaks, strict=False)]
            seconds = whole.cpu - start.cpu
            unit = unit or (seconds, start.cpu)
            cost = Cost(
                way,
                TOGETHER.get(way, 1),
                round(seconds / unit[0], 2),
                round(start.cpu / unit[1], 1),
                round(beyond[0] / weights, 2),
                round(sum(max(0, value) for value in beyond) / weights, 2),
                f"{largest_gap(large / way.replace(' ', '-'), large / ONE.replace(' ', '-')):.1e}",
            )
            costs.append(cost)
            write_table(costs, table)
            row(way, **{**asdict(cost), "way": f"{whole.cpu:.0f} s, start {start.cpu:.0f} s"})


def write_table(costs: Sequence[Cost], path: Path) -> None:
    """Store the costs as a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Cost)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(cost) for cost in costs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", action="append", choices=WAYS[1:], help="this one alone, next to one process")
    parser.add_argument("--tiny", action="store_true", help="on a model of no size, to try the benchmark")
    parser.add_argument("--out", type=Path, default=TABLE)
    arguments = parser.parse_args()
    compare(arguments.way or WAYS, SMALL if arguments.tiny else SIZES, arguments.out)


if __name__ == "__main__":
    main()
