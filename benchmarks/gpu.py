"""bathyscope on a GPU: is it right, how fast, how much memory; about eight minutes on an H200.

    python benchmarks/gpu.py --out results            # make bench-gpu
    python benchmarks/gpu.py --tiny --out results     # every part once, on a CPU

Random weights alone, nothing is downloaded. One JSON line for each finding in OUT/gpu.jsonl, and on standard output. A
part that fails says so, and the next one runs; parts that no time is left for are named.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from common import LlamaSizes
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaForCausalLM

import bathyscope
from bathyscope.surveying.rates import Rates, matrix_rate

FIVE = ["residual", "lens", "skip", "drop", "swap"]
EVERYTHING = [
    *(*FIVE, "repeat", "swap_cosine", "direct", "erasure", "integrated_gradients", "gradient", "depth_score", "cka"),
    *("attention_locality", "neurons", "pairs"),
]


class Shape(LlamaSizes):
    """Sizes of a Llama, and what it costs."""

    def built(self, dtype: torch.dtype, device: str) -> LlamaForCausalLM:
        """One with random weights, made where it will be."""
        usual = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            with torch.device(device):
                return self.build(max_position_embeddings=8192)
        finally:
            torch.set_default_dtype(usual)

    def flops(self, tokens: int, starts: Sequence[int]) -> float:
        """What skip effects need at least: plain, control, full rows, tails with their controls, readouts."""
        pairs = self.blocks * (self.blocks - 1) / 2
        found = (2 * self.blocks + pairs) * self._block(tokens, tokens / 2)
        read = (self.blocks + 2.0) * tokens
        for start in starts:
            own = tokens - start
            found += (pairs + self.blocks - 1) * self._block(own, start + own / 2)
            read += self.blocks * own
        return found + read * 2.0 * self.width * self.vocabulary

    def _block(self, tokens: float, keys: float) -> float:
        key_width = self.width // self.heads * self.key_heads
        weights = 2 * self.width * (self.width + key_width) + 3 * self.width * self.inner
        return 2.0 * tokens * weights + 4.0 * tokens * keys * self.width


TINY = Shape(4, 64, 176, 4, 2, 1024)
HALF = Shape(24, 896, 4864, 14, 2, 151_936)
EIGHT = Shape(32, 4096, 14336, 32, 8, 128_256)


@dataclass
class Bench:
    """Where it runs, and what it has found."""

    device: str
    tiny: bool
    out: Path
    minutes: float
    began: float = field(default_factory=time.perf_counter)
    rates: dict[torch.dtype, float] = field(default_factory=dict)

    @property
    def left(self) -> float:
        """Seconds."""
        return self.minutes * 60 - (time.perf_counter() - self.began)

    def say(self, part: str, **found: object) -> None:
        """One finding."""
        line = json.dumps({"part": part, "at_s": round(time.perf_counter() - self.began, 1), **found}, default=str)
        print(line, flush=True)
        with open(self.out / "gpu.jsonl", "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def wait(self) -> None:
        """Until the device has done all that it was told."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    @contextmanager
    def measured(self) -> Iterator[dict[str, float]]:
        """Seconds of what runs inside, and on a GPU its peak memory."""
        found: dict[str, float] = {}
        if self.device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            found["before_gb"] = torch.cuda.memory_allocated() / 1e9
        self.wait()
        began = time.perf_counter()
        yield found
        self.wait()
        found["s"] = time.perf_counter() - began
        if self.device == "cuda":
            found["peak_gb"] = torch.cuda.max_memory_allocated() / 1e9


def prompts(vocabulary: int, lengths: Sequence[int]) -> list[list[int]]:
    """Random token ids."""
    draw = torch.Generator().manual_seed(1)
    return [torch.randint(3, vocabulary, (length,), generator=draw).tolist() for length in lengths]


def machine(bench: Bench) -> None:
    """What it is, and what a product of matrices reaches on it."""
    found: dict[str, object] = {"torch": torch.__version__, "python": platform.python_version()}
    if bench.device == "cuda":
        gpu = torch.cuda.get_device_properties(0)
        found |= {"gpu": gpu.name, "memory_gb": gpu.total_memory / 1e9, "tf32": torch.backends.cuda.matmul.allow_tf32}
    for dtype in (torch.float32, torch.bfloat16):
        bench.rates[dtype] = matrix_rate(dtype, torch.device(bench.device))
    found["tflops"] = {str(dtype): rate / 1e12 for dtype, rate in bench.rates.items()}
    bench.say("machine", **found)


def right(bench: Bench) -> None:
    """Every measure on the device and on the CPU, float32; goal: 1e-4."""
    small = {
        **{"num_hidden_layers": 6, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4},
        **{"num_key_value_heads": 2, "vocab_size": 211, "max_position_embeddings": 256},
    }
    from transformers import AutoConfig

    families: dict[str, dict[str, Any]] = {"qwen3": {"head_dim": 16}, "mixtral": {"num_local_experts": 4}, "gemma2": {}}
    for family, own in list(families.items())[: 1 if bench.tiny else None]:
        torch.manual_seed(0)
        hf = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **{**small, **own})).eval()
        asked = [bathyscope.Prompt(ids=ids, answer_tokens=3) for ids in prompts(211, (30, 24, 24, 41))]
        options: dict[str, Any] = {"progress": False, "repeat": {"length": 2}}
        here = bathyscope.survey(hf, asked, EVERYTHING, **options)
        there = bathyscope.survey(hf.to(bench.device), asked, EVERYTHING, **options)
        worst = {measure: _gap(here[measure], there[measure]) for measure in here.measures}
        bench.say("right", model=family, worst=max(worst.values()), of_measures=worst)


def _gap(one: Any, other: Any) -> float:
    """The largest difference of any value, relative where values exceed 1; infinite where one is no number alone."""
    gaps = [0.0]
    for name, values in one.data_vars.items():
        a, b = values.values, other[name].values
        if a.dtype.kind == "f" and a.size:
            # two of one infinity, or of none at all, are alike
            alike = (a == b) | (np.isnan(a) & np.isnan(b))
            with np.errstate(invalid="ignore"):
                apart = np.where(alike, 0.0, np.abs(a - b) / np.maximum(1, np.abs(a)))
            gaps.append(float(np.nan_to_num(apart, nan=np.inf).max()))
    return max(gaps)


def speed(bench: Bench) -> None:
    """Skip effects against one forward per intervention; share of the matrix rate; peak memory against the estimate."""
    settings: list[tuple[str, Shape, torch.dtype, int, int]] = [
        ("0.5B float32", HALF, torch.float32, 300, 3),
        ("0.5B", HALF, torch.bfloat16, 300, 6),
        ("8B", EIGHT, torch.bfloat16, 300, 3),
        ("8B long", EIGHT, torch.bfloat16, 2000, 1),
    ]
    for name, shape, dtype, length, count in [("tiny", TINY, torch.float32, 60, 2)] if bench.tiny else settings:
        if bench.left < 75 and not bench.tiny:
            bench.say("speed", model=name, skipped="no time left")
            continue
        hf = shape.built(dtype, bench.device)
        with bench.measured() as loading:
            model = bathyscope.load(hf)
        ids = prompts(shape.vocabulary, [length] * count)
        starts = [int(t) for t in np.linspace(8, length - 5, 4)]
        skip = {"positions": [starts] * count}
        bathyscope.survey(model, ids[:1], ["skip"], progress=False, skip={"positions": [starts]})
        with bench.measured() as ours:
            bathyscope.survey(model, ids, ["skip"], progress=False, skip=skip)
        few = 8
        one_forward_each(hf, ids[0], [(0, None)])
        with bench.measured() as lean:
            one_forward_each(hf, ids[0], [(block % shape.blocks, starts[block % 4]) for block in range(few)])
        lean_s = lean["s"] / few * shape.blocks * (1 + len(starts)) * count
        flops = shape.flops(length, starts) * count
        with bench.measured() as five:
            bathyscope.survey(model, ids[:1], FIVE, progress=False, skip={"positions": [starts]})
        above, foretold = five.get("peak_gb", 0.0) - five.get("before_gb", 0.0), estimated_gb(hf, ids[:1], bench.device)
        bench.say(
            "speed",
            model=name,
            tokens=length,
            prompts=count,
            load_s=loading["s"],
            skip_s=ours["s"],
            over_lean=lean_s / ours["s"],
            share_of_matrix_rate=flops / ours["s"] / bench.rates[dtype] if dtype in bench.rates else None,
            above_weights_gb=ours.get("peak_gb", 0.0) - ours.get("before_gb", 0.0),
            five_measures_s=five["s"],
            five_above_weights_gb=above,
            over_estimate=above / foretold,
        )
        del model, hf


def estimated_gb(hf: Any, ids: Sequence[Sequence[int]], device: str) -> float:
    """What the estimate says of five measures beyond the weights; goal: no more than 1.2 times of it."""
    rates = Rates(matrix=1.0, compared=1.0, device=device)
    with TemporaryDirectory() as folder:
        hf.config.save_pretrained(folder)
        dtype = str(hf.dtype).removeprefix("torch.")
        asked: dict[str, Any] = {"dtype": dtype, "device": device, "rates": lambda *_: rates}
        found = bathyscope.estimate(folder, [list(own) for own in ids], ",".join(FIVE), **asked)
    return (found.peak_bytes - found.weight_bytes) / 1e9


@torch.no_grad()
def one_forward_each(hf: Any, ids: Sequence[int], pairs: Sequence[tuple[int, int | None]]) -> None:
    """A forward for every block that is left out before a token, on the device from beginning to end."""
    tokens = torch.tensor([list(ids)], device=hf.device)
    for skipped, start in pairs:

        def leave_out(module: Any, given: Any, out: Tensor, start: int | None = start) -> Tensor:
            out = out.clone()
            out[:, 1:start] = given[0][:, 1:start]
            return out

        handle = hf.model.layers[skipped].register_forward_hook(leave_out)
        try:
            hf(input_ids=tokens, use_cache=False).logits.double().softmax(-1)
        finally:
            handle.remove()


def streamed(bench: Bench) -> None:
    """Blocks from disk against all of them in memory: the same numbers, and what it takes."""
    shape = TINY if bench.tiny else Shape(24, 2048, 5632, 16, 16, 32_000)
    dtype, length = (torch.float32, 40) if bench.tiny else (torch.bfloat16, 300)
    ids, runs = prompts(shape.vocabulary, [length] * 4), []
    with TemporaryDirectory() as folder:
        shape.built(dtype, bench.device).save_pretrained(folder)
        for placement in ("resident", "stream"):
            with bench.measured() as loading:
                model = bathyscope.load(folder, device=bench.device, placement=placement)
            read = model.blocks.readings.bytes if model.blocks is not None else 0
            with bench.measured() as spent:
                # the same calls, however much room there is
                runs.append(bathyscope.survey(model, ids, FIVE, progress=False, call_tokens=4096))
            read = model.blocks.readings.bytes - read if model.blocks is not None else 0
            bench.say("streamed", placement=placement, load_s=loading["s"], read_gb=read / 1e9, **spent)
            del model
    worst = max(_gap(runs[0][measure], runs[1][measure]) for measure in runs[0].measures)
    bench.say("streamed", worst=worst, same_weights=runs[0].identity.weight_hash == runs[1].identity.weight_hash)


def waits(bench: Bench) -> None:
    """Where Python waits for the device while a survey runs, by its lines."""
    shape, length = (TINY, 40) if bench.tiny else (HALF, 300)
    model = bathyscope.load(shape.built(torch.float32 if bench.tiny else torch.bfloat16, bench.device))
    ids = prompts(shape.vocabulary, [length])
    bathyscope.survey(model, ids, FIVE, progress=False)
    lines: dict[str, int] = {}

    def note(*_: Any, **__: Any) -> None:
        frame: Any = sys._getframe(1)
        while frame is not None and "/bathyscope/" not in frame.f_code.co_filename:
            frame = frame.f_back
        line = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame is not None else "outside"
        lines[line] = lines.get(line, 0) + 1

    if bench.device == "cuda":
        usual = warnings.showwarning
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = note
            torch.cuda.set_sync_debug_mode("warn")
            try:
                bathyscope.survey(model, ids, FIVE, progress=False)
            finally:
                torch.cuda.set_sync_debug_mode("default")
                warnings.showwarning = usual
    kinds = [torch.profiler.ProfilerActivity.CPU]
    kinds += [torch.profiler.ProfilerActivity.CUDA] if bench.device == "cuda" else []
    with bench.measured() as spent, torch.profiler.profile(activities=kinds) as seen:
        bathyscope.survey(model, ids, FIVE, progress=False)
    events = seen.key_averages()
    launches = sum(event.count for event in events if "LaunchKernel" in event.key)
    bench.say("waits", total=sum(lines.values()), lines=lines, launches=launches, profiled_s=spent["s"])


def equal_rows(bench: Bench) -> None:
    """Do equal rows get equal bits wherever they stand in a call, and in calls of other sizes? So must a control."""
    width, inner = (64, 176) if bench.tiny else (4096, 14336)
    for dtype in (torch.float32, torch.bfloat16):
        weight = torch.randn(inner, width, device=bench.device, dtype=dtype) / width**0.5
        row = torch.randn(1, 300, width, device=bench.device, dtype=dtype)
        alone = torch.nn.functional.linear(row, weight)
        for rows in (2, 7, 25, 109):
            many = torch.nn.functional.linear(row.repeat(rows, 1, 1), weight)
            within = float((many - many[:1]).abs().max() / alone.abs().max())
            across = float((many[:1] - alone).abs().max() / alone.abs().max())
            bench.say("equal_rows", dtype=str(dtype), rows=rows, within_a_call=within, across_calls=across)


def call_sizes(bench: Bench) -> None:
    """Seconds and memory of drop and swap by the tokens in a call."""
    shape = TINY if bench.tiny else Shape(16, 4096, 14336, 32, 8, 128_256)
    model = bathyscope.load(shape.built(torch.float32 if bench.tiny else torch.bfloat16, bench.device))
    ids = prompts(shape.vocabulary, [60 if bench.tiny else 300] * 4)
    for tokens in (256, 1024) if bench.tiny else (2048, 8192, 32768, 131072):
        if bench.left < 20:
            return
        with bench.measured() as spent:
            bathyscope.survey(model, ids, ["drop", "swap"], progress=False, call_tokens=tokens)
        bench.say("call_size", tokens=tokens, **spent)


PARTS: tuple[Callable[[Bench], None], ...] = (machine, right, speed, streamed, waits, equal_rows, call_sizes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--minutes", type=float, default=9.0, help="parts that would begin later are left out")
    parser.add_argument("--tiny", action="store_true", help="small sizes, also without a GPU")
    parser.add_argument("--only", default="", help=f"of {', '.join(part.__name__ for part in PARTS)}")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not given.tiny:
        print("no GPU that torch can use; --tiny tries everything on the CPU", file=sys.stderr)
        return 2
    given.out.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore", category=UserWarning)
    bench, failed = Bench(device, given.tiny, given.out, given.minutes), False
    for part in PARTS:
        if given.only and part.__name__ not in given.only.split(","):
            continue
        if bench.left < 20:
            bench.say(part.__name__, skipped="no time left")
            continue
        try:
            part(bench)
        # one failure tells about the next ones
        except Exception as error:
            failed = True
            bench.say(part.__name__, failed=f"{type(error).__name__}: {str(error)[:600]}")
            traceback.print_exc()
    bench.say("end", seconds=time.perf_counter() - bench.began)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
