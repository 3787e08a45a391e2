"""What ``load`` refuses of its arguments before anything is read."""

import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from transformers import PreTrainedModel

from bathyscope.errors import ModelError, describe_value, warn
from bathyscope.model.adapter import Adapter
from bathyscope.model.admission import (
    without_adapter,
    without_compilation,
)
from bathyscope.model.anatomy.family import GUIDE, Family
from bathyscope.model.anatomy.plain import home_of
from bathyscope.model.devices import as_device, as_dtype
from bathyscope.model.model import Model


def require_resident(adapter: Adapter, placement: str) -> None:
    """Refuse to stream an adapter."""
    if placement == "stream":
        raise ModelError(
            f"{adapter.name} is an adapter, whose layers are put into a model in memory, and cannot be streamed. Merge "
            "it into a checkpoint (merge_and_unload(), save_pretrained(FOLDER)), and stream that."
        )


def require_objects(model: Any, tokenizer: Any, family: Any) -> None:
    """Refuse a model, tokenizer or family of a type that ``load`` does not take."""
    if isinstance(tokenizer, str | Path):
        raise ModelError(
            f"tokenizer={str(tokenizer)!r} is a text; give the tokenizer itself "
            f"(transformers.AutoTokenizer.from_pretrained({str(tokenizer)!r}))."
        )
    if tokenizer is not None and (isinstance(tokenizer, type) or not hasattr(tokenizer, "convert_ids_to_tokens")):
        raise ModelError(
            f"tokenizer={_short_text(tokenizer)} is no tokenizer of transformers; give what "
            "AutoTokenizer.from_pretrained gives, or PreTrainedTokenizerFast(tokenizer_object=...) of one of "
            "tokenizers."
        )
    if family is not None and not isinstance(family, Family):
        raise ModelError(
            f"family={describe_value(family)} is no Family; give bathyscope.extend.Family(name, model_types, …) or "
            "leave it out."
        )
    if not isinstance(model, nn.Module | str | os.PathLike):
        what = (
            "a Model, which is loaded already"
            if isinstance(model, Model)
            else f"{_short_text(model)}, which is no model"
        )
        raise ModelError(f"load() was given {what}; give a checkpoint folder, a hub name, or a model in memory.")


def warn_of_small_tokenizer(name: str, tokenizer: Any, entries: int) -> None:
    """Warn of a tokenizer given by the caller that has tokens for less than half of an embedding.

    Args:
        entries: rows of the embedding of the model.
    """
    size = getattr(type(tokenizer), "__len__", None) and len(tokenizer)
    if size and 2 * size < entries:
        warn(
            f"The tokenizer that was given has {size:,} tokens and the embedding of {name} {entries:,} rows: it may be "
            "another model's, and texts would be read as other tokens. Leave tokenizer= out to take the checkpoint's "
            "own, if it has one."
        )


def require_defaults(call: str, load: Callable[..., object], arguments: Mapping[str, object]) -> None:
    """Refuse arguments of ``load`` that nothing would be done with, since the model is loaded already.

    Args:
        call: that they were given to.
        load: the call whose arguments they are.
        arguments: by name.
    """
    parameters = inspect.signature(load).parameters
    for name, value in arguments.items():
        default = parameters[name].default
        # an array has no truth value, and equals no default
        if value is not default and not (isinstance(value, type(default)) and value == default):
            raise ModelError(
                f"{call} was given {name}={describe_value(value)} and a Model, which is loaded already; leave {name} "
                "out, or give the model's name or folder."
            )


def require_split_by_name(model: Any, tensor_parallel: object) -> None:
    """Refuse to split a model in memory over ranks."""
    if tensor_parallel is not None and isinstance(model, nn.Module):
        raise ModelError(
            "tensor_parallel= is for models loaded by name. A model that transformers has split already "
            "(from_pretrained(..., distributed_config=DistributedConfig(tp_size=n))) is taken as it is; leave it out."
        )


def require_no_revision(name: str, revision: str | None) -> None:
    """Refuse the revision of a file."""
    if revision is not None:
        raise ModelError(
            f"revision={revision!r} is for models on the hub, and {name} is a file; leave revision out, or give the "
            "hub name."
        )


def _short_text(argument: object) -> str:
    """Return an argument in one line; a long one by its type."""
    text = repr(argument)
    return text if len(text) <= 80 else f"a {type(argument).__name__}"


def require_no_place(gguf_file: str | None, revision: str | None, base: str | Path | None) -> None:
    """Refuse options about where a model is read from, for one that was given in memory."""
    kinds = {"gguf_file": "a folder", "revision": "models on the hub", "base": "the folder of an adapter"}
    for option, value in (("gguf_file", gguf_file), ("revision", revision), ("base", base)):
        if value is not None:
            kind = kinds[option]
            raise ModelError(f"{option}= is for {kind}, and a model in memory was given; leave {option} out.")


def model_in_memory(
    model: nn.Module, dtype: str | torch.dtype | None, device: str | torch.device | None, attn: str | None
) -> PreTrainedModel:
    """Return a model that was given in memory, without wrappers; refuse options that only loading by name takes."""
    hf = without_adapter(without_compilation(model))
    if attn is not None:
        raise ModelError(
            "attn= is for models loaded by name; change a model in memory yourself "
            f"(model.set_attn_implementation({attn!r}))."
        )
    inside = getattr(hf, "module", None)
    if not hasattr(hf, "config") and hasattr(inside, "config"):
        raise ModelError(
            f"{type(hf).__name__} only wraps the model, a {type(inside).__name__}; give what is inside: "
            "load(model.module)."
        )
    if not hasattr(hf, "config"):
        raise ModelError(
            f"{type(hf).__name__} has no config. Wrap it in a PreTrainedModel that takes input_ids and gives logits: "
            f"{GUIDE}."
        )
    first, home = next(hf.parameters()), home_of(hf)
    if dtype is not None and as_dtype(dtype) != first.dtype:
        raise ModelError("dtype= is for models loaded by name; convert a model in memory yourself (model.to(dtype)).")
    target = home if device is None else as_device(device)
    if target.type != home.type or (target.index or 0) != (home.index or 0):
        raise ModelError(
            f"device= is for models loaded by name, and this one is on {home}; move a model in memory "
            f"yourself (model.to({str(target)!r}))."
        )
    return cast(PreTrainedModel, hf)
