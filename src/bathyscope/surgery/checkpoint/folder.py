"""A scheduled model written as a plain checkpoint. Its folder is there as a whole, or not at all."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from bathyscope.errors import ModelError, OptionError, warn
from bathyscope.model import config_hash
from bathyscope.model.classes import class_for
from bathyscope.schedule import Schedule
from bathyscope.surgery.checkpoint.card import CARD, RECORD, ExportRecord, card
from bathyscope.surgery.checkpoint.configuration import require_sequential, rewritten
from bathyscope.surgery.checkpoint.export_notes import note_cache, note_left_out, note_packing
from bathyscope.surgery.checkpoint.exportable import require_all_layers, require_library_attention, require_plain
from bathyscope.surgery.checkpoint.in_memory import note_precisions, note_rounded, require_running
from bathyscope.surgery.checkpoint.integrity import require_apart, require_sound
from bathyscope.surgery.checkpoint.outline import skeleton
from bathyscope.surgery.checkpoint.proof import require_same
from bathyscope.surgery.checkpoint.source import Source, companions
from bathyscope.surgery.checkpoint.target_folder import claimed, put, rewrite_card
from bathyscope.surgery.checkpoint.tensor_names import Layout
from bathyscope.surgery.checkpoint.tensors import from_files, from_model
from bathyscope.surgery.checkpoint.weight_files import SHARD_BYTES, Written, write_shards


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
    require_running(source)
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
    lacking += note_left_out(source)
    lacking += note_cache(source.config, config)
    lacking += [*note_rounded(source), *note_precisions(source)]
    notes = [*notes, *note_packing(source), *lacking]
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
        ModelError: blocks in parallel, which no checkpoint can have.
    """
    chosen = Schedule.of(schedule, n_blocks, loop)
    require_sequential(chosen)
    if not len(chosen):
        raise OptionError("This schedule leaves no block; a checkpoint has at least one.")
    return chosen


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
