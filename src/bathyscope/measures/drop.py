"""Drop: the model without one block. Source: lad2024, layer interventions."""

from collections.abc import Sequence

from bathyscope.measures.base import ModelFacts
from bathyscope.measures.of.drop import DECLARATION, DropOptions
from bathyscope.measures.schedules import ScheduleMeasure, changed, protected
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.schedule import Schedule
from bathyscope.wavefront.rows import ScheduleRow, SkipRow


class Drop(ScheduleMeasure[DropOptions], declared=DECLARATION):
    dimension = "dropped"

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        self.sample_tokens(prompts, seed)
        first = protected(self, prompts)
        self.rows = {block: SkipRow(block, first) for block in changed(self, Schedule.drop, facts.n_blocks, facts)}
        cycle = facts.anatomy.cycle
        # a schedule protects no tokens, and blocks that were chosen are single runs
        if cycle is not None and cycle.period is not None and not first and self.options.blocks is None:
            standard = Schedule.standard(facts.n_blocks)
            self.rows_in_all_loops = {
                block: ScheduleRow(standard.drop_runs(cycle.runs_of(block))) for block in range(cycle.period)
            }
