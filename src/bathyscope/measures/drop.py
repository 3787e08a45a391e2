"""Drop: the model without one block. Source: lad2024, layer interventions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts, require_range
from bathyscope.measures.schedules import ScheduleProbe, check_blocks, check_positions, runnable
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.schedule import Schedule
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.rows import SkipRow


@dataclass(frozen=True)
class DropOptions:
    """Options of drop.

    Args:
        blocks: which blocks are left out, one at a time; None = each.
        protect_first: how many first tokens keep the dropped block's real output.
        positions: what means are over: "next" = the positions with a next token; "published" = these for the loss,
            and all but the first for KL, agreement and entropy, as lad2024's published code has it.
    """

    blocks: tuple[int, ...] | None = None
    protect_first: int = 0
    positions: str = "next"


class Drop(Measure[DropOptions]):
    """Next-token statistics without each block in turn."""

    name = "drop"
    options_type = DropOptions

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        check_positions(self.options.positions, self.name)
        blocks = check_blocks(self.options.blocks, facts.n_blocks, self.name)
        require_range("drop: protect_first", self.options.protect_first, 0, min(len(p) for p in prompts))
        standard = Schedule.standard(facts.n_blocks)
        dropped = {block: standard.drop(block) for block in blocks}
        kept = runnable(dropped, facts, self.name, asked=self.options.blocks is not None)
        self._rows = {block: SkipRow(block, self.options.protect_first) for block in kept}

    def rows_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        return facts.n_blocks / 2

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        return ScheduleProbe(facts, batch, self._rows, "dropped", self.options.positions)
