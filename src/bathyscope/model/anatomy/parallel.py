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


def obstacle_to_sums(anatomy: Anatomy) -> str:
    """Say what this model has that makes its last stream no sum of what its blocks add; empty where it is one."""
    if anatomy.streams is not None:
        return "several residual streams"
    if anatomy.loops is not None and (anatomy.loops.slots or anatomy.loops.between):
        return "something that is computed between their runs"
    return ""


def refusal_of_schedule(anatomy: Anatomy, checks: Checks, schedule: Schedule) -> str:
    """Say why blocks of this model cannot run so: in this order, or in parallel; empty where they can."""
    obstacle = obstacle_to_sums(anatomy) if schedule.groups else ""
    if obstacle:
        return f"blocks have {obstacle}, so that what blocks in parallel contribute cannot be added"
    return checks.lacking(schedule)
