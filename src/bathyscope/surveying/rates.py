"""What a machine does in a second, measured for a moment on the shapes of a model.

Three kinds of work make up nearly all of a survey: matrix products in blocks, readouts that are compared in one or two
ways, and readouts that are compared in most ways, as the lens does. Each is timed by the code that a survey runs.
"""

import copy
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from bathyscope.model import Model
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.mode import default_settings
from bathyscope.model.anatomy.readout import Readout
from bathyscope.model.memory import cached_tokens
from bathyscope.model.placement import blocks_of
from bathyscope.model.streaming.lending import lent
from bathyscope.surgery.checkpoint.outline import fill
from bathyscope.surveying.work import PromptWork, attention_flops, weight_flops
from bathyscope.wavefront.compare import compare
from bathyscope.wavefront.metrics import METRICS
from bathyscope.wavefront.places import is_accelerator
from bathyscope.wavefront.reader import Reader

SECONDS = 0.3
"""How long each kind of work is timed for, at least."""
_COMPARED: Final = ("kl_from_reference", "entropy", "l2")
_CALIBRATED_FLOPS: Final = 4e10
"""In one call of a block that is timed, where so much is more than a few hundred tokens' worth."""
_FEWEST_TOKENS, _MOST_TOKENS = 384, 4800
_ENTRIES: Final = 16384
"""Of the vocabulary, whose readouts are timed: the time of an entry hardly depends on how many there are."""
_LARGEST_BLOCK: Final = 2 << 30
"""Bytes of a block that is filled with random numbers to be timed; of larger ones only products are."""
_SURE: Final = 4.0


@dataclass(frozen=True)
class Rates:
    """What a machine does in a second.

    Args:
        matrix: floating-point operations of large matrix products.
        compared: entries of the vocabulary that are read out and compared.
        device: where it was measured.
        seconds: how long, for each of them.
        in_all_ways: entries that are read out and compared in most ways, as the lens does; None = as fast as
            ``compared``.
        blocks: floating-point operations of matrix products in the model's blocks, whose norms, activations and
            attention take time as well; None = as fast as ``matrix``.
    """

    matrix: float
    compared: float
    device: str
    seconds: float = SECONDS
    in_all_ways: float | None = None
    blocks: float | None = None

    def seconds_of(self, work: PromptWork, vocabulary: int) -> float:
        """Predict the seconds of a prompt's work."""
        return sum(self.seconds_by_kind([work], vocabulary).values())

    def seconds_by_kind(self, work: Sequence[PromptWork], vocabulary: int) -> dict[str, float]:
        """Predict the seconds of prompts' work, in blocks and in readouts."""
        usual = vocabulary * sum(prompt_work.compared for prompt_work in work) / self.compared
        all_ways = (
            vocabulary
            * sum(prompt_work.compared_in_all_ways for prompt_work in work)
            / (self.in_all_ways or self.compared)
        )
        return {
            "blocks": sum(prompt_work.block_flops for prompt_work in work) / (self.blocks or self.matrix),
            "readouts": usual,
            "readouts compared in most ways": all_ways,
        }


NOMINAL: Final = {
    False: Rates(matrix=5e10, compared=2e7, device="a CPU", in_all_ways=1e7, blocks=4e10),
    True: Rates(matrix=1e14, compared=2e10, device="an accelerator", in_all_ways=1e10, blocks=5e13),
}
"""Of one core, and of an accelerator, where nothing is measured: the same wherever a survey is planned."""


def nominal_rates(device: torch.device) -> Rates:
    """Return the rates that stand for a kind of device."""
    return NOMINAL[is_accelerator(device)]


@default_settings()
def measure_rates(
    model: Model, tokens: int, device: torch.device, clock: Callable[[], float] = time.perf_counter
) -> Rates:
    """Measure what this machine does in a second, for a few seconds.

    Args:
        model: its shapes; blocks of one without weights are filled with random numbers.
        tokens: of a prompt.
        device: where the survey is to run.
        clock: seconds; with one thread, those of the processor do not depend on what else the machine does.
    """
    anatomy, dtype = model.anatomy, model.dtype
    matrix = matrix_rate(dtype, device, clock)
    with torch.no_grad():
        return Rates(
            matrix=_rounded(matrix),
            compared=_rounded(_readout_rate(anatomy, dtype, device, clock, _COMPARED, 64, 8)),
            device=str(device),
            seconds=SECONDS,
            in_all_ways=_rounded(_readout_rate(anatomy, dtype, device, clock, tuple(METRICS), 24, 6)),
            blocks=_rounded(_block_rate(model, tokens, device, clock) or matrix),
        )


def _rounded(rate: float) -> float:
    """Return two digits of a rate: no machine keeps to more."""
    return float(f"{rate:.2g}")


def matrix_rate(dtype: torch.dtype, device: torch.device, clock: Callable[[], float] = time.perf_counter) -> float:
    """Measure the floating-point operations per second of a large matrix product."""
    size = 1024 if device.type == "cpu" else 8192
    left = torch.randn(size, size, device=device).to(dtype)
    return 2.0 * size**3 / _seconds(lambda: left @ left, device, clock)


def _readout_rate(
    anatomy: Anatomy,
    dtype: torch.dtype,
    device: torch.device,
    clock: Callable[[], float],
    metrics: Sequence[str],
    tokens: int,
    rows: int,
) -> float:
    """Measure how many entries of the vocabulary are read out and compared in a second."""
    entries = min(anatomy.vocabulary, _ENTRIES)
    head = nn.Linear(anatomy.width, entries, bias=False, device=device, dtype=dtype)
    nn.init.normal_(head.weight)
    reader = Reader(Readout(None, head), entries, itemsize=dtype.itemsize)
    # as sure of the next token as models are: few tokens are nearly all of the probability
    scale = _SURE / anatomy.width**0.5
    states_RND = (scale * torch.randn(1 + rows, tokens, anatomy.width, device=device)).to(dtype)
    targets_N = torch.zeros(tokens, dtype=torch.long, device=device)

    def read_out() -> Any:
        reference_ND, *others = states_RND
        return compare(reader, reference_ND, others, metrics, targets_N=targets_N)

    return rows * tokens * entries / _seconds(read_out, device, clock)


def _block_rate(model: Model, tokens: int, device: torch.device, clock: Callable[[], float]) -> float | None:
    """Measure the operations per second of the model's own blocks; None where they cannot be run here."""
    anatomy = model.anatomy
    flops = (weight_flops(anatomy) + attention_flops(anatomy, tokens)) / anatomy.n_blocks
    in_call = min(_MOST_TOKENS, cached_tokens(anatomy), max(_FEWEST_TOKENS, int(_CALIBRATED_FLOPS / flops)))
    length = min(tokens, in_call)
    rows = max(1, in_call // length)
    size = max(sum(p.numel() * p.element_size() for p in block.parameters()) for block in anatomy.blocks)
    # what a configuration needs beside its blocks is unknown in general; products alone are timed where it fails
    with suppress(Exception):
        if model.weight_hash:
            run = _call_of_a_block(anatomy, rows, length)
        elif size <= _LARGEST_BLOCK and device.type == "cpu":
            run = _made_up_block(anatomy, rows, length)
        else:
            return None
        per_token = (weight_flops(anatomy) + attention_flops(anatomy, length)) / anatomy.n_blocks
        return rows * length * per_token / _seconds(run, device, clock)
    return None


def _call_of_a_block(anatomy: Anatomy, rows: int, tokens: int) -> Callable[[], Any]:
    """Return a call of the block in the middle, on rows of one prompt."""
    device = next(anatomy.model.parameters()).device
    replay = anatomy.replay(torch.arange(tokens, device=device)[None] % anatomy.vocabulary)
    middle = anatomy.n_blocks // 2
    resid_RTD = replay.recording.resid0_BTD.expand(rows, -1, -1).contiguous()

    def call() -> Tensor:
        with lent(anatomy.blocks[middle]) as block:
            return replay.run(block, middle, resid_RTD)

    return call


def _made_up_block(anatomy: Anatomy, rows: int, tokens: int) -> Callable[[], Any]:
    """Return a forward pass of a copy of the model that has one block, of random numbers, and no words."""
    hf: Any = copy.deepcopy(anatomy.model)
    path = blocks_of(hf)
    parent, _, name = path.rpartition(".")
    middle = hf.get_submodule(path)[anatomy.n_blocks // 2]
    setattr(hf.get_submodule(parent), name, nn.ModuleList([middle]))
    inner = {id(parameter) for parameter in middle.parameters()}

    def tensor(_: str, like: Tensor) -> Tensor:
        if id(like) in inner:
            return torch.randn(like.shape).mul_(0.02).to(like.dtype)
        # of embeddings only the shape counts
        return torch.ones(1, dtype=like.dtype).expand(like.shape)

    fill(hf, tensor)
    resid_RTD = torch.randn(rows, tokens, anatomy.width).to(next(middle.parameters()).dtype)
    return lambda: hf.base_model(inputs_embeds=resid_RTD, use_cache=False)


def _seconds(work: Callable[[], Any], device: torch.device, clock: Callable[[], float]) -> float:
    """Measure the median seconds of a run of ``work``, an accelerator's part of it included."""

    def timed() -> float:
        began = clock()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return clock() - began

    timed()
    runs = [timed()]
    while sum(runs) < SECONDS:
        runs.append(timed())
    # of runs that something else on the machine has lengthened, the median knows nothing
    return statistics.median(runs)
