"""A model of a configuration's own shape whose weights take no memory: only what it computes with can be seen on it."""

import copy
import hashlib
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from bathyscope.errors import ModelError
from bathyscope.model.classes import class_for
from bathyscope.model.in_hand import shape_departure
from bathyscope.model.load_errors import joined
from bathyscope.schedule import Schedule
from bathyscope.surgery.checkpoint.configuration import rewritten

_SPREAD = 0.1
_VOCABULARY = 256
_WINDOW = 6
_SPAN = re.compile(r"window(?!.*(layer|pattern))|attention_chunk_size|local_attention")
OUTLINE_TOKENS = 17
"""Tokens that are run on outlines: more than the windows they are given."""


def outlined(config: PreTrainedConfig) -> PreTrainedModel:
    """Return the causal language model of a configuration, with made-up weights that overlap in memory.

    Every matrix is a view of one short row of random numbers, W[i, j] = row[i + j], so that blocks of any width can
    be run. Windows are shorter than ``OUTLINE_TOKENS``, so that a window in the wrong block shows; the vocabulary is
    short, since the head is not what is asked about.
    """
    short = _shorten(config)
    with torch.device("meta"):
        model: PreTrainedModel = class_for(config).from_config(short, experts_implementation="eager")
    with torch.no_grad():
        fill(model, made_up)
    return model.eval()


def skeleton(config: PreTrainedConfig) -> PreTrainedModel:
    """Return the causal language model of a configuration, without weights: names and shapes only.

    Raises:
        ModelError: its class needs a package that is not installed.
    """
    try:
        with torch.device("meta"):
            model: PreTrainedModel = class_for(config).from_config(copy.deepcopy(config))
    except ImportError as error:
        raise ModelError(f"Checkpoints of {config.model_type} cannot be built here: {joined(str(error))}") from error
    return model


def sizes_after(hf: PreTrainedModel, schedule: Schedule) -> dict[str, int]:
    """Return the entries of each parameter that both a model and its checkpoint of a schedule have.

    Tables by block lie outside of blocks, and have as many entries as blocks remain.
    """
    # of a model that was changed by hand, the configuration tells no sizes
    if shape_departure(hf):
        return {}
    try:
        outline = skeleton(rewritten(hf.config, schedule))
    # classes of configurations and models refuse what they cannot be in errors without a common class
    except Exception:
        return {}
    same = type(outline) is type(hf)
    return {name: value.numel() for name, value in outline.named_parameters()} if same else {}


def fill(model: PreTrainedModel, tensors: Callable[[str, Tensor], Tensor]) -> None:
    """Give a model on the meta device its tensors, and further buffers as its own code computes them.

    Args:
        tensors: the tensor of a name, and of the shape of the one that is given.
    """
    stored_names = set(model.state_dict())
    filled: dict[int, Tensor] = {}
    for name, module in model.named_modules():
        for tensors_by_name, are_parameters in ((module._parameters, True), (module._buffers, False)):
            for key, value in tensors_by_name.items():
                if value is None:
                    continue
                path = f"{name}.{key}".strip(".")
                if path not in stored_names:
                    if value.device.type == "meta":
                        tensors_by_name[key] = torch.zeros_like(value, device="cpu")
                    continue
                # What is stored is filled wherever it lies: XLNet makes its attention of torch.FloatTensor, which knows
                # no device around it, and would keep what happened to be in memory.
                # Tied tensors are one on the meta device, and have to stay one.
                if id(value) not in filled:
                    tensor = tensors(path, value)
                    filled[id(value)] = nn.Parameter(tensor, requires_grad=False) if are_parameters else tensor
                    filled[id(value)]._is_hf_initialized = True  # type: ignore[attr-defined]
                tensors_by_name[key] = filled[id(value)]
        _mark_initialised(module)
    # The family's own code fills the buffers that no checkpoint holds.
    model.initialize_weights()
    model.tie_weights()


def _mark_initialised(module: nn.Module) -> None:
    """Keep the library from initialising a module whose tensors were all given.

    Some families write into given tensors all the same, such as zeros into the embedding of the padding token, and
    these may be another model's.
    """
    tensors = [*module.parameters(recurse=False), *module.buffers(recurse=False)]
    if tensors and all(getattr(tensor, "_is_hf_initialized", False) for tensor in tensors):
        module._is_hf_initialized = True  # type: ignore[assignment]


def made_up(name: str, like: Tensor) -> Tensor:
    """Return random numbers of a tensor's shape, other ones for every name; vectors lie about one."""
    if not like.is_floating_point():
        return torch.zeros_like(like, device="cpu")
    seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")
    draw = torch.Generator().manual_seed(seed)
    row = _SPREAD * torch.randn(max(1, sum(like.shape)), generator=draw)
    return (1 + row if like.ndim < 2 else row).as_strided(like.shape, [1] * like.ndim)


def _shorten(config: PreTrainedConfig) -> PreTrainedConfig:
    short = copy.deepcopy(config)
    for part in {id(part): part for part in (short, short.get_text_config())}.values():
        for name, value in _numbers_of(part):
            if _SPAN.search(name) and value > _WINDOW:
                setattr(part, name, _WINDOW)
        if (part.to_dict().get("vocab_size") or 0) > _VOCABULARY:
            part.vocab_size = _VOCABULARY
            for name, value in _numbers_of(part):
                if name.endswith("token_id") and value >= _VOCABULARY:
                    setattr(part, name, 0)
    return short


def _numbers_of(config: PreTrainedConfig) -> list[tuple[str, Any]]:
    return [(k, v) for k, v in config.to_dict().items() if isinstance(v, int) and not isinstance(v, bool)]
