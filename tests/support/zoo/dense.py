"""Dense decoders of the Llama kind: norm, attention, norm, MLP, each added to the residual stream."""

from __future__ import annotations

from support.zoo.entry import ALTERNATING, GROUPED, HEAD, TIED, WINDOW, Entry, config

LATENT = {
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 12,
    "v_head_dim": 16,
}
"""Multi-head latent attention at the zoo's width."""

ENTRIES = (
    Entry("llama", "llama", config("llama", GROUPED), "grouped queries, untied head"),
    Entry("mistral", "llama", config("mistral", GROUPED, sliding_window=WINDOW), "window in every block"),
    Entry("ministral", "llama", config("ministral", GROUPED, HEAD, ALTERNATING), "alternating windows"),
    Entry("ministral3", "llama", config("ministral3", GROUPED, HEAD), "yarn, query scaling by position"),
    Entry("qwen2", "llama", config("qwen2", GROUPED, TIED), "query, key and value biases, tied head"),
    Entry("qwen3", "llama", config("qwen3", GROUPED, HEAD), "query and key norms"),
    Entry("arcee", "llama", config("arcee", GROUPED), "MLP without a gate"),
    Entry("apertus", "llama", config("apertus", GROUPED), "learned activation, llama3 rotary"),
    Entry("bitnet", "llama", config("bitnet", GROUPED, TIED), "norms inside attention and MLP"),
    Entry("cwm", "llama", config("cwm", GROUPED, HEAD, ALTERNATING), "alternating windows"),
    Entry("diffllama", "llama", config("diffllama", GROUPED), "difference of two attention maps"),
    Entry("ernie4_5", "llama", config("ernie4_5", GROUPED, HEAD, TIED, use_bias=True), "biases, tied head"),
    Entry("gemma", "llama", config("gemma", HEAD, TIED, num_key_value_heads=1), "(1+w) norms, scaled embedding"),
    Entry("glm", "llama", config("glm", GROUPED, HEAD), "partial interleaved rotary, fused gate and up"),
    Entry("helium", "llama", config("helium", GROUPED, HEAD), "interleaved rotary"),
    Entry("hunyuan_v1_dense", "llama", config("hunyuan_v1_dense", GROUPED, HEAD), "norms after rotary"),
    Entry("jais2", "llama", config("jais2", GROUPED, HEAD), "LayerNorm with biases, squared ReLU"),
    Entry(
        "minicpm3",
        "minicpm3",
        config("minicpm3", LATENT, scale_depth=2.0, scale_emb=3, dim_model_base=32),
        "latent attention, residual scale",
    ),
    Entry(
        "nanochat",
        "nanochat",
        config("nanochat", GROUPED, final_logit_softcapping=3.0),
        "weightless norms, softcap",
    ),
    Entry("nemotron", "llama", config("nemotron", GROUPED), "(1+w) LayerNorm, squared ReLU"),
    Entry("olmo", "llama", config("olmo", GROUPED, clip_qkv=1.5), "weightless LayerNorm, clipped queries"),
    Entry("persimmon", "persimmon", config("persimmon"), "fused query-key-value, squared ReLU"),
    Entry("phi3", "llama", config("phi3", GROUPED, sliding_window=WINDOW), "fused projections, window"),
    Entry("seed_oss", "llama", config("seed_oss", GROUPED, HEAD), "query, key and value biases"),
    Entry("smollm3", "llama", config("smollm3", GROUPED, TIED), "blocks without rotary"),
    Entry(
        "starcoder2",
        "llama",
        config("starcoder2", GROUPED, TIED, sliding_window=WINDOW),
        "LayerNorm, biases, window",
    ),
    Entry(
        "vaultgemma",
        "vaultgemma",
        config(
            "vaultgemma",
            GROUPED,
            HEAD,
            TIED,
            ALTERNATING,
            query_pre_attn_scalar=16,
            final_logit_softcapping=3.0,
            attn_logit_softcapping=5.0,
        ),
        "softcaps, alternating windows",
    ),
    Entry("youtu", "llama", config("youtu", LATENT, TIED), "latent attention without experts"),
)
