"""Parts of blocks left out for good: the weights that write a part into the residual stream become 0.

A plain checkpoint has no entry that says "this block has no MLP". But a part whose last weights are 0 adds nothing, and
that every library computes. The weights are found by running each block: those of the one module whose output is what
the part adds, up to a constant factor. It is a matrix, or the norm behind it. Afterwards the part must add exactly 0.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model import Model, load
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.gaps import random_ids
from bathyscope.model.anatomy.sites import tapped
from bathyscope.schedule import Schedule
from bathyscope.surgery.checkpoint.proof import kind_of
from bathyscope.surgery.scheduled.copying import ScheduledCopy
from bathyscope.surgery.scheduled.output_modules import modules_that_write
from bathyscope.wavefront.histories import Unit

# Of a norm that multiplies by 1 + weight (Gemma) it is −1 that gives 0.
_FILLINGS = (0.0, -1.0)


def writer_of(anatomy: Anatomy, unit: Unit) -> nn.Module:
    """Return the module whose output is what a part adds to the residual stream, up to a constant factor.

    Raises:
        ModelError: no such module: experts are summed, a gate follows, or parts cannot be told apart.
    """
    writers = modules_that_write(anatomy, unit, _has_weight)
    if writers:
        return writers[-1]  # the norm behind a matrix, where both are alike
    raise ModelError(
        f"{kind_of(anatomy)}: {unit} cannot be written as a checkpoint, since what it adds to the residual stream is "
        "not the output of one module whose weights could be 0 (experts are summed, a gate follows, or the parts "
        "cannot be told apart). Choose among whole blocks: parts='block'."
    )


def require_writable(model: Model, units: Iterable[Unit]) -> None:
    """Refuse parts that no checkpoint could leave out.

    Raises:
        ModelError: names the first of them.
    """
    if model.blocks is not None:
        raise ModelError(
            f"Parts of {model.name} cannot be left out of a checkpoint while its blocks are streamed; load it with "
            "placement='resident'."
        )
    for unit in units:
        writer_of(model.anatomy, unit)


@torch.no_grad()
def zeroed_writes(model: Model, units: Iterable[Unit]) -> dict[str, Tensor]:
    """Return the weights, by name, of a checkpoint in which the parts add nothing.

    Raises:
        ModelError: a part that cannot be left out so.
    """
    # On a copy whose tensors are lent, so that the model itself stays as it is.
    copy = ScheduledCopy(model.hf, Schedule.standard(model.n_blocks), model.anatomy.family)
    copy_model = load(copy.hf, family=model.anatomy.family)
    for unit in units:
        module = writer_of(copy_model.anatomy, unit)
        if not any(_adds_nothing(copy_model.anatomy, unit, module, filling) for filling in _FILLINGS):
            raise ModelError(
                f"{kind_of(copy_model.anatomy)}: {unit} still adds something when its last weights are 0, so that it "
                "cannot be left out of a checkpoint. Choose among whole blocks: parts='block'."
            )
    return copy.changes()


def _has_weight(module: nn.Module) -> bool:
    """Return whether a module has a weight and no submodules."""
    return not any(module.children()) and isinstance(getattr(module, "weight", None), nn.Parameter)


def _adds_nothing(anatomy: Anatomy, unit: Unit, module: nn.Module, filling: float) -> bool:
    """Fill a module's weight, empty its bias, and see whether the part adds exactly nothing then."""
    for name, value in module._parameters.items():
        if value is not None:
            filled = torch.full_like(value, filling if name == "weight" else 0.0)
            module._parameters[name] = nn.Parameter(filled, requires_grad=False)
    block = anatomy.blocks[unit.block]
    replay = anatomy.replay(random_ids(anatomy.model))
    passed = replay.passed_to(anatomy.blocks, unit.block)
    with tapped(block, {unit.part: anatomy.sites[unit.part]}) as taken:
        replay.run(block, unit.block, replay.recording.resid0_BTD, state=passed)
    return not bool(taken[unit.part].any())
