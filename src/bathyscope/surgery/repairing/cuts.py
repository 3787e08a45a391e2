"""Cuts of a schedule, and the least-squares maps that are put in the place of what was cut out.

At a cut, slot s holds block a and the next slot block b > a + 1 (or the model ends). The map is fitted so that the
stream behind slot s comes near to what the whole model hands to block b at the same token. Cuts are repaired from the
first to the last, each on the streams that the repaired copy gives.

The error of a token counts in units of the norm that its stream has in the whole model, since all that follows reads a
stream through a norm. Massive activations, at position 0 of many models and at some tokens behind it, then count as
much as other tokens. Counted as they are they would decide the map alone; left out, they would be mapped to anything,
and later tokens attend to them.

Let m be what the MLP adds to the residual stream. The map T in its place adds m T. Where m = z W + b is the output of a
matrix, m T = z (W T) + b T is the output of another one, so that the map is folded into it and costs nothing.
(ReplaceMe, 2505.02819, folds the map of a run of dropped blocks so.)
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from bathyscope.errors import ModelError, OptionError
from bathyscope.measures.normal_equations import NormalEquations
from bathyscope.model import Model
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.replay import Replay, State
from bathyscope.model.anatomy.sites import tapped
from bathyscope.schedule import Schedule
from bathyscope.statistics.least_squares import RIDGE, Array, RidgeMaps, Sums
from bathyscope.surgery.checkpoint.proof import kind_of
from bathyscope.surgery.scheduled.copying import ScheduledCopy
from bathyscope.surgery.scheduled.output_modules import modules_that_write
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.histories import Unit

IdBatches = Sequence[Sequence[Sequence[int]]]
"""Token ids by batch and prompt; prompts of one batch have one length."""


@dataclass(frozen=True)
class Cut:
    """Blocks left out between two slots.

    Args:
        slot: the last slot before the cut.
        boundary: of the whole model, that the stream behind this slot is to come near to.
    """

    slot: int
    boundary: int


def cuts_of(schedule: Schedule) -> list[Cut]:
    """Return the cuts of a schedule that drops blocks.

    Raises:
        OptionError: blocks are repeated or in another order; nothing is dropped, or only the first blocks, before
            which there are no weights to fold a map into.
    """
    order = schedule.order
    if any(b <= a for a, b in pairwise(order)):
        raise OptionError(f"Only schedules that drop blocks can be repaired; given: {schedule}.")
    cuts = [Cut(slot, end) for slot, (a, end) in enumerate(zip(order, [*order[1:], schedule.n_blocks])) if end != a + 1]
    if not cuts:
        raise OptionError(
            f"There is nothing to repair: {schedule} leaves out nothing behind its first block, and only a block that "
            "stands before a cut can take over."
        )
    return cuts


@torch.no_grad()
def repaired_by_maps(
    model: Model, copy: ScheduledCopy, copy_model: Model, fit: IdBatches, choose: IdBatches, scalar: bool
) -> None:
    """Fold a map into the block before every cut, cut after cut.

    Args:
        model: the whole model.
        copy, copy_model: its scheduled copy, which is changed; and the copy as a checked model.
        fit, choose: what maps are fitted to, and what the ridge penalty is chosen by.
        scalar: a number times the identity instead of a whole map.

    Raises:
        ModelError: nothing can be folded into a block.
    """
    # All of them first, so that a model that cannot be repaired is refused before anything is changed.
    matrices = [last_matrix(copy_model.anatomy, cut.slot) for cut in cuts_of(copy.schedule)]
    for cut, matrix in zip(cuts_of(copy.schedule), matrices):
        shifted = matrix.bias is not None and not scalar
        fitted = _gather_sums(model, copy_model, cut, fit, shifted)
        if scalar:
            # Least squares with one unknown: ⟨x, y⟩ / ⟨x, x⟩ over all tokens and directions, by the tokens' weights.
            size = float(np.trace(fitted.xx_DD))
            # an MLP that adds nothing adds nothing whatever it is multiplied by
            factor = float(np.trace(fitted.xy_DE)) / size if size else 0.0
            fold(matrix, (1 + factor) * torch.eye(len(fitted.mean_x_D), dtype=torch.float64))
            continue
        maps = RidgeMaps(fitted, validation := _gather_sums(model, copy_model, cut, choose, shifted), RIDGE)
        weights = maps.weights(fitted, int(np.argmin(maps.errors(fitted, validation))))
        block = copy_model.anatomy.blocks[cut.slot]
        scale = copy_model.anatomy.sites["mlp"].scale
        constant = copy_model.anatomy.block_scale(block) * (float(getattr(block, scale)) if scale else 1.0)
        # The matrix writes in units before the constants that its family multiplies by.
        shift = (fitted.mean_y_E - fitted.mean_x_D @ weights) / constant
        # The map was fitted to what the stream lacks; what the MLP adds by itself comes on top.
        map_EE = torch.from_numpy(weights) + torch.eye(len(weights), dtype=torch.float64)
        device = matrix.weight.device
        fold(matrix, map_EE.to(device), torch.from_numpy(shift).to(device) if shifted else None)


def _gather_sums(model: Model, copy_model: Model, cut: Cut, batches: IdBatches, centred: bool) -> Sums:
    """Sum what the MLP before the cut adds (x) and what the stream lacks (y), each token by 1 / ‖its stream‖²."""
    sums = NormalEquations(1, 1, (model.anatomy.width,) * 2, model.device)
    for ids in batches:
        batch = Batch.of(ids, model.device)
        added, stream = _run_slot(copy_model, cut.slot, batch)
        target = _stream_at(model, cut.boundary, batch)
        x, y, streams = (value.flatten(0, 1) for value in (added, target - stream, target))
        squares = streams.double().square().sum(1)
        # a stream that is 0 has no direction to be near to
        sums.add([x], [y], torch.where(squares > 0, 1 / squares, 0.0))
    gathered = next(iter(sums.of(0)))
    return gathered if centred else _uncentre(gathered)


def _uncentre(sums: Sums) -> Sums:
    """Return the same sums about 0 instead of the means, for maps without an intercept."""
    x, y, n = sums.mean_x_D, sums.mean_y_E, sums.count
    # Σxy = Σ(x − x̄)(y − ȳ) + n x̄ȳ: the raw sums come back from the centred ones.
    nothing: Array = np.zeros_like(x)
    return dataclasses.replace(
        sums,
        mean_x_D=nothing,
        mean_y_E=nothing,
        xx_DD=sums.xx_DD + n * np.outer(x, x),
        xy_DE=sums.xy_DE + n * np.outer(x, y),
        yy=sums.yy + n * float(y @ y),
    )


def _stream_at(model: Model, boundary: int, batch: Batch) -> Tensor:
    """Return the plain residual stream [batch, tokens, width] at a boundary."""
    return _run_up_to(model, boundary, batch)[2]


def _run_slot(model: Model, slot: int, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return what a slot's MLP adds, and the stream behind the slot."""
    replay, passed, stream = _run_up_to(model, slot, batch)
    block = model.anatomy.blocks[slot]
    with tapped(block, {"mlp": model.anatomy.sites["mlp"]}) as taken:
        out = replay.run(block, slot, stream, state=passed)
    return taken["mlp"].reshape(out.shape) * model.anatomy.block_scale(block), out


def _run_up_to(model: Model, boundary: int, batch: Batch) -> tuple[Replay, State, Tensor]:
    """Run a batch up to a boundary."""
    replay = model.anatomy.replay(batch.ids_BT)
    passed = State()
    stream = replay.recording.resid0_BTD
    for index in range(boundary):
        stream = replay.run(model.anatomy.blocks[index], index, stream, state=passed)
    return replay, passed, stream


def last_matrix(anatomy: Anatomy, index: int) -> nn.Linear | Conv1D:
    """Return the matrix whose output is what a block's MLP adds to the residual stream, up to a constant factor.

    Raises:
        ModelError: no such matrix: parts cannot be told apart, a norm or a gate follows, or experts are summed.
    """
    for module in modules_that_write(
        anatomy, Unit(index, "mlp"), lambda module: isinstance(module, nn.Linear | Conv1D)
    ):
        assert isinstance(module, nn.Linear | Conv1D)
        return module
    raise ModelError(
        f"{kind_of(anatomy)}: nothing can be folded into block {index}, since what its MLP adds to the residual "
        "stream is not the output of one matrix (a norm or a gate follows it, experts are summed, or the parts cannot "
        "be told apart); repair by training instead (how='heal')."
    )


@torch.no_grad()
def fold(module: nn.Linear | Conv1D, map_EE: Tensor, shift_E: Tensor | None = None) -> None:
    """Change a module so that its outputs y become y T + c; its weights become tensors of their own.

    Args:
        map_EE: T, in float64.
        shift_E: c, in units of the module's output; only where it has a bias.
    """
    # In float64 up to the end, so that the product is rounded once.
    weight = module.weight.to(map_EE)
    mapped = map_EE.T @ weight if isinstance(module, nn.Linear) else weight @ map_EE
    module.weight = nn.Parameter(mapped.to(module.weight.dtype), requires_grad=False)
    if module.bias is not None:
        bias = module.bias.to(map_EE) @ map_EE
        bias = bias if shift_E is None else bias + shift_E
        module.bias = nn.Parameter(bias.to(module.bias.dtype), requires_grad=False)
