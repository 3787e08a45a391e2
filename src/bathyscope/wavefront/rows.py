"""Rows: the alternative histories of the residual stream that measures may ask for.

A request is frozen data; equal requests of several measures are one row. Every wavefront also carries a
control row, in which nothing is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bathyscope.errors import OptionError
from bathyscope.schedule import Schedule

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class ScheduleRow:
    """All tokens follow ``schedule``; the first ``protect`` tokens keep their real residual stream.

    Protection needs every slot of the schedule to stand for a boundary that the control has reached when the slot's
    block has run, as in swaps. With ``stop`` only that many steps are run, since nobody looks at what follows. Blocks
    in parallel are one step.

    Raises:
        OptionError: protection under a schedule that leaves out or repeats a block.
    """

    schedule: Schedule
    protect: int = 0
    stop: int | None = None

    def __post_init__(self) -> None:
        if self.protect and sorted(self.schedule) != list(range(self.schedule.n_blocks)):
            raise OptionError(
                f"protect={self.protect} needs a schedule that runs every block once; given: {self.schedule}."
            )


@dataclass(frozen=True)
class SkipRow:
    """Block ``block`` is skipped at every token from ``protect`` on: h̄_{s+1}[t] := h_s[t].

    h_s is the stream that goes into block s (boundary s), h̄ that of the changed row; a_s, m_s and c_s are what the
    attention, the MLP and the whole block add. The first ``protect`` tokens run the block: in most models the first
    token is an attention sink, and what depends on it would hide all else.

    With ``part`` "attention" or "mlp" only that contribution is left out: a_s := 0 or m_s := 0. With "direct" no state
    is carried from block to block: each later block l alone sees h_l − c_s, other contributions staying as they are.
    """

    block: int
    protect: int = 1
    part: str = "block"


@dataclass(frozen=True, eq=False)
class FilledRow:
    """A value takes the place of block ``block``'s contribution at every token from ``protect`` on: h̄_{s+1} := h_s + v.

    Args:
        values_BD: the value of each prompt of the batch. A probe may fill them in until it has been shown the plain
            forward's block.
    """

    block: int
    protect: int
    values_BD: Tensor


@dataclass(frozen=True)
class SkipBefore:
    """Block ``block`` is skipped at tokens ``protect … start−1`` of one prompt of the batch.

    Only tokens from ``start`` on are observed. Tokens before it equal those of ``donor`` at every block, so
    that row's keys and values serve this one (a tail row); where a family cannot lend keys and values, the
    full row is computed and its tail shown. As full rows, one takes a start from every prompt.

    With ``part`` "channels" the block is skipped in the channels ``protect … start−1`` of every token. This is hu2025's
    published slip, where an index meant for tokens met the channels; its row is always full.
    """

    block: int
    prompt: int
    start: int
    protect: int = 1
    part: str = "block"

    @property
    def donor(self) -> SkipRow:
        """The full row whose tokens before ``start`` this row shares."""
        return SkipRow(self.block, self.protect, self.part)


@dataclass(frozen=True, eq=False)
class Replacement:
    """A map of rows, one for each boundary b = 0 … L−1 and span of tokens of one prompt, in which values are put in.

    Of "block" they take the stream's place, h_b[t] := values[b, t]; of "attention" or "mlp" the place of what that part
    of block b adds at t. There is no row for boundary L, where no block is left to see the change.

    Args:
        prompt: of the batch.
        spans: the tokens of each row, replaced together; in the order of their first tokens.
        stop: how many first tokens are computed; what follows is looked at by nobody.
        values_LTD: what is put in, for at least L boundaries and the tokens of all spans. A probe may fill in those of
            a boundary until it has been shown the plain forward's block behind it.
        part: "block", "attention" or "mlp".
    """

    prompt: int
    spans: Sequence[range]
    stop: int
    values_LTD: Tensor
    part: str = "block"


Request = ScheduleRow | SkipRow | FilledRow | SkipBefore
