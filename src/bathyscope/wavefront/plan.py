"""From requested rows to tracks: which histories are computed, where each begins, and what they share.

Two histories with the same beginning and the same first steps are one track until they part. ``drop:5`` and
``swap:5`` both begin by running block 6 on h_5, so that call is made once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bathyscope.wavefront.rows import Request, ScheduleRow, SkipBefore, SkipRow


@dataclass(frozen=True)
class Birth:
    """A track's first state, taken from the control row at ``boundary``.

    Args:
        boundary: the boundary it begins at.
        mixed: False = the control's residual stream as it is; True = tokens from ``protect`` on (per prompt
            up to ``before``, where given) take the stream of the boundary before.
        protect: how many first tokens keep the control's stream.
        before: per prompt the first token that is not taken from the boundary before; None = all are.
    """

    boundary: int
    mixed: bool = False
    protect: int = 0
    before: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Fork:
    """A track begins with the state another track has after ``steps`` of its steps."""

    track: int
    steps: int


@dataclass
class Track:
    """One history that is really computed: where it begins, the blocks it runs, and whom it serves."""

    origin: Birth | Fork
    birth: Birth
    steps: tuple[int, ...]
    done_at_birth: int
    requests: list[Request] = field(default_factory=list)


def compile_tracks(requests: Iterable[Request], n_blocks: int, batch: int) -> list[Track]:
    """Tracks for full rows, sharing every common prefix.

    ``SkipBefore`` requests are served by full rows here (used where tails cannot share keys and values):
    one row takes one starting token from every prompt.
    """
    owners: dict[tuple[Birth, tuple[int, ...]], tuple[int, int]] = {}
    tracks: list[Track] = []
    full = [r for r in requests if not isinstance(r, SkipBefore)]
    befores = [r for r in requests if isinstance(r, SkipBefore)]
    wanted: list[tuple[list[Request], Birth, tuple[int, ...]]] = [([r], *_program(r, n_blocks)) for r in full]
    wanted += _packed(befores, n_blocks, batch)
    for served, birth, steps in wanted:
        _place(tracks, owners, served, birth, steps)
    return tracks


def _place(
    tracks: list[Track],
    owners: dict[tuple[Birth, tuple[int, ...]], tuple[int, int]],
    served: Sequence[Request],
    birth: Birth,
    steps: tuple[int, ...],
) -> None:
    for shared in range(len(steps), -1, -1):
        owner = owners.get((birth, steps[:shared]))
        if owner is None:
            continue
        index, at = owner
        if shared == len(steps) and len(tracks[index].steps) == at:
            tracks[index].requests.extend(served)
            return
        if shared:
            _add(tracks, owners, Fork(index, at), birth, steps, shared, served)
            return
    _add(tracks, owners, birth, birth, steps, 0, served)


def _add(
    tracks: list[Track],
    owners: dict[tuple[Birth, tuple[int, ...]], tuple[int, int]],
    origin: Birth | Fork,
    birth: Birth,
    steps: tuple[int, ...],
    done: int,
    served: Sequence[Request],
) -> None:
    track = Track(origin, birth, steps, done, list(served))
    for k in range(done, len(steps) + 1):
        owners.setdefault((birth, steps[:k]), (len(tracks), k))
    tracks.append(track)


def _program(request: ScheduleRow | SkipRow, n_blocks: int) -> tuple[Birth, tuple[int, ...]]:
    if isinstance(request, SkipRow):
        rest = tuple(range(request.block + 1, n_blocks))
        if request.protect == 0:
            return Birth(request.block), rest
        return Birth(request.block + 1, mixed=True, protect=request.protect), rest
    prefix = request.schedule.clean_prefix
    return Birth(prefix, protect=request.protect), request.schedule.order[prefix:]


def _packed(
    befores: Sequence[SkipBefore], n_blocks: int, batch: int
) -> list[tuple[list[Request], Birth, tuple[int, ...]]]:
    queues: dict[tuple[int, int], dict[int, list[SkipBefore]]] = {}
    for request in befores:
        queue = queues.setdefault((request.block, request.protect), {})
        queue.setdefault(request.prompt, []).append(request)
    packed: list[tuple[list[Request], Birth, tuple[int, ...]]] = []
    for (block, protect), by_prompt in queues.items():
        for taken in range(max(len(queue) for queue in by_prompt.values())):
            served = [queue[taken] for queue in by_prompt.values() if taken < len(queue)]
            starts = {r.prompt: r.start for r in served}
            # a prompt without a start of its own is left unchanged
            before = tuple(starts.get(prompt, protect) for prompt in range(batch))
            birth = Birth(block + 1, mixed=True, protect=protect, before=before)
            packed.append((list(served), birth, tuple(range(block + 1, n_blocks))))
    return packed
