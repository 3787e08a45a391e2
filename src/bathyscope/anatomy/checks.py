"""Checks at load: does what a family declares hold on this model? Each failure says the measured gap.

1. no-op parity: the recorded and replayed blocks give the plain forward's residual stream, in any order;
2. contribution identity: the contributions of every block sum to h_{l+1} − h_l;
3. readout identity: the declared readout of h_L gives the model's logits;
4. independence: later tokens and other rows change nothing (and padding, or only equal lengths share a batch);
5. tail equivalence: a tail on its donor's keys and values equals the full row (decides whether tails are used).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.anatomy.anatomy import Anatomy
from bathyscope.anatomy.calls import Call, called
from bathyscope.anatomy.gaps import CHECK_TOKENS, gap, random_ids, token_gap, tolerance
from bathyscope.anatomy.head_path import readout_gap
from bathyscope.anatomy.independence import gaps_by_later_tokens, gaps_by_neighbours, gaps_by_order
from bathyscope.anatomy.plain import plain_forward
from bathyscope.anatomy.replay import unwrap
from bathyscope.anatomy.sites import tapped
from bathyscope.anatomy.tail_check import tail_gaps
from bathyscope.errors import ModelError

_SHARP = 1e-5


@dataclass(frozen=True)
class Checks:
    """Gaps measured on a short random batch: logits relative to the largest of them, streams token by token.

    Args:
        no_op: replayed blocks against the plain forward's, largest of all boundaries; 0 = bit-equal.
        readout: declared readout of h_L against the model's logits.
        contributions: per block, h_l plus the contributions against h_{l+1}, relative to it; NaN = no sites.
        tail: tail against full row by first own token, largest of all blocks; NaN where a tail cannot be run.
        tolerance: what counts as equal in this dtype.
        tail_reason: why tails are not used, where they are not.
        sources: per block the earlier blocks whose keys and values it takes instead of its own; empty where
            blocks pass nothing but the residual stream.
        later: tokens against the same with other tokens behind them, largest of all boundaries.
        padding: a prompt beside a longer and a shorter one against the prompt alone, largest of all boundaries.
    """

    no_op: float
    readout: float
    contributions: tuple[float, ...]
    tail: dict[int, float]
    tolerance: float
    tail_reason: str = ""
    sources: tuple[frozenset[int], ...] = ()
    later: float = 0.0
    padding: float = 0.0

    @property
    def parts(self) -> bool:
        """Attention and MLP contributions are available."""
        return all(gap <= self.tolerance for gap in self.contributions)

    def lacking(self, order: Iterable[int]) -> tuple[int, int] | None:
        """The first (block, source) in an order of blocks whose source has not run before it; None if all have."""
        ran: set[int] = set()
        for block in order:
            ran.add(block)
            missing = (self.sources[block] if self.sources else frozenset()) - ran
            if missing:
                return block, min(missing)
        return None

    @property
    def tails(self) -> bool:
        """Tails may share their donors' keys and values."""
        return bool(self.tail) and all(gap <= self.tolerance for gap in self.tail.values())


class _Passed(dict[Any, tuple[Tensor, ...]]):
    """What blocks pass on to later blocks; ``takes`` says whose entries have been read since it was emptied."""

    def __init__(self) -> None:
        super().__init__()
        self.block = 0
        self.takes: set[int] = set()
        self._writers: dict[Any, int] = {}

    def __setitem__(self, key: Any, value: tuple[Tensor, ...]) -> None:
        self._writers[key] = self.block
        super().__setitem__(key, value)

    def __getitem__(self, key: Any) -> tuple[Tensor, ...]:
        self.takes.add(self._writers[key])
        return super().__getitem__(key)


@torch.no_grad()
def check(anatomy: Anatomy, tokens: int = CHECK_TOKENS) -> Checks:
    """Measures all gaps.

    Raises:
        ModelError: no-op parity, the readout identity or independence does not hold. Missing contributions or tails
            are no error: the measures that need them refuse, or compute full rows.
    """
    parameter = next(p for p in anatomy.model.parameters() if p.is_floating_point())
    allowed = tolerance(parameter.dtype)
    ids = random_ids(anatomy.model, tokens, parameter.device)
    seen, behind = _plain_blocks(anatomy, ids)
    replay = anatomy.replay(ids)
    boundaries = [replay.recording.resid0_BTD]
    gaps: list[float] = []
    sources: list[frozenset[int]] = []
    state = _Passed()
    every = torch.arange(len(ids), device=ids.device)
    for index, block in enumerate(anatomy.blocks):
        state.block, state.takes = index, set()
        with tapped(block, anatomy.sites) as taken:
            out = replay.run(block, index, boundaries[-1], every, state=state)
        gaps.append(_contribution_gap(boundaries[-1], out, taken, anatomy.block_scale(block)))
        boundaries.append(out)
        sources.append(frozenset(state.takes - {index}))
    no_op = [gap(own, real) for own, real in zip(boundaries[1:], seen)]
    _require_replay(anatomy, no_op, allowed)
    readout = readout_gap(anatomy, ids, seen[-1], behind)
    _require_readout(anatomy, readout, tolerance(torch.promote_types(parameter.dtype, torch.float32)))
    later = gaps_by_later_tokens(anatomy, boundaries, ids)
    # one block at a time in batches of one shape, so that rounding is the same nearly everywhere
    sharp = max(torch.finfo(parameter.dtype).eps, _SHARP)
    _require_causal(anatomy, later, sharp)
    _require_any_order(anatomy, gaps_by_order(anatomy, replay, boundaries, dict(state)), sharp)
    _require_own_rows(anatomy, allowed)
    tail, reason = tail_gaps(anatomy, replay, boundaries)
    if not reason and any(not one <= allowed for one in tail.values()):
        worst = max(tail, key=lambda t: tail[t] if tail[t] == tail[t] else float("inf"))
        reason = f"a tail from token {worst} differs from the full row by {tail[worst]:.1e} (allowed {allowed:.0e})"
    passed = tuple(sources) if any(sources) else ()
    return Checks(max(no_op), readout, tuple(gaps), tail, allowed, reason, passed, max(later), anatomy.padding_gap)


def _contribution_gap(before: Tensor, after: Tensor, taken: dict[str, Tensor], block_scale: float) -> float:
    if not {"attention", "mlp"} <= taken.keys():
        return float("nan")
    if any(part.numel() != before.numel() for part in taken.values()):
        return float("inf")
    total = sum((part.float().reshape(before.shape) for part in taken.values()), before.float())
    return token_gap(block_scale * total, after)


def _plain_blocks(anatomy: Anatomy, ids: Tensor) -> tuple[list[Tensor], list[nn.Module]]:
    """What each block puts out in the model's own forward, and the modules that run after the last of them."""
    seen: list[Tensor] = []
    behind: list[nn.Module] = []
    within = {module for block in anatomy.blocks for module in block.modules()}

    def note(call: Call) -> None:
        if call.path:
            seen.append(unwrap(call.output, anatomy.width).clone())
            behind.clear()
        else:
            behind.append(call.module)

    outside = [module for module in anatomy.model.modules() if module not in within]
    holding = [module for module in outside if next(module.parameters(recurse=False), None) is not None]
    with called([*(("block", block) for block in anatomy.blocks), *(("", module) for module in holding)], note):
        plain_forward(anatomy.model, ids, anatomy.family.name)
    return seen, behind


def _name(anatomy: Anatomy) -> str:
    return f"{anatomy.family.name} ({type(anatomy.model).__name__})"


def _require_replay(anatomy: Anatomy, no_op: Sequence[float], allowed: float) -> None:
    """Refuses a model whose replayed blocks differ from its own forward."""
    for index, one in enumerate(no_op):
        if not one <= allowed:
            raise ModelError(
                f"{_name(anatomy)}: no-op parity fails at block {index}: replaying the recorded block differs from the "
                f"plain forward by {one:.1e} of the largest value (allowed {allowed:.0e}). The family keeps state "
                "that recording does not see; what blocks pass on must be in their arguments."
            )


def _require_readout(anatomy: Anatomy, readout: float, allowed: float) -> None:
    if not readout <= allowed:
        family = anatomy.family
        raise ModelError(
            f"{_name(anatomy)}: readout identity fails: {family.final_norm} and {family.head} give logits that differ "
            f"from the model's by {readout:.1e} of the largest logit (allowed {allowed:.0e}). Declare what the family "
            "does to its logits (scale, softcap, projection): load(model, family=Family(...))."
        )


def _require_causal(anatomy: Anatomy, later: Sequence[float], allowed: float) -> None:
    where = _first_above(later, allowed)
    if where is not None:
        raise ModelError(
            f"{_name(anatomy)} cannot be measured: its tokens depend on later ones. With other ids in the second half "
            f"of a prompt, the first half differs by {later[where]:.1e} of its norm {_place(where)} (allowed "
            f"{allowed:.0e}). Only causal models can be measured, not encoders, models with is_causal=False, or "
            "routing that chooses among all tokens."
        )


def _require_any_order(anatomy: Anatomy, again: Sequence[float], allowed: float) -> None:
    block = _first_above(again, allowed)
    if block is not None:
        raise ModelError(
            f"{_name(anatomy)} cannot be measured: block {block}, run again on the same input after other blocks, "
            f"differs by {again[block]:.1e} (allowed {allowed:.0e}). It reads state that is kept on a module; what "
            "blocks pass on must be in their arguments."
        )


def _require_own_rows(anatomy: Anatomy, allowed: float) -> None:
    """Where a prompt strays beside others, equal lengths must be all it takes."""
    if anatomy.padding_gap <= allowed:
        return
    beside = gaps_by_neighbours(anatomy, padded=False)
    where = _first_above(beside, allowed)
    if where is not None:
        raise ModelError(
            f"{_name(anatomy)} cannot be measured: its rows depend on each other. Beside two other prompts of its "
            f"length a prompt differs by {beside[where]:.1e} of its norm {_place(where)} (allowed {allowed:.0e}), "
            "and histories are computed side by side."
        )


def _first_above(gaps: Sequence[float], allowed: float) -> int | None:
    return next((place for place, one in enumerate(gaps) if not one <= allowed), None)


def _place(boundary: int) -> str:
    return f"behind block {boundary - 1}" if boundary else "before block 0"
