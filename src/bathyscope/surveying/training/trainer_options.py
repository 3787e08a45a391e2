"""What tells a Trainer's training from others of the same model: its arguments, and the examples it learns from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset
from transformers import PreTrainedTokenizerBase, TrainerState, TrainingArguments

from bathyscope.surveying.training.options import STEPS

EXAMPLES: Final = "examples"
DATA: Final = "data"
_OF_HARDWARE: Final = ("batch_size", "accumulation", "processes")
"""What a training that is resumed may have otherwise, as long as each step takes as many examples."""
_EXAMPLES_READ: Final = 16
_PLAIN: Final = (str, bytes, int, float, type(None), torch.Tensor, np.ndarray, torch.dtype, torch.device, Path)
_WITHOUT_STATE: Final = (*_PLAIN, list, tuple, dict, set, frozenset, range, PreTrainedTokenizerBase, Dataset)


def trainer_options(args: TrainingArguments, state: TrainerState, dataset: Any) -> dict[str, Any]:
    """Return what tells a Trainer's training from others of the same model.

    Args:
        dataset: what it learns from; None = unknown.
    """
    names = (
        *("learning_rate", "seed", "data_seed", "weight_decay", "warmup_steps", "warmup_ratio", "max_grad_norm"),
        *("adam_beta1", "adam_beta2", "adam_epsilon", "label_smoothing_factor", "bf16", "fp16"),
    )
    batch, accumulation = args.per_device_train_batch_size, args.gradient_accumulation_steps
    options = {name: getattr(args, name, None) for name in names} | {
        "optimiser": str(getattr(args.optim, "value", args.optim)),
        "schedule": str(getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type)),
        "batch_size": batch,
        "accumulation": accumulation,
        "processes": args.world_size,
        "examples_per_step": batch * max(args.n_gpu, 1) * accumulation * args.world_size,
        STEPS: state.max_steps,
        **data_options(dataset),
    }
    return {name: value for name, value in options.items() if not (state.global_step and name in _OF_HARDWARE)}


def data_options(dataset: Any) -> dict[str, Any]:
    """Return how many examples there are, and a hash of some of them; empty where that is not known.

    Only data whose reading changes nothing are read: a training with a generator of its own in its data would draw
    other examples afterwards.
    """
    if dataset is None or isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
        return {}
    try:
        count = len(dataset)
        if not count or not all(map(_is_without_state, _parts(dataset))):
            return {EXAMPLES: count}
        places = sorted({number * count // _EXAMPLES_READ for number in range(_EXAMPLES_READ)})
        first, second = (_digest([_read(dataset, place) for place in places]) for _ in range(2))
    except Exception:  # data that cannot be read so tell nothing; the training itself says what is wrong with them
        return {}
    # examples that are drawn anew at each reading tell nothing
    return {EXAMPLES: count, **({DATA: first} if first == second else {})}


def _parts(dataset: Any) -> list[Any]:
    """Return a set of data, and those that it is made of, such as the whole of a ``Subset``."""
    if not isinstance(dataset, Dataset):
        return [dataset]
    attributes = [*vars(dataset).values(), *(getattr(dataset, "datasets", None) or [])]
    return [dataset, *(part for value in attributes if isinstance(value, Dataset) for part in _parts(value))]


def _read(dataset: Any, place: int) -> Any:
    """Return an example, and leave every set of data as it was, which may count how often it is read."""
    attributes = [(vars(part), dict(vars(part))) for part in _parts(dataset) if hasattr(part, "__dict__")]
    example = dataset[place]
    for current, earlier in attributes:
        current.update(earlier)
    return example


def _is_without_state(dataset: Any) -> bool:
    """Return whether a set of data holds nothing that reading it would change, such as a generator."""
    if isinstance(dataset, list | tuple):
        return True
    if type(dataset).__module__.partition(".")[0] == "datasets":
        # of Hugging Face's library, where a transform may draw
        return "transform" not in (getattr(dataset, "_format_kwargs", None) or {})
    return isinstance(dataset, Dataset) and all(isinstance(v, _WITHOUT_STATE) for v in vars(dataset).values())


def _digest(examples: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps([_as_json(example) for example in examples]).encode()).hexdigest()


def _as_json(value: Any) -> Any:
    """Return an example as JSON holds it; of what that cannot hold the name of its kind."""
    if isinstance(value, torch.Tensor | np.ndarray | np.generic):
        return _as_json(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): _as_json(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, str | bool | int | float | None) else type(value).__name__
