"""Checks at load: does what a family declares hold on this model? Each failure says the measured gap.

1. no-op parity: the recorded and replayed blocks give the plain forward's residual stream, in any order;
2. contribution identity: the contributions of every block sum to h_{l+1} − h_l;
3. readout identity: the declared readout of h_L gives the model's logits;
4. independence: later tokens and other rows change nothing (and padding, or only equal lengths share a batch);
5. tail equivalence: a tail on its donor's keys and values equals the full row (decides whether tails are used).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.calls import Call, called
from bathyscope.model.anatomy.equivalence import readout_gap, tail_gaps
from bathyscope.model.anatomy.gaps import gap, random_ids, token_gap, tolerance
from bathyscope.model.anatomy.independence import gaps_by_later_tokens, gaps_by_neighbours, gaps_by_order
from bathyscope.model.anatomy.measured_gaps import Checks
from bathyscope.model.anatomy.plain import logits_of, plain_forward
from bathyscope.model.anatomy.precision import wide_dtype, widened
from bathyscope.model.anatomy.refusals import (
    require_an_answer,
    require_any_order,
    require_causal,
    require_last_state,
    require_own_rows,
    require_readout,
    require_replay,
)
from bathyscope.model.anatomy.replay import Replay, State, unwrap
from bathyscope.model.anatomy.sites import tapped
from bathyscope.model.anatomy.steps import BlockWalk, Steps
from bathyscope.model.anatomy.streams import ROLLING
from bathyscope.model.streaming.lending import lender_of, lent

_SHARP = 1e-5
"""What may differ where one block runs twice on one input, so that rounding is the same nearly everywhere."""


class _Passed(dict[Any, tuple[Tensor, ...]]):
    """What blocks pass on to later blocks.

    Every block is handed what the one before passes on (``ROLLING``), whether it uses it or not, so that only the
    entries of certain blocks say by being read that they are used.
    """

    def __init__(self) -> None:
        super().__init__()
        self.block = 0
        self.takes: set[int] = set()
        """Blocks whose entries have been read since this was emptied."""
        self.givers: set[int] = set()
        self._writers: dict[Any, int] = {}

    def __setitem__(self, key: Any, value: tuple[Tensor, ...]) -> None:
        if key == ROLLING:
            self.givers.add(self.block)
        else:
            self._writers[key] = self.block
        super().__setitem__(key, value)

    def __getitem__(self, key: Any) -> tuple[Tensor, ...]:
        if key != ROLLING:
            self.takes.add(self._writers[key])
        return super().__getitem__(key)


@dataclass(frozen=True)
class _Passing:
    """Which blocks give and take what is passed on, as in ``Checks``, and what was passed on to each block."""

    sources: tuple[frozenset[int], ...]
    givers: frozenset[int]
    takers: frozenset[int]
    states: tuple[State, ...]


@torch.no_grad()
def check(anatomy: Anatomy) -> Checks:
    """Measure all gaps.

    Each check has its own pass over the blocks. Where blocks are streamed they share one with the plain forward, so
    that each block is brought once: it is run in all of them before the next one comes.

    Raises:
        ModelError: no-op parity, the readout identity or independence does not hold, or the model predicts the same
            for every input. Missing contributions or tails are no error: the measures that need them refuse, or compute
            full rows.
    """
    parameter = next(p for p in anatomy.model.parameters() if p.is_floating_point())
    allowed = tolerance(parameter.dtype)
    ids = random_ids(anatomy.model)
    streamed = lender_of(anatomy.blocks[0]) is not None
    # what fails in memory fails in the model's own forward first, whose error says more than that of a replay
    plain = None if streamed else _plain(anatomy, ids)
    replay = anatomy.replay(ids)
    boundaries = [replay.recording.resid0_BTD]
    sharp = max(torch.finfo(parameter.dtype).eps, _SHARP)
    replayed = BlockWalk(_replayed(anatomy, replay, boundaries, sharp))
    later = BlockWalk(gaps_by_later_tokens(anatomy, boundaries, ids))
    padded = BlockWalk(gaps_by_neighbours(anatomy, padded=True))
    tailed = BlockWalk(tail_gaps(anatomy, replay, boundaries))
    seen, behind, logits = plain or _plain(anatomy, ids, replayed, later, padded, tailed)
    gaps, passing = replayed.result()
    no_op = [gap(anatomy.active(replayed), plain_BTD) for replayed, plain_BTD in zip(boundaries[1:], seen)]
    require_replay(anatomy, no_op, seen, allowed)
    readout = readout_gap(anatomy, ids, seen[-1], behind)
    require_readout(anatomy, readout, tolerance(wide_dtype(parameter.dtype)))
    require_last_state(anatomy, boundaries[-1], logits, allowed)
    require_causal(anatomy, later.result(), sharp)
    # the library's own blocks keep no state on modules; bringing all of them again is left to blocks of other code
    if not streamed or not all(type(block).__module__.startswith("transformers.") for block in anatomy.blocks):
        require_any_order(anatomy, gaps_by_order(anatomy, replay, boundaries, passing.states), sharp)
    anatomy.note_padding_gap(max(padded.result()))
    require_own_rows(anatomy, allowed)
    tail, reason = tailed.result()
    # "not … <=" and no ">", here as everywhere: a gap of NaN is no small one
    if not reason and any(not tail_gap <= allowed for tail_gap in tail.values()):
        worst = max(tail, key=lambda t: float("inf") if isnan(tail[t]) else tail[t])
        reason = f"a tail from token {worst} differs from the full row by {tail[worst]:.1e} (allowed {allowed:.0e})"
    require_an_answer(anatomy, logits, ids)
    return Checks(
        no_op=max(no_op),
        readout=readout,
        contributions=tuple(gaps),
        tail=tail,
        tolerance=allowed,
        tail_reason=reason,
        sources=passing.sources if any(passing.sources) else (),
        givers=passing.givers,
        takers=passing.takers,
        later=max(later.result()),
        padding=anatomy.padding_gap,
    )


def _replayed(
    anatomy: Anatomy, replay: Replay, boundaries: list[Tensor], allowed: float
) -> Steps[tuple[list[float], _Passing]]:
    """Run the recorded blocks one after another, and add what each gives to ``boundaries``.

    Args:
        allowed: what may differ where a block does not use what it is passed.

    Returns:
        By block the gap of its contributions; and what blocks pass on.
    """
    gaps: list[float] = []
    sources: list[frozenset[int]] = []
    states: list[State] = []
    takers: set[int] = set()
    state = _Passed()
    yield
    for index, block in enumerate(anatomy.blocks):
        state.block, state.takes = index, set()
        states.append(dict(state.items()))
        with tapped(block, anatomy.sites) as taken:
            out = replay.run(block, index, boundaries[-1], state=state)
        gaps.append(_contribution_gap(boundaries[-1], out, taken, anatomy.block_scale(block)))
        boundaries.append(out)
        sources.append(frozenset(state.takes - {index}))
        if ROLLING in states[index] and not _runs_without(replay, block, index, boundaries, state, allowed):
            takers.add(index)
        yield
    return gaps, _Passing(tuple(sources), frozenset(state.givers), frozenset(takers), tuple(states))


def _runs_without(
    replay: Replay, block: nn.Module, index: int, boundaries: Sequence[Tensor], passed: State, allowed: float
) -> bool:
    """Return whether a block gives the same, and passes on the same, without what the block before passes on to it.

    Args:
        boundaries, passed: the streams in front of and behind the block, and what it passed on.
    """
    without: State = {key: value for key, value in passed.items() if key != ROLLING}
    try:
        out = replay.run(block, index, boundaries[index], state=without)
    # whatever a family's code raises where it misses what it expects
    except Exception:
        return False
    if not token_gap(out, boundaries[index + 1]) <= allowed:
        return False
    return ROLLING in without and gap(without[ROLLING][0], passed[ROLLING][0]) <= allowed


def _contribution_gap(before: Tensor, after: Tensor, taken: dict[str, Tensor], block_scale: float) -> float:
    # a site that did not run in this block; one of another size belongs to something else than the stream, or to the
    # first of the streams that a looped model's state holds
    if not {"attention", "mlp"} <= taken.keys():
        return float("nan")
    if any(part.numel() != before.numel() for part in taken.values()):
        return float("inf")
    total = sum((widened(part.to(before.device)).reshape(before.shape) for part in taken.values()), widened(before))
    return token_gap(block_scale * total, after)


def _plain(anatomy: Anatomy, ids_BT: Tensor, *walks: BlockWalk[Any]) -> tuple[list[Tensor], list[nn.Module], Tensor]:
    """Run the model's own forward; when a block has run in it, it runs in each of the walks, in their order.

    Returns:
        What each block puts out, the modules that run after the last of them, and the logits.
    """
    seen: list[Tensor] = []
    behind: list[nn.Module] = []
    walking = False
    for walk in walks:
        walk.step()

    def note(call: Call) -> None:
        nonlocal walking
        # hooks see the calls that walks make too
        if walking:
            return
        if not call.path:
            behind.append(call.module)
            return
        # a copy: Gemma 4 scales its output in place, and a streamed block's memory goes to another one
        seen.append(unwrap(call.output, anatomy.stream_width).to(ids_BT.device, copy=True))
        # what ran up to now is in front of this block, such as the embedding and its norm
        behind.clear()
        walking = True
        with lent(call.module):
            for walk in walks:
                walk.step()
        walking = False

    within = {module for block in (*anatomy.blocks, *anatomy.sources) for module in block.modules()}
    outside = [module for module in anatomy.model.modules() if module not in within]
    holding = [module for module in outside if next(module.parameters(recurse=False), None) is not None]
    modules = [*(("block", block) for block in anatomy.blocks), *(("", module) for module in holding)]
    with anatomy.handed_over(), called(modules, note):
        if walks:  # what fails need not be the model's own forward
            out = anatomy.model(input_ids=ids_BT, use_cache=False)
        else:
            out = plain_forward(anatomy.model, ids_BT, anatomy.family.name)
    return seen, behind, logits_of(out)
