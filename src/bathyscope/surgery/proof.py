"""Does a rewritten configuration say what the schedule says? Both are run on outlines, which weigh nothing."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from bathyscope.errors import ModelError
from bathyscope.model import anatomy_of
from bathyscope.model.anatomy.anatomy import Anatomy, resolve
from bathyscope.model.anatomy.checks import check
from bathyscope.model.anatomy.family import Family
from bathyscope.model.anatomy.gaps import random_ids
from bathyscope.model.anatomy.plain import plain_forward
from bathyscope.model.anatomy.sites import submodule
from bathyscope.schedule import Schedule
from bathyscope.surgery.chain import Chain
from bathyscope.surgery.layout import Layout
from bathyscope.surgery.outline import OUTLINE_TOKENS, outlined

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
    config: PreTrainedConfig, made: PreTrainedConfig, schedule: Schedule, family: Family | None = None
) -> str:
    """Refuses a configuration whose model computes something else than the schedule on the model as it is.

    Args:
        family: where the model's parts are; None = as is known for its type, or found.

    Returns:
        The path of its list of blocks.

    Raises:
        ModelError: with what differs: a block's parts, its constants, or the logits.
    """
    source = outlined(config)
    anatomy = anatomy_of(source) if family is None else resolve(source, family)
    ids = random_ids(source, OUTLINE_TOKENS)
    wanted = _scheduled(anatomy, schedule, ids)
    try:
        target = outlined(made)
    # whatever a family's code, or a validator of its configuration, meets in an order that it does not know
    except Exception as error:
        raise ModelError(f"{_cannot(anatomy, schedule)}: {' '.join(str(error).split())}") from error
    _require_same_parts(anatomy, target, schedule)
    _lend(source, target, Layout(anatomy.family.blocks, schedule))
    found = plain_forward(target, ids, anatomy.family.name).logits
    if not wanted.isfinite().all():
        raise ModelError(f"{_cannot(anatomy, schedule)}: made-up weights give no finite numbers to compare.")
    if not torch.equal(found, wanted):
        apart = float((found - wanted).abs().max() / wanted.abs().max().clamp_min(1e-12))
        raise ModelError(
            f"{_cannot(anatomy, schedule)}: built from the rewritten configuration, the model gives other logits (by "
            f"{apart:.1e} of the largest), because something in it follows a block's place and no entry of the "
            "configuration says otherwise."
        )
    return anatomy.family.blocks


def _cannot(anatomy: Anatomy, schedule: Schedule) -> str:
    return f"{kind_of(anatomy)} cannot be exported with this order of its blocks ({schedule})"


def kind_of(anatomy: Anatomy) -> str:
    """Return the type of a model; several types may share a family's table, whose name is another one's then."""
    return str(getattr(anatomy.model.config, "model_type", "") or type(anatomy.model).__name__)


def _scheduled(anatomy: Anatomy, schedule: Schedule, ids: Tensor) -> Tensor:
    """Logits of the source's own forward with the blocks in another order."""
    chain = Chain(schedule, anatomy.blocks, anatomy.returns, "block", anatomy.dtype)
    try:
        with chain.in_place(anatomy):
            logits: Tensor = plain_forward(anatomy.model, ids, anatomy.family.name).logits
    except ModelError as error:
        raise ModelError(f"{_cannot(anatomy, schedule)}: {_lender(anatomy, schedule) or error}") from error
    return logits


def _lender(anatomy: Anatomy, schedule: Schedule) -> str:
    """Which block would find no keys and values; empty where all do."""
    lacking = check(anatomy).lacking(schedule)
    if lacking is None:
        return ""
    return f"block {lacking[0]} takes the keys and values of block {lacking[1]}, which would not have run before it."


def _require_same_parts(anatomy: Anatomy, target: PreTrainedModel, schedule: Schedule) -> None:
    slots = submodule(target, anatomy.family.blocks)
    assert isinstance(slots, nn.ModuleList)
    if len(slots) != len(schedule):
        raise ModelError(
            f"{_cannot(anatomy, schedule)}: its configuration gives {len(slots)} blocks where {len(schedule)} are "
            "asked for."
        )
    for place, (slot, block) in enumerate(zip(slots, schedule)):
        said = _difference(anatomy.blocks[block], slot)
        if said:
            raise ModelError(
                f"{_cannot(anatomy, schedule)}: what block {block} is cannot be said of place {place} ({said}), since "
                "this family derives it from the place and has no entry of the configuration for it."
            )


def _difference(block: nn.Module, slot: nn.Module) -> str:
    """How the block built at a place differs from the one that should stand there; empty if it does not."""
    theirs, own = _shapes(block), _shapes(slot)
    if theirs != own:
        name = min(theirs.items() ^ own.items())[0]
        return f"{name} is {_shown(own.get(name))} there and {_shown(theirs.get(name))} here"
    for (name, there), (_, here) in zip(block.named_modules(), slot.named_modules()):
        first, second = _constants(there), _constants(here)
        for key in sorted(first.keys() | second.keys()):
            if first.get(key) != second.get(key):
                path = ".".join(part for part in (name, key) if part)
                return f"{path} is {second.get(key)!r} there and {first.get(key)!r} here"
    return ""


def _shapes(module: nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in module.state_dict().items()}


def _shown(shape: tuple[int, ...] | None) -> str:
    return "absent" if shape is None else "×".join(map(str, shape)) or "a number"


def _constants(module: nn.Module) -> Mapping[str, Any]:
    plain = (bool, int, float, str, type(None))
    found = {key: value for key, value in vars(module).items() if isinstance(value, plain) and key not in _ASIDE}
    return {"class": type(module).__name__, **found}


def _lend(source: PreTrainedModel, target: PreTrainedModel, layout: Layout) -> None:
    """The target's weights are those of the source, as they would be exported."""
    theirs = source.state_dict()
    own = target.state_dict()
    for name, value in own.items():
        given = layout.taken(name, theirs, tuple(value.shape))
        path, _, key = name.rpartition(".")
        module = target.get_submodule(path)
        held: Any = module._parameters if key in module._parameters else module._buffers
        held[key] = nn.Parameter(given, requires_grad=False) if held is module._parameters else given
