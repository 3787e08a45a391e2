"""The older layouts: learned positions, ALiBi, parallel residuals, residual-added outputs."""

from __future__ import annotations

from typing import Any

from support.zoo.entry import ALTERNATING, BLOCKS, GROUPED, TIED, WIDTH, WINDOW, Entry, config

GPT2_NAMES: dict[str, Any] = {
    "n_embd": WIDTH,
    "n_layer": BLOCKS,
    "n_head": 4,
    "n_positions": 256,
    "n_inner": 96,
    "hidden_size": ...,
    "intermediate_size": ...,
    "num_hidden_layers": ...,
    "num_attention_heads": ...,
    "max_position_embeddings": ...,
}
BLOOM_NAMES: dict[str, Any] = {
    "n_layer": BLOCKS,
    "n_head": 4,
    "intermediate_size": ...,
    "num_hidden_layers": ...,
    "num_attention_heads": ...,
    "max_position_embeddings": ...,
}
MPT_NAMES: dict[str, Any] = {
    "d_model": WIDTH,
    "n_layers": BLOCKS,
    "n_heads": 4,
    "max_seq_len": 256,
    "expansion_ratio": 2,
    "hidden_size": ...,
    "intermediate_size": ...,
    "num_hidden_layers": ...,
    "num_attention_heads": ...,
    "max_position_embeddings": ...,
}
NEO_NAMES: dict[str, Any] = {
    "num_layers": BLOCKS,
    "num_heads": 4,
    "num_hidden_layers": ...,
    "num_attention_heads": ...,
    "window_size": WINDOW,
    "attention_types": [[["global", "local"], 2], [["local"], 1]],
}
OPT_NAMES: dict[str, Any] = {"ffn_dim": 96, "intermediate_size": ...}
FALCON_NAMES: dict[str, Any] = {"ffn_hidden_size": 96, "intermediate_size": ...}
XGLM_NAMES: dict[str, Any] = {
    "d_model": WIDTH,
    "ffn_dim": 96,
    "num_layers": BLOCKS,
    "attention_heads": 4,
    "hidden_size": ...,
    "intermediate_size": ...,
    "num_hidden_layers": ...,
    "num_attention_heads": ...,
}

ENTRIES = (
    Entry("gpt2", "gpt2", config("gpt2", GPT2_NAMES, TIED), "learned positions, arguments by position"),
    Entry("gpt_bigcode", "gpt2", config("gpt_bigcode", GPT2_NAMES, TIED), "multi-query, learned positions"),
    Entry("gpt_neo", "gpt2", config("gpt_neo", NEO_NAMES, TIED), "local windows, unscaled attention"),
    Entry("gptj", "gptj", config("gptj", GPT2_NAMES, rotary_dim=8), "parallel residual, biased head"),
    Entry(
        "codegen",
        "gptj",
        config("codegen", GPT2_NAMES, rotary_dim=8, n_ctx=256),
        "parallel residual, biased head",
    ),
    Entry("gpt_neox", "gpt_neox", config("gpt_neox"), "parallel residual, partial rotary"),
    Entry(
        "gpt_neox_japanese",
        "gpt_neox_japanese",
        config("gpt_neox_japanese", intermediate_size=..., intermediate_multiple_size=2),
        "attention bias added outside its module",
        parts=False,
    ),
    Entry("opt", "opt", config("opt", OPT_NAMES, TIED), "flat fc2 instead of an MLP module"),
    Entry("biogpt", "biogpt", config("biogpt", TIED), "fc2 instead of an MLP module, scaled embedding"),
    Entry("xglm", "xglm", config("xglm", XGLM_NAMES, TIED), "fc2 instead of an MLP module, sinusoidal positions"),
    Entry("bloom", "bloom", config("bloom", BLOOM_NAMES, TIED), "residual-added outputs, ALiBi, embedding norm"),
    Entry("mpt", "mpt", config("mpt", MPT_NAMES, TIED), "residual-added MLP output, ALiBi"),
    Entry(
        "falcon",
        "falcon",
        config("falcon", FALCON_NAMES, TIED),
        "parallel residual summed in place, multi-query",
    ),
    Entry("phi", "phi", config("phi", GROUPED), "parallel residual, one dropout for both parts, biased head"),
    Entry(
        "stablelm",
        "stablelm",
        config("stablelm", GROUPED, use_parallel_residual=True),
        "parallel residual by flag",
    ),
    Entry(
        "cohere",
        "cohere",
        config("cohere", GROUPED, TIED, logit_scale=2.0, use_qk_norm=True),
        "parallel residual, logit scale",
    ),
    Entry(
        "cohere2",
        "cohere",
        config("cohere2", GROUPED, TIED, ALTERNATING, logit_scale=2.0),
        "parallel residual, windows, logit scale",
    ),
    Entry(
        "openai-gpt",
        "openai_gpt",
        config("openai-gpt", GPT2_NAMES, TIED, n_inner=...),
        "post-norm blocks that take no cache and return a list",
        parts=False,
        tails=False,
    ),
    Entry("ctrl", "ctrl", config("ctrl", GPT2_NAMES, TIED, n_inner=..., dff=96), "sinusoidal positions"),
)
