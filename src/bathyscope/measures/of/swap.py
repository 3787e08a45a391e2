"""Swap: the model with two neighbouring blocks exchanged. Source: lad2024, layer interventions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from bathyscope.core.descriptions import described
from bathyscope.measures.base import ModelFacts
from bathyscope.measures.declaration import Declaration
from bathyscope.measures.schedule_tables import (
    PANELS,
    PairBlocks,
    Positions,
    ReadTokens,
    further_variables,
    require_next_positions,
    schedule_table,
)
from bathyscope.measures.schedules import FurtherRows, ScheduleMeasure, in_parallel, protected, swapped
from bathyscope.options import Range
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.wavefront.rows import ScheduleRow


@described
@dataclass(frozen=True)
class SwapOptions:
    """Options of swap.

    Args:
        protect_first: how many first tokens keep the standard schedule's residual stream.
        parallel: each pair also runs in parallel: both blocks read the same stream, and what both contribute is added.
    """

    blocks: PairBlocks = None
    protect_first: Annotated[int, Range(0)] = 0
    parallel: bool = False
    positions: Positions = "next"
    read_tokens: ReadTokens = None

    def __post_init__(self) -> None:
        require_next_positions("swap", self.positions, self.read_tokens)


_TABLE: Final = schedule_table("swapped")
DECLARATION: Final = Declaration(
    "swap",
    "Next-token statistics with blocks ℓ and ℓ+1 exchanged, for each ℓ.",
    SwapOptions,
    {**_TABLE, **further_variables(_TABLE, "parallel", "parallel", "blocks ℓ and ℓ+1 in parallel")},
    order=130,
    synonyms=("layer_swap", "swapping", "permute", "parallel"),
    panels={**PANELS, **{name: (name,) for name in ("kl_parallel", "loss_parallel")}},
    question="how robust are predictions to the order of blocks?",
    rows="one per pair of neighbours",
)


class Swap(ScheduleMeasure[SwapOptions], declared=DECLARATION):
    dimension = "swapped"

    def unavailable(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt]) -> str | None:
        return "this model has one block only" if facts.n_blocks < 2 else None

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        self.sample_tokens(prompts, seed)
        schedules, first = swapped(self, facts), protected(self, prompts)
        self.rows = {block: ScheduleRow(schedule, first) for block, schedule in schedules.items()}
        if self.options.parallel:
            together = in_parallel(self, schedules, facts)
            rows = {block: ScheduleRow(schedule, first) for block, schedule in together.items()}
            self.further = {"parallel": FurtherRows("parallel", rows)}

    def rows_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        return (2 if self.options.parallel else 1) * super().rows_per_prompt(facts, tokens)
