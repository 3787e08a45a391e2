"""The tensors of a scheduled copy, as a checkpoint names them: from the files of one, or from a model in memory."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel
from transformers.core_model_loading import revert_weight_conversion

from bathyscope.errors import ModelError
from bathyscope.model.checkpoint_names import CheckpointNames
from bathyscope.model.completeness import require_no_prefix
from bathyscope.model.files import list_names, places_of_weights, remedy
from bathyscope.surgery.checkpoint.integrity import require_shape
from bathyscope.surgery.checkpoint.tensor_names import Layout
from bathyscope.surgery.checkpoint.weight_files import (
    TensorInFile,
    Written,
    bytes_of,
    grouped_bytes,
    kind_of,
    stored_in,
)


def from_files(
    files: Sequence[Path], source: PreTrainedModel, target: PreTrainedModel, layout: Layout
) -> list[Written]:
    """Return the tensors of a checkpoint, to be copied byte by byte; those of a block under the numbers of its slots.

    The library renames and merges tensors when it loads them; since the copy is loaded by the same rules, they are
    copied as they are, and the rules only say which of them belong to which block.

    Args:
        source, target: the model and its copy on the meta device.

    Raises:
        ModelError: a tensor of the copy would come from nowhere.
    """
    stored = {name: tensor for file in files for name, tensor in stored_in(file).items()}
    source_names, target_names = CheckpointNames(source), CheckpointNames(target)
    outside: list[Written] = []
    inside: dict[int, dict[str, TensorInFile]] = {}
    for name, tensor in stored.items():
        model_name = source_names.of(name)
        place = None if model_name is None else layout.place(model_name)
        if place is not None:
            inside.setdefault(place, {})[name] = tensor
        elif model_name is not None:
            outside.append(_write_outside(name, tensor, model_name, source_names, target_names, layout))
        if model_name is not None and source_names.is_copied(name):
            require_shape(name, tensor.shape, source_names.tensors[model_name].shape)
    written = list(outside)
    for slot, block in enumerate(layout.schedule):
        for name, tensor in inside.get(block, {}).items():
            moved = _renumber(name, block, slot)
            was = source_names.of(name)
            if was is None or target_names.of(moved) != layout.moved(was, slot):
                raise ModelError(
                    f"{name} of the checkpoint belongs to block {block}, and its name does not say so in a way that "
                    "can be rewritten; load the model and export it from memory."
                )
            written.append(Written(moved, tensor.kind, tensor.shape, tensor.end - tensor.start, tensor.pieces))
    lacking = set(target.state_dict()) - set(target.all_tied_weights_keys)
    lacking -= {target_names.of(tensor.name) for tensor in written}
    if lacking:
        stored_names = {source_names.of(name) for name in stored} | set(source.all_tied_weights_keys)
        missing = {layout.source(name) for name in lacking} - stored_names
        if missing:
            require_no_prefix(str(files[0].parent), missing, stored)
        _require_stored(missing, files, source_names)
        raise ModelError(
            f"The checkpoint holds nothing for {len(lacking)} tensors of the copy ({list_names(lacking)}): blocks that "
            "would be left out lend weights to others. Load the model and export it from memory."
        )
    return written


def from_model(
    hf: PreTrainedModel, target: PreTrainedModel, layout: Layout, changes: Mapping[str, Tensor] | None = None
) -> list[Written]:
    """Return tensors of a model in memory, under the names of its family's checkpoints, made one block at a time.

    Args:
        target: the copy on the meta device.
        changes: weights that are written instead, by the copy's names.
    """
    theirs = hf.state_dict()
    target_state = target.state_dict()
    changed = dict(changes or {})
    # Of tied tensors one is written, and the library ties the other again; repair may have parted them.
    tied = {
        name
        for name, other in target.all_tied_weights_keys.items()
        if _are_same(
            changed.get(name, theirs.get(layout.source(name))), changed.get(other, theirs.get(layout.source(other)))
        )
    }
    groups: dict[int | None, list[str]] = {}
    for name in target_state:
        if name not in tied:
            groups.setdefault(layout.place(name), []).append(name)

    def taken(group: int | None) -> dict[str, Tensor]:
        return {
            name: changed[name] if name in changed else layout.taken(name, theirs, tuple(target_state[name].shape))
            for name in groups[group]
        }

    latest = _Latest(hf, taken)
    written = []
    for group in groups:
        for name, value in revert_weight_conversion(hf, {n: v.to("meta") for n, v in taken(group).items()}).items():
            size = value.numel() * value.element_size()
            pieces = partial(latest.pieces, group, name)
            written.append(Written(name, kind_of(value.dtype), tuple(value.shape), size, pieces))
    return written


class _Latest:
    """The converted tensors of one block at a time."""

    def __init__(self, hf: PreTrainedModel, taken: Any) -> None:
        self._hf, self._taken = hf, taken
        self._group: Any = ...
        self._tensors: dict[str, Tensor] = {}

    def pieces(self, group: int | None, name: str) -> Iterator[Any]:
        """Return the bytes of a tensor of a block."""
        # One block at a time, since the converted tensors are copies.
        if group != self._group:
            self._tensors = {}
            self._tensors, self._group = revert_weight_conversion(self._hf, self._taken(group)), group
        yield from bytes_of(self._tensors[name])


def _write_outside(
    name: str,
    tensor: TensorInFile,
    model_name: str,
    source_names: CheckpointNames,
    target_names: CheckpointNames,
    layout: Layout,
) -> Written:
    """Return a tensor outside of the blocks; where an axis of it counts blocks, with the entries of those that stay."""
    theirs, target_shape = source_names.tensors[model_name].shape, target_names.tensors[model_name].shape
    # Some tensors outside of the blocks have entries for each block.
    axis = layout.axis(model_name, tuple(theirs), tuple(target_shape))
    if axis is None:
        return Written(name, tensor.kind, tensor.shape, tensor.end - tensor.start, tensor.pieces)
    if tensor.shape != tuple(theirs):
        raise ModelError(f"{name} is converted when it is loaded; load the model and export it from memory.")
    pieces = partial(grouped_bytes, tensor, axis, layout.schedule.n_blocks, layout.schedule.order)
    size = (tensor.end - tensor.start) // math.prod(theirs) * math.prod(target_shape)
    return Written(name, tensor.kind, tuple(target_shape), size, pieces)


def _renumber(name: str, block: int, slot: int) -> str:
    """Return a checkpoint's name with the number of its block, the first in it, exchanged for the slot's."""
    parts = name.split(".")
    place = next((place for place, part in enumerate(parts) if part.isdecimal()), None)
    if place is None or int(parts[place]) != block:
        return name
    return ".".join([*parts[:place], str(slot), *parts[place + 1 :]])


def _require_stored(missing: set[str], files: Sequence[Path], names: CheckpointNames) -> None:
    """Refuse a checkpoint that lacks weights of its own model.

    Raises:
        ModelError: the weights, and the files that should hold them.
    """
    if missing:
        folder = files[0].parent
        places = places_of_weights(folder)
        expected = {file for name, file in places.items() if names.of(name) in missing} or {file.name for file in files}
        raise ModelError(
            f"{list_names(expected)} in {str(folder)!r} lacks weights of the model: {list_names(missing)}. "
            f"{remedy(folder)}"
        )


def _are_same(first: Tensor | None, second: Tensor | None) -> bool:
    if first is None or second is None:
        return False
    return first.data_ptr() == second.data_ptr() and first.shape == second.shape
