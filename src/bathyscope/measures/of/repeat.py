"""Repeat: the model with a window of blocks run more than once. Source: lad2024, layer repetition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from bathyscope.core.descriptions import described
from bathyscope.errors import OptionError
from bathyscope.measures.base import ModelFacts
from bathyscope.measures.declaration import Declaration
from bathyscope.measures.schedule_tables import PANELS, Positions, ReadTokens, require_next_positions, schedule_table
from bathyscope.measures.schedules import ScheduleMeasure
from bathyscope.options import Range
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.schedule import Schedule
from bathyscope.wavefront.rows import ScheduleRow


@described
@dataclass(frozen=True)
class RepeatOptions:
    """Options of repeat.

    Args:
        length: blocks in the window.
        times: how often each block of the window is repeated (1 = it runs twice).
    """

    length: Annotated[int, Range(1)] = 5
    times: Annotated[int, Range(1, 100)] = 1
    positions: Positions = "next"
    read_tokens: ReadTokens = None

    def __post_init__(self) -> None:
        require_next_positions("repeat", self.positions, self.read_tokens)


DECLARATION: Final = Declaration(
    "repeat",
    "Next-token statistics with each window of blocks repeated block by block.",
    RepeatOptions,
    schedule_table("start"),
    order=140,
    example={"length": 2},
    panels=PANELS,
    question="what does it change to run a few blocks twice?",
    rows="one per window of blocks",
)


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
