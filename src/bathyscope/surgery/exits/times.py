"""What decoding takes on this machine: a block, the rest of a forward, and ``generate`` around them.

Everything is timed several times, in rounds: one round times each part once, so that whatever else the machine does at
that moment slows all of them. The medians of the rounds are the estimate, and drawing rounds again shows their scatter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import torch

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.model import Model
from bathyscope.model.anatomy.mode import evaluating
from bathyscope.surgery.exits.drafting import Counts
from bathyscope.surgery.exits.generating import generated, now

_ROUNDS: Final = 9
_TOKENS: Final = 8
_CALLS: Final = 4
# ``generate`` runs a forward and more. Where it took less than this share of a bare forward, clocks tell nothing.
_BUSY: Final = 0.98


@dataclass(frozen=True)
class Times:
    """Seconds; each may have further axes in front, one entry for every time that rounds were drawn again.

    Args:
        n_blocks: of the model.
        block: [..., tokens], of one block on 1, 2, … tokens behind a cache.
        rest: [..., tokens], of a forward without its blocks (embedding, masks, final norm, head) on as many tokens.
        step: [...], of ``generate`` around each forward.
        round_: [...], of ``generate`` around each draft and its check, without their forwards and steps.
    """

    n_blocks: int
    block: FloatArray
    rest: FloatArray
    step: FloatArray
    round_: FloatArray

    def forward(self, tokens: int, blocks: int | None = None) -> FloatArray:
        """Return the seconds of a forward over some tokens through the first blocks, or all."""
        run = self.n_blocks if blocks is None else blocks
        seconds: FloatArray = run * np.asarray(self.block)[..., tokens - 1] + np.asarray(self.rest)[..., tokens - 1]
        return seconds

    def speed(self, counts_XF: FloatArray, exit_: int, draft: int, *, bare: bool) -> FloatArray:
        """Return how many times as fast as plain greedy decoding it is, [...].

        It is never more than the tokens that come of each full pass. A check is a full pass of the model, on more
        tokens than a plain step, with more around it; whatever the clocks said, it takes no less than a plain step.

        Args:
            counts_XF: [..., fields of ``Counts``].
            bare: blocks, norm and head alone, without what ``generate`` takes around them.
        """
        took = dict(zip(Counts._fields, np.moveaxis(counts_XF, -1, 0)))
        step, round_ = (np.zeros(()), np.zeros(())) if bare else (np.asarray(self.step), np.asarray(self.round_))
        plain = self.forward(1) + step
        drafting = took["drafted"] * (self.forward(1, exit_) + step)
        checking = took["passes"] * np.maximum(self.forward(draft + 1) + round_, plain)
        speed: FloatArray = took["tokens"] * plain / (drafting + checking)
        return speed


@dataclass(frozen=True)
class Timings:
    """Rounds of seconds.

    Args:
        n_blocks: of the model.
        block, rest: [rounds, tokens], as in ``Times``.
        plain: [rounds], of ``generate`` for each token.
        drafted: [rounds], of ``generate`` for each draft of one token by the first block, and its check.
    """

    n_blocks: int
    block: FloatArray
    rest: FloatArray
    plain: FloatArray
    drafted: FloatArray

    @classmethod
    def exact(cls, times: Times) -> Self:
        """Return the one round that gives these times, without scatter."""
        plain = times.forward(1) + times.step
        drafted = times.forward(1, 1) + times.step + times.forward(2) + times.round_
        block, rest = (np.asarray(values, dtype=np.float64)[None] for values in (times.block, times.rest))
        return cls(times.n_blocks, block, rest, np.atleast_1d(plain), np.atleast_1d(drafted))

    @property
    def rounds(self) -> int:
        """How often everything was timed."""
        return len(self.plain)

    @property
    def settled(self) -> Times:
        """The estimate: medians of the rounds."""
        first = self._estimate(np.arange(self.rounds)[None])
        return Times(self.n_blocks, first.block[0], first.rest[0], first.step[0], first.round_[0])

    def resampled(self, resamples: int, seed: int) -> Times:
        """Return the estimate, and behind it those of rounds drawn again: [1 + resamples]."""
        # Rounds are drawn whole: what slowed one part of a round slowed the others too.
        rng = np.random.default_rng([seed, self.rounds])
        places = rng.integers(self.rounds, size=(resamples, self.rounds))
        return self._estimate(np.concatenate([np.arange(self.rounds)[None], places]))

    @property
    def busy(self) -> bool:
        """Whether ``generate`` was faster than the bare forwards that it is made of: the clocks tell nothing then.

        The bare forward is the estimate that every speed is computed with.
        """
        return bool(np.median(self.plain) < _BUSY * self.settled.forward(1))

    @property
    def scatter(self) -> float:
        """Half the range of the middle half of the rounds of ``generate``, as a share of their median."""
        low, middle, high = np.quantile(self.plain, [0.25, 0.5, 0.75])
        return float((high - low) / 2 / middle)

    def _estimate(self, places_DR: IntArray) -> Times:
        block, rest, plain, drafted = (
            np.median(values[places_DR], axis=1) for values in (self.block, self.rest, self.plain, self.drafted)
        )
        bare = Times(self.n_blocks, block, rest, np.zeros(len(plain)), np.zeros(len(plain)))
        # Less than nothing is noise of the clocks, and would promise speed that nobody gets.
        step = np.maximum(plain - bare.forward(1), 0.0)
        more = bare.forward(2) if block.shape[-1] > 1 else bare.forward(1)
        round_ = np.maximum(drafted - bare.forward(1, 1) - step - more, 0.0)
        return Times(self.n_blocks, block, rest, step, round_)


def measured(model: Model, ids: Sequence[int], longest: int) -> Timings:
    """Time everything in rounds on one prompt, with the caches that ``generate`` makes.

    Args:
        longest: draft.
    """
    with torch.no_grad(), evaluating(model.hf):
        ids_BT = torch.tensor([list(ids)], device=model.device)
        hf: Any = model.hf
        cache = hf(ids_BT, use_cache=True).past_key_values
        if hasattr(cache, "activate_past_recording"):
            cache.activate_past_recording()  # or what lies in front of a window could not be cropped back to
        rounds = []
        for _ in range(1 + _ROUNDS):
            forwards = [_time_forward(model, ids_BT, cache, tokens) for tokens in range(1, longest + 2)]
            plain, drafted = (_time_pass(model, ids, exit_) for exit_ in (None, 1))
            rounds.append((*zip(*forwards), plain, drafted))
    columns = zip(*rounds[1:])  # the first one warms up
    return Timings(model.n_blocks, *(np.array(column, dtype=np.float64) for column in columns))


def _time_forward(model: Model, ids_BT: torch.Tensor, cache: Any, tokens: int) -> tuple[float, float]:
    """Return the seconds of a block, and of the rest, of a forward over some tokens behind a prompt."""
    hf: Any = model.hf
    ends: list[float] = []
    # Asked once: to find where a model lies takes as long as half a small block, and would be timed with it.
    device = model.device
    first, last = model.anatomy.blocks[0], model.anatomy.blocks[-1]
    handles = [
        first.register_forward_pre_hook(lambda *_: ends.append(now(device))),
        last.register_forward_hook(lambda *_: ends.append(now(device))),
    ]
    block, rest = [], []
    try:
        # generate() repeats one shape of call; the first of a new shape finds nothing where it last lay, and is slower
        for _ in range(1 + _CALLS):
            ends.clear()
            began = now(device)
            hf(ids_BT[:, -1:].expand(1, tokens), past_key_values=cache, use_cache=True)
            whole = now(device) - began
            # Back to the prompt, so that every call sees a cache of the same length.
            cache.crop(-tokens)
            block.append((ends[1] - ends[0]) / model.n_blocks)
            rest.append(whole - (ends[1] - ends[0]))
    finally:
        for handle in handles:
            handle.remove()
    return sum(block[1:]) / _CALLS, sum(rest[1:]) / _CALLS


def _time_pass(model: Model, ids: Sequence[int], exit_: int | None) -> float:
    """Return the seconds of ``generate`` for each full pass behind the first, with drafts of one token or none."""
    short, long_ = (generated(model, ids, tokens, exit_, 1, ends=False) for tokens in (2, 2 + _TOKENS))
    return (long_.seconds - short.seconds) / max(len(long_.drafts) - len(short.drafts), 1)
