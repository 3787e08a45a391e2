"""The head of a run: what is said first, in the same numbers and the same order wherever a run is spoken of.

First the depth from which half of the tokens keep their final prediction, and the share of predictions that the last
block still changes; then the blocks until 90 % of the effect on the output is done, next to what blocks of equal effect
would read. Page, terminal, card, badge, comparison and JSON print what is here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import xarray as xr

from bathyscope.core.arrays import FloatArray
from bathyscope.core.cycles import Cycle
from bathyscope.core.text import capitalised, counted
from bathyscope.runs.kept import AGREEMENT, KEPT, token_shares
from bathyscope.runs.readings import SHARE, DepthReading

EFFECT_DONE: Final = "90 % of the effect on the output is done by"
"""How the reading *own* is worded, in sentences and on pages alike."""
NO_EFFECT: Final = "leaving out single blocks changes no output"
"""How it is worded where it is 0."""
_NEAR_TIES: Final = "near_ties"
_LOSS: Final = "cross_entropy"
_ROUNDING: Final = 1e-9


@dataclass(frozen=True)
class RunHead:
    """What is said first of a run.

    Args:
        tokens: the reading *half*; *readable*, a mean over tokens, where the run stores no more (``is_mean``).
        effect: the reading *own*; NaN where skip effects of blocks were not measured.
        n_blocks: L.
        changed_by_last: share of all tokens whose top-1 token the last block changes; NaN where the lens does not tell.
        near_ties: share of all tokens that are among these and nearly tied at the end; NaN where it is not stored.
        loss: [L + 1], cross-entropy of the next token when the model is read out at each boundary, nats a token; NaN
            where the lens does not tell.
        cycle: which loop and block each step is, of a model that runs blocks several times; None for others.
        answers: whether the lens, and so all but ``effect``, is over the tokens that predict answers alone.
    """

    tokens: DepthReading
    effect: DepthReading
    n_blocks: int
    changed_by_last: float
    near_ties: float
    loss: FloatArray
    cycle: Cycle | None = None
    answers: bool = False

    @property
    def is_mean(self) -> bool:
        """Whether the run tells a mean over tokens alone, as runs of earlier versions do."""
        return self.tokens.name == "readable"

    @property
    def equal_blocks(self) -> float:
        """Blocks until 90 % of the effect, were it the same of every block."""
        return SHARE * self.n_blocks

    @property
    def boundary(self) -> int | None:
        """The boundary to read the model out at, the first at which half of the tokens are kept; None where unknown."""
        return None if self.is_mean or math.isnan(self.tokens.value) else math.ceil(self.tokens.value - _ROUNDING)

    @property
    def loss_at_boundary(self) -> float:
        """Loss when the model is read out at ``boundary``, nats a token; NaN where it is not known."""
        return math.nan if self.boundary is None else float(self.loss[self.boundary])

    @property
    def loss_at_end(self) -> float:
        """Loss of the whole model on the same tokens."""
        return float(self.loss[-1])

    def in_loops(self, depth: float) -> str:
        """Return a depth in loops, in brackets, such as `` (2.6 of 4 loops)``; empty for a model without loops."""
        text = "" if self.cycle is None else self.cycle.in_loops(depth)
        return f" ({text})" if text else ""

    @cached_property
    def tokens_clause(self) -> str:
        """From where tokens keep their prediction, with its interval; empty where it was not read."""
        if math.isnan(self.tokens.value):
            return ""
        depth = f"{self.tokens} of {counted(self.n_blocks, 'block')}{self.in_loops(self.tokens.value)}"
        if self.is_mean:
            token = "token that predicts an answer" if self.answers else "token"
            return f"A {token} keeps its final prediction from {depth} on, on average"
        tokens = "tokens that predict answers" if self.answers else "tokens"
        return f"Half of the {tokens} keep their final prediction from {depth} on"

    @cached_property
    def last_clause(self) -> str:
        """What the last block still changes; empty where it changes nothing, or nothing is known."""
        if math.isnan(self.changed_by_last) or round(100 * self.changed_by_last) == 0:
            return ""
        clause = f"the last block still changes {percent(self.changed_by_last)}"
        if math.isnan(self.near_ties):
            return clause
        return f"{clause} ({percent(self.near_ties / self.changed_by_last)} of them near-ties)"

    @cached_property
    def tokens_sentence(self) -> str:
        """The first sentence, without its full stop; empty where no prompt has the reading."""
        return "; ".join(clause for clause in (self.tokens_clause, self.last_clause) if self.tokens_clause and clause)

    @cached_property
    def effect_sentence(self) -> str:
        """The second sentence, without its full stop; empty where effects were not measured."""
        if math.isnan(self.effect.value):
            return ""
        if self.effect.value == 0:
            return capitalised(NO_EFFECT)
        loops = self.in_loops(self.effect.value)
        alike = f"against {self.equal_blocks:.1f} if all blocks counted alike"
        return f"{EFFECT_DONE} {self.effect}{loops}, {alike}"

    @cached_property
    def stopping_sentence(self) -> str:
        """What it costs to read the model out at ``boundary``; empty where that is its end, or losses are not known."""
        if self.boundary in (None, self.n_blocks) or math.isnan(self.loss_at_boundary) or math.isnan(self.loss_at_end):
            return ""
        where = f"after {counted(self.boundary or 0, 'block')}"
        return (
            f"Read out {where}, the loss is {self.loss_at_boundary:.2f} nats; at the end it is {self.loss_at_end:.2f}."
        )

    def record(self) -> dict[str, Any]:
        """Return the numbers for programs, None where one is not known."""
        numbers: dict[str, float] = {"blocks": self.n_blocks, "equal_blocks": self.equal_blocks}
        for reading in (self.tokens, self.effect):
            numbers |= {reading.name: reading.value, f"{reading.name}_low": reading.low}
            numbers |= {f"{reading.name}_high": reading.high}
        numbers |= {"changed_by_last": self.changed_by_last, "near_ties": self.near_ties}
        numbers |= {"loss_at_boundary": self.loss_at_boundary, "loss_at_end": self.loss_at_end}
        whole: dict[str, Any] = {name: _number(value) for name, value in numbers.items()}
        return whole | {"boundary": self.boundary, "loss_by_boundary": [_number(value) for value in self.loss]}


def head_of(
    lens: xr.Dataset,
    half: DepthReading,
    readable: DepthReading,
    effect: DepthReading,
    cycle: Cycle | None,
    answers: bool,
) -> RunHead:
    """Return the head of a run from its lens and its readings.

    Args:
        cycle, answers: as in :class:`RunHead`.
    """
    n_blocks = readable.n_blocks
    by_boundary = {name: _pooled(lens, name, n_blocks) for name in (AGREEMENT, _NEAR_TIES, _LOSS)}
    before_last = -2 if n_blocks else -1  # of all boundaries, of which stored states may lack some
    return RunHead(
        half if KEPT in lens else readable,
        effect,
        n_blocks,
        1 - float(by_boundary[AGREEMENT][before_last]),
        float(by_boundary[_NEAR_TIES][before_last]),
        by_boundary[_LOSS],
        cycle,
        answers,
    )


def percent(share: float) -> str:
    """Write a share in per cent."""
    return f"{100 * share:.0f} %"


def _pooled(lens: xr.Dataset, name: str, n_blocks: int) -> FloatArray:
    shares = token_shares(lens, name)
    pooled = np.full(n_blocks + 1, np.nan)
    if shares is not None and shares.boundaries is not None and shares.boundaries[-1] <= n_blocks:
        pooled[list(shares.boundaries)] = shares.pooled
    elif shares is not None and shares.by_prompt.shape[-1] == n_blocks + 1:
        pooled = shares.pooled
    return pooled


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
