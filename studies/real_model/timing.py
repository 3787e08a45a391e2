"""What surveys of the real model take: wall and CPU time, peak memory, the share of readouts, and what was predicted.

Each set of measures runs in a process of its own, so that its peak of memory is its own. CPU time is what counts where
a machine is busy. The share of readouts is the CPU time in the reader of logits and in comparing what it reads, counted
once where one of them calls the other.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final

SETS: Final = (
    ("residual",),
    ("lens",),
    ("drop",),
    ("skip",),
    ("residual", "lens", "skip", "drop", "effective_depth"),
)
_STATUS: Final = Path("/proc/self/status")
_SAMPLED: Final = 4
"""Positions for each prompt at which ``skip`` begins to skip."""


class OutermostTime:
    """CPU seconds in some methods: those that they spend in one another are counted once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._inside = False

    @contextmanager
    def counting(self, methods: Iterable[tuple[type, str]]) -> Iterator[None]:
        """Count what is called inside, by methods that are replaced for as long."""
        originals = [(owner, name, getattr(owner, name)) for owner, name in methods]
        try:
            for owner, name, method in originals:
                setattr(owner, name, self._counted(method))
            yield
        finally:
            for owner, name, method in originals:
                setattr(owner, name, method)

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def counted(*arguments: Any, **settings: Any) -> Any:
            if self._inside:
                return method(*arguments, **settings)
            self._inside, started = True, time.process_time()
            try:
                return method(*arguments, **settings)
            finally:
                self._inside = False
                self.seconds += time.process_time() - started

        return counted


def reading_methods() -> list[tuple[type, str]]:
    """Return the methods through which a survey reads logits and compares them."""
    from bathyscope.wavefront.compare import _Comparison
    from bathyscope.wavefront.reader import Reader

    return [(_Comparison, "run"), *((Reader, name) for name in ("read", "read_in_slices", "product"))]


def time_survey(folder: Path, prompts: str, measures: tuple[str, ...]) -> dict[str, Any]:
    """Run a survey in this process, predict it, and return what it took."""
    import torch

    import bathyscope
    from bathyscope.surveying.rates import measure_rates

    model = bathyscope.load(folder, dtype="float32")
    loading_peak = peak_memory()
    reset_peak_memory()
    reading = OutermostTime()
    started, cpu = time.perf_counter(), time.process_time()
    with reading.counting(reading_methods()):
        run = bathyscope.survey(model, prompts, list(measures), progress=False)
    wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    peak = peak_memory()
    ids = [prompt.ids for prompt in run.prompts]
    forward = _forward_seconds(model.hf, ids)
    # With one thread, processor time is what a quiet machine takes; several threads share it in ways that differ.
    by_processor = torch.get_num_threads() == 1
    rates = partial(measure_rates, clock=time.process_time if by_processor else time.perf_counter)
    predicted = bathyscope.estimate(folder, prompts, measures, dtype="float32", rates=rates)
    return {
        "measures": list(measures),
        "threads": torch.get_num_threads(),
        "prompts": len(ids),
        "tokens": sum(map(len, ids)),
        "wall_seconds": wall,
        "cpu_seconds": cpu,
        "predicted_seconds": predicted.seconds,
        "predicted_over_measured": predicted.seconds / (cpu if by_processor else wall),
        "loading_peak_bytes": loading_peak,
        "peak_bytes": peak,
        "predicted_peak_bytes": predicted.peak_bytes + predicted.process_bytes,
        "readout_share": reading.seconds / cpu,
        "forward_cpu_seconds": forward,
        "forwards": forwards_needed(measures, model.n_blocks),
    }


def peak_memory() -> int:
    """Return the largest number of bytes that this process had in memory since the last reset (Linux), or at all."""
    if not _STATUS.exists():
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    status = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines())
    return int(status["VmHWM"].split()[0]) << 10


def reset_peak_memory() -> None:
    """Make the peak of this process what it has in memory now, where the system can."""
    with suppress(OSError):
        _STATUS.with_name("clear_refs").write_text("5")


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
