"""Swap: two neighbouring blocks exchange places. Source: lad2024, layer interventions."""

from collections.abc import Sequence

from bathyscope.errors import ModelError
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts, require_range
from bathyscope.measures.declared.swap import DECLARATION, SwapOptions
from bathyscope.measures.schedules import ScheduleProbe, check_blocks, runnable
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.schedule import Schedule
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.rows import ScheduleRow


class Swap(Measure[SwapOptions], declared=DECLARATION):
    """Next-token statistics with blocks ℓ and ℓ+1 exchanged, for each ℓ."""

    by_prompt = True

    def unavailable(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt]) -> str | None:
        return "this model has one block only" if facts.n_blocks < 2 else None

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        if facts.n_blocks < 2:
            raise ModelError("swap needs at least two blocks; this model has one.")
        blocks = check_blocks(self.options.blocks, facts.n_blocks - 1, self.name)
        require_range("swap: protect_first", self.options.protect_first, 0, min(len(p) for p in prompts))
        standard = Schedule.standard(facts.n_blocks)
        swapped = {block: standard.swap(block) for block in blocks}
        kept = runnable(swapped, facts, self.name, asked=self.options.blocks is not None)
        self._rows = {b: ScheduleRow(schedule, self.options.protect_first) for b, schedule in kept.items()}

    def rows_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        return facts.n_blocks / 2

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        return ScheduleProbe(DECLARATION, facts, batch, self._rows, "swapped", self.options.positions)
