"""Who looks on while the wavefront passes: the rows that a measure asks for, and what it does with each view.

Nothing here imports torch, so that a measure can be declared, and its options listed, without waiting for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from bathyscope.wavefront.probe import BaselineView, FinalStates, ReplacedStates, RowPartsView, RowsView
    from bathyscope.wavefront.rows import Replacement, Request, ScheduleRow


class Probe:
    """One measure's observer for one batch. The methods do nothing unless a measure overrides them.

    ``part_steps`` names, for rows among the requests, the steps of their schedules (counted from 0) at which
    their contributions are shown; every block that runs there shows the control row's too.
    """

    def __init__(
        self,
        requests: Sequence[Request] = (),
        *,
        wants_parts: bool = False,
        wants_weights: bool = False,
        replacements: Sequence[Replacement] = (),
        part_steps: Mapping[ScheduleRow, Collection[int]] | None = None,
    ) -> None:
        self.requests = tuple(requests)
        self.wants_parts = wants_parts
        self.wants_weights = wants_weights
        self.replacements = tuple(replacements)
        self.part_steps = dict(part_steps or {})

    def baseline(self, view: BaselineView) -> None:
        """A block of the plain forward has run."""

    def rows(self, view: RowsView) -> None:
        """A block has run on rows of which at least one is this probe's.

        A skip before a token that is computed as a full row is shown twice: with all prompts (``view.prompt`` is None),
        and cut to the tokens that a tail would own.
        """

    def row_parts(self, view: RowPartsView) -> None:
        """A block has run on rows at steps of which at least one is in somebody's ``part_steps``, or on the control."""

    def block_done(self, block: int) -> None:
        """All rows of this block have been shown."""

    def landed(self, states: ReplacedStates) -> None:
        """Some rows of one of this probe's replacements have reached the last boundary; they are not kept."""

    def finish(self, final: FinalStates) -> None:
        """All rows have reached the last boundary."""


class BoundaryReader(Probe):
    """Reads the plain forward's residual stream at some boundaries.

    ``taken`` holds what was read, boundary after boundary, once the wave has passed.

    Args:
        take: returns what to store of a stream [batch, tokens, width].
        at: the boundaries; None = all.
    """

    def __init__(self, take: Callable[[Tensor], Tensor], at: Container[int] | None = None) -> None:
        super().__init__()
        self._take = take
        self._at = at
        self.taken: list[Tensor] = []

    @classmethod
    def of_tokens(cls, places: Sequence[Sequence[int]], device: torch.device) -> BoundaryReader:
        """Return a probe that stores some tokens, [tokens, width], each given by its row and position in the batch."""
        import torch

        rows, positions = torch.tensor(places).T.to(device)
        return cls(lambda resid_BTD: resid_BTD[rows, positions])

    def baseline(self, view: BaselineView) -> None:
        if view.block == 0:
            self._keep(0, view.before_BTD)
        self._keep(view.block + 1, view.after_BTD)

    def _keep(self, boundary: int, resid_BTD: Tensor) -> None:
        if self._at is None or boundary in self._at:
            self.taken.append(self._take(resid_BTD))
