"""Constants of a model: what it computes with that is neither in its weights nor in its configuration.

Tables that no checkpoint holds (rotary frequencies, masks) and plain values in modules (an attention's ``scaling``, a
norm's epsilon) follow from the configuration, until somebody changes them in memory; and so do the methods of its
modules (``replaced``). What counts is therefore the
difference from the model that the configuration makes: a model as it was loaded has none, on every version of the
library, and its hash is that of its weights alone.
"""

import copy
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from bathyscope.model.anatomy.mode import default_settings
from bathyscope.model.anatomy.recording import reset_rotary
from bathyscope.model.attending import registered_functions
from bathyscope.model.contents import Content, ContentReader, content_of_tensor
from bathyscope.model.origins import is_installed
from bathyscope.model.replaced import replaced_methods
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
_ROUNDINGS = 4
"""By how many roundings tables may differ that were computed on another device."""
_CASTS: tuple[tuple[torch.dtype, ...], ...] = (
    *((), (torch.float32,), (torch.bfloat16,), (torch.float16,)),
    *((torch.float16, torch.bfloat16), (torch.bfloat16, torch.float16)),
)
"""Through which dtypes a model may have been cast before it has the one that it has now."""

Constants = dict[str, Any]
_MISSING = object()


@dataclass(frozen=True)
class _Known:
    """What is known of a model's constants.

    Args:
        first: their hash when the model was met first.
        now: their hash when they were looked at last.
        settings: hash of the configuration then.
        departure: their hash where they are not those of the configuration; None = they are.
        unread: what cannot be read, by path.
    """

    first: str
    now: str
    settings: str
    departure: str | None
    unread: tuple[str, ...] = ()


_KNOWN: WeakKeyDictionary[nn.Module, _Known] = WeakKeyDictionary()


def departure_of(hf: nn.Module, settings: str) -> str | None:
    """Return a hash of the constants that are not those of the model's configuration; None where all are.

    A model that cannot be made of its configuration is compared with itself as it was met first.

    Args:
        settings: hash of the configuration.
    """
    return looked_at(hf, settings)[0]


def unread_values(hf: nn.Module, settings: str) -> list[str]:
    """Return what a model computes with that cannot be read, by path, each with its class.

    A model with such a value is known to be equal to none.

    Args:
        settings: hash of the configuration.
    """
    return looked_at(hf, settings)[1]


def looked_at(hf: nn.Module, settings: str) -> tuple[str | None, list[str]]:
    """Return ``departure_of`` and ``unread_values`` of one look at a model."""
    reset_rotary(hf)
    constants = _on_host(_constants_of(hf))
    look = _known(hf, constants, settings)
    # looked at each time: of what a method holds, no more can be stored than this hash
    code = {**replaced_methods(hf), **registered_functions(hf), **_own_classes(hf)}
    unread = [*look.unread, *(f"{name} ({content.unread})" for name, content in code.items() if content.unread)]
    if not code:
        return look.departure, unread
    return _hash(look.departure, sorted((name, content.text) for name, content in code.items())), unread


def _own_classes(hf: nn.Module) -> dict[str, Content]:
    """Return the code of modules' classes that no installed package defines, by path."""
    contents: dict[type, Content] = {}
    reader = ContentReader(hf)
    classes = {path: type(module) for path, module in hf.named_modules() if not is_installed(type(module))}
    for kind in {*classes.values()}:
        contents[kind] = reader.read_class(kind)
    return {f"{path} (code)".strip(): contents[kind] for path, kind in classes.items()}


def _known(hf: nn.Module, constants: Constants, settings: str) -> _Known:
    texts = {name: _text(value) for name, value in constants.items()}
    now = _hash(sorted(texts.items()))
    before = _KNOWN.get(hf)
    if before is not None and before.now == now and before.settings == settings:
        return before
    # libraries write notes of their own into modules at any time
    lasting = _hash(sorted(item for item in texts.items() if not _is_underscored(item[0])))
    first = lasting if before is None else before.first
    built = _built(hf)
    since_first = None if lasting == first else lasting
    departure = since_first if built is None else _departure(constants, built)
    somebodys = {path for path, module in hf.named_modules() if not is_installed(type(module))}
    differing = (
        [name for name in constants if _owner(name) in somebodys] if built is None else _differing(constants, built)
    )
    unread = tuple(
        f"{name} ({content.unread})"
        for name in differing
        if isinstance(content := constants.get(name), Content) and content.unread
    )
    _KNOWN[hf] = _Known(first, now, settings, departure, unread)
    return _KNOWN[hf]


def changed_values(hf: nn.Module) -> list[str]:
    """Return plain values, classes and methods of modules that the model's configuration would make otherwise, by path.

    Where the model cannot be made of it, these are the methods that were replaced in memory. Tables are told by
    ``changed_tables``.
    """
    built = _built(hf)
    constants = _on_host(_constants_of(hf))
    tables = tables_of(hf)
    values = [] if built is None else [name for name in _differing(constants, built) if name not in tables]
    return [*values, *replaced_methods(hf)]


def changed_tables(hf: nn.Module) -> list[str]:
    """Return the tables that the model's configuration would make otherwise, by path.

    Casting a model rounds its tables too, and a checkpoint is loaded with those of its configuration again: tables that
    differ by no more than such a rounding are no change; nor are dynamic ones that a long forward has stretched.
    """
    built = _built(hf)
    if built is None:
        return []
    reset_rotary(hf)
    constants = _on_host(_constants_of(hf))
    return [
        name for name in sorted(tables_of(hf)) if name in constants and not _is_cast(constants[name], built.get(name))
    ]


def rounded_tables(hf: nn.Module) -> dict[str, float]:
    """Return the tables that were rounded in memory, as casting a model rounds them, by path.

    Each with the largest difference from what the configuration makes, as a share of a number. A model that is loaded
    in a dtype has none: there the library leaves its tables in full.
    """
    built = _built(hf)
    if built is None:
        return {}
    reset_rotary(hf)
    constants = _on_host(_constants_of(hf))
    pairs = {name: (constants[name], built.get(name)) for name in sorted(tables_of(hf)) if name in constants}
    shares = {name: _share_of_rounding(value, table) for name, (value, table) in pairs.items()}
    return {name: share for name, share in shares.items() if share > 0}


def _share_of_rounding(value: Tensor, table: Any) -> float:
    """Return the largest difference of a cast table, as a share of a number; 0 where it is the same to its rounding."""
    if not isinstance(table, Tensor) or _is_absent(value) or _is_absent(table) or value.shape != table.shape:
        return 0.0
    if not (table.is_floating_point() and value.is_floating_point()):
        return 0.0
    numbers, exact = value.to(table.device).double(), table.double()
    # another device rounds the same table in its last digits
    if _lies_within(numbers, table, ()):
        return 0.0
    shares = ((numbers - exact) / exact).abs()
    finite = shares.isfinite()
    return float(shares[finite].max()) if finite.any() else 0.0


def _is_cast(value: Tensor, table: Any) -> bool:
    """Whether a value is a table, up to rounding, as it comes out of casts of its model; also where there is no table.

    What modules hold that their configuration does not make, a forward has left behind (recurrent states).
    """
    if not isinstance(table, Tensor) or _is_absent(value) or _is_absent(table):
        return True
    if value.shape != table.shape:
        return False
    if not table.is_floating_point() or not value.is_floating_point():
        return _same(value, table)
    return any(_lies_within(value, table, casts) for casts in _CASTS)


def _lies_within(value: Tensor, table: Tensor, casts: Sequence[torch.dtype]) -> bool:
    """Whether a value lies between the casts of the lowest and the highest numbers that rounding makes of a table.

    Casts keep the order of numbers, so that those between two numbers are cast to what lies between their casts.
    """
    exact = table.double()
    spread = exact.abs()
    if table.ndim > 1:
        # sines by position: an angle rounds as its position does, however small its sine
        spread = spread + torch.arange(table.shape[-2], device=table.device)[:, None]
    spread = _ROUNDINGS * torch.finfo(table.dtype).eps * spread.nan_to_num(posinf=0.0)
    ends = [exact - spread, exact + spread]
    for dtype in (table.dtype, *casts, value.dtype):
        ends = [end.to(dtype) for end in ends]
    low, high = (end.double() for end in ends)
    numbers = value.to(table.device).double()
    return bool((((numbers >= low) & (numbers <= high)) | (numbers.isnan() & exact.isnan())).all())


def differing_constants(first: nn.Module, second: nn.Module, *, across_precisions: bool = False) -> list[str]:
    """Return in which constants and replaced methods two models differ, by path, outside layers with adapters.

    Args:
        across_precisions: tables of equal numbers in two dtypes are equal; otherwise they compute something else.
    """
    inner = (*_replaced(first), *_replaced(second))
    left, right = (
        {name: value for name, value in _on_host(_constants_of(hf)).items() if not _is_inside(_owner(name), inner)}
        for hf in (first, second)
    )
    methods = [{**replaced_methods(hf), **registered_functions(hf), **_own_classes(hf)} for hf in (first, second)]
    replaced = {name for name in {*methods[0], *methods[1]} if methods[0].get(name) != methods[1].get(name)}
    differing = _differing(left, right)
    if across_precisions:
        differing = [name for name in differing if not _have_equal_numbers(left.get(name), right.get(name))]
    return [*differing, *sorted(replaced)]


def _have_equal_numbers(value: Any, other: Any) -> bool:
    """Return whether two tables hold the same numbers, whatever their dtypes."""
    if not isinstance(value, Tensor) or not isinstance(other, Tensor) or value.shape != other.shape:
        return False
    if _is_absent(value) or _is_absent(other):
        return False
    pair = (value.double().cpu(), other.double().cpu())
    return torch.allclose(*pair, rtol=0.0, atol=0.0, equal_nan=True)


def _owner(name: str) -> str:
    return name.removesuffix(" (class)") if name.endswith(" (class)") else name.rpartition(".")[0]


def _departure(constants: Constants, built: Constants) -> str | None:
    differing = _differing(constants, built)
    return _hash([(name, _text(constants.get(name))) for name in differing]) if differing else None


def _differing(constants: Constants, built: Constants) -> list[str]:
    names = sorted(constants.keys() | built.keys())
    pairs = {name: (constants.get(name, _MISSING), built.get(name, _MISSING)) for name in names}
    return [
        name
        for name, pair in pairs.items()
        if not _same(*pair) and not (_have_one_class(name, constants, built) and _is_left_behind(name, *pair))
    ]


def _have_one_class(name: str, constants: Constants, built: Constants) -> bool:
    key = f"{_owner(name)} (class)"
    return bool(constants.get(key) == built.get(key))


def _is_underscored(name: str) -> bool:
    return name.rpartition(".")[2].startswith("_")


def _built(hf: nn.Module) -> Constants | None:
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
    return _on_host(_constants_of(outline, like=hf))


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


def _constants_of(hf: nn.Module, like: nn.Module | None = None) -> Constants:
    """Return classes, plain values and tables by path, outside layers that other libraries have replaced.

    Args:
        like: the model whose layers decide about that; None = this one.
    """
    replaced = _replaced(hf if like is None else like)
    contents = ContentReader(hf)
    constants: Constants = {}
    for path, module in hf.named_modules():
        if _is_inside(path, replaced):
            continue
        constants[f"{path} (class)"] = f"{type(module).__module__}.{type(module).__qualname__}"
        constants.update({f"{path}.{key}": value for key, value in _values_of(module, contents)})
    for name, table in tables_of(hf).items():
        owner_path, _, key = name.rpartition(".")
        if not _is_inside(owner_path, replaced) and not _is_state(hf.get_submodule(owner_path), key):
            constants[name] = table.detach()
    return constants


def _on_host(constants: Constants) -> Constants:
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


def _replaced(hf: nn.Module) -> tuple[str, ...]:
    quantised = getattr(hf.config, "quantization_config", None) is not None
    return tuple(
        path
        for path, module in hf.named_modules()
        if type(module).__module__.partition(".")[0] in _REPLACING
        or (quantised and type(module).__module__.startswith("transformers.integrations"))
    )


def _is_inside(path: str, outer: tuple[str, ...]) -> bool:
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


def _is_left_behind(name: str, value: Any, built: Any) -> bool:
    """Whether a value tells nothing of what a module of one class computes.

    A forward has left a tensor behind (recurrent states), it is on meta, or a library has noted something for itself.
    """
    if _is_underscored(name) and (value is _MISSING or built is _MISSING):
        return True
    return (isinstance(value, Tensor) and not isinstance(built, Tensor)) or _is_absent(value) or _is_absent(built)


def _is_absent(value: Any) -> bool:
    return isinstance(value, Tensor) and value.device.type == "meta"


def _same(value: Any, built: Any) -> bool:
    if isinstance(value, Content) and isinstance(built, Content) and value.unread:
        return False
    if not isinstance(value, Tensor) or not isinstance(built, Tensor):
        return type(value) is type(built) and repr(value) == repr(built)
    if value.shape != built.shape or value.dtype != built.dtype:
        return False
    if _is_absent(value) or _is_absent(built):
        return True
    if not value.is_floating_point():
        return torch.equal(value, built.to(value.device))
    rounding = _ROUNDINGS * torch.finfo(value.dtype).eps
    return torch.allclose(value.double(), built.to(value.device).double(), rtol=rounding, atol=0.0, equal_nan=True)


def _text(value: Any) -> str:
    """Return a constant as text; a table by its bytes."""
    if isinstance(value, Content):
        return value.text
    return content_of_tensor(value) if isinstance(value, Tensor) else repr(value)


def _hash(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
