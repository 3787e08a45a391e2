"""What a measure is shown while the wavefront passes: views of blocks, rows and final states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from bathyscope.model.anatomy.attention import Attention
from bathyscope.model.anatomy.precision import widened
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.compare import same_or
from bathyscope.wavefront.reader import Reader
from bathyscope.wavefront.rows import Replacement, Request, ScheduleRow


@dataclass(frozen=True)
class BaselineView:
    """One block of the plain forward: input and output [batch, tokens, width], and the contributions.

    ``attention`` and ``mlp`` are None unless a probe wants parts and the family has them; ``weights`` unless one
    wants attention weights and the block shows them. Weights may be read only while the view is shown.
    """

    block: int
    before_BTD: Tensor
    after_BTD: Tensor
    attention_BTD: Tensor | None
    mlp_BTD: Tensor | None
    weights: Attention | None = None


@dataclass(frozen=True)
class RowsView:
    """One block of several rows that ran together with a control row of the same shape.

    Args:
        requests: for every row the requests it serves.
        before, after: [rows, batch, tokens, width]; of a tail only its own prompt and tokens.
        control_before, control_after: [batch, tokens, width], the row in which nothing is changed.
        baseline_before, baseline_after: the plain forward's, same shape (for the noise floor).
        prompt, start: of a tail the prompt and the first token; None and 0 for full rows.
    """

    block: int
    requests: Sequence[Sequence[Request]]
    before: Tensor
    after: Tensor
    control_before: Tensor
    control_after: Tensor
    baseline_before: Tensor
    baseline_after: Tensor
    prompt: int | None = None
    start: int = 0

    @cached_property
    def change(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return three norms in float32, formed once for all probes.

        How much the rows' contributions differ from the control's [rows, batch, tokens]; the size of the control's
        contribution, and of the stream that it is added to, both [batch, tokens].
        """
        return _change(self.before, self.after, self.control_before, self.control_after)

    @cached_property
    def control_change(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the same norms for the control, as a single row, and the plain forward: the noise floor."""
        return _change(
            self.control_before[None],
            self.control_after[None],
            self.baseline_before,
            self.baseline_after,
        )


def _change(before: Tensor, after: Tensor, plain_before: Tensor, plain_after: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the norms of rows' contributions minus the plain ones, of the plain ones, and of the plain stream."""
    plain = widened(plain_after) - widened(plain_before)
    difference = (widened(after) - widened(before)).sub_(plain)
    gap_RBT = torch.linalg.vector_norm(difference, dim=-1)
    size_BT = torch.linalg.vector_norm(plain, dim=-1)
    stream_BT = torch.linalg.vector_norm(widened(plain_before), dim=-1)
    return gap_RBT, size_BT, stream_BT


@dataclass(frozen=True)
class RowPartsView:
    """Contributions of attention and MLP in one call of a block, for rows whose steps a probe has named.

    Args:
        rows: (request, step of its schedule) → row of ``parts``; steps are counted from 0.
        parts: "attention", "mlp" → [rows, batch, tokens, width].
        control: the same of the row in which nothing is changed, [batch, tokens, width]; empty where it was not in
            this call.
    """

    block: int
    rows: Mapping[tuple[ScheduleRow, int], int]
    parts: Mapping[str, Tensor]
    control: Mapping[str, Tensor]


@dataclass(frozen=True)
class TailStates:
    """Final states h_L of the tails of one prompt and starting token.

    Args:
        prompt, start: whose tokens ``start …`` these are.
        control_ND: the control's, [own tokens, width].
        baseline_ND: the plain forward's.
        rows: the tails', by request.
    """

    prompt: int
    start: int
    control_ND: Tensor
    baseline_ND: Tensor
    rows: Mapping[Request, Tensor]


@dataclass(frozen=True)
class FinalStates:
    """Final states h_L of everything: [batch, tokens, width] for full rows.

    Args:
        reader: of the model's logits.
        baseline_BTD, control_BTD: the plain forward's and the control row's.
        full: full rows by request.
        tails: one entry per prompt and starting token.
    """

    batch: Batch
    reader: Reader
    baseline_BTD: Tensor
    control_BTD: Tensor
    full: Mapping[Request, Tensor]
    tails: Sequence[TailStates]

    @cached_property
    def control_ND(self) -> Tensor:
        """Return the control's states at all real tokens, prompt after prompt."""
        return self.batch.flat(self.control_BTD)

    @cached_property
    def baseline_ND(self) -> Tensor:
        """Return the plain forward's at all real tokens: ``control_ND`` itself where it has the same bits.

        What is the same need not be read out again. An accelerator is waited for once, whatever number of measures ask.
        """
        return same_or(self.control_ND, self.batch.flat(self.baseline_BTD))

    def control_and_baseline(self, places_N: Tensor) -> tuple[Tensor, Tensor]:
        """Return both at some of all real tokens: one tensor twice where the whole of them is the same."""
        control_ND = self.control_ND[places_N]
        return control_ND, control_ND if self.baseline_ND is self.control_ND else self.baseline_ND[places_N]


@dataclass(frozen=True)
class ReplacedStates:
    """Final states h_L of the rows of a request that were replaced at some neighbouring spans.

    Args:
        reader: of the model's logits.
        spans: the replaced tokens of each row.
        start: the first token the rows own, that of the first span or an earlier one.
        control_ND: the control's, [own tokens, width].
        baseline_ND: the plain forward's.
        rows_LSND: the rows', [boundaries, spans, own tokens, width]; the states before a row's own span are the
            control's.
    """

    reader: Reader
    replacement: Replacement
    spans: Sequence[range]
    start: int
    control_ND: Tensor
    baseline_ND: Tensor
    rows_LSND: Tensor
