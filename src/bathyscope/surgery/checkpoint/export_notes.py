"""Sentences about what an export does not hold of its source, for warnings and the model card."""

from __future__ import annotations

import re
import warnings

from transformers import PreTrainedConfig

from bathyscope.surgery.checkpoint.cached_generation import uncached_reason
from bathyscope.surgery.checkpoint.source import Source
from bathyscope.surgery.checkpoint.weight_files import stored_in


def note_packing(source: Source) -> list[str]:
    """Say that packed weights are written unpacked."""
    if source.packing is None:
        return []
    return [f"The source's weights are unpacked from {source.packing}; this copy holds them as plain numbers."]


def note_left_out(source: Source) -> list[str]:
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


def note_cache(config: PreTrainedConfig, rewritten_config: PreTrainedConfig) -> list[str]:
    """Say that transformers cannot generate from the copy with a cache, where it cannot."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about token ids of the outline's short vocabulary
        reason = uncached_reason(config, rewritten_config)
    if reason is None:
        return []
    return [
        "Transformers cannot generate from this model with a cache, because the blocks that remain give it none it can "
        f"count ({reason.partition(':')[0]}). Generate with use_cache=False, or keep a block with attention."
    ]
