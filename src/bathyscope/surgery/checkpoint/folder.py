"""A scheduled model written as a plain checkpoint. Its folder is there as a whole, or not at all."""

from __future__ import annotations

import os
import re
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from bathyscope.core.atomic import partial_name, write_atomically
from bathyscope.core.foreign import read_text
from bathyscope.core.interrupts import uninterrupted
from bathyscope.errors import ModelError, OptionError, StoreError, warn
from bathyscope.model import config_hash
from bathyscope.model.anatomy.gaps import random_ids
from bathyscope.model.anatomy.mode import evaluating
from bathyscope.model.attending import registered_in_words
from bathyscope.model.classes import class_for, loads_by_itself
from bathyscope.model.constants.tables import changed_tables, rounded_tables
from bathyscope.model.files import INDEX, SINGLE, require_whole
from bathyscope.model.in_hand import (
    has_adapters,
    renumbered,
    stale_places,
    values_changed,
)
from bathyscope.model.replaced import replaced_in_words
from bathyscope.model.structure import stored_difference
from bathyscope.schedule import Schedule
from bathyscope.surgery.checkpoint.cached_generation import uncached_reason
from bathyscope.surgery.checkpoint.card import CARD, RECORD, ExportRecord, card, is_same_export
from bathyscope.surgery.checkpoint.configuration import rewritten
from bathyscope.surgery.checkpoint.integrity import require_apart, require_sound
from bathyscope.surgery.checkpoint.outline import skeleton
from bathyscope.surgery.checkpoint.proof import require_same
from bathyscope.surgery.checkpoint.source import Source, companions
from bathyscope.surgery.checkpoint.tensor_names import Layout
from bathyscope.surgery.checkpoint.tensors import from_files, from_model
from bathyscope.surgery.checkpoint.weight_files import SHARD_BYTES, Written, stored_in, write_shards


def write_export(
    source: Source,
    schedule: Schedule,
    folder: Path,
    *,
    changes: Mapping[str, Tensor] | None = None,
    notes: Sequence[str] = (),
    evidence: str = "",
    files: Mapping[str, str] | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> Path:
    """Write the checkpoint of a schedule.

    Args:
        changes: weights that are written instead of the source's, by their names in the copy (repair).
        notes: sentences for the model card.
        files: further texts by name, such as what a repair measured.

    Raises:
        ModelError, StoreError: as ``export``.
    """
    require_apart(source.folder, folder)
    require_plain(source)
    require_library_attention(source)
    whole = skeleton(source.config)
    require_all_layers(source, whole)
    config, layout = layout_of(source, schedule)
    copy = skeleton(config)
    # Compared after copying: a training that saves into the source's folder meanwhile would give half of each.
    before = source.stamps()
    # Nothing is read yet; each tensor's bytes come when it is written.
    tensors = _collect_tensors(source, whole, copy, layout, changes)
    record = ExportRecord(
        model=source.public_name,
        n_blocks=schedule.n_blocks,
        order=schedule.order,
        source=source.hashes(),
        settings=config_hash(source.hf or whole),
        version=version("bathyscope"),
        changes=_hash_changes(changes),
    )
    lacking = [] if source.has_tokenizer else ["The source came without a tokenizer, so this copy has none."]
    lacking += _note_left_out(source)
    lacking += _note_cache(source.config, config)
    lacking += _note_rounded(source)
    notes = [*notes, *_note_packing(source), *lacking]
    loader = class_for(source.config).__name__
    if not claimed(folder, record, sum(tensor.size for tensor in tensors)):
        if evidence.strip():
            rewrite_card(folder, card(record, loader, notes, evidence))
        return folder
    require_sound(source)

    def fill(place: Path) -> None:
        write_shards(place, tensors, shard_bytes)
        if source.stamps() != before:
            raise ModelError(
                f"The files of {source.name} have changed while they were copied, and the copy would be of two models; "
                "nothing was written. Export it again when they stay as they are."
            )
        config.architectures = [type(copy).__name__]
        config.dtype = source.dtype
        config.save_pretrained(place)
        companions(source, place)
        (place / RECORD).write_text(record.text(), encoding="utf-8")
        (place / CARD).write_text(card(record, loader, notes, evidence), encoding="utf-8")
        for name, text in (files or {}).items():
            (place / name).write_text(text, encoding="utf-8")

    put(folder, fill)
    for note in lacking:
        warn(f"{folder}: {note}")
    return folder


def _note_packing(source: Source) -> list[str]:
    if source.packing is None:
        return []
    return [f"The source's weights are unpacked from {source.packing}; this copy holds them as plain numbers."]


def _note_left_out(source: Source) -> list[str]:
    """Say which tensors of the source's files its configuration has no place for, such as blocks that only draft."""
    files = (*source.files, *source.packed_files)
    drafting = getattr(source.config.get_text_config(), "num_nextn_predict_layers", None) or 0
    places = [re.search(r"\.(\d+)\.", f".{name}.") for file in files for name in stored_in(file)]
    numbers = sorted({int(place[1]) for place in places if place and int(place[1]) >= source.n_blocks})
    if not numbers:
        return []
    only_draft = numbers[-1] < source.n_blocks + drafting
    what = "which predict further tokens for drafts" if only_draft else "which its configuration does not count"
    listed = ", ".join(map(str, numbers))
    return [f"Blocks of the source's files behind its last were left out ({listed}), {what}."]


def _note_cache(config: PreTrainedConfig, rewritten_config: PreTrainedConfig) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about token ids of the outline's short vocabulary
        reason = uncached_reason(config, rewritten_config)
    if reason is None:
        return []
    return [
        "Transformers cannot generate from this model with a cache, because the blocks that remain give it none it can "
        f"count ({reason.partition(':')[0]}). Generate with use_cache=False, or keep a block with attention."
    ]


def _note_rounded(source: Source) -> list[str]:
    """Say which tables were rounded with the model in memory, which a checkpoint is loaded with in full."""
    rounded = {} if source.hf is None else rounded_tables(source.hf)
    if not rounded:
        return []
    name = max(rounded, key=lambda table: rounded[table])
    more = f" (and {len(rounded) - 1} more)" if len(rounded) > 1 else ""
    dtype = str(source.dtype).removeprefix("torch.")
    return [
        f"{name}{more} was rounded with the model in memory (by up to {rounded[name]:.2g} of a number), and loads here "
        f"in full, so that logits may differ. Measure this copy, or load the source with dtype={dtype} instead of "
        "casting it."
    ]


def layout_of(source: Source, schedule: Schedule) -> tuple[PreTrainedConfig, Layout]:
    """Return the configuration of a schedule, proved on outlines, and the tensors that it takes from the source.

    Raises:
        ModelError: what plain transformers could not load; an order that the configuration cannot say.
    """
    require_plain(source)
    config = rewritten(source.config, schedule)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about token ids of the outline's short vocabulary
        blocks = require_same(source.config, config, schedule, source.family)
    return config, Layout(blocks, schedule)


def schedule_for(schedule: object, n_blocks: int, loop: Sequence[Sequence[int]] = ()) -> Schedule:
    """Return a schedule for a model of ``n_blocks``, from itself or its text.

    Args:
        loop: for each block of a loop its runs, in a model that loops.

    Raises:
        OptionError: neither, made for another depth, or without a block.
    """
    chosen = Schedule.of(schedule, n_blocks, loop)
    if not len(chosen):
        raise OptionError("This schedule leaves no block; a checkpoint has at least one.")
    return chosen


def require_plain(source: Source) -> None:
    """Refuse what plain transformers could not load, or what cannot be copied tensor by tensor.

    Raises:
        ModelError: a type of another library or without a causal language model of its own, or quantised weights.
    """
    config = source.config
    kind = str(getattr(config, "model_type", "")) or type(config).__name__
    if not type(config).__module__.startswith("transformers."):
        raise ModelError(
            f"{kind} models cannot be exported: their type is made known by {type(config).__module__.split('.')[0]}, "
            "and an exported checkpoint is one that transformers loads by itself."
        )
    if not loads_by_itself(config):
        raise ModelError(
            f"{kind} models cannot be exported: transformers has no causal language model of a "
            f"{type(config).__name__} alone, so that no checkpoint of one can be loaded by itself."
        )
    if getattr(config, "quantization_config", None) is not None:
        raise ModelError(
            f"The weights of {source.name} are quantised, with scales that belong to blocks in ways of their own; "
            "export the model before it was quantised, and quantise the export."
        )


def require_library_attention(source: Source) -> None:
    """Refuse a model in memory that attends with a function that somebody has registered.

    Raises:
        ModelError: with its name.
    """
    if source.hf is not None and (registered := registered_in_words(source.hf)):
        raise ModelError(
            f"This {type(source.hf).__name__} cannot be exported: {registered}, and no checkpoint holds it. Put the "
            "library's own back, and measure the model with that."
        )


def require_all_layers(source: Source, whole: PreTrainedModel) -> None:
    """Refuse a model in memory that is not what its configuration makes.

    Raises:
        ModelError: another class, adapters, other shapes than the configuration says, or constants, tables and methods
            that were changed in memory. Numbers of places are no constants: those of the export are right.
    """
    if source.hf is None:
        return
    if type(source.hf) is not type(whole):
        raise ModelError(
            f"This {type(source.hf).__name__} cannot be exported: {class_for(source.config).__name__} makes a "
            f"{type(whole).__name__} of its configuration."
        )
    hf = source.hf
    if has_adapters(hf):
        raise ModelError(
            f"This {type(hf).__name__} has adapters, and a checkpoint holds plain layers alone. Merge them first "
            "(merge_and_unload()), then export."
        )
    shape = stored_difference(hf, whole)
    if shape:
        raise ModelError(
            f"This {type(hf).__name__} cannot be exported: {shape} as its configuration says. Write the change into "
            "the configuration, by which a checkpoint is loaded, or undo it."
        )
    places = stale_places(hf)
    changed = [*(name for name in values_changed(hf) if name not in places), *changed_tables(hf)]
    if changed:
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        remedy = "" if replaced_in_words(hf) else ", or write it into the configuration"
        raise ModelError(
            f"{changed[0]} of this {type(hf).__name__}{more} is not what its configuration makes, and no checkpoint "
            f"holds it. Undo the change{remedy}."
        )
    if places:
        _require_renumbering(hf, places[0])


@torch.no_grad()
def _require_renumbering(hf: PreTrainedModel, place: str) -> None:
    """Refuse a model that computes something else where its blocks bear the numbers of their places.

    Raises:
        ModelError: numbers are more than addresses of a cache in this family.
    """
    ids = random_ids(hf)
    with evaluating(hf):
        as_it_is = hf(input_ids=ids, use_cache=False, return_dict=True).logits
        with renumbered(hf):
            by_place = hf(input_ids=ids, use_cache=False, return_dict=True).logits
    if not torch.equal(as_it_is, by_place):
        raise ModelError(
            f"{place} of this {type(hf).__name__} is the number of another place, and its family computes with it, so "
            "that no checkpoint holds this model. Renumber the blocks first, and measure the model that results."
        )


def _collect_tensors(
    source: Source,
    whole: PreTrainedModel,
    copy: PreTrainedModel,
    layout: Layout,
    changes: Mapping[str, Tensor] | None,
) -> list[Written]:
    if source.hf is None:
        return from_files(source.files, whole, copy, layout)
    return from_model(source.hf, copy, layout, changes)


def _hash_changes(changes: Mapping[str, Tensor] | None) -> dict[str, str]:
    import hashlib

    from bathyscope.surgery.checkpoint.weight_files import bytes_of

    digests = {}
    for name, value in sorted((changes or {}).items()):
        digest = hashlib.sha256()
        for piece in bytes_of(value):
            digest.update(piece)
        digests[name] = digest.hexdigest()
    return digests


# Bytes for everything but the weights.
_ROOM = 1 << 26


def claimed(folder: Path, record: ExportRecord, size: int) -> bool:
    """Return whether the folder is to be written; False where it holds the same export already.

    Args:
        size: bytes of the weights.

    Raises:
        StoreError: it holds something else; its parent cannot be made; the disk has no room.
    """
    try:
        if require_free(folder):
            if is_same_export(read_text(folder / RECORD, folder), record):
                _require_whole(folder)
                return False
            raise _taken_error(folder, "another export")
        folder.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder.parent).free
    except OSError as error:
        raise _unwritable_error(folder, error) from error
    if free < size + _ROOM:
        raise StoreError(
            f"The export takes {(size + _ROOM) / 2**30:.1f} GiB, and {str(folder.parent)!r} has {free / 2**30:.1f} GiB "
            "left; free some, or give a folder on another disk."
        )
    return True


def rewrite_card(folder: Path, text: str) -> None:
    """Give an existing export another card.

    Raises:
        StoreError: it cannot be written.
    """
    try:
        write_atomically(folder / CARD, text.encode())
    except OSError as error:
        raise _unwritable_error(folder, error) from error


def _require_whole(folder: Path) -> None:
    """Refuse an existing export whose weights are no longer whole.

    Raises:
        StoreError: they are not, or one of their files is damaged.
    """
    try:
        require_whole(folder, {})
        if not (folder / SINGLE).is_file() and not (folder / INDEX).is_file():
            raise ModelError(f"there is no {SINGLE}")
    except ModelError as error:
        raise StoreError(
            f"{str(folder)!r} holds the same export, but not the whole of it any more ({error}); remove it, and export "
            "again."
        ) from error


def require_free(folder: Path) -> bool:
    """Return whether the folder holds an export, which may be the same one; False where there is nothing yet.

    Raises:
        StoreError: it holds something else, is a file, or a link that leads to no export.
    """
    if folder.is_dir() and any(folder.iterdir()):
        if (folder / RECORD).is_file():
            return True
        raise _taken_error(folder, "something else")
    if folder.is_symlink():
        raise StoreError(f"{str(folder)!r} is a symbolic link; give the folder itself that is to be written.")
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{str(folder)!r} is a file; give a folder that does not exist yet.")
    return False


def _taken_error(folder: Path, what: str) -> StoreError:
    return StoreError(
        f"{str(folder)!r} exists and holds {what}; give a folder that does not exist yet, or remove this one."
    )


def put(folder: Path, fill: Callable[[Path], None]) -> None:
    """Fill a folder under a temporary name and rename it when it is whole; a failure leaves nothing.

    Raises:
        StoreError: the disk is full or the folder cannot be written.
    """
    place = partial_name(folder)
    try:
        place.mkdir()
        fill(place)
        # An interruption is told after the rename, so that whoever hears of it finds all of the folder or nothing.
        with uninterrupted():
            os.replace(place, folder)
    except OSError as error:
        raise _unwritable_error(folder, error) from error
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _unwritable_error(folder: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{str(folder)!r} cannot be written ({error.strerror or error}); nothing was left there. Give another folder, "
        "or free some room."
    )
