"""The constants of a live model, and of the model that its configuration makes: classes, values and tables, by path."""

import copy
from collections.abc import Iterator
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from bathyscope.model.anatomy.mode import default_settings
from bathyscope.model.contents import ContentReader
from bathyscope.model.origins import is_installed
from bathyscope.model.tables import tables_of

# what a module is called and where it stands, and switches of training and of caches, change no number of a survey;
# what adapters do is told by themselves
_OF_NO_ACCOUNT = frozenset(
    {
        *("training", "name_or_path", "forward", "is_loaded_in_4bit", "is_loaded_in_8bit", "is_quantized"),
        *("gradient_checkpointing", "is_gradient_checkpointing", "hf_device_map", "quantization_method"),
        *("_is_hf_initialized", "_hf_hook", "_old_forward", "peft_config", "_hf_peft_config_loaded"),
    }
)
# state of forwards so far: the longest one, and whether RWKV has divided its weights
_STATE = ("max_seq_len_cached", "layers_are_rescaled")
_STATEFUL_ROPE = ("dynamic", "longrope")
# these put layers of their own in the place of a model's, and say so in its configuration or as its adapters
_REPLACING = frozenset(
    {
        *("peft", "bitsandbytes", "gptqmodel", "auto_gptq", "awq", "hqq", "optimum", "compressed_tensors"),
        *("torchao", "accelerate", "eetq", "aqlm", "vptq", "quark", "auto_round"),
    }
)
_PLAIN = (bool, int, float, str, type(None), torch.dtype)
_FUNCTIONS = (FunctionType, BuiltinFunctionType)
_READABLE = (*_FUNCTIONS, partial, dict, list, tuple, set, frozenset, np.ndarray, np.generic, type)
"""What is looked into wherever it stands; other objects of libraries in modules of libraries are their bookkeeping."""
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))
_IN_PLACE = ("cpu", "meta")
"""Kinds of devices whose tables are looked at where they are."""

Constants = dict[str, Any]


def built_constants(hf: nn.Module) -> Constants | None:
    """Return the constants of the model that the configuration makes; None where it cannot be made without weights."""
    if not isinstance(hf, PreTrainedModel):
        return None
    parameter = next((p for p in hf.parameters() if p.is_floating_point()), None)
    dtype = None if parameter is None or parameter.element_size() < 2 else parameter.dtype
    tables = tables_of(hf)
    try:
        with default_settings(), torch.device("meta"):
            outline = type(hf)._from_config(copy.deepcopy(hf.config), dtype=dtype)
        with default_settings():
            _fill_tables(outline, tables)
    # code of whatever family, which may need its weights to be made
    except Exception:
        return None
    return on_host(constants_of(outline, like=hf))


def _fill_tables(outline: PreTrainedModel, tables: dict[str, Tensor]) -> None:
    """Let the library compute tables where the model has them, and leave weights alone, which are not there."""
    for module in outline.modules():
        for value in (*module._parameters.values(), *module._buffers.values()):
            if value is not None:
                value._is_hf_initialized = True  # type: ignore[attr-defined]
    for name in tables_of(outline):
        path, _, key = name.rpartition(".")
        owner = outline.get_submodule(path)
        absent = owner._buffers[key]
        assert absent is not None
        device = tables[name].device if name in tables else torch.device("cpu")
        owner._buffers[key] = torch.zeros_like(absent, device=device)
        owner._is_hf_initialized = False  # type: ignore[assignment]
    outline.initialize_weights()


def constants_of(hf: nn.Module, like: nn.Module | None = None) -> Constants:
    """Return classes, plain values and tables by path, outside layers that other libraries have replaced.

    Args:
        like: the model whose layers decide about that; None = this one.
    """
    replaced = replaced_layers(hf if like is None else like)
    contents = ContentReader(hf)
    constants: Constants = {}
    for path, module in hf.named_modules():
        if is_inside(path, replaced):
            continue
        constants[f"{path} (class)"] = f"{type(module).__module__}.{type(module).__qualname__}"
        constants.update({f"{path}.{key}": value for key, value in _values_of(module, contents)})
    for name, table in tables_of(hf).items():
        owner_path, _, key = name.rpartition(".")
        if not is_inside(owner_path, replaced) and not _is_state(hf.get_submodule(owner_path), key):
            constants[name] = table.detach()
    return constants


def on_host(constants: Constants) -> Constants:
    """Return constants with their tables in the host's memory.

    An accelerator is waited for once for all of its tables, whose bytes are copied together.
    """
    tables = {
        name: value
        for name, value in constants.items()
        if isinstance(value, Tensor) and value.device.type not in _IN_PLACE
    }
    on_host: Constants = {}
    for device in {value.device for value in tables.values()}:
        names = [name for name, value in tables.items() if value.device == device]
        as_bytes = [tables[name].contiguous().reshape(-1).view(torch.uint8) for name in names]
        parts = torch.cat(as_bytes).cpu().split([len(part) for part in as_bytes])
        for name, part in zip(names, parts):
            # a copy begins where its numbers may begin, which a part of the whole need not
            on_host[name] = part.clone().view(tables[name].dtype).view(tables[name].shape)
    return {**constants, **on_host}


def replaced_layers(hf: nn.Module) -> tuple[str, ...]:
    """Return the paths of layers that another library has put in the place of a model's."""
    quantised = getattr(hf.config, "quantization_config", None) is not None
    return tuple(
        path
        for path, module in hf.named_modules()
        if type(module).__module__.partition(".")[0] in _REPLACING
        or (quantised and type(module).__module__.startswith("transformers.integrations"))
    )


def is_inside(path: str, outer: tuple[str, ...]) -> bool:
    """Return whether a path is one of these, or leads inside of one."""
    return any(path == outermost or path.startswith(f"{outermost}.") for outermost in outer)


def _values_of(module: nn.Module, contents: ContentReader) -> Iterator[tuple[str, Any]]:
    is_own = not is_installed(type(module))
    for key, value in vars(module).items():
        if key in _OF_EVERY_MODULE or key in _OF_NO_ACCOUNT or key.endswith(_STATE):
            continue
        # which row of an embedding is not trained, as its special tokens say; no forward looks at it
        if key == "padding_idx" and isinstance(module, nn.Embedding | PreTrainedModel):
            continue
        if not is_own and _is_share_dropped(module, key):
            continue
        if isinstance(value, Tensor):
            yield key, value.detach()
        elif _is_plain(value):
            yield key, value
        # a method that was exchanged is a switch of whoever holds the model, such as a streamed model's ``to``
        elif (isinstance(value, _FUNCTIONS) and hasattr(type(module), key)) or isinstance(value, PreTrainedConfig):
            continue
        elif is_own or isinstance(value, _READABLE) or not is_installed(type(value)):
            yield key, contents.read(value)


def _is_share_dropped(module: nn.Module, key: str) -> bool:
    """Whether this is how much a library's layer drops in training; models are measured and exported in evaluation."""
    return key.endswith("dropout") or (key == "p" and isinstance(module, nn.modules.dropout._DropoutNd))


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_plain(part) for pair in value.items() for part in pair)
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return isinstance(value, _PLAIN)


def _is_state(module: nn.Module, key: str) -> bool:
    """Whether this is a rotary table that the library itself replaces, as the length of a forward demands."""
    kinds = getattr(module, "rope_type", None)
    if not key.endswith("inv_freq") or "original" in key or kinds is None:
        return False
    kind = kinds.get(key.removesuffix("_inv_freq")) if isinstance(kinds, dict) else kinds
    return any(word in str(kind) for word in _STATEFUL_ROPE)
