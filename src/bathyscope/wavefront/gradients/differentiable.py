"""Taking gradients of a model: whether they pass through it, the state it is in meanwhile, and their scale."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError, is_out_of_memory
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.calls import Call, called
from bathyscope.model.anatomy.mode import evaluating
from bathyscope.model.anatomy.plain import home_of, probe_ids
from bathyscope.model.anatomy.replay import State
from bathyscope.model.memory import out_of_memory
from bathyscope.model.streaming.lending import lender_of

_LOAD = "Load the model unquantised, in float32, bfloat16 or float16."
# gradients of probabilities are far below 1, and float16 has no normal numbers below 6e-5
_FLOAT16 = 1024.0


@contextmanager
def differentiating(model: nn.Module) -> Iterator[None]:
    """Autograd records inside, whatever the caller's grad mode, but computes nothing for the weights.

    The model is in evaluation mode. Afterwards, also after an exception, the modules' modes and the weights'
    ``requires_grad`` are as they were.
    """
    learning = [p for p in model.parameters() if p.requires_grad]
    with evaluating(model), torch.inference_mode(False), torch.enable_grad():
        try:
            for parameter in learning:
                parameter.requires_grad_(False)
            yield
        finally:
            for parameter in learning:
                parameter.requires_grad_(True)


def score_scale(dtype: torch.dtype) -> float:
    """What a score is multiplied by before its backward pass, and gradients divided by after: a power of two."""
    return _FLOAT16 if dtype == torch.float16 else 1.0


def unavailable_when_streamed(anatomy: Anatomy) -> str | None:
    """Why gradients cannot be had of a model whose blocks are streamed; None where they are in memory."""
    if lender_of(anatomy.blocks[0]) is None:
        return None
    return (
        "gradients pass through all blocks at once, and the blocks of this model are streamed; leave this measure "
        "out, or load the model whole where it has room (placement='resident')"
    )


def require_differentiable(anatomy: Anatomy, measure: str, *, streams: bool = False) -> None:
    """Refuses models through which autograd does not pass, by their weights' dtypes and by a pass of four tokens.

    A model without values (on the meta device, for estimates) is asked for its dtypes only.

    Args:
        streams: the measure goes back block by block, so that streamed blocks will do; those are asked for their
            dtypes only, since four tokens would take a reading of all weights.

    Raises:
        ModelError: streamed blocks, quantised weights (integers, float8) or those made under
            ``torch.inference_mode()``, a module that cuts the gradient off, or a backward pass that fails.
    """
    streamed = unavailable_when_streamed(anatomy)
    if streamed is not None and not streams:
        raise ModelError(f"{measure} is not possible: {streamed}.")
    for name, value in _weights(anatomy.model):
        if value.is_inference():
            raise ModelError(
                f"{measure} needs gradients, and the weight {name} was made under torch.inference_mode(), through "
                "whose tensors none pass. Load the model outside of it."
            )
        if not value.is_floating_point() or value.element_size() == 1:
            dtype = str(value.dtype).removeprefix("torch.")
            raise ModelError(
                f"{measure} needs gradients, and the weight {name} is stored as {dtype}, through which they do not "
                f"pass exactly. {_LOAD}"
            )
    if home_of(anatomy.model).type == "meta" or streamed is not None:
        return
    cut: list[str] = []
    modules = anatomy.model.named_modules()
    linear = [(path, m) for path, m in modules if any(p.ndim >= 2 for p in m.parameters(recurse=False))]
    with differentiating(anatomy.model), called(linear, partial(_note_cut, cut)):
        try:
            passed, cut_step = _backward(anatomy)
        except (RuntimeError, NotImplementedError) as error:
            if is_out_of_memory(error):
                raise out_of_memory("A backward pass of four tokens", home_of(anatomy.model)) from error
            raise ModelError(
                f"{measure} needs gradients, and this {anatomy.family.name} model cannot give them: "
                f"{str(error).splitlines()[0]} {_LOAD}"
            ) from error
    if cut_step is not None:
        raise ModelError(
            f"{measure} needs gradients, and the own forward of this {anatomy.family.name} model switches them off in "
            f"front of step {cut_step}, as loops are trained. Set it to keep all of them (hrm_text: "
            "L_bp_cycles=[L_cycles] * H_cycles), and load it again."
        )
    if cut or not passed:
        where = f"the module {cut[0]} ({len(cut)} in all)" if cut else "one of its blocks"
        raise ModelError(
            f"{measure} needs gradients, and {where} of this {anatomy.family.name} model gives an output that is cut "
            f"off from its input. {_LOAD}"
        )


def _weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters, and buffers that quantised layers hold in the place of weights."""
    yield from model.named_parameters()
    yield from ((name, value) for name, value in model.named_buffers() if name.endswith("weight") and value.ndim >= 2)


def _note_cut(cut: list[str], call: Call) -> None:
    """Notes a module whose input asks for a gradient and whose output does not give one."""
    outputs = call.output if isinstance(call.output, tuple | list) else (call.output,)
    # a family may switch gradients off itself, for choosing what to attend to
    if torch.is_grad_enabled() and _asks([*call.args, *call.kwargs.values()]) and not _asks(outputs):
        cut.append(call.path)


def _asks(values: Iterable[Any]) -> bool:
    return any(isinstance(value, Tensor) and value.requires_grad for value in values)


def _backward(anatomy: Anatomy) -> tuple[bool, int | None]:
    """Take one backward pass from the logits of a few tokens to h_0.

    Returns:
        Whether something arrives; and the step of a looped model in front of which its own forward cuts gradients off.
    """
    replay = anatomy.replay(probe_ids(anatomy.model, 1, 4))
    leaf = replay.recording.resid0_BTD.clone().requires_grad_()
    resid, state = leaf, State()
    for index, block in enumerate(anatomy.blocks):
        resid = replay.run(block, index, resid, None, state=state)
        if anatomy.loops is not None and index in anatomy.loops.between and not anatomy.active(resid).requires_grad:
            return False, index
        # Reformer computes the gradients of its blocks by a function of its own, and switches them off inside
        if not resid.requires_grad:
            return False, None
    score = anatomy.readout(resid.flatten(0, 1)).float().softmax(-1)[:, 0].sum()
    (gradient,) = torch.autograd.grad(score, leaf, allow_unused=True)
    return gradient is not None, None
