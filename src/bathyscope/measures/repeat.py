"""Repeat: the model with a window of blocks run more than once. Source: lad2024, layer repetition."""

from collections.abc import Sequence

from bathyscope.errors import OptionError
from bathyscope.measures.base import ModelFacts
from bathyscope.measures.of.repeat import DECLARATION, RepeatOptions
from bathyscope.measures.schedules import ScheduleMeasure
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.schedule import Schedule
from bathyscope.wavefront.rows import ScheduleRow


class Repeat(ScheduleMeasure[RepeatOptions], declared=DECLARATION):
    dimension = "start"

    def unavailable(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt]) -> str | None:
        length, blocks = self.options.length, facts.n_blocks
        return (
            None if length <= blocks else f"its window of {length} blocks is longer than the model, which has {blocks}"
        )

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        self.sample_tokens(prompts, seed)
        length, times = self.options.length, self.options.times
        if length > facts.n_blocks:
            raise OptionError(
                f"repeat: length={length} does not fit a model of {facts.n_blocks} blocks; "
                f"allowed: 1 to {facts.n_blocks}."
            )
        standard = Schedule.standard(facts.n_blocks)
        starts = range(facts.n_blocks - length + 1)
        self.rows = {start: ScheduleRow(standard.repeat(start, length, times)) for start in starts}

    def rows_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        return (facts.n_blocks - self.options.length + 1) / 2 + self.options.length
