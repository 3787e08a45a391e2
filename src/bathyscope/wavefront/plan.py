"""Compile requested rows into tracks: which histories are computed, where each begins, and what they share.

Two histories with the same beginning and the same first steps are one track until they part. ``drop:5`` and
``swap:5`` both begin by running block 6 on h_5, so that call is made once.

A history is written as its *birth*, where it parts from the control, and its *steps*, the blocks that it runs from
there. In a model of 8 blocks:

- ``drop:5``, which spares no token, is born at boundary 5 (h_5) and runs 6 7.
- ``swap:5`` is born at boundary 5 and runs 6 5 7; it forks from ``drop:5`` after one step.
- A skip of block 5 that spares the first token is born at boundary 6, behind the block: its other tokens take h_5 in
  place of h_6. It runs 6 7.
- The attention of block 5 left out: born at boundary 5, runs 5 6 7, with that part silenced in the first step.
- ``parallel:5+6`` is born at boundary 5 and runs (5, 6) 7: blocks that read the same stream are one step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from bathyscope.wavefront.rows import FilledRow, Request, ScheduleRow, SkipBefore, SkipRow

Step = int | tuple[int, ...]
"""A block, or several blocks that read the same stream and whose contributions are added."""


def blocks_of(step: Step) -> tuple[int, ...]:
    """Return the blocks that a step runs."""
    return step if isinstance(step, tuple) else (step,)


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
        filled: the row whose values take the place of what a skipped block adds; None = nothing does.
    """

    boundary: int
    skips: str = ""
    protect: int = 0
    before: tuple[int, ...] | None = None
    filled: FilledRow | None = None


@dataclass(frozen=True)
class Fork:
    """A track begins with the state another track has after ``steps`` of its steps."""

    track: int
    steps: int


@dataclass
class Track:
    """One history that is really computed: where it begins, the blocks it runs, and whom it serves.

    Args:
        origin: what its first state is a copy of: the control's at its birth, or another track's.
        birth: where its history parts from the control; of a fork that of the track it forks from.
        steps: what runs from the birth on, what is before a fork included.
        done_at_birth: how many of the steps another track has run for it; 0 unless it forks.
        requests: the rows that it is.
    """

    origin: Birth | Fork
    birth: Birth
    steps: tuple[Step, ...]
    done_at_birth: int
    requests: list[Request] = field(default_factory=list)

    @property
    def window(self) -> int:
        """How many neighbouring blocks it runs while the wave is at one: 1 where it never goes back."""
        furthest, most = self.birth.boundary, 1
        for block in (block for step in self.steps for block in blocks_of(step)):
            furthest = max(furthest, block)
            most = max(most, furthest - block + 1)
        return most


def compile_tracks(requests: Iterable[Request], n_blocks: int, batch: int) -> list[Track]:
    """Compile requests into tracks for full rows, which share every common beginning.

    Requests that begin late in the text are served by full rows here: one row takes one start from every prompt.
    """
    roots: dict[Birth, _Node] = {}
    tracks: list[Track] = []
    late: list[SkipBefore] = []
    for request in requests:
        if isinstance(request, SkipBefore):
            late.append(request)
        else:
            birth, steps = _compile_row(request, n_blocks)
            _add_history(tracks, roots, [request], birth, steps)
    for template, requests_of_row, before in packed(late, batch):
        birth, steps = _compile_skip(template.block, template.part, n_blocks, template.protect, before)
        _add_history(tracks, roots, requests_of_row, birth, steps)
    return tracks


def packed(late: Iterable[SkipBefore], batch: int) -> Iterator[tuple[SkipBefore, list[SkipBefore], tuple[int, ...]]]:
    """Pack requests into full rows, each of which serves at most one start of every prompt.

    Yields for every row: a request that stands for all of them, whatever its prompt and start; the requests served;
    and the start of each prompt. A prompt without a request left is not changed at all.
    """
    queues: dict[SkipBefore, dict[int, list[SkipBefore]]] = {}
    for request in late:
        queues.setdefault(replace(request, prompt=0, start=0), {}).setdefault(request.prompt, []).append(request)
    for template, by_prompt in queues.items():
        for taken in range(max(len(queue) for queue in by_prompt.values())):
            requests = [queue[taken] for queue in by_prompt.values() if taken < len(queue)]
            starts = {request.prompt: request.start for request in requests}
            # An empty range, protect … protect − 1, skips nothing.
            yield template, requests, tuple(starts.get(prompt, template.protect) for prompt in range(batch))


@dataclass
class _Node:
    """A beginning of some tracks: which of them computes it, and what they run next."""

    track: int
    next: dict[Step, _Node] = field(default_factory=dict)


def _add_history(
    tracks: list[Track], roots: dict[Birth, _Node], requests: Sequence[Request], birth: Birth, steps: tuple[Step, ...]
) -> None:
    """Add a history: join the track that equals it, fork from the one it begins like, or begin a new track."""
    # Walk down the tree of histories along steps that another history takes too.
    node = roots.get(birth)
    shared = 0
    while node is not None and shared < len(steps) and steps[shared] in node.next:
        node = node.next[steps[shared]]
        shared += 1
    if node is not None and shared == len(steps) == len(tracks[node.track].steps):
        tracks[node.track].requests.extend(requests)
        return
    origin = Fork(node.track, shared) if node is not None and shared else birth
    node = node or roots.setdefault(birth, _Node(len(tracks)))
    # The rest is a new branch, which later histories may share.
    for step in steps[shared:]:
        node = node.next.setdefault(step, _Node(len(tracks)))
    tracks.append(Track(origin, birth, steps, shared, list(requests)))


def _compile_row(request: ScheduleRow | SkipRow | FilledRow, n_blocks: int) -> tuple[Birth, tuple[Step, ...]]:
    """Return where a requested row begins, and the blocks that it runs from there."""
    if isinstance(request, SkipRow):
        if request.part == "block" and request.protect == 0:
            # Skipped at every token, the block is dropped: one track with drop and swap, which are born there too.
            return Birth(request.block), tuple(range(request.block + 1, n_blocks))
        return _compile_skip(request.block, request.part, n_blocks, request.protect)
    if isinstance(request, FilledRow):
        first = request.block + 1
        return Birth(first, "block", request.protect, filled=request), tuple(range(first, n_blocks))
    prefix = request.schedule.clean_prefix
    # Stages before the clean prefix's end hold one block each, so that they are counted as steps are.
    stages = request.schedule.stages[prefix : request.stop]
    return Birth(prefix, protect=request.protect), tuple(stage if len(stage) > 1 else stage[0] for stage in stages)


def _compile_skip(
    block: int, part: str, n_blocks: int, protect: int, before: tuple[int, ...] | None = None
) -> tuple[Birth, tuple[int, ...]]:
    """Return where a row without a block, or without a part of it, begins, and the blocks that it runs from there."""
    # A silenced part takes its block to run; a skipped block is jumped over, and the row begins behind it.
    first = block if part in ("attention", "mlp") else block + 1
    return Birth(first, part, protect, before), tuple(range(first, n_blocks))
