"""Does a rewritten configuration say what the schedule says? Both are run on outlines, which weigh nothing."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from bathyscope.core.text import shape_text
from bathyscope.errors import ModelError
from bathyscope.model import anatomy_of
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.checks import check
from bathyscope.model.anatomy.family import Family
from bathyscope.model.anatomy.gaps import random_ids
from bathyscope.model.anatomy.plain import plain_forward
from bathyscope.model.anatomy.resolving import resolve
from bathyscope.model.anatomy.sites import submodule
from bathyscope.schedule import Schedule
from bathyscope.surgery.checkpoint.outline import OUTLINE_TOKENS, outlined
from bathyscope.surgery.checkpoint.tensor_names import Layout
from bathyscope.surgery.order.chain import Chain

_ROUNDING = 64
"""Roundings of the largest logit by which two orders of summation may differ; what follows a place differs by more."""
_ASIDE = (
    "layer_idx",
    "layer_id",
    "layer_index",
    "layer_number",
    "block_idx",
    "training",
    "_is_hf_initialized",
    "store_full_length_kv",
)


@torch.no_grad()
def require_same(
    config: PreTrainedConfig, rewritten: PreTrainedConfig, schedule: Schedule, family: Family | None = None
) -> str:
    """Refuse a configuration whose model computes something else than the schedule on the model as it is.

    Args:
        family: where the model's parts are; None = as is known for its type, or found.

    Returns:
        The path of its list of blocks.

    Raises:
        ModelError: with what differs: a block's parts, its constants, or the logits.
    """
    try:
        source = outlined(config)
    except ImportError as error:
        kind = str(getattr(config, "model_type", "")) or type(config).__name__
        raise ModelError(
            f"{kind} models cannot be rebuilt from their configuration here: {' '.join(str(error).split())}"
        ) from error
    anatomy = anatomy_of(source) if family is None else resolve(source, family)
    require_no_loops(anatomy)
    ids = random_ids(source, OUTLINE_TOKENS)
    expected = _scheduled_logits(anatomy, schedule, ids)
    rewritten = copy.deepcopy(rewritten)
    # a rewritten configuration forgets which function attends, and somebody's own gives other logits
    rewritten._attn_implementation = config._attn_implementation
    try:
        target = outlined(rewritten)
    # whatever a family's code, or a validator of its configuration, meets in an order that it does not know
    except Exception as error:
        raise ModelError(f"{_refusal(anatomy, schedule)}: {' '.join(str(error).split())}") from error
    _require_same_parts(anatomy, target, schedule)
    _lend_weights(source, target, Layout(anatomy.family.blocks, schedule))
    logits = plain_forward(target, ids, anatomy.family.name).logits
    if not expected.isfinite().all():
        raise ModelError(f"{_refusal(anatomy, schedule)}: made-up weights give no finite numbers to compare.")
    # Both sides run the same operations on the same numbers. Only what a model computes of all its blocks in one call,
    # as inputs of each block are in gemma4, is a product of other sizes, and may round otherwise.
    apart = float((logits - expected).abs().max() / expected.abs().max().clamp_min(1e-12))
    if not apart <= _ROUNDING * torch.finfo(expected.dtype).eps:
        raise ModelError(
            f"{_refusal(anatomy, schedule)}: built from the rewritten configuration, the model gives other logits (by "
            f"{apart:.1e} of the largest), because something in it follows a block's place and no entry of the "
            "configuration says otherwise."
        )
    return anatomy.family.blocks


def require_no_loops(anatomy: Anatomy) -> None:
    """Refuse to write, or to build, a looped model with another order of its steps.

    Raises:
        ModelError: the model runs blocks several times.
    """
    if anatomy.loops is not None:
        raise ModelError(
            f"{kind_of(anatomy)} cannot be exported or copied in another order: it loops, and its configuration has no "
            "entry for a single run of a block. Run the schedule with bathyscope.scheduled instead."
        )


def _refusal(anatomy: Anatomy, schedule: Schedule) -> str:
    return f"{kind_of(anatomy)} cannot be exported with this order of its blocks ({schedule})"


def kind_of(anatomy: Anatomy) -> str:
    """Return the type of a model; several types may share a family's table, whose name is another one's then."""
    return str(getattr(anatomy.model.config, "model_type", "") or type(anatomy.model).__name__)


def _scheduled_logits(anatomy: Anatomy, schedule: Schedule, ids: Tensor) -> Tensor:
    """Return the logits of the source's own forward with the blocks in another order."""
    chain = Chain(schedule, anatomy.blocks, anatomy.returns, "block", anatomy.dtype, anatomy.loops, anatomy.streams)
    try:
        if anatomy.streams is not None:
            anatomy.streams.require_exchangeable()
        with chain.in_place(anatomy):
            logits: Tensor = plain_forward(anatomy.model, ids, anatomy.family.name).logits
    except ModelError as error:
        raise ModelError(f"{_refusal(anatomy, schedule)}: {_find_lender(anatomy, schedule) or error}") from error
    return logits


def _find_lender(anatomy: Anatomy, schedule: Schedule) -> str:
    """Say which block would not find what it takes from another one; empty where all do."""
    lacking = check(anatomy).lacking(schedule)
    return f"{lacking}." if lacking else ""


def _require_same_parts(anatomy: Anatomy, target: PreTrainedModel, schedule: Schedule) -> None:
    slots = submodule(target, anatomy.family.blocks)
    assert isinstance(slots, nn.ModuleList)
    if len(slots) != len(schedule):
        raise ModelError(
            f"{_refusal(anatomy, schedule)}: its configuration gives {len(slots)} blocks where {len(schedule)} are "
            "asked for."
        )
    for place, (slot, block) in enumerate(zip(slots, schedule)):
        difference = _describe_difference(anatomy.blocks[block], slot)
        if difference:
            raise ModelError(
                f"{_refusal(anatomy, schedule)}: what block {block} is cannot be said of place {place} ({difference}), "
                "since this family derives it from the place and has no entry of the configuration for it."
            )


def _describe_difference(block: nn.Module, slot: nn.Module) -> str:
    """Return how the block built at a place differs from the one that should be there; empty if it does not."""
    theirs, slot_shapes = _shapes_of(block), _shapes_of(slot)
    if theirs != slot_shapes:
        name = min(theirs.items() ^ slot_shapes.items())[0]
        return f"{name} is {shape_text(slot_shapes.get(name))} there and {shape_text(theirs.get(name))} here"
    # Constants that blocks are built with (windows, scales, kinds of attention) are in no state.
    for (name, expected), (_, here) in zip(block.named_modules(), slot.named_modules()):
        first, second = _constants_of(expected), _constants_of(here)
        for key in sorted(first.keys() | second.keys()):
            if first.get(key) != second.get(key):
                path = ".".join(part for part in (name, key) if part)
                return f"{path} is {second.get(key)!r} there and {first.get(key)!r} here"
    return ""


def _shapes_of(module: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in module.state_dict().items()}


def _constants_of(module: nn.Module) -> Mapping[str, Any]:
    plain = (bool, int, float, str, type(None))
    constants = {key: value for key, value in vars(module).items() if isinstance(value, plain) and key not in _ASIDE}
    return {"class": type(module).__name__, **constants}


def _lend_weights(source: PreTrainedModel, target: PreTrainedModel, layout: Layout) -> None:
    """Give the target the weights of the source, as they would be exported."""
    theirs = source.state_dict()
    target_state = target.state_dict()
    for name, value in target_state.items():
        tensor = layout.taken(name, theirs, tuple(value.shape))
        path, _, key = name.rpartition(".")
        module = target.get_submodule(path)
        owner: Any = module._parameters if key in module._parameters else module._buffers
        owner[key] = nn.Parameter(tensor, requires_grad=False) if owner is module._parameters else tensor
