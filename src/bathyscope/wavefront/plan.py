"""From requested rows to tracks: which histories are computed, where each begins, and what they share.

Two histories with the same beginning and the same first steps are one track until they part. ``drop:5`` and
``swap:5`` both begin by running block 6 on h_5, so that call is made once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bathyscope.wavefront.rows import Request, ScheduleRow, SkipBefore, SkipChannels, SkipRow

Late = SkipBefore | SkipChannels
"""Requests that are seen from a token of one prompt on; as full rows, one takes a start from every prompt."""


@dataclass(frozen=True)
class Birth:
    """A track's first state, taken from the control row at ``boundary``.

    Args:
        boundary: the boundary it begins at.
        skips: what the track leaves out at its birth. "" = nothing, the control's stream as it is; "block" =
            tokens take the stream of the boundary before; "channels" = some channels of all tokens do;
            "attention", "mlp" = that contribution of the track's first step is left out.
        protect: how many first tokens keep the control's stream (of a schedule: at every boundary).
        before: per prompt the first token (of "channels": channel) where nothing is left out; None = no such
            limit.
    """

    boundary: int
    skips: str = ""
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

    Requests seen from a token on are served by full rows here (``SkipBefore`` where tails cannot share keys and
    values): one row takes one starting token from every prompt.
    """
    roots: dict[Birth, _Node] = {}
    tracks: list[Track] = []
    wanted: list[tuple[list[Request], Birth, tuple[int, ...]]] = []
    late: list[Late] = []
    for request in requests:
        if isinstance(request, Late):
            late.append(request)
        elif isinstance(request, ScheduleRow | SkipRow):
            wanted.append(([request], *_program(request, n_blocks)))
    wanted += _packed(late, n_blocks, batch)
    for served, birth, steps in wanted:
        _place(tracks, roots, served, birth, steps)
    return tracks


@dataclass
class _Node:
    """A beginning of some tracks: which of them computes it, and what they run next."""

    track: int
    next: dict[int, _Node] = field(default_factory=dict)


def _place(
    tracks: list[Track], roots: dict[Birth, _Node], served: Sequence[Request], birth: Birth, steps: tuple[int, ...]
) -> None:
    """The history joins the track that is the same, forks from the one it begins like, or is a track of its own."""
    node, shared = roots.get(birth), 0
    while node is not None and shared < len(steps) and steps[shared] in node.next:
        node, shared = node.next[steps[shared]], shared + 1
    if node is not None and shared == len(steps) == len(tracks[node.track].steps):
        tracks[node.track].requests.extend(served)
        return
    origin = Fork(node.track, shared) if node is not None and shared else birth
    node = node or roots.setdefault(birth, _Node(len(tracks)))
    for step in steps[shared:]:
        node = node.next.setdefault(step, _Node(len(tracks)))
    tracks.append(Track(origin, birth, steps, shared, list(served)))


def _program(request: ScheduleRow | SkipRow, n_blocks: int) -> tuple[Birth, tuple[int, ...]]:
    if isinstance(request, SkipRow):
        if request.part == "block" and request.protect == 0:
            return Birth(request.block), tuple(range(request.block + 1, n_blocks))
        return _skipping(request.block, request.part, n_blocks, request.protect)
    prefix = request.schedule.clean_prefix
    return Birth(prefix, protect=request.protect), request.schedule.order[prefix : request.stop]


def _skipping(
    block: int, part: str, n_blocks: int, protect: int, before: tuple[int, ...] | None = None
) -> tuple[Birth, tuple[int, ...]]:
    """A track without a block, or that runs it without a part."""
    first = block if part in ("attention", "mlp") else block + 1
    return Birth(first, part, protect, before), tuple(range(first, n_blocks))


def _packed(late: Sequence[Late], n_blocks: int, batch: int) -> list[tuple[list[Request], Birth, tuple[int, ...]]]:
    queues: dict[tuple[int, str, int], dict[int, list[Late]]] = {}
    for request in late:
        part, protect = (request.part, request.protect) if isinstance(request, SkipBefore) else ("channels", 1)
        queue = queues.setdefault((request.block, part, protect), {})
        queue.setdefault(request.prompt, []).append(request)
    packed: list[tuple[list[Request], Birth, tuple[int, ...]]] = []
    for (block, part, protect), by_prompt in queues.items():
        for taken in range(max(len(queue) for queue in by_prompt.values())):
            served = [queue[taken] for queue in by_prompt.values() if taken < len(queue)]
            starts = {r.prompt: r.start for r in served}
            # a prompt without a start of its own is left unchanged
            before = tuple(starts.get(prompt, protect) for prompt in range(batch))
            packed.append((list(served), *_skipping(block, part, n_blocks, protect, before)))
    return packed
