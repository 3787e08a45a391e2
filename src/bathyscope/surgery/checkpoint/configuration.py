"""The configuration of a model whose blocks run in another order: everything in it that is said block by block.

What a rewritten configuration means is not believed: ``proof`` runs it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from transformers import PreTrainedConfig

from bathyscope.errors import ModelError
from bathyscope.schedule import Schedule

# How many of the first blocks are of another kind.
_LEADING = ("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers")
# How many of the last blocks are of another kind.
_TRAILING = ("num_kv_shared_layers",)
# The last block of a kind.
_LAST = ("moe_layer_end_index",)
# Block i is of a kind where i % period = offset.
_PERIODS = (("attn_layer_period", "attn_layer_offset"), ("expert_layer_period", "expert_layer_offset"))
# Kinds that begin again when they are used up.
_CYCLES = ("block_types",)
# Blocks behind the last, which only other programs run; they were made for the model as it was.
_BEYOND = ("num_nextn_predict_layers",)
_NAMED_BY_BLOCK = ("layer", "block")
# Lists of one entry a block whose names say nothing of blocks (Gemma 3n; sparse attention of GLM-5 and HY-V4).
_BY_BLOCK = ("intermediate_size", "activation_sparsity_pattern", "indexer_types")


def rewritten(config: PreTrainedConfig, schedule: Schedule) -> PreTrainedConfig:
    """Return a copy in which slot s is what block ``schedule.order[s]`` was, in its text part where it has one.

    Lists of one entry a block, lists of blocks, dictionaries by block, counts of first and last blocks, and periods
    are rewritten; where a period has no explicit form it is left, for the proof to refuse.

    Raises:
        ModelError: the configuration's own checks refuse the order; blocks in parallel.
    """
    require_sequential(schedule)
    whole = config.to_dict()
    inner = next((name for name, part in vars(config).items() if part is config.get_text_config()), None)
    part = whole[inner] if inner is not None else whole
    _rewrite_entries(part, config.get_text_config(), schedule)
    try:
        copy = type(config).from_dict(whole)
    # configurations check themselves by validators of their own, whose errors have no common class
    except Exception as error:
        reason = str(error).strip().splitlines()[-1].strip().removeprefix("ValueError: ") or type(error).__name__
        raise ModelError(
            f"{config.model_type} cannot be exported with this order of its blocks ({schedule}): its configuration "
            f"refuses it ({reason.rstrip('.')}). Keep another block."
        ) from error
    copy._name_or_path = ""
    return copy


def require_sequential(schedule: Schedule) -> None:
    """Refuse blocks in parallel, wherever a model is written or built of its configuration.

    Raises:
        ModelError: with what can run them.
    """
    if schedule.groups:
        raise ModelError(
            f"{schedule} cannot be a checkpoint: no configuration of plain transformers says that blocks read the same "
            "stream. Run it with bathyscope.scheduled, evaluate or swap's parallel, or leave parallel out."
        )


def count_entry(config: PreTrainedConfig) -> str:
    """Return the entry of a configuration that says how many blocks its causal language model has.

    Encoder-decoders call their encoder's number ``num_hidden_layers``, and their causal language model is the decoder.
    """
    entry = config.attribute_map.get("num_hidden_layers", "num_hidden_layers")
    return "decoder_layers" if entry == "encoder_layers" and hasattr(config, "decoder_layers") else entry


def _rewrite_entries(entries: dict[str, Any], config: PreTrainedConfig, schedule: Schedule) -> None:
    order, n_blocks = schedule.order, schedule.n_blocks
    for name, value in list(entries.items()):
        entries[name] = _rewrite_entry(name, value, order, n_blocks)
    count = count_entry(config)
    if count in entries:
        entries[count] = len(order)
    for alias in ("num_hidden_layers", "num_blocks"):  # one of them is kept for compatibility (xLSTM)
        if isinstance(entries.get(alias), int):
            entries[alias] = len(order)
    for words, change in _WORDS:
        for name in words:
            if isinstance(entries.get(name), int):
                entries[name] = change(entries[name], order, n_blocks)
    for period, offset in _PERIODS:
        # Dropping blocks may leave a pattern that has another period, or none that a period can say.
        if period in entries:
            explicit = _find_period(
                [i for i, block in enumerate(order) if block % entries[period] == entries[offset]], order
            )
            entries[period], entries[offset] = explicit or (entries[period], entries[offset])
    _spell_out_types(entries, order)
    _spell_out_steps(entries, order)
    _keep_depth_scale(entries, len(order), n_blocks)


def _rewrite_entry(name: str, value: Any, order: Sequence[int], n_blocks: int) -> Any:
    if isinstance(value, list) and value:
        if _are_blocks(name, value, n_blocks):
            return [slot for slot, block in enumerate(order) if block in value]
        if len(value) == n_blocks and (name in _BY_BLOCK or any(word in name for word in _NAMED_BY_BLOCK)):
            return [value[block] for block in order]
        if name in _CYCLES:
            return [value[block % len(value)] for block in order]
    if isinstance(value, Mapping) and value and all(str(key).isdecimal() for key in value):
        keyed = {int(key): entry for key, entry in value.items()}
        if max(keyed) < n_blocks and name not in ("id2label",):
            return {str(slot): keyed[block] for slot, block in enumerate(order) if block in keyed}
    return value


def _are_blocks(name: str, value: Sequence[Any], n_blocks: int) -> bool:
    """Return whether a list holds blocks by number, each once and in order, such as those with experts."""
    if not any(word in name for word in (*_NAMED_BY_BLOCK, "idx")):
        return False
    whole = all(isinstance(entry, int) and not isinstance(entry, bool) for entry in value)
    return whole and all(a < b for a, b in pairwise(value)) and value[0] >= 0 and value[-1] < n_blocks


def _count_leading(value: int, order: Sequence[int], _: int) -> int:
    return sum(block < value for block in order)


def _count_trailing(value: int, order: Sequence[int], n_blocks: int) -> int:
    return sum(block >= n_blocks - value for block in order)


def _find_last(value: int, order: Sequence[int], n_blocks: int) -> int:
    if value in (-1, n_blocks - 1) or value >= n_blocks:
        return len(order) - 1
    return max((slot for slot, block in enumerate(order) if block <= value), default=-1)


def _count_none(*_: Any) -> int:
    return 0


_WORDS: tuple[tuple[Sequence[str], Callable[[int, Sequence[int], int], int]], ...] = (
    (_LEADING, _count_leading),
    (_TRAILING, _count_trailing),
    (_LAST, _find_last),
    (_BEYOND, _count_none),
)


def _find_period(slots: Sequence[int], order: Sequence[int]) -> tuple[int, int] | None:
    """Return period and offset that give these slots; None where none do."""
    if not slots:
        return len(order) + 1, len(order)
    step = slots[1] - slots[0] if len(slots) > 1 else len(order)
    return (step, slots[0]) if slots[0] < step and list(slots) == list(range(slots[0], len(order), step)) else None


def _spell_out_types(entries: dict[str, Any], order: Sequence[int]) -> None:
    """Write GPT-Neo's second list of which blocks attend locally as one group that comes once."""
    if "attention_types" in entries and "attention_layers" in entries:
        entries["attention_types"] = [[list(entries["attention_layers"]), 1]]


def _spell_out_steps(entries: dict[str, Any], order: Sequence[int]) -> None:
    """Write experts in every n-th block (Qwen) as a list of all the others."""
    step = entries.get("decoder_sparse_step")
    if isinstance(step, int) and step > 1 and isinstance(entries.get("mlp_only_layers"), list):
        dense = {slot for slot, block in enumerate(order) if (block + 1) % step}
        entries["mlp_only_layers"] = sorted({*entries["mlp_only_layers"], *dense})
        entries["decoder_sparse_step"] = 1


def _keep_depth_scale(entries: dict[str, Any], slots: int, n_blocks: int) -> None:
    """Scale MiniCPM's numerator, since it divides what it adds by the root of its depth: the quotient stays."""
    scale = entries.get("scale_depth")
    if not isinstance(scale, int | float) or slots == n_blocks:
        return
    quotient = scale / math.sqrt(n_blocks)
    near = quotient * math.sqrt(slots)
    for _ in range(4):
        if near / math.sqrt(slots) == quotient:
            break
        # The nearest number whose quotient is exact: one unit in the last place would show in the logits.
        near = math.nextafter(near, math.inf if near / math.sqrt(slots) < quotient else -math.inf)
    entries["scale_depth"] = near
