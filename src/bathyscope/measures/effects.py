"""Relative changes of blocks' contributions, collected while changed rows pass: what skip, direct effects and depth
scores share.

E[s,l] = ‖c_l − c̄_l‖₂ / max(‖c_l‖₂, 1e-6) per token, reduced over tokens to mean, 95th percentile and maximum. Where a
contribution is nothing beside the stream, a change of it is no multiple of it: such a token is left out.
"""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from torch import Tensor

from bathyscope.labels import REDUCTIONS
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts, Options
from bathyscope.measures.declaration import Declaration
from bathyscope.measures.finite import overflow
from bathyscope.measures.over_tokens import LEFT_OUT, reduce_tokens
from bathyscope.measures.positions import padded_positions
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.places import at
from bathyscope.wavefront.probe import RowsView
from bathyscope.wavefront.rows import Request

EPS = 1e-6
FLOOR = 1e-6
"""A contribution of at most this share of the stream that it is added to is rounding: a change has no size in it."""
_AT_ONCE: Final = 1 << 22
"""Values of single tokens that wait to be reduced."""

Cell = tuple[int, int]
"""(index of the part, block that is left out)."""
Place = TypeVar("Place", Cell, tuple[int, Cell])


@dataclass(frozen=True)
class Changes:
    """Norms of some rows of one call.

    Args:
        gap_RBT: of how much each row's contribution differs.
        size_BT: of the contribution that it differs from.
        stream_BT: of the residual stream that that is added to.
    """

    gap_RBT: Tensor
    size_BT: Tensor
    stream_BT: Tensor


def relative(calls: Sequence[Changes]) -> Tensor:
    """‖c̄ − c‖₂ / max(‖c‖₂, 1e-6) of the rows of several calls of one shape, [rows of all calls, batch, tokens].

    ``LEFT_OUT`` where the contribution vanishes in the stream (see ``FLOOR``), unless a row changes none of those.
    """
    gap_RBT = torch.cat([one.gap_RBT for one in calls])
    size_RBT, stream_RBT = (
        torch.cat([norm_BT.expand(len(one.gap_RBT), -1, -1) for one, norm_BT in zip(calls, norms)])
        for norms in ([one.size_BT for one in calls], [one.stream_BT for one in calls])
    )
    vanishes = size_RBT <= FLOOR * stream_RBT
    rounding = (vanishes & (gap_RBT > 0)).any(-1, keepdim=True)
    return (gap_RBT / size_RBT.clamp_min(EPS)).masked_fill(vanishes & rounding, LEFT_OUT)


def row_changes(view: RowsView, rows: Sequence[int]) -> Changes:
    """How far the contributions of the given rows are from the control's."""
    gap_RBT = view.gap_RBT if len(rows) == len(view.gap_RBT) else view.gap_RBT[at(rows, view.gap_RBT.device)]
    return Changes(gap_RBT, view.size_BT, view.stream_BT)


def control_changes(view: RowsView) -> Changes:
    """How far the control's contribution is from the plain forward's, as one row."""
    return Changes(view.control_gap_BT[None], view.baseline_size_BT, view.baseline_stream_BT)


@dataclass
class _Calls:
    """Calls on rows of one shape, one behind the other, with what they fill: (block, cell) of every row."""

    calls: list[Changes] = field(default_factory=list)
    places: list[tuple[int, Cell]] = field(default_factory=list)


Reduced = tuple[int, Sequence[tuple[int, Cell]], Tensor]
"""A prompt, the places of its rows, and their values [reduction, rows]."""


class EffectMaps:
    """Effects on all tokens and on later tokens of one batch, both [batch, part, reduction, skipped, block].

    What the definition fixes is 0 from the start and never observed: blocks before the one left out and, at later
    tokens, that block itself. A prompt without positions has NaN at later tokens.

    While rows pass, norms of single tokens are noted. They are reduced many blocks at a time, on the model's device,
    and brought from it once: no waiting for an accelerator on the way.

    Args:
        everywhere: rows that are changed at all tokens, with the cell they fill.
        later: rows that are seen from a token on.
        positions: per prompt the tokens t of the later effects; all of them are pooled.
        diagonal: whether block s itself is observed (a row that leaves out a part of it passes through it).
        parts: how many parts cells tell apart.
        end: at later tokens, where in a prompt they end; None = at its last token, that one among them.
    """

    def __init__(
        self,
        batch: Batch,
        n_blocks: int,
        everywhere: Mapping[Request, Cell],
        later: Mapping[Request, Cell],
        positions: Sequence[Sequence[int]],
        diagonal: bool = False,
        *,
        parts: int = 1,
        end: int | None = None,
    ) -> None:
        self._batch, self._everywhere, self._later, self._diagonal = batch, everywhere, later, diagonal
        self._end, self._positions = end, positions
        self._shape = (batch.size, parts, len(REDUCTIONS), n_blocks, n_blocks)
        self._full = _Calls()
        self._tails: dict[int, dict[int, _Calls]] = {}
        self._control: dict[tuple[int | None, int], list[Changes]] = {}
        self._waiting = 0
        self._reduced_all: list[Reduced] = []
        self._reduced_later: list[Reduced] = []
        self._noise = torch.zeros(batch.size, dtype=torch.float64, device=batch.ids_BT.device)
        self._finite = torch.ones((), dtype=torch.bool, device=batch.ids_BT.device)

    @property
    def all(self) -> NDArray[np.float64]:
        """Effects at all tokens."""
        return self._filled(np.zeros(self._shape), self._reduced_all)

    @property
    def future(self) -> NDArray[np.float64]:
        """Effects at later tokens."""
        empty = np.zeros(self._shape)
        empty[[not starts for starts in self._positions]] = np.nan
        return self._filled(empty, self._reduced_later)

    @property
    def noise(self) -> Tensor:
        """Per prompt the largest relative gap between the control and the plain forward, float64 [batch]."""
        self._reduce()
        return self._noise

    def rows(self, view: RowsView) -> None:
        """Takes in one call of a block."""
        self._control.setdefault((view.prompt, view.start), []).append(control_changes(view))
        wanted = self._everywhere if view.prompt is None else self._later
        found = [(i, wanted[r]) for i, served in enumerate(view.requests) for r in served if r in wanted]
        found = [(i, cell) for i, cell in found if self._is_observed(view, cell)]
        if found:
            changes = row_changes(view, [i for i, _ in found])
            self._keep(view.prompt, view.start, view.block, [cell for _, cell in found], changes)

    def add_later(self, prompt: int, start: int, block: int, cell: Cell, effect_N: Tensor) -> None:
        """Per-token effects that somebody knows by itself, from one starting token on."""
        one = torch.ones_like(effect_N)[None]
        self._keep(prompt, start, block, [cell], Changes(effect_N[None, None], one, torch.zeros_like(one)))

    def block_done(self, block: int) -> None:
        """All rows of a block have been seen."""
        if self._waiting > _AT_ONCE:
            self._reduce()

    def _keep(self, prompt: int | None, start: int, block: int, cells: Sequence[Cell], changes: Changes) -> None:
        calls = self._full if prompt is None else self._tails.setdefault(prompt, {}).setdefault(start, _Calls())
        calls.calls.append(changes)
        calls.places += [(block, cell) for cell in cells]
        self._waiting += changes.gap_RBT.numel()

    def _is_observed(self, view: RowsView, cell: Cell) -> bool:
        if view.block != cell[1]:
            return True
        return self._diagonal and view.prompt is None

    def _reduce(self) -> None:
        """What waits is reduced over tokens."""
        if self._full.calls:
            values_RBT = relative(self._full.calls)
            # NaN is below nothing, and what is left out below everything
            self._finite &= ((values_RBT.amax(0) < torch.inf) | ~self._batch.valid_BT).all()
            reduced = over_prompts(values_RBT, self._batch)
            self._reduced_all += [(prompt, self._full.places, own) for prompt, own in enumerate(reduced)]
        for prompt, by_start in self._tails.items():
            several = [(own.places, relative(own.calls)[:, 0, : self._end]) for own in by_start.values()]
            places, values_RN = pooled(several)
            self._finite &= (values_RN.amax(0) < torch.inf).all()
            self._reduced_later.append((prompt, places, reduce_tokens(values_RN)))
        for (owner, _), calls in self._control.items():
            self._raise_noise(owner, relative(calls).clamp_min(0.0))
        self._full, self._tails, self._control, self._waiting = _Calls(), {}, {}, 0

    def _raise_noise(self, prompt: int | None, gap_RBT: Tensor) -> None:
        if prompt is None:
            largest_B = gap_RBT.masked_fill(~self._batch.valid_BT, 0.0).amax((0, 2))
            self._noise = torch.maximum(self._noise, largest_B.double())
        else:
            largest = gap_RBT[:, 0, : self._end].amax().double()
            self._noise[prompt] = torch.maximum(self._noise[prompt], largest)

    def _filled(self, empty: NDArray[np.float64], found: Sequence[Reduced]) -> NDArray[np.float64]:
        self._reduce()
        if not bool(self._finite):
            raise overflow("The model with a block left out", "contributions")
        for prompt, places, values_KR in found:
            parts, skipped = [part for _, (part, _) in places], [s for _, (_, s) in places]
            empty[prompt, parts, :, skipped, [block for block, _ in places]] = values_KR.T.cpu().numpy()
        return empty


class EffectMeasure(Measure[Options]):
    """A measure of what changes where a block, or a part of one, is left out: at all tokens, and before a token t.

    ``positions`` are the tokens t of every prompt of the survey.
    """

    by_prompt = True
    lends = True
    positions: Sequence[tuple[int, ...]]

    @property
    def extents(self) -> Mapping[str, int]:
        return {"sample": max(map(len, self.positions), default=0)}

    def cells(self, n_blocks: int) -> Sequence[Cell]:
        """What is left out, one at a time."""
        return [(0, s) for s in range(n_blocks)]

    def everywhere(self, cell: Cell) -> Request | None:
        """The row that leaves it out at all tokens; None = that is not measured."""
        return None

    @abc.abstractmethod
    def before(self, cell: Cell, prompt: int, t: int) -> Request:
        """The row that leaves it out before token t of one of a batch's prompts."""


class EffectProbe(MeasureProbe):
    """One batch's effects on contributions, with the coordinates that all such measures have.

    Args:
        how: further options of ``EffectMaps``.
    """

    def __init__(
        self, measure: EffectMeasure[Any], facts: ModelFacts, batch: Batch, indices: Sequence[int], **how: Any
    ) -> None:
        cells, positions = measure.cells(facts.n_blocks), [measure.positions[i] for i in indices]
        self._all = {row: cell for cell in cells if (row := measure.everywhere(cell)) is not None}
        self._later = {
            measure.before(cell, prompt, t): cell
            for prompt, starts in enumerate(positions)
            for t in dict.fromkeys(starts)
            for cell in cells
        }
        super().__init__([*self._all, *self._later])
        self._facts, self._batch, self._positions, self._samples = facts, batch, positions, measure.extents["sample"]
        self._effects = EffectMaps(batch, facts.n_blocks, self._all, self._later, positions, **how)

    def rows(self, view: RowsView) -> None:
        self._effects.rows(view)

    def block_done(self, block: int) -> None:
        self._effects.block_done(block)

    def noise(self) -> NDArray[np.float64]:
        noise: NDArray[np.float64] = self._effects.noise.cpu().numpy()
        return noise

    def dataset(self, declaration: Declaration, data: dict[str, Any], **coords: Any) -> xr.Dataset:
        """A measure's variables, and the positions beside them; ``coords`` are its own dimensions."""
        blocks = np.arange(self._facts.n_blocks)
        coords |= {"reduction": list(REDUCTIONS), "skipped": blocks, "block": blocks}
        data["positions"] = padded_positions(self._positions, self._samples)
        return declaration.dataset(data, {**coords, "sample": np.arange(self._samples)})


def over_prompts(values_RBT: Tensor, batch: Batch) -> Sequence[Tensor]:
    """Values reduced over each prompt's own tokens: of every prompt [reduction, rows]."""
    if not batch.is_ragged:
        return reduce_tokens(values_RBT).unbind(-1)
    return [reduce_tokens(values_RBT[:, prompt, :length]) for prompt, length in enumerate(batch.lengths)]


def pooled(several: Sequence[tuple[Sequence[Place], Tensor]]) -> tuple[Sequence[Place], Tensor]:
    """Values [rows, tokens] that fill the same places from several starting tokens on, joined along the tokens."""
    first = several[0][0]
    if all(places == first for places, _ in several):
        return first, torch.cat([values_RN for _, values_RN in several], dim=-1)
    by_place: dict[Place, list[Tensor]] = {}
    for places, values_RN in several:
        for place, values_N in zip(places, values_RN):
            by_place.setdefault(place, []).append(values_N)
    return list(by_place), torch.stack([torch.cat(pieces) for pieces in by_place.values()])
