"""``load``: from a name, a folder or a model in memory to a checked one; ``loaded``: whether it has changed since."""

import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from bathyscope.core.calls import takes
from bathyscope.errors import ModelError, describe_value, is_out_of_memory, warn
from bathyscope.model.adapter import Adapter, find_adapter
from bathyscope.model.admission import (
    alone,
    quantisation_warning,
    require_measurable,
    require_no_hooks,
    without_adapter,
    without_compilation,
)
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.checks import Checks, check
from bathyscope.model.anatomy.family import GUIDE, Family
from bathyscope.model.anatomy.generic import family_of
from bathyscope.model.anatomy.mode import default_settings, evaluating, require_own_order, seeded_states
from bathyscope.model.anatomy.plain import home_of
from bathyscope.model.anatomy.resolving import resolve
from bathyscope.model.anatomy.sites import submodule
from bathyscope.model.checkpoint import CheckpointRequest, read_checkpoint
from bathyscope.model.constants.departure import unread_values
from bathyscope.model.devices import as_device, as_dtype
from bathyscope.model.gguf import GgufFile, gguf_name, is_gguf, open_gguf
from bathyscope.model.kernels import explained
from bathyscope.model.memory import out_of_memory
from bathyscope.model.model import Model
from bathyscope.model.options import Attention, LoadOptions, Placement
from bathyscope.model.placement import blocks_of
from bathyscope.model.ranks import agreed, require_same, size, together
from bathyscope.model.replaced import warn_of_replaced_methods
from bathyscope.model.streaming.offloaded import is_offloaded, store_of, take_over
from bathyscope.model.tensor_parallel import comparison_warning, split_of
from bathyscope.model.weights import WeightReading, config_hash, settings_hash
from bathyscope.prompts.source import require_there

AnyModel = Model | PreTrainedModel | str | Path
"""What every part takes as a model."""


@takes(LoadOptions)
def load(
    model: str | Path | PreTrainedModel,
    dtype: str | torch.dtype | None = None,
    device: str | torch.device | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    tokenizer: Any = None,
    family: Family | None = None,
    placement: Placement = "auto",
    window: int | None = None,
    stream: bool = False,
    attn: Attention | None = None,
    gguf_file: str | None = None,
    base: str | Path | None = None,
    tensor_parallel: str | int | None = None,
) -> Model:
    """Load a causal language model and check its anatomy.

    Args:
        model: a hub name, a local folder, a ``.gguf`` file, the folder of an adapter (LoRA and its kin), or a
            transformers model already in memory (used as it is; of a PEFT model the model inside, with its adapters).
        ...: the options of ``LoadOptions``.
        dtype: A torch dtype is allowed too.
        tokenizer: used instead of the checkpoint's own.
        family: where this model has its parts, used instead of what is declared or found for its type. The checks
            decide whether it is true.
        placement: Models already in memory stay where they are, and blocks that accelerate has stored
            elsewhere are streamed from there.
        tensor_parallel: All ranks come to this call, and to all others that take its model.

    Raises:
        OptionError: an argument of another type, or a value that is not allowed.
        ModelError: nothing there, not a causal language model, no safetensors, missing weights, NaN or Inf in them,
            hooks on modules, a refused family, or a check that fails (with the measured gap).

    Example:
        >>> bathyscope.load("model", dtype="float32").n_blocks
        4
    """
    _require_objects(model, tokenizer, family)
    _require_split_by_name(model, tensor_parallel)
    with together(split_of(model, {"tensor_parallel": tensor_parallel})):
        require_same("arguments of load", [_told(model), str(dtype), revision, str(attn), tensor_parallel])
        gguf: GgufFile | None = None
        adapter: Adapter | None = None
        left_over: str | None = None
        packing: str | None = None
        if isinstance(model, nn.Module):
            kinds = {"gguf_file": "a folder", "revision": "models on the hub", "base": "the folder of an adapter"}
            for option, value in (("gguf_file", gguf_file), ("revision", revision), ("base", base)):
                if value is not None:
                    kind = kinds[option]
                    raise ModelError(f"{option}= is for {kind}, and a model in memory was given; leave {option} out.")
            hf = _in_memory(model, dtype, device, attn)
            name = str(getattr(hf.config, "_name_or_path", "") or type(hf).__name__)
        else:
            name = str(model) if gguf_file is None else gguf_name(str(model), gguf_file)
            weight_dtype = None if dtype is None else as_dtype(dtype)
            if is_gguf(name):
                _require_no_revision(name, revision)
                gguf = open_gguf(name)
            adapter = None if gguf is not None and base is None else find_adapter(name, revision, base)
            if adapter is not None:
                _require_resident(adapter, placement, stream)
            request = CheckpointRequest(
                name if adapter is None else adapter.base,
                as_device(device),
                dtype=weight_dtype,
                revision=revision if adapter is None else adapter.base_revision,
                trust_remote_code=trust_remote_code,
                placement="resident" if adapter is not None else "stream" if stream else placement,
                window=window,
                attn=attn,
                gguf=gguf,
                split=tensor_parallel is not None,
            )
            with default_settings():
                checkpoint = read_checkpoint(request)
                hf, left_over, packing = checkpoint.hf, checkpoint.left_over, checkpoint.packing
                if adapter is not None:
                    hf = adapter.put_into(hf)
            # first of all, since it may be the reason why the model is refused below
            if left_over is not None:
                warn(f"{name}: {left_over}")
        with alone(hf):
            if is_offloaded(hf):
                take_over(hf, blocks_of(hf) if family is None else family.blocks, window)
            require_measurable(hf)
            quantised = quantisation_warning(hf)
            uncompared = comparison_warning(hf)
            for sentence in (quantised, uncompared):
                if sentence is not None:
                    warn(f"{name}: {sentence}")
            if window is not None and store_of(hf) is None:
                warn(
                    f"window={window} has no effect, because all blocks of this model stay in memory. Give "
                    "placement='stream' (--placement stream) with it, or leave it out."
                )
            sha256, anatomy, checks = _read_and_checked(name, hf, family)
        return Model(
            name,
            revision,
            anatomy,
            checks,
            sha256,
            trust_remote_code,
            tokenizer,
            gguf=gguf,
            settings_hash=settings_hash(hf),
            warnings=tuple(text for text in (left_over, quantised, uncompared) if text is not None),
            adapter=adapter,
            ranks=size(),
            packing=packing,
        )


def loaded(model: AnyModel, *prompts: object) -> Model:
    """Return what ``load`` gives; of a loaded model the same one, checked again if its weights or settings changed.

    Args:
        prompts: sources that the model will read, which are looked at first.

    Raises:
        PromptError: a source that is not there, or prompts without words.
    """
    for source in prompts:
        require_there(source)
    if not isinstance(model, Model):
        return load(model)
    # an outline without weights, for estimates
    if not model.weight_hash:
        return model
    hf = model.hf
    with alone(hf):
        require_measurable(hf)
        sha256 = _readable(model.name, hf).sha256()
        # a block that was taken out or replaced leaves the weights of the others as they were
        lists = [submodule(hf, path) for path in model.anatomy.family.block_lists]
        listed = dict.fromkeys(block for part in lists if isinstance(part, nn.ModuleList) for block in part)
        same_blocks = tuple(listed) == model.anatomy.sources
        settings = settings_hash(hf)
        if (sha256, settings) == (model.weight_hash, model.settings_hash) and same_blocks:
            return model
        what = "settings" if sha256 == model.weight_hash and same_blocks else "weights or constants"
        warn(f"The {what} of {model.name} have changed since it was loaded; it is measured as it is now.")
        anatomy, checks = _checked(model.name, hf, model.anatomy.family)
    return replace(model, anatomy=anatomy, checks=checks, weight_hash=sha256, settings_hash=settings)


def anatomy_of(hf: nn.Module) -> Anatomy:
    """Return the anatomy declared for the model's type, else the one found by search (accepted if the checks hold)."""
    return resolve(hf, family_of(hf))


def _require_resident(adapter: Adapter, placement: str, stream: bool) -> None:
    if stream or placement == "stream":
        raise ModelError(
            f"{adapter.name} is an adapter, whose layers are put into a model in memory, and cannot be streamed. Merge "
            "it into a checkpoint (merge_and_unload(), save_pretrained(FOLDER)), and stream that."
        )


def _require_objects(model: Any, tokenizer: Any, family: Any) -> None:
    if isinstance(tokenizer, str | Path):
        raise ModelError(
            f"tokenizer={str(tokenizer)!r} is a text; give the tokenizer itself "
            f"(transformers.AutoTokenizer.from_pretrained({str(tokenizer)!r}))."
        )
    if tokenizer is not None and (isinstance(tokenizer, type) or not hasattr(tokenizer, "convert_ids_to_tokens")):
        raise ModelError(
            f"tokenizer={_shown(tokenizer)} is no tokenizer of transformers; give what AutoTokenizer.from_pretrained "
            "gives, or PreTrainedTokenizerFast(tokenizer_object=...) of one of tokenizers."
        )
    if family is not None and not isinstance(family, Family):
        raise ModelError(
            f"family={describe_value(family)} is no Family; give bathyscope.extend.Family(name, model_types, …) or "
            "leave it out."
        )
    if not isinstance(model, nn.Module | str | os.PathLike):
        what = "a Model, which is loaded already" if isinstance(model, Model) else f"{_shown(model)}, which is no model"
        raise ModelError(f"load() was given {what}; give a checkpoint folder, a hub name, or a model in memory.")


def _require_split_by_name(model: Any, tensor_parallel: object) -> None:
    if tensor_parallel is not None and isinstance(model, nn.Module):
        raise ModelError(
            "tensor_parallel= is for models loaded by name. A model that transformers has split already "
            "(from_pretrained(..., distributed_config=DistributedConfig(tp_size=n))) is taken as it is; leave it out."
        )


def _told(model: Any) -> str:
    """Return by what a model is the same on all ranks: the place that it is loaded from, or its class."""
    return type(model).__name__ if isinstance(model, nn.Module) else str(model)


def _require_no_revision(name: str, revision: str | None) -> None:
    if revision is not None:
        raise ModelError(
            f"revision={revision!r} is for models on the hub, and {name} is a file; leave revision out, or give the "
            "hub name."
        )


def _shown(argument: object) -> str:
    """Return an argument in one line; a long one by its type."""
    text = repr(argument)
    return text if len(text) <= 80 else f"a {type(argument).__name__}"


def _in_memory(
    model: nn.Module, dtype: str | torch.dtype | None, device: str | torch.device | None, attn: str | None
) -> PreTrainedModel:
    hf = without_adapter(without_compilation(model))
    if attn is not None:
        raise ModelError(
            "attn= is for models loaded by name; change a model in memory yourself "
            f"(model.set_attn_implementation({attn!r}))."
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


def _readable(name: str, hf: nn.Module) -> WeightReading:
    """Start the reading of a model without hooks; its weights in memory are read and finite."""
    require_own_order(hf)
    require_no_hooks(hf)
    warn_of_replaced_methods(hf)
    _warn_of_unread_values(hf)
    reading = WeightReading(hf)
    _require_finite(name, reading)
    return reading


def _warn_of_unread_values(hf: nn.Module) -> None:
    unread = unread_values(hf, config_hash(hf)) if hasattr(hf, "config") else []
    if unread:
        warn(
            f"{unread[0]} cannot be read: runs, lenses and plans of this model are those of an unknown one, and none "
            "is resumed or used again. Make it a buffer or a number."
        )


def _require_finite(name: str, reading: WeightReading) -> None:
    if reading.bad:
        raise ModelError(
            f"{name} holds NaN or Inf in {reading.bad}; its checkpoint is damaged. Download or convert it again."
        )


def _read_and_checked(name: str, hf: nn.Module, family: Family | None) -> tuple[str, Anatomy, Checks]:
    """Read and check a model in one visit of its blocks: streamed ones are hashed when the checks bring them."""
    reading = _readable(name, hf)

    def look(tensors: Mapping[str, Tensor]) -> None:
        reading.look(tensors)
        _require_finite(name, reading)

    store = store_of(hf)
    with nullcontext() if store is None else store.inspected(look):
        anatomy, checks = _checked(name, hf, family)
    return reading.sha256(), anatomy, checks


def _checked(name: str, hf: nn.Module, family: Family | None) -> tuple[Anatomy, Checks]:
    try:
        with evaluating(hf):
            anatomy = anatomy_of(hf) if family is None else resolve(hf, family)
            # what its family says of a random initial state is known only now
            with seeded_states(hf):
                # one rank's rounding decides for all which rows are computed
                checks = agreed(check(anatomy))
    # models of unknown code fail in as many ways as there is code; each means that they cannot be replayed
    except (RuntimeError, TypeError, ValueError, LookupError, AttributeError) as error:
        if isinstance(error, ModelError):
            raise explained(hf, error) from error.__cause__
        if is_out_of_memory(error):
            raise out_of_memory(f"What the checks of {name} compute", home_of(hf)) from error
        kind = f"{getattr(hf.config, 'model_type', '')} ({type(hf).__name__})"
        raise ModelError(
            f"{kind} cannot be measured: its blocks cannot be recorded and replayed "
            f"({type(error).__name__}: {' '.join(str(error).split())}). Is it a decoder-only causal language model?"
        ) from error
    return anatomy, checks
