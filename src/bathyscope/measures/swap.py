"""Swap: the model with two neighbouring blocks exchanged. Source: lad2024, layer interventions."""

from collections.abc import Sequence

from bathyscope.measures.base import ModelFacts
from bathyscope.measures.of.swap import DECLARATION, SwapOptions
from bathyscope.measures.schedules import ScheduleMeasure, protected, swapped
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.wavefront.rows import ScheduleRow


class Swap(ScheduleMeasure[SwapOptions], declared=DECLARATION):
    dimension = "swapped"

    def unavailable(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt]) -> str | None:
        return "this model has one block only" if facts.n_blocks < 2 else None

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        self.sample_tokens(prompts, seed)
        schedules, first = swapped(self, facts), protected(self, prompts)
        self.rows = {block: ScheduleRow(schedule, first) for block, schedule in schedules.items()}
