"""Swap cosines: do attention and MLP of two neighbouring blocks write the same in the other order?

Blocks ℓ and ℓ+1 run in the order ℓ+1, ℓ. Per token, with x_l the contribution of block l's attention or MLP in
the normal run and x̄_l the same in the swapped run: cos(x_ℓ, x̄_ℓ), the block in the other place; cos(x_ℓ, x̄_{ℓ+1}),
the place with the other block; cos(x_ℓ, x_{ℓ+1}), both in the normal run. Source: lad2024, swap cosines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

from bathyscope.core.descriptions import described
from bathyscope.labels import Label
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts
from bathyscope.measures.declaration import Declaration
from bathyscope.measures.schedule_tables import PairBlocks
from bathyscope.measures.schedules import protected, swapped
from bathyscope.options import Range
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.wavefront.rows import ScheduleRow

if TYPE_CHECKING:
    import xarray as xr
    from torch import Tensor

    from bathyscope.wavefront.batch import Batch
    from bathyscope.wavefront.probe import BaselineView, RowPartsView

_cosine = partial(
    Label,
    "prompt part swapped",
    source="lad2024, swap cosines",
    direction="1 = the same direction, 0 = orthogonal, negative = opposed",
)


@described
@dataclass(frozen=True)
class SwapCosineOptions:
    """Options of swap cosines.

    Args:
        protect_first: how many first tokens keep the standard schedule's residual stream; they enter no mean.
    """

    blocks: PairBlocks = None
    protect_first: Annotated[int, Range(0)] = 0


DECLARATION: Final = Declaration(
    "swap_cosine",
    "Cosines between contributions of the normal run and of runs in which two neighbouring blocks are swapped.",
    SwapCosineOptions,
    {
        "self": _cosine(
            "cosine of a contribution with its own in the other place", formula="mean over tokens of cos(x_ℓ, x̄_ℓ)"
        ),
        "index": _cosine(
            "cosine of a contribution with that of the other block in the same place",
            formula="mean over tokens of cos(x_ℓ, x̄_{ℓ+1})",
        ),
        "adjacent": _cosine(
            "cosine of the contributions of neighbouring blocks in the normal run",
            formula="mean over tokens of cos(x_ℓ, x_{ℓ+1})",
        ),
        "n_averaged": Label("prompt", "tokens that a prompt's means are over", "token", source="lad2024, swap cosines"),
    },
    order=160,
    panels={"attention": ("self", "index", "adjacent"), "mlp": ("self", "index", "adjacent")},
    question="does a block's work belong to the block or to its place?",
    rows="one per swap",
)


PARTS = ("attention", "mlp")


class SwapCosine(Measure[SwapCosineOptions], declared=DECLARATION):
    by_prompt = True

    def unavailable(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt]) -> str | None:
        if facts.n_blocks < 2:
            return "this model has one block only"
        return None if facts.checks.parts else "this model has no separable contributions of attention and MLP"

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        schedules, first = swapped(self, facts), protected(self, prompts, at_least=1)
        facts.require_parts(self.name)
        self._rows = {block: ScheduleRow(schedule, first, stop=block + 2) for block, schedule in schedules.items()}

    def rows_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        # each of the swapped rows runs two blocks
        return 2 * (facts.n_blocks - 1) / facts.n_blocks

    def readouts_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        return 0.0

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        return SwapCosineProbe(self.options, batch, self._rows)


class SwapCosineProbe(MeasureProbe):
    """Compares contributions as the blocks pass; those of the control are kept for one block. ``rows`` are by ℓ."""

    def __init__(self, options: SwapCosineOptions, batch: Batch, rows: Mapping[int, ScheduleRow]) -> None:
        import torch

        super().__init__(
            list(rows.values()),
            wants_parts=True,
            part_steps={row: (block, block + 1) for block, row in rows.items()},
        )
        self._batch = batch
        self._first = options.protect_first
        self._blocks = list(rows)
        self._block_of = {row: block for block, row in rows.items()}
        self._baseline: Mapping[str, Tensor | None] = {}
        self._normal: dict[int, Mapping[str, Tensor]] = {}
        self._results: dict[tuple[str, int], Tensor] = {}
        self._noise: Tensor = torch.zeros(batch.size, dtype=torch.float64, device=batch.ids_BT.device)

    def baseline(self, view: BaselineView) -> None:
        self._baseline = {"attention": view.attention_BTD, "mlp": view.mlp_BTD}

    def row_parts(self, view: RowPartsView) -> None:
        # The control is in the first call of a block in step with the wave. Rows that catch up are compared with it.
        if view.control and view.block not in self._normal:
            self._normal[view.block] = view.control
            self._compare_control(view.block)
        for (row, step), at in view.rows.items():
            block = self._block_of.get(row)
            if block is not None:
                # Step ℓ of the swapped schedule runs block ℓ+1, at the place of ℓ; the step behind it runs block ℓ.
                self._compare("index" if step == block else "self", block, {k: v[at] for k, v in view.parts.items()})

    def block_done(self, block: int) -> None:
        self._normal.pop(block - 1, None)

    def _compare_control(self, block: int) -> None:
        import torch

        for part, value in self._normal[block].items():
            plain = self._baseline[part]
            assert plain is not None
            self._noise = torch.maximum(self._noise, 1 - self._cosine(value, plain))
        if block - 1 in self._blocks:
            self._compare("adjacent", block - 1, self._normal[block])

    def _compare(self, name: str, block: int, parts: Mapping[str, Tensor]) -> None:
        import torch

        by_part = [self._cosine(self._normal[block][part], parts[part]) for part in PARTS]
        self._results[name, block] = torch.stack(by_part, dim=1)

    def _cosine(self, one_BTD: Tensor, other_BTD: Tensor) -> Tensor:
        import torch

        from bathyscope.measures.over_tokens import mean_over_tokens

        cosine_BT = torch.cosine_similarity(one_BTD.double(), other_BTD.double(), dim=-1)
        return mean_over_tokens(cosine_BT, self._batch, self._first)

    def result(self) -> xr.Dataset:
        import numpy as np
        import torch

        from bathyscope.measures.finite import require_finite

        names = ("self", "index", "adjacent")
        values = {name: torch.stack([self._results[name, block] for block in self._blocks], dim=-1) for name in names}
        require_finite("A swapped pair of blocks", values.values(), "contributions")
        counts = np.array(self._batch.lengths, dtype=np.int64) - self._first
        return DECLARATION.dataset(
            {**values, "n_averaged": counts}, {"part": list(PARTS), "swapped": np.array(self._blocks, dtype=np.int64)}
        )
