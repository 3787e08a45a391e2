"""What surveys of the real model take: wall and CPU time, peak memory, the share of readouts, and what was predicted.

Each set of measures runs in a process of its own, so that its peak of memory is its own. CPU time is what counts where
a machine is busy. The share of readouts is taken from Python's profiler: time in the reader of logits and in comparing
what it reads.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

SETS: Final = (
    ("residual",),
    ("lens",),
    ("drop",),
    ("skip",),
    ("residual", "lens", "skip", "drop", "effective_depth"),
)
_READING: Final = ("wavefront/reader.py", "wavefront/compare.py", "wavefront/distribution.py", "wavefront/metrics.py")
_SAMPLED: Final = 4
"""Positions for each prompt at which ``skip`` begins to skip."""


def time_survey(folder: Path, prompts: str, measures: tuple[str, ...]) -> dict[str, Any]:
    """Predict a survey, run it in this process, and return what it took."""
    import torch

    import bathyscope

    predicted = bathyscope.estimate(folder, prompts, measures, dtype="float32")
    model = bathyscope.load(folder, dtype="float32")
    # by processor time of all threads, which a busy machine does not lengthen
    profile = cProfile.Profile(time.process_time)
    started, cpu = time.perf_counter(), time.process_time()
    run = profile.runcall(bathyscope.survey, model, prompts, list(measures), progress=False)
    wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    ids = [prompt.ids for prompt in run.prompts]
    forward = _forward_seconds(model.hf, ids)
    return {
        "measures": list(measures),
        "threads": torch.get_num_threads(),
        "prompts": len(ids),
        "tokens": sum(map(len, ids)),
        "wall_seconds": wall,
        "cpu_seconds": cpu,
        "predicted_seconds": predicted.seconds,
        "peak_bytes": peak,
        "predicted_peak_bytes": predicted.peak_bytes,
        "readout_share": reading_share(pstats.Stats(profile), cpu),
        "forward_cpu_seconds": forward,
        "forwards": forwards_needed(measures, model.n_blocks),
    }


def reading_share(stats: Any, seconds: float, files: tuple[str, ...] = _READING) -> float:
    """Return the share of time in some files, entered from others."""

    def inside(function: tuple[str, int, str]) -> bool:
        return function[0].endswith(files)

    entered = sum(
        times[3]
        for function, (*_, callers) in stats.stats.items()
        if inside(function)
        for caller, times in callers.items()
        if not inside(caller)
    )
    return float(entered / seconds)


def _forward_seconds(hf: Any, ids: list[tuple[int, ...]]) -> float:
    """CPU seconds of one plain forward of every prompt, with the probabilities of every token."""
    import torch

    with torch.no_grad():
        cpu = time.process_time()
        for prompt in ids:
            hf(torch.tensor([prompt]), use_cache=False).logits.softmax(-1)
        return time.process_time() - cpu


def forwards_needed(measures: tuple[str, ...], n_blocks: int) -> int:
    """Return how many forwards of a prompt a program runs that makes one for every intervention."""
    interventions = {"drop": n_blocks, "skip": n_blocks * (1 + _SAMPLED)}
    return 1 + sum(interventions.get(name, 0) for name in measures)


def time_surveys(
    folder: Path,
    prompts: str,
    file: Path,
    tell: Callable[[str], None] = lambda _: None,
    sets: Sequence[tuple[str, ...]] = SETS,
) -> list[dict[str, Any]]:
    """Time every set of measures that is not in the file yet, in a process of its own."""
    rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    timed = {tuple(row["measures"]) for row in rows}
    for measures in sets:
        if measures in timed:
            continue
        tell(", ".join(measures))
        command = [sys.executable, "-m", "studies.real_model.timing", str(folder), prompts, ",".join(measures)]
        finished = subprocess.run(command, check=True, capture_output=True, text=True)
        rows.append(json.loads(finished.stdout.splitlines()[-1]))
        file.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return rows


if __name__ == "__main__":
    print(json.dumps(time_survey(Path(sys.argv[1]), sys.argv[2], tuple(sys.argv[3].split(",")))))
