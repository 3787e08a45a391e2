from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from bathyscope_lab.model import build_config, build_model, context_of
from bathyscope_lab.recipes import read_recipe, shipped

from bathyscope.errors import OptionError
from bathyscope.prompts.tasks.vocabulary import word_tokenizer

TOKENIZER = word_tokenizer([f"w{n}" for n in range(296)])
LLAMA = {
    "type": "llama",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "tie_word_embeddings": True,
}


def test_fresh_weights_depend_on_the_seed_alone_and_start_near_uniform() -> None:
    first, again, other = (build_model(LLAMA, TOKENIZER, 64, seed) for seed in (1, 1, 2))
    states = [model.state_dict() for model in (first, again, other)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not torch.equal(states[0]["lm_head.weight"], states[2]["lm_head.weight"])
    assert first.get_input_embeddings().weight is first.get_output_embeddings().weight
    ids = torch.randint(2, 300, (4, 64), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert float(first(ids, labels=ids).loss) == pytest.approx(math.log(300), abs=0.1)


def test_writes_are_scaled_by_depth_and_nothing_else_is() -> None:
    plain = build_model(LLAMA, TOKENIZER, 64).state_dict()
    scaled = build_model(LLAMA, TOKENIZER, 64, scaled_writes=True).state_dict()
    for name, weight in plain.items():
        factor = 0.5 if name.endswith(("o_proj.weight", "down_proj.weight")) else 1.0
        torch.testing.assert_close(scaled[name], weight * factor)


def test_a_model_without_such_matrices_is_refused() -> None:
    with pytest.raises(OptionError, match="GPT2LMHeadModel has no matrices called o_proj or down_proj; leave it out"):
        build_model({"type": "gpt2", "n_embd": 32, "n_layer": 1, "n_head": 2}, TOKENIZER, 64, scaled_writes=True)


def test_the_tokenizer_decides_the_vocabulary() -> None:
    config = build_config(LLAMA, TOKENIZER, 64)
    assert (config.vocab_size, config.bos_token_id, config.eos_token_id) == (300, 1, 2)


def test_common_names_of_keys_are_taken_where_a_type_has_others() -> None:
    keys = {"type": "gpt2", "hidden_size": 32, "n_layer": 1, "n_head": 2, "n_positions": 80}
    config = build_config(keys, TOKENIZER, 64)
    assert (config.n_embd, context_of(config)) == (32, 80)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": "lama"}, "'lama' is no type of causal language model. Did you mean 'llama'?"),
        ({"type": "vit"}, "'vit' is no type of causal language model"),
        ({"type": None}, "model: needs a type"),
        ({"hidden_sise": 3}, "llama has no key 'hidden_sise'. Did you mean 'hidden_size'? Allowed: hidden_size"),
        ({"vocab_size": 3}, "vocab_size follows from the tokenizer; leave it out"),
        ({"hidden_size": "big"}, "llama refuses these keys: .*hidden_size"),
        ({"num_attention_heads": 5}, "llama refuses these keys: .*not a multiple"),
        ({"num_hidden_layers": 0}, "llama would have 0 blocks; give at least 1"),
        ({"max_position_embeddings": 32}, "A stage has context 64, the model 32; shorten the stage or lengthen"),
    ],
)
def test_what_a_type_does_not_take_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message.replace("?", r"\?")):
        build_config({**LLAMA, **change}, TOKENIZER, 64)


def test_sizes_that_make_no_model_are_refused() -> None:
    with pytest.raises(OptionError, match=r"no llama can be built of these keys \(.*power\); check its sizes"):
        build_model({**LLAMA, "hidden_size": 0}, TOKENIZER, 64)


@pytest.mark.parametrize("name", [name for name in shipped() if read_recipe(name).model is not None])
def test_the_model_of_a_shipped_recipe_can_be_made(name: str) -> None:
    recipe = read_recipe(name)
    assert recipe.model is not None
    config = build_config(recipe.model, TOKENIZER, recipe.context)
    assert config.vocab_size == 300
