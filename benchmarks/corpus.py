"""A corpus: drop, swap and repeat over many windows as one command, killed and resumed; and against the published way.

The published way runs the normal and the changed model for every schedule and window. Without ``--text`` the corpus is
generated word problems, and without ``--model`` the model is the bundled one, in float32.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

# large pages for tensors, as the command line sets it: for both sides of the ratio
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

import torch
from common import row
from naive import schedules

import bathyscope
from bathyscope import Schedule
from bathyscope.model import Model
from bathyscope.model.bundled import model_path
from bathyscope.prompts.source import resolve

MEASURES = ("drop", "swap", "repeat")
LENGTH = 3
"""Blocks in a repeated window."""


def main() -> None:
    given = _arguments()
    torch.set_num_threads(given.threads)
    with TemporaryDirectory() as folder:
        text = given.text or _generated(Path(folder) / "problems.txt", given.tokens)
        if given.compare:
            _compare(given, f"{text}?window={given.window}&tokens={given.compare}")
        if given.tokens:
            _whole(given, f"{text}?window={given.window}&tokens={given.tokens}", Path(folder))


def _compare(given: argparse.Namespace, source: str) -> None:
    """Both ways on the same tokens in one process, in turns; their numbers must agree."""
    model = bathyscope.load(given.model, dtype="float32")
    windows = [list(prompt.ids or ()) for prompt in resolve(source, tokenizer=model.tokenizer).prompts]
    for measures in (MEASURES[:2], MEASURES):
        _compare_measures(model, windows, measures, given.repeats)


def _compare_measures(model: Model, windows: list[list[int]], measures: tuple[str, ...], repeats: int) -> None:
    orders = list(_orders(model, measures))
    _require_equal(_survey(model, windows[:1], measures), schedules(model, windows[0], orders, baseline_each=False))
    fast, published = _times(
        lambda: _survey(model, windows, measures),
        lambda: [schedules(model, window, orders, baseline_each=True) for window in windows],
        repeats=repeats,
    )
    row(
        f"{' + '.join(measures)}, {sum(map(len, windows))} tokens",
        wavefront_s=fast[0],
        published_s=published[0],
        ratio=published[0] / fast[0],
        wavefront_cpu_s=fast[1],
        published_cpu_s=published[1],
        cpu_ratio=published[1] / fast[1],
    )


def _survey(model: Model, windows: list[list[int]], measures: tuple[str, ...]) -> bathyscope.Run:
    options = {"repeat": {"length": LENGTH}} if "repeat" in measures else {}
    return bathyscope.survey(model, windows, measures, progress=False, **options)


def _orders(model: Model, measures: tuple[str, ...]) -> Iterator[tuple[int, ...]]:
    blocks = model.anatomy.n_blocks
    standard = Schedule.standard(blocks)
    yield from (standard.drop(b).order for b in range(blocks))
    yield from (standard.swap(b).order for b in range(blocks - 1))
    if "repeat" in measures:
        yield from (standard.repeat(b, LENGTH).order for b in range(blocks - LENGTH + 1))


def _require_equal(run: bathyscope.Run, wanted: torch.Tensor) -> None:
    for column, name in enumerate(("kl", "top1_agreement", "entropy", "loss")):
        found = torch.cat([torch.tensor(run[m][name][0].values) for m in MEASURES if m in run.measures])
        gap = float((found - wanted[:, column]).abs().max())
        assert gap < 1e-4, f"{name} differs from the published way by {gap}"


def _times(*runs: Callable[[], object], repeats: int) -> list[tuple[float, float]]:
    """Shortest wall and processor time of each run in seconds; they take turns."""
    best = [(float("inf"), float("inf"))] * len(runs)
    for _ in range(repeats):
        for index, run in enumerate(runs):
            wall, processor = time.perf_counter(), time.process_time()
            run()
            passed = time.perf_counter() - wall, time.process_time() - processor
            best[index] = (min(best[index][0], passed[0]), min(best[index][1], passed[1]))
    return best


def _whole(given: argparse.Namespace, source: str, folder: Path) -> None:
    """The command line on all tokens, then once more with a kill -9 half-way."""
    whole = _command(given, source, folder / "whole")
    row(f"{given.tokens} tokens, one command", **_cost(whole))
    shards = len(_shards(folder / "whole"))
    killed = _command(given, source, folder / "killed", kill_at=max(1, shards // 2))
    left = len(_shards(folder / "killed"))
    row(f"killed with {left} of {shards} shards there", **_cost(killed))
    row("resumed", **_cost(_command(given, source, folder / "killed")))
    both = [[shard.read_bytes() for shard in _shards(folder / name)] for name in ("whole", "killed")]
    assert both[0] == both[1], "the resumed run has other bits than the uninterrupted one"
    run = bathyscope.open(folder / "whole")
    for measure in MEASURES:
        kl = run[measure].kl.mean("prompt").values
        row(f"  KL, {measure}", **{str(b): float(value) for b, value in enumerate(kl)})


def _command(
    given: argparse.Namespace, source: str, out: Path, kill_at: int | None = None
) -> tuple[float, os.struct_rusage]:
    """Wall time and resources of ``bathyscope survey``; it is killed when that many shards are there."""
    flags = ["--prompts", source, "--measures", ",".join(MEASURES), "--repeat.length", str(LENGTH), "--quiet"]
    arguments = [sys.executable, "-m", "bathyscope", "survey", str(given.model), *flags, "--dtype", "float32"]
    environment = {**os.environ, "OMP_NUM_THREADS": str(given.threads)}
    began = time.perf_counter()
    process = subprocess.Popen([*arguments, "--out", str(out)], env=environment)
    if kill_at is not None:
        while len(_shards(out)) < kill_at:
            assert os.wait4(process.pid, os.WNOHANG)[0] == 0, "the command ended before it was killed"
            time.sleep(0.05)
        process.kill()
    _, status, used = os.wait4(process.pid, 0)
    assert kill_at is not None or status == 0, "the command failed"
    return time.perf_counter() - began, used


def _cost(measured: tuple[float, os.struct_rusage]) -> dict[str, float]:
    wall, used = measured
    unit = 1 if sys.platform == "darwin" else 1024
    return {"wall_s": wall, "cpu_s": used.ru_utime + used.ru_stime, "peak_gib": used.ru_maxrss * unit / 2**30}


def _shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("shard-*.nc"))


def _generated(path: Path, tokens: int) -> Path:
    """Word problems, more than enough for that many tokens."""
    count = max(100, tokens // 20)
    texts = (prompt.text or "" for prompt in resolve(f"problems:{count}?steps=1-6").prompts)
    path.write_text("\n\n".join(texts), encoding="utf-8")
    return path


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=model_path(), type=Path)
    parser.add_argument("--text", type=Path, help="a .txt or .txt.gz file")
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=100_000, help="of the whole command; 0 = leave it out")
    parser.add_argument("--compare", type=int, default=8192, help="tokens of the comparison; 0 = leave it out")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--repeats", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
