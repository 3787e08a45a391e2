"""The zoo: a tiny random model of every architecture family, and variants that wake idle mechanisms.

``build`` is cached, so a test that changes a model (weights, hooks left in place) must build its own with
``entry(name).build()``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from zlib import crc32

import pytest
import torch
from support.zoo import (
    classic,
    dense,
    hybrid,
    moe,
    pathologies,
    postnorm,
    refused,
    relatives,
    shared,
    streams,
    variants,
)
from support.zoo.entry import Entry
from transformers import PreTrainedModel

__all__ = ["FEWER", "Entry", "build", "entries", "entry", "forget_changed", "names", "prompts", "swept"]

PLAIN = (*dense.ENTRIES, *classic.ENTRIES, *postnorm.ENTRIES, *moe.ENTRIES, *hybrid.ENTRIES, *shared.ENTRIES)
_TABLE: dict[str, Entry] = {}
for _entry in (
    *PLAIN,
    *variants.ENTRIES,
    *pathologies.ENTRIES,
    *relatives.ENTRIES,
    *streams.ENTRIES,
    *refused.ENTRIES,
):
    if _entry.name in _TABLE:
        raise ValueError(f"two zoo entries are named {_entry.name!r}")
    _TABLE[_entry.name] = _entry

REPRESENTATIVES: Final = frozenset(
    (
        *("llama", "ministral", "diffllama", "gpt2", "bloom", "deepseek_v3", "llama4", "qwen3_moe"),
        *("falcon", "gpt_neox", "cohere2"),  # parallel
        *("olmo2", "gemma2", "gemma3_multimodal"),  # norms on the outputs, inside a multimodal model
        *("granite", "opt_projected", "gemma4"),  # multipliers, projections, a scale of blocks and lent keys and values
        *("openai-gpt", "doge", "mixed_norms"),  # parts that cannot be separated
        *("lfm2", "qwen3_next", "jamba", "mamba", "falcon_h1", "kimi_linear"),  # mixers that are no attention
        *("llama_dynamic", "llama_longrope"),  # tables by length
        *("universal", "moeut"),  # blocks that run several times
        *("deepseek_v4", "gemma3n", "inkling2", "zaya"),  # several streams, or more than one stream
        "gpt2_sink",  # a stream whose first token outweighs all others
    )
)
"""An entry of every way to add to the stream, to read it out, to attend and to be given arguments."""


FEWER: Final = frozenset(
    (
        *("llama", "llama_dynamic", "gpt2", "falcon", "gemma2", "granite", "bloom", "gemma4"),
        *("lfm2", "mamba", "openai-gpt", "moeut", "gpt2_sink"),
    )
)
"""An entry of every way to add to the stream; one without parts, one without tails, one that depends on lengths."""


def swept(chosen: Iterable[str], quick: frozenset[str] = REPRESENTATIVES) -> list[Any]:
    """These entries as values of a test's parameter; all but ``quick`` are for ``make test-thorough`` alone.

    For checks that cost a second or so of computing for each family. What every family needs of its own, the checks at
    load and the standard schedule, is tested of all of them by ``make test-all`` too.
    """
    return [pytest.param(one, marks=() if one in quick else pytest.mark.thorough) for one in chosen]


def entries(*, plain: bool = False, refused: bool = False) -> tuple[Entry, ...]:
    """All measurable entries.

    Args:
        plain: without variants and relatives (one entry for each of the usual model types).
        refused: instead those whose family must be refused.
    """
    chosen = PLAIN if plain else tuple(_TABLE.values())
    return tuple(found for found in chosen if found.refused == refused)


def names(*, plain: bool = False, refused: bool = False) -> list[str]:
    """The names of ``entries``."""
    return [found.name for found in entries(plain=plain, refused=refused)]


def entry(name: str) -> Entry:
    """The entry called ``name``; raises KeyError for an unknown one."""
    return _TABLE[name]


_SHARED: dict[tuple[Any, ...], tuple[PreTrainedModel, int]] = {}
_LENT: set[tuple[Any, ...]] = set()
"""Those that were given out since they were last looked at for changes."""


def build(name: str, *, seed: int = 0, dtype: torch.dtype = torch.float32, attn: str | None = None) -> PreTrainedModel:
    """The tiny model called ``name`` in evaluation mode; shared between callers, so never change it."""
    key = (name, seed, dtype, attn)
    if key not in _SHARED:
        model = entry(name).build(seed=seed, dtype=dtype, attn=attn)
        _SHARED[key] = model, _checksum(model)
    _LENT.add(key)
    return _SHARED[key][0]


def _checksum(model: PreTrainedModel) -> int:
    """A checksum of the bytes of all weights, to the bit, and of which modules have a forward of their own."""
    replaced = ",".join(name for name, module in model.named_modules() if "forward" in vars(module))
    checksum = crc32(replaced.encode())
    for weight in model.parameters():
        checksum = crc32(weight.detach().contiguous().view(-1).view(torch.uint8).numpy(), checksum)
    return checksum


def forget_changed() -> list[str]:
    """The names of shared models that a test has changed; they are built again for the next one.

    Of those alone that were given out since this was last asked: to look at all of some hundred takes seconds.
    """
    changed = [key for key in _LENT if key in _SHARED and _checksum(_SHARED[key][0]) != _SHARED[key][1]]
    _LENT.clear()
    for key in changed:
        del _SHARED[key]
    return [key[0] for key in changed]


def prompts(model: PreTrainedModel, lengths: tuple[int, ...] = (14, 9, 17), seed: int = 0) -> list[list[int]]:
    """Random token ids, one list a length; ids 0 to 3 (padding, BOS, EOS) are left out."""
    draw = torch.Generator().manual_seed(seed)
    vocabulary = model.config.get_text_config().vocab_size
    return [torch.randint(4, vocabulary, (length,), generator=draw).tolist() for length in lengths]
