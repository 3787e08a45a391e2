"""The shared-layer models as the library's own: saved, loaded, generated from, padded, trained."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from bathyscope_lab.models import UniversalTransformerConfig, UniversalTransformerForCausalLM
from bathyscope_lab.models.rotary import rotary_turn
from safetensors.torch import load_file
from support import zoo
from support.unshared import unshared
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    DynamicCache,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
)

import bathyscope
from bathyscope.errors import OptionError

NAMES = ("universal", "moeut")
STEPS, GROUP = 6, 2


def ids_of(model: PreTrainedModel, *lengths: int) -> Tensor:
    return torch.tensor(zoo.prompts(model, lengths))


def gap(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).abs().max() / wanted.abs().max())


def own_copy(name: str) -> PreTrainedModel:
    return copy.deepcopy(zoo.build(name))


@pytest.mark.parametrize("name", NAMES)
def test_steps_are_modules_of_their_own_with_the_same_parameters(name: str) -> None:
    for model in (zoo.build(name), own_copy(name), own_copy(name).to(torch.bfloat16)):
        blocks = model.model.layers
        assert len(blocks) == model.config.num_hidden_layers == STEPS
        modules = [id(module) for block in blocks for module in block.modules()]
        assert len(set(modules)) == len(modules)
        for step, block in enumerate(blocks):
            first = dict(blocks[step % GROUP].named_parameters())
            assert all(value is first[path] for path, value in block.named_parameters())
        assert blocks[0].self_attn.q_proj.weight is not blocks[1].self_attn.q_proj.weight
        assert not any(value.is_meta for value in model.parameters())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("tied", [False, True])
def test_a_saved_model_holds_shared_weights_once_and_comes_back_bit_for_bit(
    name: str, tied: bool, tmp_path: Path
) -> None:
    config = copy.deepcopy(zoo.build(name).config)
    config.tie_word_embeddings = tied
    model = AutoModelForCausalLM.from_config(config).eval()
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    assert set(saved) == {own for own, _ in model.named_parameters()}
    assert not any(f"layers.{step}." in own for own in saved for step in range(GROUP, STEPS))

    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert type(again) is type(model)
    assert again.config.to_dict() == AutoConfig.from_pretrained(tmp_path).to_dict()
    assert (again.lm_head.weight is again.model.embed_tokens.weight) == tied
    ids = ids_of(model, 9)
    assert torch.equal(again(ids).logits, model(ids).logits)
    blocks = again.model.layers
    assert all(p is q for p, q in zip(blocks[1].parameters(), blocks[5].parameters()))
    # as the library's trainer resumes
    other = AutoModelForCausalLM.from_config(config).eval()
    if not tied:
        other.load_state_dict(saved)
        assert torch.equal(other(ids).logits, model(ids).logits)


def test_bathyscope_loads_folders_in_a_process_that_has_not_imported_the_laboratory(tmp_path: Path) -> None:
    for name in NAMES:
        zoo.build(name).save_pretrained(tmp_path / name)
    code = (
        "import sys, bathyscope; bathyscope.load; assert 'bathyscope_lab' not in sys.modules\n"
        f"for name in {NAMES}:\n"
        f"    model = bathyscope.load({str(tmp_path)!r} + '/' + name, device='cpu')\n"
        "    print(model.n_blocks, model.weight_hash)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    wanted = [f"{STEPS} {bathyscope.load(zoo.build(name)).weight_hash}" for name in NAMES]
    assert done.stdout.splitlines() == wanted


@pytest.mark.parametrize("name", NAMES)
def test_generation_gives_the_same_with_and_without_a_cache(name: str) -> None:
    model = zoo.build(name)
    ids = ids_of(model, 9, 9)
    mask = torch.ones_like(ids)
    mask[1, :4] = 0
    runs = [
        model.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=8,
            do_sample=False,
            use_cache=use_cache,
            eos_token_id=None,
            pad_token_id=0,
            return_dict_in_generate=True,
            output_logits=True,
        )
        for use_cache in (True, False)
    ]
    assert torch.equal(runs[0].sequences, runs[1].sequences)
    assert gap(torch.stack(runs[0].logits), torch.stack(runs[1].logits)) < 1e-5
    assert runs[0].past_key_values.get_seq_length(STEPS - 1) == 16


@pytest.mark.parametrize("name", NAMES)
def test_a_cache_keeps_keys_and_values_of_every_step(name: str) -> None:
    model = zoo.build(name)
    ids = ids_of(model, 12)
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        whole = model(ids).logits
        pieces = [model(ids[:, piece], past_key_values=cache).logits for piece in (slice(7), slice(7, 8), slice(8, 12))]
    assert len(cache.layers) == STEPS
    keys = [layer.keys for layer in cache.layers]
    assert all(key.shape[-2] == 12 for key in keys)
    assert all(gap(keys[step], keys[step + GROUP]) > 1e-2 for step in range(STEPS - GROUP))
    assert gap(torch.cat(pieces, dim=1), whole) < 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_padding_on_either_side_changes_nothing(name: str) -> None:
    model = zoo.build(name)
    ids = ids_of(model, 9)
    pad = torch.zeros(1, 4, dtype=torch.long)
    ones = torch.ones_like(ids)
    with torch.no_grad():
        alone = model(ids).logits
        right = model(torch.cat([ids, pad], 1), attention_mask=torch.cat([ones, pad], 1)).logits[:, :9]
        positions = torch.cat([pad, torch.arange(9)[None]], 1)
        mask = torch.cat([pad, ones], 1)
        left = model(torch.cat([pad, ids], 1), attention_mask=mask, position_ids=positions).logits[:, 4:]
        moved = model(ids, position_ids=torch.arange(50, 59)[None]).logits
        spread = model(ids, position_ids=2 * torch.arange(9)[None]).logits
    assert max(gap(right, alone), gap(left, alone)) < 1e-5
    assert gap(moved, alone) < 1e-4, "only distances count"
    assert gap(spread, alone) > 1e-2


@pytest.mark.parametrize("name", NAMES)
def test_forward_takes_and_gives_what_the_library_expects(name: str) -> None:
    model = zoo.build(name)
    ids = ids_of(model, 9)
    with torch.no_grad():
        out = model(ids, labels=ids, output_hidden_states=True, use_cache=False)
        embedded = model(inputs_embeds=model.get_input_embeddings()(ids))
        last = model(ids, logits_to_keep=2)
        as_tuple = model(ids, use_cache=False, return_dict=False)
    with pytest.raises(ValueError, match="exactly one of input_ids and inputs_embeds"):
        model()
    assert torch.equal(embedded.logits, out.logits)
    assert gap(last.logits, out.logits[:, -2:]) < 1e-6
    assert torch.equal(as_tuple[0], out.logits)
    assert out.past_key_values is None
    assert embedded.past_key_values is not None
    log_p = out.logits[0, :-1].log_softmax(-1)
    assert out.loss.item() == pytest.approx(-log_p.gather(-1, ids[0, 1:, None]).mean().item(), rel=1e-5)

    states, stream = out.hidden_states, model.model.embed_tokens(ids)
    assert len(states) == STEPS + 1
    assert torch.equal(states[0], stream)
    # as everywhere in the library, the last one is normed
    assert torch.equal(model.lm_head(states[-1]), out.logits)


@pytest.mark.parametrize("name", NAMES)
def test_eager_attention_gives_its_weights_and_the_same_logits(name: str) -> None:
    model, eager = zoo.build(name), zoo.build(name, attn="eager")
    ids = ids_of(model, 9)
    with torch.no_grad():
        out = eager(ids, output_attentions=True)
        assert gap(out.logits, model(ids).logits) < 1e-5
    assert len(out.attentions) == STEPS
    for weights in out.attentions:
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        assert not weights.triu(1).any()


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_shared_weights_add_up_over_the_steps(name: str) -> None:
    model = own_copy(name).train()
    untied = unshared(zoo.build(name)).train()
    ids = ids_of(model, 9, 9)
    model(ids, labels=ids).loss.backward()
    untied(ids, labels=ids).loss.backward()
    path = "self_attn.q_proj.weight"
    apart = [block.get_parameter(path).grad for block in untied.model.layers[1::GROUP]]
    assert all(gradient.abs().max() > 0 for gradient in apart)
    found = model.model.layers[1].get_parameter(path).grad
    torch.testing.assert_close(found, sum(apart), rtol=1e-4, atol=1e-7)

    checkpointed = own_copy(name).train()
    checkpointed.activation_checkpointing_enable()
    checkpointed(ids, labels=ids, use_cache=False).loss.backward()
    for own, other in zip(model.parameters(), checkpointed.parameters()):
        torch.testing.assert_close(other.grad, own.grad)


@pytest.mark.parametrize(("group", "repeats"), [(4, 1), (2, 2), (1, 4)])
def test_a_universal_transformer_is_a_plain_decoder_with_the_same_weights(group: int, repeats: int) -> None:
    """Llama, in which every block has weights of its own, given those of the first run of each block."""
    shape = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 40, "num_attention_heads": 4}
    torch.manual_seed(0)
    model = UniversalTransformerForCausalLM(
        UniversalTransformerConfig(
            **shape,
            group_size=group,
            repeats=repeats,
            norm="rms_norm",
            norm_eps=1e-6,
            rotary_share=1.0,
            hidden_act="silu",
            gated_mlp=True,
        )
    ).eval()
    with torch.no_grad():
        for value in model.parameters():
            value.add_(0.1 * torch.randn_like(value))
    plain = LlamaForCausalLM(LlamaConfig(**shape, num_hidden_layers=4, rms_norm_eps=1e-6)).eval()
    plain.load_state_dict(model.state_dict())
    ids = ids_of(model, 11, 11)
    with torch.no_grad():
        assert gap(model(ids).logits, plain(ids).logits) < 1e-5
    assert (sum(p.numel() for p in model.parameters()) == sum(p.numel() for p in plain.parameters())) == (repeats == 1)


def test_a_block_that_norms_the_sum_is_the_plain_formula() -> None:
    model = own_copy("mixed_norms")
    resid = model.model.embed_tokens(ids_of(model, 9)).detach()
    block, plain = model.model.layers[0], model.model.layers[1]
    heard: list[Tensor] = []
    for part in (block.self_attn, block.mlp):
        part.register_forward_hook(lambda module, given, output: heard.extend([given[0], given[1]]))
    with torch.no_grad():
        stream = model(ids_of(model, 9), output_hidden_states=True).hidden_states
        first, second = block.input_layernorm, block.post_attention_layernorm
        turn = rotary_turn(torch.arange(9)[None], model.config.rotary_entries, model.config.rope_theta, resid)
        mask = torch.full((9, 9), -torch.inf).triu(1)[None, None]
        middle = first(resid + block.self_attn(resid, resid, turn, mask)[0])
        after = second(middle + block.mlp(middle, middle))
    assert gap(stream[1], after) < 1e-5
    assert heard[0] is heard[1]  # the parts read the stream itself
    assert type(plain) is not type(block)
    assert gap(stream[1], resid) > 0.1


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(OptionError, match=r"post_norm_blocks=3 of group_size=2; give 0 to 2\."):
        UniversalTransformerConfig(group_size=2, repeats=2, post_norm_blocks=3)
    with pytest.raises(OptionError, match=r"initializer_range=0\.0 is no standard deviation; give a number above 0"):
        UniversalTransformerConfig(group_size=2, repeats=2, initializer_range=0.0)


def test_matrices_are_drawn_alike_where_a_deviation_is_given() -> None:
    config = UniversalTransformerConfig(
        vocab_size=300, hidden_size=64, group_size=2, repeats=1, num_attention_heads=4, intermediate_size=96
    )
    spread = {}
    for std in (None, 0.05):
        config.initializer_range = std
        drawn = UniversalTransformerForCausalLM(config).state_dict()
        spread[std] = {name: float(value.std()) for name, value in drawn.items() if value.ndim > 1}
    assert all(abs(found - 0.05) < 0.003 for found in spread[0.05].values())
    down = spread[None]["model.layers.0.mlp.down_proj.weight"]
    assert abs(down - (2 / 2 / 96) ** 0.5) < 0.005
