"""What drop, swap and repeat share: next-token statistics of the model under other schedules of its blocks.

Per token: KL(normal ‖ intervened), top-1 agreement, entropy and cross-entropy of the next token, averaged over the
positions that have a next token. Source: lad2024, layer interventions and layer repetition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bathyscope.errors import ModelError, OptionError, warn
from bathyscope.labels import labelled
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts, Options
from bathyscope.options import Range
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.schedule import Schedule
from bathyscope.wavefront.rows import Request

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from torch import Tensor

    from bathyscope.measures.token_samples import TokenSampler
    from bathyscope.wavefront.batch import Batch
    from bathyscope.wavefront.probe import FinalStates

_VARIABLES = {"kl": "kl_from_reference", "top1_agreement": "top1_agreement", "entropy": "entropy", "loss": "loss"}


@dataclass(frozen=True)
class FurtherRows:
    """Rows of another intervention, by their place along a dimension."""

    dimension: str
    rows: Mapping[int, Request]


@dataclass(frozen=True)
class FurtherStates:
    """Last streams [batch, tokens, width] of another intervention, by their place along a dimension."""

    dimension: str
    states: Mapping[int, Tensor]


class ScheduleMeasure(Measure[Options]):
    """Next-token statistics with one row for every place along a ``dimension``."""

    by_prompt = True
    dimension: ClassVar[str]
    rows: Mapping[int, Request]
    further: Mapping[str, FurtherRows] = {}
    """Other interventions, by the suffix of their variables."""
    sampler: TokenSampler | None = None

    def sample_tokens(self, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        """Decide which tokens of the prompts are read out."""
        from bathyscope.measures.token_samples import sampler_of

        self.sampler = sampler_of(self.options, prompts, seed, self.name)

    def readouts_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        share = 1.0 if self.sampler is None else self.sampler.share(tokens)
        return share * super().readouts_per_prompt(facts, tokens)

    def rows_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        return facts.n_blocks / 2

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        return ScheduleProbe(self, facts, batch, indices)


def changed(
    measure: Measure[Any], change: Callable[[Schedule, int], Schedule], blocks: int, facts: ModelFacts
) -> dict[int, Schedule]:
    """The schedules in which one of the measure's ``blocks`` (None = each) is changed, by that block.

    Where a block would take keys and values, or what is passed on, from one that has not run (Gemma 4), a schedule is
    left out with a warning, or refused where its block was asked for.

    Args:
        change: ``Schedule.drop`` or ``Schedule.swap``.
        blocks: how many can be changed (the last one has no partner to be swapped with).

    Raises:
        OptionError: a block out of range.
        ModelError: a schedule that was asked for cannot run, or none can.
    """
    chosen_blocks = measure.options.blocks
    for block in chosen_blocks or ():
        if not 0 <= block < blocks:
            raise OptionError(f"{measure.name}: block {block} is out of range; allowed: 0 to {blocks - 1}.")
    standard = Schedule.standard(facts.n_blocks)
    schedules = {
        int(block): change(standard, int(block))
        for block in (range(blocks) if chosen_blocks is None else chosen_blocks)
    }
    lacking = {i: missing for i, schedule in schedules.items() if (missing := facts.checks.lacking(schedule))}
    if not lacking:
        return schedules
    first, missing = next(iter(lacking.items()))
    text = f"{measure.name}:{first} cannot run: in this {facts.anatomy.family.name} model {missing}"
    runnable = {i: schedule for i, schedule in schedules.items() if i not in lacking}
    left_out = ", ".join(map(str, lacking))
    if chosen_blocks is not None or not runnable:
        raise ModelError(f"{text}. Leave {left_out} out of {measure.name}'s blocks.")
    warn(f"{text}. Left out of {measure.name}: {left_out}.")
    return runnable


def swapped(measure: Measure[Any], facts: ModelFacts) -> dict[int, Schedule]:
    """The same of blocks ℓ and ℓ+1 swapped, by ℓ; a ModelError where there is one block only."""
    if facts.n_blocks < 2:
        raise ModelError(f"{measure.name} needs at least two blocks; this model has one.")
    return changed(measure, Schedule.swap, facts.n_blocks - 1, facts)


def in_parallel(measure: Measure[Any], pairs: Iterable[int], facts: ModelFacts) -> dict[int, Schedule]:
    """The schedules in which blocks ℓ and ℓ+1 read the same stream, by ℓ; those that cannot run are left out.

    Raises:
        ModelError: none can run, such as where blocks take several streams.
    """
    from bathyscope.model.anatomy.parallel import refusal_of_schedule

    standard = Schedule.standard(facts.n_blocks)
    schedules = {block: standard.parallel(block, block + 1) for block in pairs}
    refusals = {
        block: refusal
        for block, schedule in schedules.items()
        if (refusal := refusal_of_schedule(facts.anatomy, facts.checks, schedule))
    }
    if not refusals:
        return schedules
    first, why = next(iter(refusals.items()))
    text = f"{measure.name}: {schedules[first]} cannot run: in this {facts.anatomy.family.name} model {why}"
    if len(refusals) == len(schedules):
        raise ModelError(f"{text}. Leave {measure.name}'s parallel out.")
    warn(f"{text}. Left out of {measure.name}'s parallel: {', '.join(map(str, refusals))}.")
    return {block: schedule for block, schedule in schedules.items() if block not in refusals}


def protected(measure: Measure[Any], prompts: Sequence[TokenizedPrompt], at_least: int = 0) -> int:
    """How many first tokens of each prompt are left as they are; an OptionError where a prompt is too short for it."""
    first: int = measure.options.protect_first
    Range(0, min(map(len, prompts)) - at_least).check(first, f"{measure.name}: protect_first")
    return first


class ScheduleProbe(MeasureProbe):
    """Reads out the final states of rows that follow other schedules."""

    def __init__(
        self,
        measure: ScheduleMeasure[Any],
        facts: ModelFacts,
        batch: Batch,
        indices: Sequence[int],
        *,
        rows: Mapping[int, Request] | None = None,
    ) -> None:
        from bathyscope.measures.token_samples import places_in_batch

        self._rows = measure.rows if rows is None else rows
        self._further = measure.further
        self._layout: list[tuple[str, str, list[int]]] = []
        further_rows = [row for further in self._further.values() for row in further.rows.values()]
        super().__init__([*self._rows.values(), *further_rows])
        # the last token has no next one
        self._samples = (
            None
            if measure.sampler is None
            else [measure.sampler.sample(number, 0, length - 1) for number, length in zip(indices, batch.lengths)]
        )
        self._places_N = (
            None if self._samples is None else places_in_batch(self._samples, batch.lengths, batch.ids_BT.device)
        )
        self._errors: dict[str, Tensor] = {}
        self._measure = measure
        self._facts = facts
        self._batch = batch
        self._results: dict[str, Tensor] = {}

    def finish(self, final: FinalStates) -> None:
        import torch

        from bathyscope.measures.finite import require_finite
        from bathyscope.measures.token_samples import TokenSample, reduce_by_prompt
        from bathyscope.wavefront.compare import compare

        batch = self._batch
        if self._places_N is None:
            control, baseline = final.control_ND, final.baseline_ND
        else:
            control, baseline = final.control_and_baseline(self._places_N)
        states = [self._read(batch.flat(final.full[request])) for request in self._rows.values()]
        for suffix, further in self.further_states(final).items():
            self._layout.append((suffix, further.dimension, list(further.states)))
            states += [self._read(batch.flat(state)) for state in further.states.values()]
        n_rows = len(self._rows)
        # Behind the rows come the control, whose entropy and loss are the normal ones, and the plain forward: noise.
        comparison = compare(
            final.reader,
            control,
            [*states, control, baseline],
            tuple(_VARIABLES.values()),
            targets_N=batch.next_ids_N if self._places_N is None else batch.next_ids_N[self._places_N],
        )
        for name, values in comparison.items():
            self._results[name] = self._means(name, values)
        if self._samples is not None:
            self._errors = {
                name: reduce_by_prompt(self._samples, comparison[metric][:n_rows], TokenSample.error).cpu()
                for name, metric in _VARIABLES.items()
            }
        # one way to the host for all of them
        self._results = dict(zip(self._results, torch.stack(list(self._results.values())).cpu()))
        if self.tokens is not None and self._measure.dimension == "dropped":
            added_loss = comparison["loss"][:n_rows] - comparison["loss"][-2]
            self.tokens.put("added_loss", self._at_all_tokens(added_loss), dropped=list(self._rows))
            self.tokens.put("added_kl", self._at_all_tokens(comparison["kl_from_reference"][:n_rows]))
        plain = self._at_all_tokens(comparison["kl_from_reference"][-1]).nan_to_num(0.0)
        self._noise = torch.stack([piece.max() for piece in batch.split(plain)])
        require_finite(f"A schedule of {self._measure.dimension} blocks", self._results.values())

    def further_states(self, final: FinalStates) -> Mapping[str, FurtherStates]:
        """Return the last streams of other interventions, by the suffix of their variables."""
        return {
            suffix: FurtherStates(
                further.dimension, {place: final.full[request] for place, request in further.rows.items()}
            )
            for suffix, further in self._further.items()
        }

    def _read(self, flat_ND: Tensor) -> Tensor:
        """Return the vectors of the tokens that are read out, of those of all real tokens."""
        return flat_ND if self._places_N is None else flat_ND[self._places_N]

    def _means(self, name: str, values_RN: Tensor) -> Tensor:
        """Return means over each prompt's tokens, [prompts, rows]."""
        import torch

        from bathyscope.measures.token_samples import TokenSample, reduce_by_prompt

        if self._samples is not None:
            return reduce_by_prompt(self._samples, values_RN, TokenSample.mean)
        published = self._measure.options.positions == "published"
        tokens = slice(1, None) if published and name != "loss" else slice(None, -1)
        return torch.stack([piece[:, tokens].mean(-1) for piece in self._batch.split(values_RN)])

    def _at_all_tokens(self, values_N: Tensor) -> Tensor:
        """Return values at every token: NaN where none was read."""
        import torch

        if self._places_N is None:
            return values_N
        everywhere = values_N.new_full((*values_N.shape[:-1], sum(self._batch.lengths)), torch.nan)
        everywhere[..., self._places_N] = values_N
        return everywhere

    def result(self) -> xr.Dataset:
        import numpy as np

        data: dict[str, Tensor | np.ndarray] = {
            name: self._results[metric][:, : len(self._rows)] for name, metric in _VARIABLES.items()
        }
        coords = {self._measure.dimension: np.array(list(self._rows), dtype=np.int64)}
        first = len(self._rows)
        for suffix, dimension, numbers in self._layout:
            places = slice(first, first + len(numbers))
            data |= {f"{name}_{suffix}": self._results[metric][:, places] for name, metric in _VARIABLES.items()}
            coords[dimension] = np.array(numbers, dtype=np.int64)
            first = places.stop
        data |= {f"baseline_{name}": self._results[name][:, -2] for name in ("entropy", "loss")}
        # all but the last token, or but the first
        data["n_averaged"] = np.array(self._batch.lengths, dtype=np.int64) - 1
        if self._samples is not None:
            data |= {f"{name}_sampling_error": errors for name, errors in self._errors.items()}
            data["n_read"] = np.array([len(sample.places) for sample in self._samples], dtype=np.int64)
        return labelled(self._measure.table or {}, data, coords)
