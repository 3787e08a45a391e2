"""Drop: the model without one block. Source: lad2024, layer interventions."""

from collections.abc import Sequence

from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts, require_range
from bathyscope.measures.declared.drop import DECLARATION, DropOptions
from bathyscope.measures.schedules import ScheduleProbe, check_blocks, runnable
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.schedule import Schedule
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.rows import SkipRow


class Drop(Measure[DropOptions], declared=DECLARATION):
    """Next-token statistics without each block in turn."""

    by_prompt = True

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        blocks = check_blocks(self.options.blocks, facts.n_blocks, self.name)
        require_range("drop: protect_first", self.options.protect_first, 0, min(len(p) for p in prompts))
        standard = Schedule.standard(facts.n_blocks)
        dropped = {block: standard.drop(block) for block in blocks}
        kept = runnable(dropped, facts, self.name, asked=self.options.blocks is not None)
        self._rows = {block: SkipRow(block, self.options.protect_first) for block in kept}

    def rows_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        return facts.n_blocks / 2

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        return ScheduleProbe(DECLARATION, facts, batch, self._rows, "dropped", self.options.positions)
