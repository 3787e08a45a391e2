"""Sizes in the header of a GGUF file that none of its tensors has: a model of them is made before tensors are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from bathyscope.core.text import elided
from bathyscope.model.files import fewer_blocks

_EMBEDDING: Final = "token_embd.weight"
_BLOCKS: Final = "block_count"
_WIDTH, _VOCABULARY = "embedding_length", "vocab_size"
_SIZES: Final = ("feed_forward_length", "head_count", "head_count_kv", "key_length", "value_length", "expert_count")
"""Endings of the names of sizes that some axis of some tensor is at least as long as."""
_HEADS: Final = "attention.head_count"
_OF_A_HEAD: Final = ("attention.key_length", "attention.value_length")
_MOST_OF_HEADS: Final = 4
"""Times the longest axis that all heads of a block may have together; some families store them compressed."""


def unstored_size(values: Mapping[str, object], shapes: Mapping[str, Sequence[int]]) -> str:
    """Say which size of a header no tensor of the file has, as the rest of a sentence; empty where all are stored.

    Args:
        values: of the header, by key.
        shapes: of the tensors, by name.
    """
    numbers = {key.partition(".")[2]: value for key, value in values.items() if isinstance(value, int)}
    if stored := fewer_blocks(numbers.get(_BLOCKS), shapes):
        return f"asks for {numbers[_BLOCKS]:,} blocks, and its weights are those of at most {stored:,}"
    embedding = shapes.get(_EMBEDDING)
    longest = max((size for shape in shapes.values() for size in shape), default=0)
    heads = numbers.get(_HEADS, 1)
    for name, number in numbers.items():
        if name == _WIDTH and embedding is not None:
            is_stored = number in embedding
        elif name == _VOCABULARY and embedding is not None:
            is_stored = 0 <= number <= max(embedding, default=0)
        else:
            is_stored = not name.endswith(_SIZES) or 0 <= number <= longest
        if name in _OF_A_HEAD:
            is_stored &= heads * number <= _MOST_OF_HEADS * longest
        if not is_stored:
            return f"says {elided(name, 60)} = {elided(number, 40)}, and no tensor has that size"
    return ""
