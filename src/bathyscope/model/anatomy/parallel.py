"""Blocks that read the same stream: what each of them adds is added to that stream.

Late blocks may be fewer, parallel ones (asked in reviews of csordas2025): out = in + Σ (block(in) − in). The order of
calls is left to whoever runs the blocks; the sum, and which models can be run so, are decided here.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.measured_gaps import Checks
from bathyscope.model.anatomy.precision import widened
from bathyscope.schedule import Schedule


def merge_contributions(before: Tensor, outputs: Sequence[Tensor]) -> Tensor:
    """Return the stream behind blocks that all read ``before``; behind one block its output, bit for bit.

    Below float32 the contributions are added in float32 and rounded once, so that their number costs no precision.
    """
    if len(outputs) == 1:
        return outputs[0]
    total = widened(outputs[0])
    for output in outputs[1:]:
        total = total + (widened(output).to(total.device) - widened(before).to(total.device))
    return total.to(before.dtype)


def refusal_of_schedule(anatomy: Anatomy, checks: Checks, schedule: Schedule) -> str:
    """Say why blocks of this model cannot run so: in this order, or in parallel; empty where they can."""
    if schedule.groups and anatomy.streams is not None:
        return (
            "blocks take and give several residual streams, and what one adds is no difference of two of them, so that "
            "none can run in parallel"
        )
    if schedule.groups and anatomy.loops is not None and (anatomy.loops.slots or anatomy.loops.between):
        return (
            "something is computed between the runs of its blocks, which is no contribution of a block, so that none "
            "can run in parallel"
        )
    return checks.lacking(schedule)
