"""From requested rows to tracks: which histories are computed, where each begins, and what they share.

Two histories with the same beginning and the same first steps are one track until they part. ``drop:5`` and
``swap:5`` both begin by running block 6 on h_5, so that call is made once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from bathyscope.wavefront.rows import Request, ScheduleRow, SkipBefore, SkipRow


@dataclass(frozen=True)
class Birth:
    """A track's first state, taken from the control row at ``boundary``.

    Args:
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

    @property
    def window(self) -> int:
        """How many neighbouring blocks it runs while the wave stands at one: 1 where it never goes back."""
        furthest, most = self.birth.boundary, 1
        for step in self.steps:
            furthest = max(furthest, step)
            most = max(most, furthest - step + 1)
        return most


def compile_tracks(requests: Iterable[Request], n_blocks: int, batch: int) -> list[Track]:
    """Tracks for full rows, sharing every common prefix.

    Requests seen from a token on are served by full rows here: one row takes one starting token from every prompt.
    """
    roots: dict[Birth, _Node] = {}
    tracks: list[Track] = []
    late: list[SkipBefore] = []
    for request in requests:
        if isinstance(request, SkipBefore):
            late.append(request)
        else:
            _place(tracks, roots, [request], *_program(request, n_blocks))
    for like, served, before in packed(late, batch):
        _place(tracks, roots, served, *_skipping(like.block, like.part, n_blocks, like.protect, before))
    return tracks


def packed(late: Iterable[SkipBefore], batch: int) -> Iterator[tuple[SkipBefore, list[SkipBefore], tuple[int, ...]]]:
    """Requests packed into full rows, each of which serves one start of every prompt at most.

    Yields for every row a request that stands for all (but for prompt and start), those served, and per prompt the
    start; a prompt that has none left is not changed at all.
    """
    queues: dict[SkipBefore, dict[int, list[SkipBefore]]] = {}
    for request in late:
        queues.setdefault(replace(request, prompt=0, start=0), {}).setdefault(request.prompt, []).append(request)
    for like, by_prompt in queues.items():
        for taken in range(max(len(queue) for queue in by_prompt.values())):
            served = [queue[taken] for queue in by_prompt.values() if taken < len(queue)]
            starts = {r.prompt: r.start for r in served}
            yield like, served, tuple(starts.get(prompt, like.protect) for prompt in range(batch))


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
