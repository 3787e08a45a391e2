"""Drop: the model without one block. Source: lad2024, layer interventions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from bathyscope.core.descriptions import described
from bathyscope.measures.base import ModelFacts
from bathyscope.measures.declaration import Declaration
from bathyscope.measures.schedule_tables import (
    PANELS,
    Blocks,
    Positions,
    ReadTokens,
    in_all_loops,
    require_next_positions,
    schedule_table,
)
from bathyscope.measures.schedules import FurtherRows, ScheduleMeasure, changed, protected
from bathyscope.options import Range
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.schedule import Schedule
from bathyscope.wavefront.rows import ScheduleRow, SkipRow


@described
@dataclass(frozen=True)
class DropOptions:
    """Options of drop.

    Args:
        blocks: which blocks are left out, one at a time; None = each.
        protect_first: how many first tokens keep the dropped block's real output.
        positions: what means are over: "next" = the positions with a next token; "published" = these for the loss,
            and all but the first for KL, agreement and entropy, as lad2024's published code has it.
    """

    blocks: Blocks = None
    protect_first: Annotated[int, Range(0)] = 0
    positions: Positions = "next"
    read_tokens: ReadTokens = None

    def __post_init__(self) -> None:
        require_next_positions("drop", self.positions, self.read_tokens)


_TABLE: Final = schedule_table("dropped")
DECLARATION: Final = Declaration(
    "drop",
    "Next-token statistics without each block in turn.",
    DropOptions,
    {**_TABLE, **in_all_loops(_TABLE)},
    order=120,
    synonyms=("ablation", "layer_ablation", "block_ablation", "layer_dropping", "prune", "knockout"),
    panels=PANELS,
    question="what do predictions lose without a block?",
    rows="one per block",
)


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
            rows = {block: ScheduleRow(standard.drop_runs(cycle.runs_of(block))) for block in range(cycle.period)}
            self.further = {"all_loops": FurtherRows("looped", rows)}
