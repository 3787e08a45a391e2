"""The one place that knows of several processes that hold one model together (tensor parallelism).

Each process, a *rank*, runs the same program on a part of every block's weights, and the blocks put their results
together by collectives of torch: calls that all ranks have to make, in the same order. So whatever is decided by a
clock, by free memory, by files or by a user is decided by rank 0 and taken over by all (``agreed``), and rank 0 alone
writes, prints and draws. A rank that fails, is interrupted or is killed ends all of them (``together``). Outside of
``together`` there is one process, and everything here does nothing.
"""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from bathyscope.core.interrupts import ended_as_interrupted
from bathyscope.core.launched import LAUNCH, launched_address, launched_processes, launched_rank
from bathyscope.errors import OptionError
from bathyscope.model.options import read_split
from bathyscope.model.team import Team

if TYPE_CHECKING:
    from torch import Tensor

T = TypeVar("T")
Split = int | Literal["auto"]

_TEAM: list[Team] = []
"""The team of this process, once it has one."""


def _current() -> Team | None:
    return _TEAM[0] if _TEAM and _TEAM[0].inside else None


def rank() -> int:
    """Return the number of this process among those that hold one model; 0 where it is alone."""
    team = _current()
    return 0 if team is None else team.rank


def size() -> int:
    """Return how many processes hold one model together; 1 where this one is alone."""
    team = _current()
    return 1 if team is None else team.size


def is_first() -> bool:
    """Whether this process writes, prints and draws."""
    return rank() == 0


def agreed(value: T) -> T:
    """Return rank 0's value on all ranks (collective)."""
    return of_first(lambda: value)


def of_first(compute: Callable[[], T]) -> T:
    """Return on all ranks what rank 0 computes, such as what it reads from a folder (collective)."""
    team = _current()
    if team is None:
        return compute()
    import torch.distributed as dist

    values: list[Any] = [compute() if team.rank == 0 else None]
    dist.broadcast_object_list(values, src=0)
    value: T = values[0]
    return value


def of_all(value: T) -> list[T]:
    """Return the values of all ranks, in their order (collective)."""
    team = _current()
    if team is None:
        return [value]
    import torch.distributed as dist

    values: list[Any] = [None] * team.size
    dist.all_gather_object(values, value)
    return values


def gathered(part: Tensor, dim: int) -> Tensor:
    """Return the parts of all ranks, joined along an axis in their order (collective).

    Args:
        part: of one size on all ranks.
    """
    team = _current()
    if team is None:
        return part
    import torch
    import torch.distributed as dist

    parts = [torch.empty_like(part, memory_format=torch.contiguous_format) for _ in range(team.size)]
    dist.all_gather(parts, part.contiguous())
    return torch.cat(parts, dim)


def require_same(what: str, value: object) -> None:
    """Refuse ranks that are given other things than rank 0 (collective).

    Args:
        what: ``prompts``, for the message.
        value: plain values.

    Raises:
        OptionError: on all ranks.
    """
    if _current() is None:
        return
    text = json.dumps(value, sort_keys=True, default=str)
    digests = of_all(hashlib.sha256(text.encode()).hexdigest())
    other = next((number for number, digest in enumerate(digests) if digest != digests[0]), None)
    if other is not None:
        raise OptionError(
            f"Rank {other} was given other {what} than rank 0, and all ranks of one model do the same work. Start all "
            "of them with one command."
        )


@contextmanager
def together(split: object) -> Iterator[None]:
    """Let all ranks work together inside; each comes here, and the end of one is the end of all.

    Inside of another ``together`` this does nothing.

    Args:
        split: over how many ranks, as ``read_split`` reads it; ``"auto"`` = as many as were started; None = the model
            is not split, and this process works alone.

    Raises:
        OptionError: this process was started alone, or with another number than ``split``.
        MeetingError: the processes do not find each other.
        RankError: another rank has failed, was killed, or has left.
        KeyboardInterrupt: another rank was interrupted.
    """
    inner = _current()
    if split is None:
        yield
        return
    if inner is not None:
        _require_number(split, inner.size)
        with inner.following(tells=False):
            yield
        return
    team = _team_of(split)
    if team.ending is not None:
        raise team.error()
    with ExitStack() as stack:
        stack.enter_context(ended_as_interrupted())
        if team.rank != 0:
            # all ranks are warned of the same, and rank 0 passes it on
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", category=UserWarning)
        team.inside, team.finishing = True, False
        try:
            with team.following(tells=True):
                _meet(team, split)
                yield
                team.finishing = True
                # one that ends its program before the others are here would be missed by them
                of_all(None)
        finally:
            team.inside = False


def _team_of(split: object) -> Team:
    """Return the team of this process, which is new where it has none."""
    if not _TEAM:
        # whoever has opened a process group has imported torch, which takes seconds and is not imported for this
        distributed = sys.modules.get("torch.distributed")
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            _TEAM.append(Team(distributed.get_rank(), distributed.get_world_size()))
        else:
            if launched_processes() < 2:
                _require_number(split, 1)
            _TEAM.append(Team(launched_rank(), launched_processes(), launched_address()))
    return _TEAM[0]


def _meet(team: Team, split: object) -> None:
    """Let the ranks find each other; a team of which that fails is forgotten."""
    try:
        with team.on_the_way():
            # after the others can hear that this rank refuses its number
            _require_number(split, team.size)
            team.meet()
    finally:
        if not team.has_met:
            _TEAM.clear()


def _require_number(split: object, processes: int) -> None:
    number = read_split(split)
    if processes < 2:
        raise OptionError(
            f"tensor_parallel={number!r} splits a model over several processes, and this one was started alone. Start "
            f"them with {LAUNCH.format(2 if number == 'auto' else number)} COMMAND … --tensor-parallel auto."
        )
    if number not in ("auto", processes):
        raise OptionError(
            f"tensor_parallel={number} was asked for, and {processes} processes were started; give 'auto', or start "
            f"{number} of them ({LAUNCH.format(number)} …)."
        )
