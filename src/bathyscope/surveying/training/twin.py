"""A model under training, surveyed as another object: modules of its own, parameters and buffers that are the same.

Whatever a training hangs on its modules (hooks, an autocast around ``forward``, compiled code) stays where it is, and
the survey's own way with modules touches copies alone.
"""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Final, cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from bathyscope.errors import ModelError, warn
from bathyscope.model.replaced import replaced_in_words
from bathyscope.model.shards import is_fully_sharded, is_shard
from bathyscope.model.structure import IN_FRONT, copy_modules
from bathyscope.surveying.training.gathering import as_plain_modules

_WRAPPERS: Final = ("module", "_orig_mod")
"""Where data parallelism and ``torch.compile`` keep the model that they wrap."""


def twin_of(model: nn.Module, whole: Mapping[int, Tensor] | None = None) -> PreTrainedModel:
    """Return a copy of the innermost model that shares parameters and buffers, without hooks and in evaluation mode.

    Args:
        whole: the tensors that take the place of scattered parameters, by the ``id`` of these.

    Raises:
        ModelError: weights that are scattered over processes, no model of transformers, or modules without copies.
    """
    inner = unwrapped(model)
    tensors = whole or {}
    try:
        with as_plain_modules(inner) if is_fully_sharded(inner) else nullcontext(()) as notes:
            copied = copy_modules(inner, lambda tensor: tensors.get(id(tensor), tensor), (*IN_FRONT, *notes))
        twin = cast(PreTrainedModel, copied)
    except TypeError as error:
        # modules that hold locks, sockets or generators
        raise ModelError(
            f"The modules of {type(inner).__name__} cannot be copied, so it is not watched ({error}). Survey its "
            "checkpoints instead: bathyscope course FOLDER."
        ) from error
    twin.eval()
    return twin


def warn_of_what_stays(model: nn.Module) -> None:
    """Warn of methods that somebody has replaced in memory, which the copy that is surveyed does not have."""
    replaced = replaced_in_words(model)
    if replaced:
        warn(
            f"{replaced}: the course is of the model without that. Give the module a class of its own where it changes "
            "what the model computes."
        )


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside of data parallelism and compilation.

    Raises:
        ModelError: weights that are scattered over processes, or no model of transformers in memory.
    """
    if not isinstance(model, nn.Module):
        raise ModelError(
            f"watch() takes the model that is being trained, in memory; {type(model).__name__} given. Of a folder of "
            "checkpoints, survey each: bathyscope.course(folder, prompts, out)."
        )
    if is_scattered(model):
        raise ModelError(
            "The weights of this model are scattered over processes in a way from which they are not gathered "
            "(DeepSpeed ZeRO-3, or FSDP of version 1). Use version 2 of FSDP (fully_shard; fsdp_version: 2 in "
            "accelerate), or survey the checkpoints: bathyscope course FOLDER."
        )
    name = next((name for name in _WRAPPERS if isinstance(getattr(model, name, None), nn.Module)), None)
    if name is not None and not isinstance(model, PreTrainedModel):
        return unwrapped(getattr(model, name))
    if not isinstance(model, PreTrainedModel) and not hasattr(model, "peft_config"):
        raise ModelError(
            f"{type(model).__name__} is no model of transformers, nor does it wrap one; it is not watched."
        )
    return model


def is_scattered(model: nn.Module) -> bool:
    """Return whether some weights are not whole in this process, and cannot be gathered there."""
    kinds = {type(module).__name__ for module in model.modules()}
    parameters = list(model.parameters())
    if any(hasattr(p, "ds_id") or p.numel() == 0 for p in parameters):
        return True
    if is_fully_sharded(model):
        return False
    return any(kind.startswith(("FullyShardedDataParallel", "FSDP")) for kind in kinds) or any(
        map(is_shard, parameters)
    )


@contextmanager
def random_states_kept() -> Iterator[None]:
    """Put the random states of Python, NumPy and torch, on every device, back afterwards."""
    python, numpy, cpu = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.random.set_rng_state(cpu)
        if devices is not None:
            torch.cuda.set_rng_state_all(devices)
