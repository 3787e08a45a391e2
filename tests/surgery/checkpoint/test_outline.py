"""Outlines: models of the real shape whose weights take no memory, with every mechanism awake."""

from __future__ import annotations

import pytest
import torch
from support import zoo
from support.rounding import floor
from transformers import LlamaConfig, MistralConfig

from bathyscope.surgery.checkpoint.outline import OUTLINE_TOKENS, made_up, outlined


def test_weights_of_any_width_take_no_memory() -> None:
    config = LlamaConfig(hidden_size=4096, intermediate_size=14336, num_hidden_layers=2, vocab_size=32_000)
    hf = outlined(config)
    held = {value.untyped_storage().data_ptr(): value.untyped_storage().nbytes() for value in hf.state_dict().values()}
    assert sum(held.values()) < 2_000_000
    assert tuple(hf.model.layers[1].mlp.up_proj.weight.shape) == (14336, 4096)
    with torch.no_grad():
        logits = hf(torch.tensor([[5, 6, 7], [8, 9, 10]]), use_cache=False).logits
    assert logits.isfinite().all()
    assert not torch.equal(logits[0], logits[1])


@pytest.mark.parametrize("name", ["gpt2", "mpt", "gemma3_multimodal", "llama4", "recurrent_gemma", "deepseek_v32"])
def test_a_token_is_told_from_another_by_every_later_one_within_reach(name: str) -> None:
    hf = outlined(zoo.entry(name).config())
    ids = torch.randint(4, 100, (1, OUTLINE_TOKENS), generator=torch.Generator().manual_seed(0))
    other = ids.clone()
    other[0, 3] += 1
    with torch.no_grad():
        first, second = hf(ids, use_cache=False).logits, hf(other, use_cache=False).logits
    assert first.isfinite().all()
    # where the changed token goes to other experts, these multiply another number of tokens
    apart_T = (first - second)[0].abs().amax(-1) / first.abs().max()
    assert apart_T[:3].max() <= floor(hf)
    assert apart_T[[3, 4, OUTLINE_TOKENS - 1]].min() > floor(hf)


def test_windows_are_shorter_than_the_text() -> None:
    """One block with a window: the last token cannot see the first."""
    config = MistralConfig(num_hidden_layers=1, hidden_size=64, intermediate_size=96, sliding_window=4096)
    hf = outlined(config)
    assert config.sliding_window == 4096
    ids = torch.arange(5, 5 + OUTLINE_TOKENS)[None]
    other = ids.clone()
    other[0, 0] = 99
    with torch.no_grad():
        first, second = hf(ids, use_cache=False).logits[0], hf(other, use_cache=False).logits[0]
    changed = [not torch.equal(a, b) for a, b in zip(first, second)]
    assert changed == [place < 6 for place in range(OUTLINE_TOKENS)]


def test_every_name_has_its_own_numbers() -> None:
    first, second = (made_up(name, torch.empty(3, 4, device="meta")) for name in ("a", "b"))
    assert not torch.equal(first, second)
    assert torch.equal(first, made_up("a", torch.empty(3, 4, device="meta")))
    assert torch.linalg.matrix_rank(first) == 3
