"""Further architectures: rarer layouts, and newer members of families that the plain entries cover."""

from __future__ import annotations

from typing import Any

from support.zoo.dense import LATENT
from support.zoo.entry import ALTERNATING, COMMON, GROUPED, HEAD, TIED, WINDOW, Entry, config
from support.zoo.hybrid import LINEAR
from support.zoo.moe import EXPERTS, ROUTED
from support.zoo.postnorm import GRANITE
from transformers import MusicgenForCausalLM, MusicgenMelodyForCausalLM

INDEXER: dict[str, Any] = {"index_topk": WINDOW, "index_head_dim": 16, "index_n_heads": 2}
"""Sparse attention over fewer keys than the prompts have."""

RECURRENT_NAMES: dict[str, Any] = {
    "intermediate_size": ...,
    "num_attention_heads": ...,
    "max_position_embeddings": ...,
}

GEMMA4_TEXT: dict[str, Any] = {
    **COMMON,
    **GROUPED,
    **HEAD,
    **TIED,
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention"] * 2 + ["full_attention"],
    "global_head_dim": 16,
    "final_logit_softcapping": 2.0,
}
NO_SHAPE: dict[str, Any] = dict.fromkeys(COMMON, ...)
"""A multimodal configuration holds the shape in its text part."""

MUSICGEN: dict[str, Any] = {"ffn_dim": 96, "intermediate_size": ..., "num_codebooks": 1, "eos_token_id": ...}

ENTRIES = (
    Entry(
        "gemma3_multimodal",
        "gemma3_multimodal",
        config(
            "gemma3",
            NO_SHAPE,
            text_config={
                **COMMON,
                **GROUPED,
                **HEAD,
                **TIED,
                **ALTERNATING,
                "query_pre_attn_scalar": 16,
                "final_logit_softcapping": 2.0,
            },
            vision_config={
                "model_type": "siglip_vision_model",
                "hidden_size": 32,
                "intermediate_size": 32,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "image_size": 28,
                "patch_size": 14,
            },
            mm_tokens_per_image=4,
            image_token_index=1000,
        ),
        "language model inside a multimodal one, which leaves the softcap out",
    ),
    Entry(
        "gemma4_multimodal",
        "gemma4_multimodal",
        config(
            "gemma4",
            NO_SHAPE,
            text_config={
                **GEMMA4_TEXT,
                "hidden_size_per_layer_input": 8,
                "vocab_size_per_layer_input": 120,
                "num_kv_shared_layers": 2,
            },
            vision_config=None,
            audio_config=None,
        ),
        "language model inside a multimodal one, shared keys and values",
    ),
    Entry(
        "gemma4_unified",
        "gemma4_multimodal",
        config("gemma4_unified", NO_SHAPE, text_config=GEMMA4_TEXT),
        "language model inside a multimodal one",
    ),
    Entry("solar_open", "llama", config("solar_open", GROUPED, HEAD, ROUTED), "grouped routing"),
    Entry(
        "exaone_moe",
        "llama",
        config(
            "exaone_moe",
            GROUPED,
            HEAD,
            ALTERNATING,
            num_experts=4,
            num_experts_per_tok=2,
            num_shared_experts=1,
            moe_intermediate_size=32,
            first_k_dense_replace=1,
            n_group=2,
            topk_group=1,
        ),
        "grouped routing, windows",
    ),
    Entry("hy_v3", "llama", config("hy_v3", GROUPED, HEAD, EXPERTS), "sigmoid routing"),
    Entry("glm4_moe_lite", "llama", config("glm4_moe_lite", LATENT, ROUTED), "latent attention, grouped routing"),
    Entry(
        "mellum",
        "llama",
        config("mellum", GROUPED, HEAD, EXPERTS, ALTERNATING),
        "windows, two rotary tables, experts",
    ),
    Entry(
        "aria_text",
        "llama",
        config("aria_text", GROUPED, moe_num_experts=4, moe_topk=2, moe_num_shared_experts=1),
        "grouped products, shared experts",
    ),
    Entry(
        "deepseek_v32",
        "llama",
        config("deepseek_v32", LATENT, ROUTED, INDEXER),
        "sparse attention chosen by an indexer",
        tails=False,
    ),
    Entry(
        "cohere2_moe",
        "cohere",
        config("cohere2_moe", GROUPED, TIED, ALTERNATING, num_experts=4, num_experts_per_tok=2, logit_scale=2.0),
        "parallel residual, experts, windows",
    ),
    Entry(
        "kolibri1",
        "glm4",
        config("kolibri1", GROUPED, HEAD, EXPERTS, ALTERNATING),
        "sandwich norms, windows, experts",
    ),
    Entry("granite_swa", "granite", config("granite_swa", GROUPED, GRANITE, ALTERNATING), "windows, multipliers"),
    Entry(
        "granitemoe_swa",
        "granitemoe",
        config("granitemoe_swa", GROUPED, GRANITE, ALTERNATING, num_local_experts=4, shared_intermediate_size=48),
        "windows, multipliers, experts",
    ),
    Entry(
        "lfm3",
        "lfm3",
        config(
            "lfm3",
            GROUPED,
            TIED,
            conv_L_cache=3,
            sliding_window=WINDOW,
            layer_types=["conv", "full_attention", "conv", "sliding_attention", "conv"],
        ),
        "convolutions, windows, sandwich norms",
    ),
    Entry(
        "modernbert-decoder",
        "modernbert_decoder",
        config("modernbert-decoder", TIED, local_attention=WINDOW, global_attn_every_n_layers=2),
        "transformed head, windows, first block without a norm",
    ),
    Entry("doge", "doge", config("doge", GROUPED), "residual times a learned vector", parts=False, tails=None),
    Entry(
        "qwen3_5_moe",
        "qwen3_next",
        config("qwen3_5_moe_text", GROUPED, HEAD, EXPERTS, LINEAR, shared_expert_intermediate_size=32),
        "gated delta rule and attention, experts",
        tails=None,
    ),
    Entry(
        "kimi_linear",
        "llama",
        config(
            "kimi_linear",
            LATENT,
            LINEAR,
            q_lora_rank=None,
            num_local_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=32,
            linear_head_dim=16,
            linear_num_heads=4,
            mlp_layer_types=["dense"] + ["sparse"] * 4,
        ),
        "delta rule and latent attention",
        tails=None,
    ),
    Entry(
        "olmo_hybrid",
        "olmo_hybrid",
        config("olmo_hybrid", GROUPED, LINEAR),
        "delta rule and attention with different norm layouts",
        tails=None,
    ),
    Entry(
        "nemotron_h",
        "nemotron_h",
        config(
            "nemotron_h",
            GROUPED,
            HEAD,
            num_hidden_layers=...,
            layers_block_type=["mamba", "moe", "attention", "mamba", "mlp"],
            ssm_state_size=8,
            mamba_num_heads=8,
            mamba_head_dim=16,
            n_groups=1,
            chunk_size=8,
            n_routed_experts=4,
            moe_intermediate_size=32,
            moe_shared_expert_intermediate_size=32,
        ),
        "one mixer a block: Mamba-2, attention, MLP or experts",
        parts=False,
        tails=None,
    ),
    Entry(
        "zamba2",
        "zamba2",
        config(
            "zamba2",
            n_mamba_heads=8,
            mamba_d_state=8,
            chunk_size=8,
            layers_block_type=["mamba", "hybrid", "mamba", "mamba", "hybrid"],
        ),
        "one attention shared by several blocks, the embedding as a second input",
        parts=False,
        tails=None,
    ),
    Entry(
        "falcon_mamba",
        "mamba",
        config("falcon_mamba", RECURRENT_NAMES, state_size=8, expand=2),
        "one recurrent mixer a block",
        parts=False,
        tails=False,
    ),
    Entry(
        "rwkv",
        "rwkv",
        config("rwkv", rescale_every=0, num_attention_heads=...),
        "time mixing, channel mixing",
        parts=False,
        tails=False,
    ),
    Entry(
        "xlstm",
        "xlstm",
        config("xlstm", RECURRENT_NAMES, num_heads=4),
        "matrix memory, logit softcap",
        tails=False,
    ),
    Entry(
        "musicgen",
        "musicgen_decoder",
        config("musicgen_decoder", MUSICGEN),
        "lists of embeddings and heads, of one codebook",
        kind=MusicgenForCausalLM,
    ),
    Entry(
        "musicgen_melody",
        "musicgen_decoder",
        config("musicgen_melody_decoder", MUSICGEN),
        "the same with its own attention",
        kind=MusicgenMelodyForCausalLM,
    ),
)
