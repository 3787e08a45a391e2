"""What decoding takes on this machine: a block, the rest of a forward, and ``generate`` around them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from bathyscope.core.arrays import FloatArray
from bathyscope.model import Model
from bathyscope.model.anatomy.mode import evaluating
from bathyscope.surgery.exits.drafting import Counts
from bathyscope.surgery.exits.generating import generated, now

_REPEATS: Final = 9
_TOKENS: Final = 8


@dataclass(frozen=True)
class Times:
    """Seconds, the least of some repeats: whatever else a machine does only adds to them.

    Args:
        n_blocks: of the model.
        block: of one block on 1, 2, … tokens behind a cache.
        rest: of a forward beside its blocks (embedding, masks, final norm, head) on as many tokens.
        step: of ``generate`` around each forward.
        round_: of ``generate`` around each draft and its check, beside their forwards and steps.
    """

    n_blocks: int
    block: tuple[float, ...]
    rest: tuple[float, ...]
    step: float
    round_: float

    def forward(self, tokens: int, blocks: int | None = None) -> float:
        """A forward over some tokens through the first blocks, or all."""
        return (self.n_blocks if blocks is None else blocks) * self.block[tokens - 1] + self.rest[tokens - 1]

    def speed(self, counts_XF: FloatArray, exit_: int, draft: int, *, bare: bool) -> FloatArray:
        """How many times as fast as plain greedy decoding, [...].

        Args:
            counts_XF: [..., fields of ``Counts``].
            bare: blocks, norm and head alone, without what ``generate`` takes around them.
        """
        took = dict(zip(Counts._fields, np.moveaxis(counts_XF, -1, 0)))
        step, round_ = (0.0, 0.0) if bare else (self.step, self.round_)
        drafting = took["drafted"] * (self.forward(1, exit_) + step)
        checking = took["passes"] * (self.forward(draft + 1) + round_)
        found: FloatArray = took["tokens"] * (self.forward(1) + step) / (drafting + checking)
        return found


def measured(model: Model, ids: Sequence[int], longest: int) -> Times:
    """Times on one prompt, with the caches that ``generate`` makes.

    Args:
        longest: draft.
    """
    with torch.no_grad(), evaluating(model.hf):
        blocks, rest = zip(*(_forward(model, ids, tokens) for tokens in range(1, longest + 2)))
    plain, drafted = (_per_pass(model, ids, exit_) for exit_ in (None, 1))
    bare = Times(model.n_blocks, blocks, rest, 0.0, 0.0)
    step = max(plain - bare.forward(1), 0.0)
    return Times(model.n_blocks, blocks, rest, step, max(drafted - bare.forward(1, 1) - step - bare.forward(2), 0.0))


def _forward(model: Model, ids: Sequence[int], tokens: int) -> tuple[float, float]:
    """Seconds of a block, and of the rest, of a forward over some tokens behind a prompt."""
    hf: Any = model.hf
    given = torch.tensor([list(ids)], device=model.device)
    cache = hf(given, use_cache=True).past_key_values
    if hasattr(cache, "activate_past_recording"):
        cache.activate_past_recording()  # or what lies in front of a window could not be cropped back to
    ends: list[float] = []
    first, last = model.anatomy.blocks[0], model.anatomy.blocks[-1]
    handles = [
        first.register_forward_pre_hook(lambda *_: ends.append(now(model.device))),
        last.register_forward_hook(lambda *_: ends.append(now(model.device))),
    ]
    found = []
    try:
        # the first one warms up
        for _ in range(1 + _REPEATS):
            ends.clear()
            began = now(model.device)
            hf(given[:, -1:].expand(1, tokens), past_key_values=cache, use_cache=True)
            whole = now(model.device) - began
            found.append(((ends[1] - ends[0]) / model.n_blocks, whole - (ends[1] - ends[0])))
            cache.crop(-tokens)
    finally:
        for handle in handles:
            handle.remove()
    blocks, rest = zip(*found[1:])
    return min(blocks), min(rest)


def _per_pass(model: Model, ids: Sequence[int], exit_: int | None) -> float:
    """Seconds of ``generate`` for each full pass behind the first, with drafts of one token or none."""
    both = [[generated(model, ids, tokens, exit_, 1) for tokens in (2, 2 + _TOKENS)] for _ in range(_REPEATS)]
    short, long_ = (min(own, key=lambda one: one.seconds) for own in zip(*both))
    return (long_.seconds - short.seconds) / max(len(long_.drafts) - len(short.drafts), 1)
