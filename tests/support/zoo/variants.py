"""Settings that wake a mechanism which the plain entries leave idle, or still one that they use."""

from __future__ import annotations

from typing import Any

from support.zoo.classic import BLOOM_NAMES, FALCON_NAMES, GPT2_NAMES, MPT_NAMES, NEO_NAMES, OPT_NAMES
from support.zoo.dense import LATENT
from support.zoo.entry import ALTERNATING, GROUPED, HEAD, TIED, WINDOW, Entry, config
from support.zoo.hybrid import CONVOLUTIONS, MAMBA
from support.zoo.moe import ROUTED
from support.zoo.postnorm import GRANITE
from support.zoo.shared import REPEATED

SHORT = 12
"""A trained length between the zoo's prompt lengths, so that prompts fall into different rotary regimes."""

LONGROPE: dict[str, Any] = {
    "rope_parameters": {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [1.0 + 0.1 * i for i in range(8)],
        "long_factor": [2.0 + 0.5 * i for i in range(8)],
        "original_max_position_embeddings": SHORT,
    },
    "original_max_position_embeddings": SHORT,
}
YARN: dict[str, Any] = {
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 10000.0,
        "factor": 4.0,
        "original_max_position_embeddings": 64,
    }
}
DYNAMIC: dict[str, Any] = {
    "rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0},
    "max_position_embeddings": SHORT,
}
LINEAR_ROTARY: dict[str, Any] = {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}}
LLAMA3: dict[str, Any] = {
    "rope_parameters": {
        "rope_type": "llama3",
        "rope_theta": 10000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    }
}
GEMMA2: dict[str, Any] = {**GROUPED, **HEAD, **TIED, "query_pre_attn_scalar": 16}
GEMMA4: dict[str, Any] = {
    **GROUPED,
    **HEAD,
    **TIED,
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "full_attention"] * 2 + ["full_attention"],
    "global_head_dim": 16,
    "vocab_size_per_layer_input": 120,
    "hidden_size_per_layer_input": 0,
}

ENTRIES = (
    Entry(
        "llama_tied",
        "llama",
        config("llama", TIED, attention_bias=True, mlp_bias=True),
        "tied head, biases, no groups",
    ),
    Entry("llama_yarn", "llama", config("llama", GROUPED, YARN), "yarn rotary"),
    Entry("llama_linear", "llama", config("llama", GROUPED, LINEAR_ROTARY), "linear rotary"),
    Entry("llama_llama3", "llama", config("llama", GROUPED, LLAMA3), "llama3 rotary"),
    Entry(
        "llama_dynamic",
        "llama",
        config("llama", GROUPED, DYNAMIC),
        "dynamic rotary: state between forwards, tables by length",
    ),
    Entry("llama_longrope", "llama", config("llama", GROUPED, LONGROPE), "longrope: tables by length"),
    Entry("phi3_longrope", "llama", config("phi3", GROUPED, LONGROPE), "longrope: tables by length"),
    Entry("mistral_full", "llama", config("mistral", GROUPED, TIED, sliding_window=None), "no window"),
    Entry(
        "ministral_full",
        "llama",
        config("ministral", GROUPED, HEAD, sliding_window=WINDOW, layer_types=["full_attention"] * 5),
        "no window",
    ),
    Entry(
        "qwen2_windows",
        "llama",
        config("qwen2", GROUPED, use_sliding_window=True, sliding_window=WINDOW, max_window_layers=2),
        "windows from the third block on",
    ),
    Entry(
        "qwen3_windows",
        "llama",
        config("qwen3", HEAD, GROUPED, TIED, use_sliding_window=True, sliding_window=WINDOW, max_window_layers=3),
        "windows from the fourth block on, tied head",
    ),
    Entry(
        "smollm3_windows",
        "llama",
        config("smollm3", GROUPED, use_sliding_window=True, sliding_window=WINDOW),
        "windows where rotary is missing",
    ),
    Entry(
        "deepseek_v3_direct",
        "llama",
        config("deepseek_v3", LATENT, ROUTED, q_lora_rank=None, rope_interleave=False),
        "latent keys and values only",
    ),
    Entry(
        "gpt2_scaled",
        "gpt2",
        config("gpt2", GPT2_NAMES, scale_attn_by_inverse_layer_idx=True, reorder_and_upcast_attn=True),
        "attention scaled by depth, untied head",
    ),
    Entry(
        "gpt_bigcode_heads",
        "gpt2",
        config("gpt_bigcode", GPT2_NAMES, multi_query=False),
        "multi-head, untied head",
    ),
    Entry(
        "gpt_neo_global",
        "gpt2",
        config("gpt_neo", NEO_NAMES, attention_types=[[["global"], 5]]),
        "no local windows, untied head",
    ),
    Entry(
        "gpt_neox_serial",
        "gpt_neox",
        config("gpt_neox", TIED, use_parallel_residual=False),
        "serial residual, tied head",
    ),
    Entry(
        "stablelm_serial",
        "stablelm",
        config("stablelm", GROUPED, TIED, use_parallel_residual=False, use_qkv_bias=True, qk_layernorm=True),
        "serial residual, query and key norms",
    ),
    Entry("phi_norms", "phi", config("phi", qk_layernorm=True), "query and key norms, no groups"),
    Entry(
        "opt_post_norm",
        "opt",
        config("opt", OPT_NAMES, TIED, do_layer_norm_before=False, word_embed_proj_dim=32),
        "norms after the sum, projected embedding and head (350m)",
        parts=False,
    ),
    Entry(
        "mixed_norms",
        "shared_layers",
        config("bathyscope_universal", REPEATED, post_norm_blocks=1),
        "norms after the sum in every other block",
        parts=False,
    ),
    Entry(
        "opt_projected",
        "opt",
        config("opt", OPT_NAMES, TIED, word_embed_proj_dim=32),
        "projected embedding and head",
    ),
    Entry(
        "opt_no_final_norm",
        "opt",
        config("opt", OPT_NAMES, TIED, _remove_final_layer_norm=True),
        "no final norm",
    ),
    Entry(
        "bloom_post_layernorm",
        "bloom",
        config("bloom", BLOOM_NAMES, TIED, apply_residual_connection_post_layernorm=True),
        "residual taken after the norm",
        parts=False,
    ),
    Entry(
        "mpt_untied",
        "mpt",
        config("mpt", MPT_NAMES, attn_config={"clip_qkv": 1.5}),
        "clipped queries, keys and values, untied head",
    ),
    Entry(
        "falcon_alibi",
        "falcon",
        config("falcon", FALCON_NAMES, TIED, alibi=True, multi_query=False, parallel_attn=False, bias=True),
        "ALiBi, serial residual, biases (the 1B checkpoints)",
    ),
    Entry(
        "falcon_new",
        "falcon",
        config("falcon", FALCON_NAMES, TIED, new_decoder_architecture=True, num_kv_heads=2),
        "new decoder architecture: two norms, grouped queries",
    ),
    Entry(
        "falcon_serial",
        "falcon",
        config("falcon", FALCON_NAMES, parallel_attn=False, multi_query=False),
        "serial residual, rotary, untied head",
    ),
    Entry(
        "cohere2_full",
        "cohere",
        config("cohere2", GROUPED, TIED, layer_types=["full_attention"] * 5, logit_scale=0.5),
        "no rotary in any block",
    ),
    Entry(
        "gemma2_uncapped",
        "gemma2",
        config("gemma2", GEMMA2, ALTERNATING, final_logit_softcapping=None, attn_logit_softcapping=None),
        "no softcaps",
    ),
    Entry(
        "gemma3_full",
        "gemma2",
        config("gemma3_text", GEMMA2, layer_types=["full_attention"] * 5),
        "full attention only",
    ),
    Entry(
        "gemma3_capped",
        "gemma2",
        config("gemma3_text", GEMMA2, ALTERNATING, final_logit_softcapping=2.0),
        "logit softcap",
    ),
    Entry("gemma4_plain", "gemma4", config("gemma4_text", GEMMA4), "no per-layer embedding, nothing shared"),
    Entry(
        "gemma4_experts",
        "gemma4",
        config(
            "gemma4_text",
            GEMMA4,
            enable_moe_block=True,
            num_experts=4,
            top_k_experts=2,
            moe_intermediate_size=32,
            attention_k_eq_v=True,
            num_global_key_value_heads=1,
            final_logit_softcapping=2.0,
        ),
        "experts beside the MLP, keys as values, softcap",
    ),
    Entry(
        "exaone4_full",
        "olmo2",
        config("exaone4", GROUPED, HEAD, TIED, sliding_window=None, layer_types=["full_attention"] * 5),
        "no windows, tied head",
    ),
    Entry(
        "granite_tied",
        "granite",
        config("granite", GROUPED, GRANITE, TIED, attention_bias=True, mlp_bias=True),
        "tied head, biases",
    ),
    Entry(
        "hyperclovax_plain",
        "hyperclovax",
        config("hyperclovax", GROUPED, GRANITE, HEAD, use_post_norm=False),
        "without the norms on the outputs",
    ),
    Entry(
        "granitemoehybrid_dense",
        "granitemoehybrid",
        config(
            "granitemoehybrid",
            GROUPED,
            GRANITE,
            TIED,
            MAMBA,
            num_local_experts=0,
            shared_intermediate_size=48,
            layer_types=["attention"] * 5,
            position_embedding_type="nope",
        ),
        "attention only, no experts",
    ),
    Entry(
        "lfm2_attention",
        "lfm2",
        config("lfm2", GROUPED, TIED, full_attn_idxs=[0, 1, 2, 3, 4]),
        "attention only",
    ),
    Entry(
        "lfm2_convolutions",
        "lfm2",
        config("lfm2", GROUPED, TIED, CONVOLUTIONS, layer_types=["conv"] * 4 + ["full_attention"], conv_bias=True),
        "one attention block",
    ),
)
