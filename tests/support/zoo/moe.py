"""Mixtures of experts."""

from __future__ import annotations

from typing import Any

from support.zoo.dense import LATENT
from support.zoo.entry import ALTERNATING, BLOCKS, GROUPED, HEAD, TIED, WIDTH, WINDOW, Entry, config
from support.zoo.postnorm import GRANITE

EXPERTS: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
ROUTED: dict[str, Any] = {
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
    "n_group": 2,
    "topk_group": 1,
}
"""Grouped routing with a shared expert, after one dense block."""

ENTRIES = (
    Entry(
        "mixtral",
        "llama",
        config("mixtral", GROUPED, num_local_experts=4, sliding_window=WINDOW),
        "experts, window",
    ),
    Entry(
        "qwen2_moe",
        "llama",
        config(
            "qwen2_moe",
            GROUPED,
            EXPERTS,
            shared_expert_intermediate_size=48,
            use_sliding_window=True,
            sliding_window=WINDOW,
        ),
        "gated shared expert",
    ),
    Entry(
        "qwen3_moe",
        "llama",
        config("qwen3_moe", GROUPED, EXPERTS, HEAD, mlp_only_layers=[1]),
        "one dense block",
    ),
    Entry("deepseek_v2", "llama", config("deepseek_v2", LATENT, ROUTED), "latent attention, grouped routing"),
    Entry("deepseek_v3", "llama", config("deepseek_v3", LATENT, ROUTED), "latent attention, grouped routing"),
    Entry(
        "gpt_oss",
        "llama",
        config("gpt_oss", GROUPED, HEAD, ALTERNATING, num_local_experts=4, num_experts_per_tok=2),
        "attention sinks, windows, yarn",
    ),
    Entry(
        "llama4",
        "llama4",
        config(
            "llama4_text",
            GROUPED,
            HEAD,
            num_local_experts=4,
            intermediate_size_mlp=64,
            interleave_moe_layer_step=2,
            attention_chunk_size=WINDOW,
        ),
        "flat MLP outputs, chunked attention",
    ),
    Entry("olmoe", "llama", config("olmoe", GROUPED, EXPERTS, moe_intermediate_size=...), "query and key norms"),
    Entry(
        "ernie4_5_moe",
        "llama",
        config(
            "ernie4_5_moe",
            GROUPED,
            EXPERTS,
            moe_num_experts=4,
            moe_k=2,
            moe_num_shared_experts=1,
            moe_layer_start_index=1,
        ),
        "shared experts, one dense block",
    ),
    Entry(
        "phimoe",
        "llama",
        config("phimoe", GROUPED, num_local_experts=4, sliding_window=WINDOW),
        "sparse mixer, LayerNorm, biased head",
    ),
    Entry(
        "dots1",
        "llama",
        config("dots1", GROUPED, ROUTED, HEAD, sliding_window=WINDOW, max_window_layers=3),
        "grouped routing, windows from the fourth block on",
    ),
    Entry("glm4_moe", "llama", config("glm4_moe", GROUPED, ROUTED, HEAD), "grouped routing, partial rotary"),
    Entry(
        "minimax_m2",
        "llama",
        config("minimax_m2", GROUPED, HEAD, num_local_experts=4, num_experts_per_tok=2),
        "sigmoid routing",
    ),
    Entry(
        "hunyuan_v1_moe",
        "llama",
        config("hunyuan_v1_moe", GROUPED, HEAD, num_experts=4, moe_topk=2),
        "shared MLP beside the experts",
    ),
    Entry(
        "granitemoe",
        "granitemoe",
        config("granitemoe", GROUPED, GRANITE, num_local_experts=4),
        "residual multiplier, experts",
    ),
    Entry(
        "granitemoeshared",
        "granitemoe",
        config("granitemoeshared", GROUPED, GRANITE, num_local_experts=4, shared_intermediate_size=48),
        "experts and a shared MLP in sum",
    ),
    Entry(
        "flex_olmo",
        "olmo2",
        config("flex_olmo", GROUPED, num_experts=4, num_experts_per_tok=2),
        "norms on the outputs, experts",
    ),
    Entry(
        "afmoe",
        "afmoe",
        config("afmoe", GROUPED, HEAD, EXPERTS, ALTERNATING, num_dense_layers=1, num_shared_experts=1),
        "sandwich norms, gated attention",
    ),
    Entry(
        "jetmoe",
        "jetmoe",
        config(
            "jetmoe",
            TIED,
            num_key_value_heads=2,
            kv_channels=16,
            num_local_experts=4,
            num_experts_per_tok=2,
            num_hidden_layers=BLOCKS,
        ),
        "experts in the attention",
    ),
    Entry(
        "dbrx",
        "dbrx",
        config(
            "dbrx",
            d_model=WIDTH,
            n_layers=BLOCKS,
            n_heads=4,
            max_seq_len=256,
            hidden_size=...,
            intermediate_size=...,
            num_hidden_layers=...,
            num_attention_heads=...,
            max_position_embeddings=...,
            attn_config={"kv_n_heads": 2, "clip_qkv": 2.0, "rope_theta": 10000.0},
            ffn_config={"hidden_size": WIDTH, "ffn_hidden_size": 48, "moe_num_experts": 4, "moe_top_k": 2},
        ),
        "attention nested in a norm module",
    ),
)
