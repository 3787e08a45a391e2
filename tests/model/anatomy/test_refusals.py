"""What refused types do that makes the measures impossible, shown on the untouched models."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from support import naive, zoo
from support.zoo import causal
from support.zoo.entry import randomise
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    Gemma4AssistantForCausalLM,
    Gemma4UnifiedAssistantForCausalLM,
    MusicgenForCausalLM,
    PreTrainedModel,
)

from bathyscope.errors import ModelError
from bathyscope.model import load
from bathyscope.model.anatomy.registry import family_for

IDS = [5, 9, 31, 33, 12, 17, 44, 40, 13]
HALF = 5
CHANGED = [*IDS[:HALF], *(token + 1 for token in IDS[HALF:])]

ENCODERS = {
    "cpmant": lambda: causal.build_shrunk("cpmant"),
    "xlnet": lambda: zoo.build("xlnet_both_ways"),
    "reformer": lambda: zoo.build("reformer_hashed"),
}


@pytest.mark.parametrize("name", ENCODERS)
def test_earlier_logits_change_with_later_tokens(name: str) -> None:
    hf = ENCODERS[name]()
    if name == "reformer":
        # the same chunks in every forward: what is drawn for hashing comes from one seed
        for block in hf.reformer.encoder.layers:
            block.attention.self_attention.hash_seed = 0
    assert torch.equal(naive.logits(hf, IDS), naive.logits(hf, IDS))
    apart = (naive.logits(hf, IDS) - naive.logits(hf, CHANGED))[:HALF].norm(dim=-1)
    assert float(apart.max()) > 0.01
    with pytest.raises(ModelError, match=r"tokens? (attends? to all others|into chunks that depend on later tokens)"):
        load(hf)


_PART = {"hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 48}


def build_blt() -> PreTrainedModel:
    """A tiny random BLT, which begins a patch where its next byte is hard to predict."""
    local = {**_PART, "vocab_size": 260, "hidden_size_global": 64}
    config = AutoConfig.for_model(
        "blt",
        vocab_size=260,
        encoder_hash_byte_group_vocab=64,
        encoder_hash_byte_group_size=[3, 4],
        patcher_config={**_PART, "vocab_size": 260},
        encoder_config=local,
        decoder_config=local,
        global_config={**_PART, "hidden_size": 64},
        patching_threshold=5.4,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    randomise(model, 0)
    return model.eval()


def test_blocks_of_blt_run_on_patches_whose_number_depends_on_the_text() -> None:
    hf = build_blt()
    places: list[int] = []

    def note(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        places.append(output.shape[1])

    hook = hf.model.global_transformer.layers[0].register_forward_hook(note)
    texts = [[7] * 12, [40] * 12, list(range(10, 22)), [33, 34, 35, 100] * 3]
    for text in texts:
        assert len(naive.logits(hf, text)) == len(text) == 12
    hook.remove()
    # no two of these texts of 12 bytes have states of as many places, and none has one for each byte
    assert len(set(places)) == len(texts)
    assert 12 not in places
    with pytest.raises(ModelError, match="number of patches depends on the text"):
        load(hf)


@pytest.mark.parametrize(
    ("model_type", "kind"),
    [
        ("gemma4_assistant", Gemma4AssistantForCausalLM),
        ("gemma4_unified_assistant", Gemma4UnifiedAssistantForCausalLM),
    ],
)
def test_drafters_cannot_run_on_token_ids_alone(model_type: str, kind: type[PreTrainedModel]) -> None:
    # without a model: this version of transformers builds none, because all of their blocks take another's keys
    with pytest.raises(ValueError, match="inputs_embeds and shared_kv_states cannot be None"):
        inspect.unwrap(kind.forward)(None, input_ids=torch.tensor([IDS]))
    family = family_for(model_type)
    assert family is not None
    assert "cannot run on token ids alone" in str(family.refused)


def test_sound_of_several_codebooks_has_several_predictions_for_a_token() -> None:
    config = zoo.entry("musicgen").config()
    config.num_codebooks = 2
    hf = MusicgenForCausalLM(config).eval()
    with torch.no_grad():
        assert hf(input_ids=torch.tensor([IDS, IDS])).logits.shape == (2, len(IDS), 120)
    message = r"with num_codebooks=2 it reads and predicts several codebooks of sound .* It can with num_codebooks=1"
    with pytest.raises(ModelError, match=message):
        load(hf)


def test_no_module_of_xlm_holds_the_attention_and_the_mlp_of_one_block() -> None:
    shape = {"vocab_size": 120, "emb_dim": 64, "n_layers": 4, "n_heads": 4, "causal": True, "pad_token_id": 0}
    hf = AutoModelForCausalLM.from_config(AutoConfig.for_model("xlm", **shape), dtype=torch.float32).eval()
    parts = {hf.transformer.attentions[1], hf.transformer.ffns[1]}
    holding = [name for name, module in hf.named_modules() if parts <= set(module.modules())]
    # nothing smaller than the whole trunk
    assert holding == ["", "transformer"]
    with pytest.raises(ModelError, match="none of its modules is a block"):
        load(hf)
