"""Checks at load: does what a family declares hold on this model? Each failure says the measured gap.

1. no-op parity: the recorded and replayed blocks give the plain forward's residual stream;
2. contribution identity: the contributions of every block sum to h_{l+1} − h_l;
3. readout identity: the declared readout of h_L gives the model's logits;
4. tail equivalence: a tail on its donor's keys and values equals the full row (decides whether tails are used).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bathyscope.anatomy.anatomy import Anatomy
from bathyscope.anatomy.cache import CaptureCache
from bathyscope.anatomy.calls import called
from bathyscope.anatomy.plain import logits_of, plain_forward, vocabulary
from bathyscope.anatomy.replay import Replay, State, tail_cache, unwrap
from bathyscope.anatomy.sites import tapped
from bathyscope.errors import ModelError

CHECK_TOKENS = 12
_TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-4, torch.bfloat16: 6e-2, torch.float16: 1e-2}


@dataclass(frozen=True)
class Checks:
    """Gaps measured on a short random batch: logits relative to the largest of them, streams token by token.

    Args:
        no_op: replayed blocks against the plain forward's, largest of all boundaries; 0 = bit-equal.
        readout: declared readout of h_L against the model's logits.
        contributions: per block, h_l plus the contributions against h_{l+1}, relative to it; NaN = no sites.
        tail: tail against full row by first own token; NaN where a tail cannot be run.
        tolerance: what counts as equal in this dtype.
        tail_reason: why tails are not used, where they are not.
        sources: per block the earlier blocks whose keys and values it takes instead of its own; empty where
            blocks pass nothing but the residual stream.
    """

    no_op: float
    readout: float
    contributions: tuple[float, ...]
    tail: dict[int, float]
    tolerance: float
    tail_reason: str = ""
    sources: tuple[frozenset[int], ...] = ()

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


def tolerance(dtype: torch.dtype) -> float:
    """The relative gap that counts as equal in this dtype."""
    return _TOLERANCE.get(dtype, 6e-2)


@torch.no_grad()
def check(anatomy: Anatomy, tokens: int = CHECK_TOKENS) -> Checks:
    """Measures all gaps.

    Raises:
        ModelError: no-op parity or the readout identity does not hold. Missing contributions or tails are
            no error: the measures that need them refuse, or compute full rows.
    """
    parameter = next(p for p in anatomy.model.parameters() if p.is_floating_point())
    allowed = tolerance(parameter.dtype)
    ids = random_ids(anatomy, tokens, parameter.device)
    plain, seen = _plain_forward(anatomy, ids)
    replay = anatomy.replay(ids)
    boundaries = [replay.recording.resid0_BTD]
    gaps: list[float] = []
    sources: list[frozenset[int]] = []
    state = _Passed()
    for index, block in enumerate(anatomy.blocks):
        state.block, state.takes = index, set()
        with tapped(block, anatomy.sites) as taken:
            out = replay.run(block, index, boundaries[-1], _every(ids), state=state)
        gaps.append(_contribution_gap(boundaries[-1], out, taken, anatomy.block_scale(block)))
        boundaries.append(out)
        sources.append(frozenset(state.takes - {index}))
    no_op = [_gap(own, real) for own, real in zip(boundaries[1:], seen)]
    readout = _gap(anatomy.readout(seen[-1]), plain)
    _require_baseline(anatomy, no_op, readout, allowed)
    tail, reason = _tail_gaps(anatomy, replay, boundaries, ids)
    if not reason and any(not gap <= allowed for gap in tail.values()):
        worst = max(tail, key=lambda t: tail[t] if tail[t] == tail[t] else float("inf"))
        reason = f"a tail from token {worst} differs from the full row by {tail[worst]:.1e} (allowed {allowed:.0e})"
    return Checks(max(no_op), readout, tuple(gaps), tail, allowed, reason, tuple(sources) if any(sources) else ())


def random_ids(anatomy: Anatomy, tokens: int, device: torch.device) -> Tensor:
    """Two sequences of random token ids, the same in every check."""
    generator = torch.Generator().manual_seed(20250519)
    entries = vocabulary(anatomy.model)
    return torch.randint(min(3, entries - 1), entries, (2, tokens), generator=generator).to(device)


def _every(ids_BT: Tensor) -> Tensor:
    return torch.arange(ids_BT.shape[0], device=ids_BT.device)


def _gap(found: Tensor, wanted: Tensor) -> float:
    return float((found.float() - wanted.float()).abs().max() / wanted.float().abs().max().clamp_min(1e-12))


def _token_gap(found: Tensor, wanted: Tensor) -> float:
    """The largest ‖found − wanted‖ / ‖wanted‖ of any token: one token's massive activation must not hide another's."""
    gap = torch.linalg.vector_norm(found.float() - wanted.float(), dim=-1)
    return float((gap / torch.linalg.vector_norm(wanted.float(), dim=-1).clamp_min(1e-12)).max())


def _contribution_gap(before: Tensor, after: Tensor, taken: dict[str, Tensor], block_scale: float) -> float:
    if not {"attention", "mlp"} <= taken.keys():
        return float("nan")
    if any(part.numel() != before.numel() for part in taken.values()):
        return float("inf")
    total = sum((part.float().reshape(before.shape) for part in taken.values()), before.float())
    return _token_gap(block_scale * total, after)


def _plain_forward(anatomy: Anatomy, ids: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The model's own logits (float32), and what each block put out on the way."""
    seen: list[Tensor] = []
    blocks = [("", block) for block in anatomy.blocks]
    with called(blocks, lambda call: seen.append(unwrap(call.output, anatomy.width).clone())):
        out = plain_forward(anatomy.model, ids, anatomy.family.name)
    return logits_of(out).float(), seen


def _require_baseline(anatomy: Anatomy, no_op: list[float], readout: float, allowed: float) -> None:
    """Refuses a model whose replayed blocks or whose readout differ from its own forward."""
    name = f"{anatomy.family.name} ({type(anatomy.model).__name__})"
    for index, gap in enumerate(no_op):
        if not gap <= allowed:
            raise ModelError(
                f"{name}: no-op parity fails at block {index}: replaying the recorded block differs from the plain "
                f"forward by {gap:.1e} of the largest value (allowed {allowed:.0e}). The family keeps state "
                "that recording does not see; it needs its own family file."
            )
    if not readout <= allowed:
        raise ModelError(
            f"{name}: readout identity fails: {anatomy.family.final_norm} and {anatomy.family.head} give logits that "
            f"differ from the model's by {readout:.1e} of the largest logit (allowed {allowed:.0e}). Declare what the "
            "family does to its logits (scale, softcap, projection) in its family file."
        )


def _tail_gaps(anatomy: Anatomy, replay: Replay, boundaries: list[Tensor], ids: Tensor) -> tuple[dict[int, float], str]:
    """A drop row (block 0 skipped after token 0) as a full row and as tails at t = 1, middle and T−1."""
    tokens = ids.shape[1]
    if anatomy.n_blocks < 2:
        return {1: 0.0}, ""
    starts = sorted({1, tokens // 2, tokens - 1})
    donor_in = boundaries[0].clone()
    donor_in[:, :1] = boundaries[1][:, :1]
    rows = {t: _mixed(boundaries, t) for t in starts}
    tails = {t: rows[t][:, t:].contiguous() for t in starts}
    donor = donor_in
    state = dict(_first_state(anatomy, replay, boundaries))
    row_states: dict[int, State] = {t: dict(state) for t in starts}
    tail_states: dict[int, State] = {t: dict(state) for t in starts}
    donor_state: State = dict(state)
    every = _every(ids)

    nothing = {t: float("nan") for t in starts}
    for index, block in enumerate(anatomy.blocks[1:], start=1):
        captured = CaptureCache()
        donated = _attempt(partial(replay.run, block, index, donor, every, cache=captured, state=donor_state))
        if isinstance(donated, str):
            return nothing, f"block {index} gives no keys and values to share: {donated}"
        donor = donated
        attends = replay.attends(index, captured)
        for t in starts:
            rows[t] = replay.run(block, index, rows[t], every, state=row_states[t])
            lend = partial(replay.run, cache=tail_cache(captured, slice(None), t), start=t, attends=attends)
            out = _attempt(partial(lend, block, index, tails[t], every, state=tail_states[t]))
            if isinstance(out, str):
                return nothing, f"block {index} cannot run a tail: {out}"
            tails[t] = out
    return {t: _token_gap(tails[t], rows[t][:, t:]) for t in starts}, ""


def _mixed(boundaries: list[Tensor], start: int) -> Tensor:
    """h_1 with block 0 skipped at tokens 1 … start−1."""
    mixed = boundaries[1].clone()
    mixed[:, 1:start] = boundaries[0][:, 1:start]
    return mixed


def _first_state(anatomy: Anatomy, replay: Replay, boundaries: list[Tensor]) -> State:
    state: State = {}
    every = torch.arange(replay.batch, device=boundaries[0].device)
    if replay.recording.blocks[0].state is not None:
        replay.run(anatomy.blocks[0], 0, boundaries[0], every, state=state)
    return state


def _attempt(run: Callable[[], Tensor]) -> Tensor | str:
    # Whatever a family raises when it is lent keys and values it does not know how to use is the answer to the
    # question this check asks; the run then computes full rows and says so.
    try:
        return run()
    except (RuntimeError, TypeError, AttributeError, ValueError, IndexError, KeyError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
