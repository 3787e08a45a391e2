"""Where the time of a real checkpoint goes, what samples of tokens gain, and how well time is predicted.

    python benchmarks/time_shares.py --model FOLDER --text FILE                         # everything, about six minutes
    python benchmarks/time_shares.py --model FOLDER --text FILE --what shares,samples
    python benchmarks/time_shares.py --model FOLDER --text FILE --scale 0.25            # shorter prompts

`shares`: CPU time in blocks, in the readout's product, in arithmetic over the vocabulary, and in the rest, of a default
survey, `prune`, `exit_advice` and `translated_lens`. `samples`: `drop` where 16, 64 and 256 tokens of a prompt are read
out. `predicted`: `estimate` over measured wall time, of `lens` and `skip`. `prune`: `prune --drop 3` on four windows of
128 tokens, two to choose by and two to test on; its time is proportional to them (--windows 12 --read all: twelve
windows, all of whose tokens are read). --only names works of `shares`. Results are added to a file of the
machine's name under benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any, Final

from common import LlamaSizes  # first: it sets large pages before torch is imported  # isort: skip

import torch
from real_shapes import RESULTS, predicted_seconds, store_result, timed
from torch import nn

import bathyscope
from bathyscope.wavefront.compare import _Comparison
from bathyscope.wavefront.reader import Reader

READ_TOKENS: Final = (None, 256, 64, 16)
PREDICTED: Final = {
    "262k": LlamaSizes(6, 640, 1728, 10, 5, 262_144),
    "wide": LlamaSizes(2, 4096, 11008, 32, 32, 32_000),
}


class Clock:
    """CPU time by kind of work: what is entered inside something else is taken off it."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._open = ["rest"]
        self._since = time.process_time()

    def _switch(self) -> None:
        now = time.process_time()
        self.seconds[self._open[-1]] += now - self._since
        self._since = now

    def counted(self, kind: str, call: Callable[..., Any], applies: Callable[[Any], bool]) -> Callable[..., Any]:
        """Return a method that is counted under a kind where it applies to its object."""

        @wraps(call)
        def method(self_: Any, *arguments: Any, **settings: Any) -> Any:
            if not applies(self_):
                return call(self_, *arguments, **settings)
            self._switch()
            self._open.append(kind)
            try:
                return call(self_, *arguments, **settings)
            finally:
                self._switch()
                self._open.pop()

        return method

    def stop(self) -> dict[str, float]:
        """Return the share of each kind, and the seconds in all."""
        self._switch()
        total = sum(self.seconds.values())
        return {**{kind: seconds / total for kind, seconds in self.seconds.items()}, "cpu_s": total}


@contextmanager
def clock_of(hf: Any) -> Iterator[Clock]:
    """Count what is called inside, by methods that are replaced for as long."""
    head, blocks = hf.get_output_embeddings(), type(hf.base_model.layers[0])
    kinds = (
        (blocks, "forward", "blocks", lambda _: True),
        (nn.Linear, "forward", "product", lambda module: module is head),
        (_Comparison, "run", "arithmetic", lambda _: True),
        (Reader, "read_in_slices", "arithmetic", lambda _: True),
        (Reader, "read", "arithmetic", lambda _: True),
    )
    before = [(place, name, getattr(place, name)) for place, name, *_ in kinds]
    clock = Clock()
    try:
        for (place, name, call), (*_, kind, applies) in zip(before, kinds):
            setattr(place, name, clock.counted(kind, call, applies))
        yield clock
    finally:
        for place, name, call in before:
            setattr(place, name, call)


def windows_of(model: Any, text: Path, count: int, length: int) -> list[list[int]]:
    """Return neighbouring windows of a text, of so many tokens."""
    ids = model.tokenizer(text.read_text(encoding="utf-8")[: 12 * count * length]).input_ids
    windows = [ids[start : start + length] for start in range(0, count * length, length)]
    assert len(windows[-1]) == length, "the text is too short"
    return windows


def shares(model: Any, text: Path, scale: float, only: Sequence[str] = ()) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the shares of time of four kinds of work."""
    two = windows_of(model, text, 2, round(96 * scale))
    eight = windows_of(model, text, 8, round(64 * scale))
    works: dict[str, Callable[[], Any]] = {
        "default survey": lambda: bathyscope.survey(model, two, progress=False),
        "prune": lambda: bathyscope.prune(
            model, eight[:2], eight[2:4], drop=3, budget=1500, measured=8, random=2, progress=False
        ),
        "exit_advice": lambda: bathyscope.exit_advice(
            model, eight[:3], verify=eight[3:5], new_tokens=8, longest=2, progress=False
        ),
        # maps of a stream of 576 channels are fitted to at least 2,308 tokens
        "translated_lens": lambda: bathyscope.survey(
            model, windows_of(model, text, 16, 256), ["translated_lens"], progress=False
        ),
    }
    for name, work in works.items():
        if only and name not in only:
            continue
        with clock_of(model.hf) as clock:
            work()
        yield name, clock.stop()


def samples(model: Any, text: Path, scale: float) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the time of ``drop`` on one prompt by how many of its tokens are read out."""
    prompt = windows_of(model, text, 1, round(384 * scale))
    for read_tokens in READ_TOKENS:
        options = {} if read_tokens is None else {"drop": {"read_tokens": max(4, round(read_tokens * scale))}}
        _, wall, cpu = timed(partial(bathyscope.survey, model, prompt, ["drop"], progress=False, **options))
        yield f"drop, {read_tokens or 'all'} tokens read", {"wall_s": wall, "cpu_s": cpu}


def predicted(model: Any, text: Path, scale: float) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield predicted and measured time of two measures on three models."""
    generator = torch.Generator().manual_seed(1)
    for name, sizes in (("checkpoint", None), *PREDICTED.items()):
        measured = model if sizes is None else bathyscope.load(sizes.build(tie_word_embeddings=True))
        most = measured.anatomy.vocabulary
        lengths = [round(length * scale) for length in ((64,) if name == "wide" else (96, 96))]
        ids = [torch.randint(3, most, (length,), generator=generator).tolist() for length in lengths]
        for measure in ("lens", "skip"):
            options: dict[str, Any] = (
                {} if measure == "lens" else {"skip": {"positions": [[length // 4] for length in lengths]}}
            )
            seconds = predicted_seconds(measured, ids, measure, options)
            _, wall, cpu = timed(partial(bathyscope.survey, measured, ids, [measure], progress=False, **options))
            yield f"{measure}, {name}", {"predicted_s": seconds, "wall_s": wall, "cpu_s": cpu, "ratio": seconds / wall}


def pruned(
    model: Any, text: Path, scale: float, count: int = 4, read: Sequence[int | None] = (None, 32)
) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the time of choosing three blocks on half of some windows of 128 tokens and testing on the other half."""
    windows = windows_of(model, text, count, round(128 * scale))
    half = count // 2
    for read_tokens in read:
        choose = partial(
            bathyscope.prune,
            model,
            windows[:half],
            windows[half:],
            drop=3,
            read_tokens=read_tokens,
            random=4,
            progress=False,
        )
        _, wall, cpu = timed(choose)
        yield f"prune --drop 3, {read_tokens or 'all'} tokens read", {"wall_s": wall, "cpu_s": cpu}


WORKS: Final = {"shares": shares, "samples": samples, "predicted": predicted, "prune": pruned}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder of a Llama-like checkpoint")
    parser.add_argument("--text", type=Path, required=True, help="a long text")
    parser.add_argument("--what", default=",".join(WORKS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--scale", type=float, default=1.0, help="of the lengths of prompts")
    parser.add_argument("--only", default="", help="works of `shares`, separated by commas")
    parser.add_argument("--windows", type=int, default=4, help="of `prune`")
    parser.add_argument("--read", choices=("both", "all", "32"), default="both", help="tokens that `prune` reads out")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of results")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    model = bathyscope.load(arguments.model, dtype="float32")
    only = [name for name in arguments.only.split(",") if name]
    read = {"both": (None, 32), "all": (None,), "32": (32,)}[arguments.read]
    works = WORKS | {
        "shares": partial(shares, only=only),
        "prune": partial(pruned, count=arguments.windows, read=read),
    }
    for what in arguments.what.split(","):
        results = {}
        for name, numbers in works[what](model, arguments.text, arguments.scale):
            results[name] = numbers
            print(f"{name:<36} " + "   ".join(f"{n} {value:.3g}" for n, value in numbers.items()), flush=True)
        what = f"{what} of {arguments.windows} windows" if what == "prune" and arguments.windows != 4 else what
        key = f"{what}, {Path(arguments.model).name}, scale {arguments.scale:g}, {arguments.threads} threads"
        path = store_result(key, {"rows": json.loads(json.dumps(results))}, arguments.out)
    print(f"Written: {path}")


if __name__ == "__main__":
    main()
