"""Contributions of rows: which calls of which blocks are tapped, and what is shown of them."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from bathyscope.wavefront.calls import CallResult
from bathyscope.wavefront.plan import Fork, Track
from bathyscope.wavefront.probe import RowPartsView
from bathyscope.wavefront.rows import ScheduleRow

_PARTS = ("attention", "mlp")
Place = tuple[int, int]
"""A track and how many of its steps are done."""


class PartTaps:
    """Contributions are read where somebody wants them; other calls stay untouched.

    Args:
        wanted: row → steps of its schedule, from the first that departs from the standard order.
        tracks: the compiled histories, of which some serve the rows.
    """

    def __init__(self, wanted: Mapping[ScheduleRow, Collection[int]], tracks: Sequence[Track]) -> None:
        self._at: dict[Place, list[tuple[ScheduleRow, int]]] = {}
        self._blocks: set[int] = set()
        track_of = {request: index for index, track in enumerate(tracks) for request in track.requests}
        for row, steps in wanted.items():
            for step in steps:
                self._at.setdefault(_place(tracks, track_of[row], step), []).append((row, step))
                self._blocks.add(row.schedule.order[step])

    def taps(self, block: int, places: Sequence[Place | None]) -> tuple[str, ...]:
        """The parts to read in calls of a block on rows at these places (None = the control)."""
        wanted = any(block in self._blocks if place is None else place in self._at for place in places)
        return _PARTS if wanted else ()

    def views(self, block: int, places: Sequence[Place | None], result: CallResult) -> Iterator[RowPartsView]:
        """What a call shows, where it was tapped; ``places`` are those of the call's own rows."""
        if result.parts:
            rows = {wanted: row for row, place in enumerate(places) if place for wanted in self._at.get(place, ())}
            yield RowPartsView(block, rows, result.parts, result.control_parts)


def _place(tracks: Sequence[Track], track: int, step: int) -> Place:
    """The track that runs a step of a row's schedule, which may be one that the row's own track forks from."""
    done = step - tracks[track].birth.boundary
    if done < 0:
        raise ValueError(f"step {step} belongs to the part of the schedule that is the control's")
    while done < tracks[track].done_at_birth:
        origin = tracks[track].origin
        assert isinstance(origin, Fork)
        track = origin.track
    return track, done
