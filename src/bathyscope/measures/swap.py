"""Swap: two neighbouring blocks exchange places. Source: lad2024, layer interventions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bathyscope.errors import ModelError
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts, require_range
from bathyscope.measures.schedules import ScheduleProbe, check_blocks, check_positions, runnable
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.schedule import Schedule
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.rows import ScheduleRow


@dataclass(frozen=True)
class SwapOptions:
    """Options of swap.

    Args:
        blocks: the first block of each exchanged pair; None = each but the last.
        protect_first: how many first tokens keep the standard schedule's residual stream.
        positions: what means are over, "next" or "published"; as drop's.
    """

    blocks: tuple[int, ...] | None = None
    protect_first: int = 0
    positions: str = "next"


class Swap(Measure[SwapOptions]):
    """Next-token statistics with blocks ℓ and ℓ+1 exchanged, for each ℓ."""

    name = "swap"
    options_type = SwapOptions

    def unavailable(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt]) -> str | None:
        return "this model has one block only" if facts.n_blocks < 2 else None

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        if facts.n_blocks < 2:
            raise ModelError("swap needs at least two blocks; this model has one.")
        check_positions(self.options.positions, self.name)
        blocks = check_blocks(self.options.blocks, facts.n_blocks - 1, self.name)
        require_range("swap: protect_first", self.options.protect_first, 0, min(len(p) for p in prompts))
        standard = Schedule.standard(facts.n_blocks)
        swapped = {block: standard.swap(block) for block in blocks}
        kept = runnable(swapped, facts, self.name, asked=self.options.blocks is not None)
        self._rows = {b: ScheduleRow(schedule, self.options.protect_first) for b, schedule in kept.items()}

    def rows_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        return facts.n_blocks / 2

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        return ScheduleProbe(facts, batch, self._rows, "swapped", self.options.positions)
