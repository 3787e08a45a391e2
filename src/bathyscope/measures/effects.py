"""Relative changes of blocks' contributions, collected while changed rows pass.

Skip effects, direct effects and depth scores share this.

E[s,l] = ‖c_l − c̄_l‖₂ / max(‖c_l‖₂, 1e-6) per token, reduced over tokens to mean, 95th percentile and maximum. Where a
contribution is tiny compared with the stream, its relative change means nothing: such a token is left out.
"""

import abc
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from torch import Tensor

from bathyscope.errors import warn
from bathyscope.labels import REDUCTIONS
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts, Options
from bathyscope.measures.declaration import Declaration
from bathyscope.measures.finite import overflow, require_finite
from bathyscope.measures.of.skip import REACHES
from bathyscope.measures.over_tokens import LEFT_OUT, over_prompts, pooled, reduce_tokens
from bathyscope.measures.places import NamedPlaces, TokenPlace, find_places, place_values
from bathyscope.measures.positions import COUNT, SHORTEST, check_positions, sample_positions
from bathyscope.options import Range
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.compare import compare, same_or
from bathyscope.wavefront.places import at, is_accelerator
from bathyscope.wavefront.probe import FinalStates, RowsView
from bathyscope.wavefront.rows import Request

EPS = 1e-6
FLOOR = 1e-6
"""A contribution of at most this share of the stream that it is added to is rounding: a change has no size in it."""
_FEW_TOKENS: Final = 12
"""From this many on, a product of one row and one of several round alike on a CPU."""
_AT_ONCE: Final = 1 << 22
"""Values of single tokens that wait to be reduced."""

Cell = tuple[int, int]
"""(index of the part, block that is left out)."""
Places = list[tuple[int, Cell]]
"""(block, cell) that each of some rows fills."""


def relative(gap_RBT: Tensor, size_RBT: Tensor, stream_RBT: Tensor) -> Tensor:
    """‖c̄ − c‖₂ / max(‖c‖₂, 1e-6) of every row and token.

    ``LEFT_OUT`` where the contribution vanishes in the stream (see ``FLOOR``), unless a row changes none of those.

    Args:
        gap_RBT: of how much each row's contribution differs, the norm.
        size_RBT: of the contribution that it differs from.
        stream_RBT: of the residual stream that that is added to.
    """
    vanishes = size_RBT <= FLOOR * stream_RBT
    # A row that changes none of the vanishing contributions has a true 0 there, which must stay in its means.
    rounding = (vanishes & (gap_RBT > 0)).any(-1, keepdim=True)
    return (gap_RBT / size_RBT.clamp_min(EPS)).masked_fill(vanishes & rounding, LEFT_OUT)


@dataclass
class _Calls:
    """Norms of calls on rows of one shape, as ``relative`` takes them, with what they fill."""

    norms: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)
    places: Places = field(default_factory=list)

    def relative(self) -> Tensor:
        """The effects, [rows of all calls, batch, tokens]."""
        return relative(*map(torch.cat, zip(*self.norms)))


class EffectMeasure(Measure[Options]):
    """A measure of what changes where a block, or a part of one, is left out: at all tokens, and before a token t.

    ``positions`` are the tokens t of every prompt of the survey: those of the option of this name, or sampled ones.
    """

    by_prompt = True
    lends = True
    positions: Sequence[tuple[int, ...]]
    names: Sequence[str] = ()
    """Of places, where positions are given by name; then ``places`` has them by prompt."""
    places: Sequence[tuple[TokenPlace, ...]] = ()
    _lengths: Sequence[int]

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        options: Any = self.options
        lengths = [len(p) for p in prompts]
        Range(0, min(lengths)).check(options.protect_first, f"{self.name}: protect_first")
        self._lengths = lengths
        if isinstance(options.positions, NamedPlaces):
            self.names = options.positions.names
            self.places = find_places(options.positions, prompts, facts, self.name, first=1)
            # a place that has two names is measured once
            starts = [[place.tokens.start for place in places] for places in self.places]
            self.positions = [tuple(dict.fromkeys(prompt_starts)) for prompt_starts in starts]
            self._warn_of_protected(options.protect_first)
            return
        if options.positions is not None:
            self.positions = check_positions(options.positions, lengths, self.name)
            self._warn_of_protected(options.protect_first)
            return
        self.positions = sample_positions(lengths, seed)
        without = self.positions.count(())
        if without:
            warn(
                f"{self.name}: {without} of {len(lengths)} prompts are too short for a sampled position (shorter than "
                f"{SHORTEST} tokens); their effects on future tokens are missing. Longer prompts, or positions, "
                "would give them.",
            )

    @property
    def heeds_protection(self) -> bool:
        """Whether a future effect leaves out nothing at protected tokens."""
        return True

    def _warn_of_protected(self, protect_first: int) -> None:
        """Warn of tokens t before which everything is protected, so that nothing is left out."""
        starts = [t for prompt_starts in self.positions for t in prompt_starts]
        idle = sum(t <= protect_first for t in starts)
        if idle and self.heeds_protection:
            warn(
                f"{self.name}: {idle} of {len(starts)} positions lie within the first {protect_first + 1} tokens, "
                f"before which protect_first={protect_first} leaves nothing out; their effects are 0. Give later "
                "positions, or a smaller protect_first."
            )

    @property
    def starts_per_prompt(self) -> float:
        """How many tokens t a prompt has: of sampled ones the most, so that batches do not depend on later prompts."""
        options: Any = self.options
        return COUNT if options.positions is None else sum(map(len, self.positions)) / len(self.positions)

    @property
    def tails_per_prompt(self) -> float:
        """How much of a prompt is behind its tokens t, all of them together: of a sampled one half on average."""
        options: Any = self.options
        if options.positions is None:
            return self.starts_per_prompt / 2
        later = sum(length - t for length, starts in zip(self._lengths, self.positions) for t in starts)
        return later / sum(self._lengths)

    @property
    def lengths_by_dim(self) -> Mapping[str, int]:
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
    """One batch's effects on all tokens and on later tokens, with the coordinates that all such measures have.

    What the definition fixes is 0 from the start and never observed: blocks before the one left out and, at later
    tokens, that block itself. A prompt without positions has NaN at later tokens; those of several are pooled.

    While rows pass, norms of single tokens are noted. They are reduced many blocks at a time, on the model's device,
    and brought from it once: no waiting for an accelerator on the way.

    Args:
        parts: how many parts cells tell apart.
        end: at later tokens, where in a prompt they end; None = at its last token, that one among them.
    """

    def __init__(
        self,
        measure: EffectMeasure[Any],
        facts: ModelFacts,
        batch: Batch,
        indices: Sequence[int],
        *,
        parts: int = 1,
        end: int | None = None,
    ) -> None:
        cells, positions = measure.cells(facts.n_blocks), [measure.positions[i] for i in indices]
        self._all = {row: cell for cell in cells if (row := measure.everywhere(cell)) is not None}
        self._later = {
            measure.before(cell, prompt, t): cell
            for prompt, starts in enumerate(positions)
            for t in dict.fromkeys(starts)  # a position that is given twice is measured once
            for cell in cells
        }
        super().__init__([*self._all, *self._later])
        self._numbers = indices
        self._facts = facts
        self._batch = batch
        self._positions = positions
        self._samples = measure.lengths_by_dim["sample"]
        self._names = measure.names
        self._places = [measure.places[i] for i in indices] if measure.names else []
        # by prompt and starting token: what was reduced of one t alone, where places have names
        self._reduced_at: list[tuple[tuple[int, int], Places, Tensor]] = []
        self._output_at: dict[tuple[int, int], tuple[list[Cell], NDArray[np.float64]]] = {}
        self._end = end
        self._shape = (batch.size, parts, len(REDUCTIONS), facts.n_blocks, facts.n_blocks)
        # by prompt (None = all) and starting token
        self._waiting: defaultdict[tuple[int | None, int], _Calls] = defaultdict(_Calls)
        self._control: defaultdict[tuple[int | None, int], _Calls] = defaultdict(_Calls)
        self._values = 0
        self._reduced: dict[str, list[tuple[int, Places, Tensor]]] = {reach: [] for reach in REACHES}
        self._noise: Tensor = torch.zeros(batch.size, dtype=torch.float64, device=batch.ids_BT.device)
        self._finite = torch.ones((), dtype=torch.bool, device=batch.ids_BT.device)

    def rows(self, view: RowsView) -> None:
        gap_RBT, size_BT, stream_BT = view.control_change
        self._control[view.prompt, view.start].norms.append((gap_RBT, size_BT[None], stream_BT[None]))
        cell_of = self._all if view.prompt is None else self._later
        row_cells = [(i, cell_of[r]) for i, served in enumerate(view.requests) for r in served if r in cell_of]
        # A tail of the skipped block itself has no effect to show: its own tokens ran the block.
        row_cells = [(i, cell) for i, cell in row_cells if view.prompt is None or cell[1] != view.block]
        if row_cells:
            gap_RBT, size_BT, stream_BT = view.change
            places = [(view.block, cell) for _, cell in row_cells]
            rows = at([i for i, _ in row_cells], gap_RBT.device)
            self.note((view.prompt, view.start), places, gap_RBT[rows], size_BT, stream_BT)

    def note(
        self, begun: tuple[int | None, int], places: Places, gap_RBT: Tensor, size_BT: Tensor, stream_BT: Tensor
    ) -> None:
        """Takes in norms, as ``relative`` does, of rows of one prompt (None = of all) and starting token."""
        calls = self._waiting[begun]
        calls.norms.append((gap_RBT, size_BT.expand_as(gap_RBT), stream_BT.expand_as(gap_RBT)))
        calls.places += places
        self._values += gap_RBT.numel()

    def block_done(self, block: int) -> None:
        if self._values > _AT_ONCE:
            self._reduce()

    def noise(self) -> NDArray[np.float64] | None:
        self._reduce()
        return super().noise()

    def effect(self, reach: str) -> NDArray[np.float64]:
        """Effects at all tokens, or at later ones (``future``), [batch, part, reduction, skipped, block]."""
        self._reduce()
        if not bool(self._finite):
            raise overflow("The model with a block left out", "contributions")
        effects = np.zeros(self._shape) if reach == "all" else self._unseen(self._shape)
        for prompt, places, values_KR in self._reduced[reach]:
            parts, skipped = [part for _, (part, _) in places], [s for _, (_, s) in places]
            # With a slice between index lists numpy puts the places first: [places, reductions].
            effects[prompt, parts, :, skipped, [block for block, _ in places]] = values_KR.T.cpu().numpy()
        return effects

    def output_later(self, final: FinalStates, *, control: bool = False) -> NDArray[np.float64]:
        """Change of the output at later tokens, ‖y − ȳ‖₂, [batch, part, reduction, skipped].

        Args:
            control: the control's from the plain forward's is noise, and rows of a few tokens are read apart.
        """
        changes = self._unseen(self._shape[:-1])
        tails: dict[int, list[tuple[list[Cell], Tensor]]] = {}
        for tail in final.tails:
            mine = {self._later[r]: state[: self._end] for r, state in tail.rows.items() if r in self._later}
            if not mine:
                continue
            control_ND, rows = tail.control_ND[: self._end], list(mine.values())
            if control:
                rows.append(same_or(control_ND, tail.baseline_ND[: self._end]))
            few = control and len(control_ND) < _FEW_TOKENS and not is_accelerator(control_ND.device)
            change = compare(final.reader, control_ND, rows, ["l2"], apart=few)["l2"]
            # Tails of several t are joined before they are reduced: a maximum or quantile over t is over all tokens.
            tails.setdefault(tail.prompt, []).append((list(mine), change[: len(mine)]))
            if self._names:
                one_t = reduce_tokens(change[: len(mine)]).T.cpu().numpy()
                self._output_at[tail.prompt, tail.start] = list(mine), one_t
            if control:
                self._noise[tail.prompt] = torch.maximum(self._noise[tail.prompt], change[-1].max())
        for prompt, several in tails.items():
            # the last block has no tail: skipping it before t changes nothing from t on
            cells, change_RN = pooled(several)
            require_finite("The model with a block left out", [change_RN])
            changes[prompt, [part for part, _ in cells], :, [s for _, s in cells]] = (
                reduce_tokens(change_RN).T.cpu().numpy()
            )
        return changes

    def effect_at(self) -> NDArray[np.float64]:
        """Effects from each named place on, [batch, place, part, reduction, skipped, block]."""
        self._reduce()
        effects = np.zeros((self._shape[0], len(self._names), *self._shape[1:]))
        for (prompt, start), cells, values_KR in self._reduced_at:
            parts, skipped = [part for _, (part, _) in cells], [s for _, (_, s) in cells]
            for place in self._places_at(prompt, start):
                effects[prompt, place, parts, :, skipped, [block for block, _ in cells]] = values_KR.T.cpu().numpy()
        return effects

    def output_at(self) -> NDArray[np.float64]:
        """Change of the output from each named place on, [batch, place, part, reduction, skipped]."""
        changes = np.zeros((self._shape[0], len(self._names), *self._shape[1:-1]))
        for (prompt, start), (cells, values_KR) in self._output_at.items():
            for place in self._places_at(prompt, start):
                changes[prompt, place, [part for part, _ in cells], :, [s for _, s in cells]] = values_KR
        return changes

    def _places_at(self, prompt: int, start: int) -> list[int]:
        """The numbers of a prompt's places that begin at a token."""
        return [number for number, place in enumerate(self._places[prompt]) if place.tokens.start == start]

    def dataset(self, declaration: Declaration, data: dict[str, Any], **coords: Any) -> xr.Dataset:
        """A measure's variables, with the sampled positions; ``coords`` are its own dimensions."""
        blocks = np.arange(self._facts.n_blocks)
        coords |= {"reduction": list(REDUCTIONS), "skipped": blocks, "block": blocks}
        data["positions"] = np.full((len(self._positions), self._samples), -1, dtype=np.int64)
        for sample_starts, starts in zip(data["positions"], self._positions):
            sample_starts[: len(starts)] = starts
        if self._names:
            data |= place_values(self._places)
            coords["place"] = list(self._names)
        return declaration.dataset(data, {**coords, "sample": np.arange(self._samples)})

    def _unseen(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """What later tokens have where nothing was observed."""
        empty = np.zeros(shape)
        empty[[not starts for starts in self._positions]] = np.nan
        return empty

    def _reduce(self) -> None:
        """What waits is reduced over tokens."""
        tails: dict[int, list[tuple[Places, Tensor]]] = {}
        for (prompt, start), calls in self._waiting.items():
            values_RBT = calls.relative()
            if prompt is not None:
                if self._names:
                    one_t = reduce_tokens(values_RBT[:, 0, : self._end])
                    self._reduced_at.append(((prompt, start), calls.places, one_t))
                tails.setdefault(prompt, []).append((calls.places, values_RBT[:, 0, : self._end]))
                continue
            # NaN is below nothing, and what is left out below everything
            self._finite &= ((values_RBT.amax(0) < torch.inf) | ~self._batch.valid_BT).all()
            reduced = over_prompts(values_RBT, self._batch)
            self._reduced["all"] += [
                (number, calls.places, prompt_values) for number, prompt_values in enumerate(reduced)
            ]
        for prompt, several in tails.items():
            places, values_RN = pooled(several)
            self._finite &= (values_RN.amax(0) < torch.inf).all()
            self._reduced["future"].append((prompt, places, reduce_tokens(values_RN)))
        # The control against the plain forward, in the units of an effect, is what rounding alone would show.
        for (prompt, _), calls in self._control.items():
            gap_RBT = calls.relative().clamp_min(0.0)
            if prompt is None:
                largest_B = gap_RBT.masked_fill(~self._batch.valid_BT, 0.0).amax((0, 2))
                self._noise = torch.maximum(self._noise, largest_B.double())
            else:
                largest = gap_RBT[:, 0, : self._end].amax().double()
                self._noise[prompt] = torch.maximum(self._noise[prompt], largest)
        self._waiting.clear()
        self._control.clear()
        self._values = 0
