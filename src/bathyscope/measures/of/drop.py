"""Drop: the model without one block. Source: lad2024, layer interventions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from bathyscope.core.descriptions import described
from bathyscope.errors import ModelError, PromptError
from bathyscope.labels import Label
from bathyscope.measures.base import MeasureProbe, ModelFacts
from bathyscope.measures.declaration import Declaration
from bathyscope.measures.schedule_tables import (
    PANELS,
    Blocks,
    Positions,
    ReadTokens,
    further_variables,
    in_all_loops,
    require_next_positions,
    schedule_table,
)
from bathyscope.measures.schedules import FurtherRows, ScheduleMeasure, changed, protected
from bathyscope.options import Range
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.schedule import Schedule
from bathyscope.wavefront.rows import ScheduleRow, SkipRow

if TYPE_CHECKING:
    from bathyscope.measures.removed import ContributionSums
    from bathyscope.wavefront.batch import Batch
    from bathyscope.wavefront.engine import Wavefront


@described
@dataclass(frozen=True)
class DropOptions:
    """Options of drop.

    Args:
        blocks: which blocks are left out, one at a time; None = each.
        protect_first: how many first tokens keep the dropped block's real output.
        replace: what takes the place of a removed contribution: "zero" = nothing; "mean" = its mean over the tokens of
            all prompts of the survey but those that read the same as the prompt itself, from protect_first on.
        direct: also the direct effect of each removal: the contribution is taken from the last stream alone, and
            every other block adds what it adds in the whole model. Self-repair is what later blocks make up for.
        positions: what means are over: "next" = the positions with a next token; "published" = these for the loss,
            and all but the first for KL, agreement and entropy, as lad2024's published code has it.
    """

    blocks: Blocks = None
    protect_first: Annotated[int, Range(0)] = 0
    replace: Literal["zero", "mean"] = "zero"
    direct: bool = False
    positions: Positions = "next"
    read_tokens: ReadTokens = None

    def __post_init__(self) -> None:
        require_next_positions("drop", self.positions, self.read_tokens)


_TABLE: Final = schedule_table("dropped")
DECLARATION: Final = Declaration(
    "drop",
    "Next-token statistics without each block in turn.",
    DropOptions,
    {
        **_TABLE,
        **in_all_loops(_TABLE),
        **further_variables(_TABLE, "direct", "dropped", "the removed contribution taken from the last stream alone"),
        "self_repair": Label(
            "prompt dropped",
            "loss of a removal's direct effect that later blocks make up for",
            "nats",
            "loss_direct − loss",
            "own",
            direction="higher = later blocks make up for more of the removal; below 0 = they make it worse",
            optional=True,
        ),
    },
    order=120,
    synonyms=(
        "self_repair",
        "backup",
        "mean_ablation",
        "ablation",
        "layer_ablation",
        "block_ablation",
        "layer_dropping",
        "prune",
        "knockout",
    ),
    panels={**PANELS, **{name: (name,) for name in ("kl_direct", "loss_direct", "self_repair")}},
    question="what do predictions lose without a block?",
    rows="one per block",
)


class Drop(ScheduleMeasure[DropOptions], declared=DECLARATION):
    dimension = "dropped"
    _first = 0
    _sums: ContributionSums | None = None

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        self.sample_tokens(prompts, seed)
        first = protected(self, prompts)
        self.rows = {block: SkipRow(block, first) for block in changed(self, Schedule.drop, facts.n_blocks, facts)}
        cycle = facts.anatomy.cycle
        self._first = first
        if self.options.replace == "mean":
            _require_others(prompts, first)
        if self.options.direct:
            _require_one_stream(facts)
        # a schedule protects no tokens and fills in no mean, and blocks that were chosen are single runs
        is_plain = not first and self.options.blocks is None and self.options.replace == "zero"
        if cycle is not None and cycle.period is not None and is_plain:
            standard = Schedule.standard(facts.n_blocks)
            rows = {block: ScheduleRow(standard.drop_runs(cycle.runs_of(block))) for block in range(cycle.period)}
            self.further = {"all_loops": FurtherRows("looped", rows)}

    @property
    def keeps_boundaries(self) -> bool:  # type: ignore[override]
        return self.options.direct

    def stays_valid(self, before: Self, prompts: int) -> bool:
        # a mean is over all prompts of the survey
        return self.options.replace == "zero" and super().stays_valid(before, prompts)

    def readouts_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        return (2 if self.options.direct else 1) * super().readouts_per_prompt(facts, tokens)

    def read_reference(self, wave: Wavefront, reference: Sequence[TokenizedPrompt]) -> None:
        """The sums that means are of, from a plain forward of every prompt."""
        from bathyscope.measures.removed import ContributionSums

        if self.options.replace == "mean":
            self._sums = ContributionSums(wave, reference, self._first)

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        from bathyscope.measures.removed import DropProbe

        return DropProbe(self, facts, batch, indices, first=self._first, sums=self._sums, direct=self.options.direct)


def _require_others(prompts: Sequence[TokenizedPrompt], first: int) -> None:
    """Refuse prompts whose others have no token to take a mean of.

    Raises:
        PromptError: with both ways out.
    """
    tokens = {prompt.ids: len(prompt) - first for prompt in prompts}
    if any(sum(tokens.values()) == count for count in tokens.values()):
        raise PromptError(
            f"drop: replace='mean' needs the tokens of other prompts, and of {len(prompts)} prompts {len(tokens)} "
            f"differ, without the first {first} tokens. Give more different prompts, or leave replace out."
        )


def _require_one_stream(facts: ModelFacts) -> None:
    """Refuse models in which the last stream is no sum of what blocks have added.

    Raises:
        ModelError: several streams, or runs of blocks with something between them.
    """
    from bathyscope.model.anatomy.parallel import obstacle_to_sums

    obstacle = obstacle_to_sums(facts.anatomy)
    if obstacle:
        raise ModelError(
            f"drop: direct takes a block's contribution from the last stream, and this {facts.anatomy.family.name} "
            f"model has {obstacle}, so that the stream is no sum of contributions. Leave direct out."
        )
