"""The tensors of a scheduled copy, as a checkpoint names them: from the files of one, or from a model in memory."""

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import (
    WeightConverter,
    WeightRenaming,
    rename_source_key,
    revert_weight_conversion,
)

from bathyscope.errors import ModelError
from bathyscope.surgery.layout import Layout
from bathyscope.surgery.soundness import require_shape
from bathyscope.surgery.weight_files import Stored, Written, bytes_of, grouped_bytes, kind_of, stored_in


def from_files(
    files: Iterable[Path], source: PreTrainedModel, target: PreTrainedModel, layout: Layout
) -> list[Written]:
    """Tensors copied byte by byte from a checkpoint; those of a block under the numbers of its slots.

    The library renames and merges tensors when it loads them; since the copy is loaded by the same rules, they are
    copied as they are, and the rules only say which of them belong to which block.

    Args:
        source, target: the model and its copy on the meta device.

    Raises:
        ModelError: a tensor of the copy would come from nowhere.
    """
    stored = {name: one for file in files for name, one in stored_in(file).items()}
    known, wanted = _Names(source), _Names(target)
    outside: list[Written] = []
    inside: dict[int, dict[str, Stored]] = {}
    for name, one in stored.items():
        model_name = known.of(name)
        place = None if model_name is None else layout.place(model_name)
        if place is not None:
            inside.setdefault(place, {})[name] = one
        elif model_name is not None:
            outside.append(_outside(name, one, model_name, known, wanted, layout))
        if model_name is not None and known.is_copied(name):
            require_shape(name, one.shape, known.tensors[model_name].shape)
    written = list(outside)
    for slot, block in enumerate(layout.schedule):
        for name, one in inside.get(block, {}).items():
            moved = _numbered(name, block, slot)
            was = known.of(name)
            if was is None or wanted.of(moved) != layout.moved(was, slot):
                raise ModelError(
                    f"{name} of the checkpoint belongs to block {block}, and its name does not say so in a way that "
                    "can be rewritten; load the model and export it from memory."
                )
            written.append(Written(moved, one.kind, one.shape, one.end - one.start, one.pieces))
    _require_all(target, {wanted.of(one.name) for one in written})
    return written


def from_model(
    hf: PreTrainedModel, target: PreTrainedModel, layout: Layout, changes: Mapping[str, Tensor] | None = None
) -> list[Written]:
    """Tensors of a model in memory, under the names of its family's checkpoints; made one block at a time.

    Args:
        target: the copy on the meta device.
        changes: weights that are written instead, by the copy's names.
    """
    theirs, own = hf.state_dict(), target.state_dict()
    changed = dict(changes or {})
    tied = {
        name
        for name, other in target.all_tied_weights_keys.items()
        if _same(
            changed.get(name, theirs.get(layout.source(name))), changed.get(other, theirs.get(layout.source(other)))
        )
    }
    groups: dict[int | None, list[str]] = {}
    for name in own:
        if name not in tied:
            groups.setdefault(layout.place(name), []).append(name)

    def taken(group: int | None) -> dict[str, Tensor]:
        return {
            name: changed[name] if name in changed else layout.taken(name, theirs, tuple(own[name].shape))
            for name in groups[group]
        }

    made = _Latest(hf, taken)
    written = []
    for group in groups:
        for name, value in revert_weight_conversion(hf, {n: v.to("meta") for n, v in taken(group).items()}).items():
            size = value.numel() * value.element_size()
            pieces = partial(made.pieces, group, name)
            written.append(Written(name, kind_of(value.dtype), tuple(value.shape), size, pieces))
    return written


class _Latest:
    """The converted tensors of one block at a time."""

    def __init__(self, hf: PreTrainedModel, taken: Any) -> None:
        self._hf, self._taken = hf, taken
        self._group: Any = ...
        self._tensors: dict[str, Tensor] = {}

    def pieces(self, group: int | None, name: str) -> Iterator[Any]:
        """The bytes of a tensor of a block."""
        if group != self._group:
            self._tensors = {}
            self._tensors, self._group = revert_weight_conversion(self._hf, self._taken(group)), group
        yield from bytes_of(self._tensors[name])


class _Names:
    """What the tensors of a checkpoint are called in the model that is loaded from it."""

    def __init__(self, model: PreTrainedModel) -> None:
        mapping = get_model_conversion_mapping(model)
        self._renamings = [one for one in mapping if isinstance(one, WeightRenaming)]
        self._converters = [one for one in mapping if isinstance(one, WeightConverter)]
        self._prefix = model.base_model_prefix
        self.tensors = model.state_dict()

    def is_copied(self, name: str) -> bool:
        """Return whether a checkpoint's tensor is taken as it is, and not merged with others or turned."""
        return rename_source_key(name, self._renamings, self._converters, self._prefix, self.tensors)[1] is None

    def of(self, name: str) -> str | None:
        """The model's name of a checkpoint's tensor; None where it has no place for it."""
        found, _ = rename_source_key(name, self._renamings, self._converters, self._prefix, self.tensors)
        if found not in self.tensors and name in self.tensors:
            found = name
        return found if found in self.tensors else None


def _outside(name: str, one: Stored, model_name: str, known: _Names, wanted: _Names, layout: Layout) -> Written:
    """A tensor outside of the blocks; where an axis of it counts blocks, with the entries of those that stay."""
    theirs, own = known.tensors[model_name].shape, wanted.tensors[model_name].shape
    axis = layout.axis(model_name, tuple(theirs), tuple(own))
    if axis is None:
        return Written(name, one.kind, one.shape, one.end - one.start, one.pieces)
    if one.shape != tuple(theirs):
        raise ModelError(f"{name} is converted when it is loaded; load the model and export it from memory.")
    pieces = partial(grouped_bytes, one, axis, layout.schedule.n_blocks, layout.schedule.order)
    size = (one.end - one.start) // math.prod(theirs) * math.prod(own)
    return Written(name, one.kind, tuple(own), size, pieces)


def _numbered(name: str, block: int, slot: int) -> str:
    """A checkpoint's name with the number of its block, the first in it, exchanged for the slot's."""
    parts = name.split(".")
    place = next((place for place, part in enumerate(parts) if part.isdecimal()), None)
    if place is None or int(parts[place]) != block:
        return name
    return ".".join([*parts[:place], str(slot), *parts[place + 1 :]])


def _require_all(target: PreTrainedModel, found: set[str | None]) -> None:
    missing = sorted(set(target.state_dict()) - found - set(target.all_tied_weights_keys))
    if missing:
        raise ModelError(
            f"The checkpoint holds nothing for {len(missing)} tensors of the copy ({missing[0]}, …); it is incomplete, "
            "or blocks that would be left out lend weights to others. Load the model and export it from memory."
        )


def _same(first: Tensor | None, second: Tensor | None) -> bool:
    if first is None or second is None:
        return False
    return first.data_ptr() == second.data_ptr() and first.shape == second.shape
