"""Configurations rewritten for another order: what is said by block follows the blocks."""

from __future__ import annotations

from typing import Any

import pytest
from support import zoo
from transformers import AutoConfig

from bathyscope.schedule import Schedule
from bathyscope.surgery.checkpoint.configuration import rewritten

FULL, WINDOW = "full_attention", "sliding_attention"


def config_of(name: str, text: str, **changes: Any) -> Any:
    config = zoo.entry(name).config()
    for key, value in changes.items():
        setattr(config, key, value)
    return rewritten(config, Schedule.parse(text, 5)).get_text_config()


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("llama", "drop:1", {"num_hidden_layers": 4}),
        ("gpt2", "drop:1,drop:2", {"n_layer": 3}),
        ("ministral", "order:0-2-1", {"layer_types": [WINDOW, WINDOW, FULL]}),
        ("ministral", "repeat:1", {"layer_types": [WINDOW, FULL, FULL, WINDOW, FULL, WINDOW]}),
        ("smollm3", "drop:0", {"no_rope_layers": [1, 1, 0, 1]}),
        ("gpt_neo", "drop:1", {"attention_types": [[["global", "global", "local", "local"], 1]]}),
        # lists of blocks
        ("bamba", "drop:0", {"attn_layer_indices": [0, 3]}),
        ("qwen3_moe", "swap:1", {"mlp_only_layers": [2]}),
        ("llama4", "repeat:1", {"moe_layers": [1, 2, 4]}),
        # entries by block
        ("gemma4_experts", "drop:1", {"per_layer_config": {2: 1, 3: 1}}),
        # counts of first and last blocks
        ("deepseek_v3", "drop:0", {"first_k_dense_replace": 0}),
        ("deepseek_v3", "repeat:0", {"first_k_dense_replace": 2, "num_nextn_predict_layers": 0}),
        ("gemma4", "drop:4", {"num_kv_shared_layers": 1}),
        ("ernie4_5_moe", "drop:2", {"moe_layer_start_index": 1, "moe_layer_end_index": 3}),
        # periods with an explicit form
        ("jamba", "drop:0,drop:2,drop:4", {"attn_layer_period": 1, "attn_layer_offset": 0}),
        ("jamba", "drop:1", {"expert_layer_period": 4, "expert_layer_offset": 2}),
        ("recurrent_gemma", "drop:0", {"block_types": ["attention", "recurrent", "attention", "recurrent"]}),
        # and lists as long as the model is deep that go by something else
        ("falcon_h1", "drop:0", {"ssm_multipliers": [1.0] * 5}),
    ],
)
def test_entries_follow_their_blocks(name: str, text: str, wanted: dict[str, Any]) -> None:
    found = config_of(name, text)
    for key, value in wanted.items():
        own = found.to_dict()[key]
        if key == "per_layer_config":
            own = {int(block): one["num_key_value_heads"] for block, one in own.items()}
        assert own == value, key


def test_experts_in_every_other_block_are_spelled_out() -> None:
    found = config_of("qwen3_moe", "drop:2", decoder_sparse_step=2)
    assert (found.mlp_only_layers, found.decoder_sparse_step) == ([0, 1, 3], 1)


def test_a_scale_by_depth_keeps_its_quotient_exactly() -> None:
    config = zoo.entry("minicpm3").config()
    for text in ("drop:0", "drop:1,drop:2", "repeat:0", "repeat:0+5x6"):
        found = rewritten(config, Schedule.parse(text, 5))
        assert found.scale_depth / found.num_hidden_layers**0.5 == config.scale_depth / config.num_hidden_layers**0.5


def test_the_configuration_given_stays_as_it_is() -> None:
    config = AutoConfig.for_model("qwen2", num_hidden_layers=4)
    before = config.to_dict()
    assert rewritten(config, Schedule.standard(4).drop(2)).num_hidden_layers == 3
    assert config.to_dict() == before
