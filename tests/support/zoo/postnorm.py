"""Layouts with norms on the outputs, scaled contributions or more than two contributions a block."""

from __future__ import annotations

from support.zoo.entry import ALTERNATING, GROUPED, HEAD, TIED, WINDOW, Entry, config

GRANITE = {
    "residual_multiplier": 0.7,
    "embedding_multiplier": 3.0,
    "logits_scaling": 0.5,
    "attention_multiplier": 0.3,
}

ENTRIES = (
    Entry("olmo2", "olmo2", config("olmo2", GROUPED), "norms on the outputs"),
    Entry("olmo3", "olmo2", config("olmo3", GROUPED, ALTERNATING), "norms on the outputs, windows"),
    Entry("exaone4", "olmo2", config("exaone4", GROUPED, HEAD, ALTERNATING), "norms on the outputs, windows"),
    Entry(
        "gemma2",
        "gemma2",
        config(
            "gemma2",
            GROUPED,
            HEAD,
            TIED,
            ALTERNATING,
            query_pre_attn_scalar=16,
            final_logit_softcapping=3.0,
            attn_logit_softcapping=5.0,
        ),
        "sandwich norms, softcaps, windows",
    ),
    Entry(
        "gemma3",
        "gemma2",
        config("gemma3_text", GROUPED, HEAD, TIED, ALTERNATING, query_pre_attn_scalar=16),
        "sandwich norms, two rotary tables",
    ),
    Entry(
        "gemma4",
        "gemma4",
        config(
            "gemma4_text",
            GROUPED,
            HEAD,
            TIED,
            sliding_window=WINDOW,
            layer_types=["sliding_attention", "full_attention"] * 2 + ["full_attention"],
            hidden_size_per_layer_input=8,
            vocab_size_per_layer_input=120,
            num_kv_shared_layers=2,
            global_head_dim=16,
        ),
        "three contributions, layer scalar, shared keys and values",
    ),
    Entry("glm4", "glm4", config("glm4", GROUPED, HEAD), "sandwich norms"),
    Entry("granite", "granite", config("granite", GROUPED, GRANITE), "residual, embedding and logit multipliers"),
    Entry(
        "hyperclovax",
        "hyperclovax",
        config("hyperclovax", GROUPED, GRANITE, HEAD, use_post_norm=True),
        "post norms times a residual multiplier",
    ),
)
