"""``load``: from a name, a folder or a model in memory to a checked one; ``loaded``: whether it has changed since."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import nn
from transformers import PreTrainedModel

from bathyscope.core.calls import takes
from bathyscope.core.descriptions import Doc
from bathyscope.errors import warn
from bathyscope.model.adapter import Adapter, find_adapter
from bathyscope.model.admission import (
    alone,
    quantisation_warning,
    require_measurable,
)
from bathyscope.model.anatomy.family import Family
from bathyscope.model.anatomy.mode import default_settings
from bathyscope.model.anatomy.plain import vocabulary
from bathyscope.model.anatomy.sites import submodule
from bathyscope.model.checkpoint import CheckpointRequest, read_checkpoint
from bathyscope.model.devices import as_device, as_dtype
from bathyscope.model.gguf import GgufFile, gguf_name, is_gguf, open_gguf
from bathyscope.model.load_arguments import (
    model_in_memory,
    require_no_place,
    require_no_revision,
    require_objects,
    require_resident,
    require_split_by_name,
    warn_of_small_tokenizer,
)
from bathyscope.model.model import Model
from bathyscope.model.options import Attention, LoadOptions, Placement
from bathyscope.model.placement import blocks_of
from bathyscope.model.proving import (
    FROM_CHECKPOINT,
    FROM_MEMORY,
    SINCE_LOADED,
    check_anatomy,
    read_and_check,
    weights_to_read,
)
from bathyscope.model.ranks import require_same, size, together
from bathyscope.model.streaming.offloaded import is_offloaded, store_of, take_over
from bathyscope.model.tensor_parallel import comparison_warning, split_of
from bathyscope.model.weights import settings_hash
from bathyscope.prompts.source import require_there

AnyModel = Model | PreTrainedModel | str | Path
ModelArgument = Annotated[AnyModel, Doc("what ``load`` returns or takes.")]
"""The model of a verb that needs no other words for it."""
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
        ModelError: a dtype, device, tokenizer or family that is none; nothing there, not a causal language model, no
            safetensors, missing weights, NaN or Inf in them, hooks on modules, a refused family, or a check that fails
            (with the measured gap).

    Example:
        >>> bathyscope.load("model", dtype="float32").n_blocks
        4
    """
    require_objects(model, tokenizer, family)
    require_split_by_name(model, tensor_parallel)
    with together(split_of(model, {"tensor_parallel": tensor_parallel})):
        require_same("arguments of load", [_place_of(model), str(dtype), revision, str(attn), tensor_parallel])
        if isinstance(model, nn.Module):
            require_no_place(gguf_file, revision, base)
            hf = model_in_memory(model, dtype, device, attn)
            source = _Source(str(getattr(hf.config, "_name_or_path", "") or type(hf).__name__), hf)
        else:
            source = _read_source(
                str(model) if gguf_file is None else gguf_name(str(model), gguf_file),
                dtype=dtype,
                device=device,
                revision=revision,
                trust_remote_code=trust_remote_code,
                placement="stream" if stream else placement,
                window=window,
                attn=attn,
                base=base,
                split=tensor_parallel is not None,
            )
        with alone(source.hf):
            warnings = _prepare(source, family, window)
            cause = FROM_MEMORY if isinstance(model, nn.Module) else FROM_CHECKPOINT
            sha256, anatomy, checks = read_and_check(source.name, source.hf, family, cause)
        warn_of_small_tokenizer(source.name, tokenizer, vocabulary(source.hf))
        return Model(
            source.name,
            revision,
            anatomy,
            checks,
            sha256,
            trust_remote_code,
            tokenizer,
            gguf=source.gguf,
            settings_hash=settings_hash(source.hf),
            warnings=warnings,
            adapter=source.adapter,
            ranks=size(),
            packing=source.packing,
        )


@dataclass(frozen=True)
class _Source:
    """A model as it was given or read, which nothing has checked yet.

    Args:
        gguf: the header of its GGUF file; None = it is of none.
        adapter: what was put into it; None = nothing.
        left_over: a sentence about tensors of its files that it has no place for; None = all were used.
        packing: how its files have packed the weights; None = they are plain.
    """

    name: str
    hf: PreTrainedModel
    gguf: GgufFile | None = None
    adapter: Adapter | None = None
    left_over: str | None = None
    packing: str | None = None


def _read_source(
    name: str,
    *,
    dtype: str | torch.dtype | None,
    device: str | torch.device | None,
    revision: str | None,
    trust_remote_code: bool,
    placement: Placement,
    window: int | None,
    attn: Attention | None,
    base: str | Path | None,
    split: bool,
) -> _Source:
    """Read a model by its name, with its adapter put into it."""
    weight_dtype = None if dtype is None else as_dtype(dtype)
    gguf: GgufFile | None = None
    if is_gguf(name):
        require_no_revision(name, revision)
        gguf = open_gguf(name)
    adapter = None if gguf is not None and base is None else find_adapter(name, revision, base)
    if adapter is not None:
        require_resident(adapter, placement)
    request = CheckpointRequest(
        name if adapter is None else adapter.base,
        as_device(device),
        dtype=weight_dtype,
        revision=revision if adapter is None else adapter.base_revision,
        trust_remote_code=trust_remote_code,
        placement=placement if adapter is None else "resident",
        window=window,
        attn=attn,
        gguf=gguf,
        split=split,
    )
    with default_settings():
        checkpoint = read_checkpoint(request)
        hf = checkpoint.hf if adapter is None else adapter.put_into(checkpoint.hf)
    # first of all, since it may be the reason why the model is refused below
    if checkpoint.left_over is not None:
        warn(f"{name}: {checkpoint.left_over}")
    return _Source(name, hf, gguf, adapter, checkpoint.left_over, checkpoint.packing)


def _prepare(source: _Source, family: Family | None, window: int | None) -> tuple[str, ...]:
    """Take over offloaded blocks, refuse what cannot be measured, and return what a run of it has to say."""
    hf = source.hf
    if is_offloaded(hf):
        take_over(hf, blocks_of(hf) if family is None else family.blocks, window)
    require_measurable(hf)
    sentences = (quantisation_warning(hf), comparison_warning(hf))
    for sentence in sentences:
        if sentence is not None:
            warn(f"{source.name}: {sentence}")
    if window is not None and store_of(hf) is None:
        warn(
            f"window={window} has no effect, because all blocks of this model stay in memory. Give "
            "placement='stream' (--placement stream) with it, or leave it out."
        )
    return tuple(text for text in (source.left_over, *sentences) if text is not None)


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
        sha256 = weights_to_read(model.name, hf, SINCE_LOADED).sha256()
        # a block that was taken out or replaced leaves the weights of the others as they were
        lists = [submodule(hf, path) for path in model.anatomy.family.block_lists]
        listed = dict.fromkeys(block for part in lists if isinstance(part, nn.ModuleList) for block in part)
        same_blocks = tuple(listed) == model.anatomy.sources
        settings = settings_hash(hf)
        if (sha256, settings) == (model.weight_hash, model.settings_hash) and same_blocks:
            return model
        what = f"weights or constants of {model.name}"
        if sha256 == model.weight_hash and same_blocks:
            what = f"settings of {model.name}"
        elif settings != model.settings_hash and same_blocks:
            # constants are compared with those that the settings would make, so that these alone change the hash
            what = f"settings of {model.name}, and maybe its weights or constants,"
        warn(f"The {what} have changed since it was loaded; it is measured as it is now.")
        anatomy, checks = check_anatomy(model.name, hf, model.anatomy.family)
    return replace(model, anatomy=anatomy, checks=checks, weight_hash=sha256, settings_hash=settings)


def _place_of(model: Any) -> str:
    """Return by what a model is the same on all ranks: the place that it is loaded from, or its class."""
    return type(model).__name__ if isinstance(model, nn.Module) else str(model)
