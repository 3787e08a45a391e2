"""Several residual streams, further states next to the stream, and a stream that sums do not simply add to."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from support.zoo.dense import LATENT
from support.zoo.entry import COMMON, GROUPED, HEAD, TIED, WINDOW, Entry, config
from support.zoo.hybrid import LINEAR
from support.zoo.moe import EXPERTS, ROUTED
from support.zoo.relatives import NO_SHAPE
from torch import nn
from transformers.models.gemma3n import modeling_gemma3n

INDEXER = {"index_topk": WINDOW, "index_head_dim": 16, "index_n_heads": 2}
ALTUP: dict[str, Any] = {
    "vocab_size_per_layer_input": 120,
    "hidden_size_per_layer_input": 8,
    "num_kv_shared_layers": 2,
    "laurel_rank": 8,
    "layer_types": ["sliding_attention", "full_attention"] * 2 + ["full_attention"],
    "sliding_window": WINDOW,
    "altup_num_inputs": 2,
    "activation_sparsity_pattern": [0.0] * 5,
}
DEEPSEEK: dict[str, Any] = {
    **HEAD,
    "intermediate_size": ...,
    "moe_intermediate_size": 32,
    "q_lora_rank": 24,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "hc_mult": 2,
    "sliding_window": WINDOW,
    "o_groups": 2,
    "o_lora_rank": 8,
    "index_n_heads": 2,
    "index_head_dim": 16,
    "index_topk": 4,
}


def without_encoders() -> AbstractContextManager[Any]:
    """Let Gemma 3n be built without the package of its image encoder, which text alone never runs."""
    build = modeling_gemma3n.AutoModel.from_config

    def build_text(config: Any, **options: Any) -> nn.Module:
        return build(config, **options) if config.model_type == "gemma3n_text" else nn.Module()

    return patch.object(modeling_gemma3n.AutoModel, "from_config", build_text)


XLNET = {"vocab_size": 120, "d_model": 64, "n_layer": 4, "n_head": 4, "d_inner": 96, "attn_type": "uni"}
REFORMER: dict[str, Any] = {
    **{"intermediate_size": ..., "feed_forward_size": 96, "attention_head_size": 16, "num_hidden_layers": ...},
    **{"axial_pos_embds": False, "is_decoder": True, "attn_layers": ["local"] * 4, "local_attn_chunk_length": 4},
}
AXIAL = {"axial_pos_embds": True, "axial_pos_shape": (16, 16), "axial_pos_embds_dim": (32, 32)}

ENTRIES = (
    Entry(
        "qwen4_exp",
        "qwen4_exp",
        config(
            "qwen4_exp_text",
            GROUPED,
            HEAD,
            EXPERTS,
            LINEAR,
            shared_expert_intermediate_size=32,
            hc_count=2,
            hc_lowrank=8,
            indexer_n_heads=2,
            indexer_kv_heads=1,
            indexer_head_dim=16,
            indexer_budget=4,
            indexer_compress_ratio=2,
        ),
        "several streams (hyper-connections)",
        parts=False,
        tails=False,
    ),
    Entry(
        "gemma3n",
        "gemma3n",
        config(
            "gemma3n_text",
            GROUPED,
            HEAD,
            TIED,
            ALTUP,
        ),
        "several streams (AltUp)",
        parts=False,
    ),
    Entry(
        "gemma3n_multimodal",
        "gemma3n_multimodal",
        config("gemma3n", NO_SHAPE, text_config={**COMMON, **GROUPED, **HEAD, **TIED, **ALTUP}),
        "several streams (AltUp) inside a multimodal model",
        parts=False,
        within=without_encoders,
    ),
    Entry(
        "deepseek_v4",
        "deepseek_v4",
        config(
            "deepseek_v4",
            DEEPSEEK,
            layer_types=["sliding_attention"] * 5,
            mlp_layer_types=["moe"] * 5,
        ),
        "several streams (hyper-connections)",
        parts=False,
    ),
    Entry(
        "deepseek_v4_compressed",
        "deepseek_v4",
        config(
            "deepseek_v4",
            DEEPSEEK,
            layer_types=["compressed_sparse_attention", "sliding_attention", "heavily_compressed_attention"],
            mlp_layer_types=["hash_moe", "moe", "moe"],
            num_hidden_layers=3,
            compress_rates={"compressed_sparse_attention": 2, "heavily_compressed_attention": 4},
        ),
        "several streams, attention to compressed keys, experts chosen by token",
        parts=False,
        tails=False,
    ),
    Entry(
        "hy_v4",
        "hy_v4",
        config("hy_v4", LATENT, ROUTED, INDEXER, hc_mult=2, n_group=1, topk_group=1),
        "several streams (hyper-connections)",
        parts=False,
        tails=False,
    ),
    Entry(
        "inkling2",
        "inkling2",
        config(
            "inkling2_text",
            GROUPED,
            HEAD,
            intermediate_size=...,
            moe_intermediate_size=32,
            n_routed_experts=4,
            num_experts_per_tok=2,
            unpadded_vocab_size=120,
            swa_num_attention_heads=4,
            swa_num_key_value_heads=2,
            swa_head_dim=16,
            sliding_window_size=WINDOW,
            n_layers_per_attn_res_block=2,
            rel_extent=16,
        ),
        "inputs attend over earlier blocks' states",
        parts=False,
        tails=False,
    ),
    Entry(
        "minimax",
        "minimax",
        config("minimax", GROUPED, HEAD, num_local_experts=4, block_size=8),
        "normed and weighted residual",
        parts=False,
        tails=False,
    ),
    Entry(
        "zaya",
        "zaya",
        config(
            "zaya",
            GROUPED,
            HEAD,
            TIED,
            num_experts=4,
            num_experts_per_tok=1,
            moe_intermediate_size=32,
            router_hidden_size=16,
        ),
        "router states beside the stream",
        parts=False,
        tails=False,
    ),
    Entry(
        "glm_moe_dsa",
        "glm_moe_dsa",
        config("glm_moe_dsa", LATENT, ROUTED, INDEXER),
        "attended positions beside the stream",
        tails=False,
    ),
    Entry(
        "glm_moe_dsa_shared",
        "glm_moe_dsa",
        config("glm_moe_dsa", LATENT, ROUTED, INDEXER, indexer_types=["full", "shared", "full", "shared", "shared"]),
        "attended positions of the block before",
        tails=False,
    ),
    Entry("beam", "beam", config("beam", GROUPED, HEAD), "sums scaled by depth, softcap", parts=False),
    Entry(
        "inkling_text",
        "inkling",
        config(
            "inkling_text",
            GROUPED,
            HEAD,
            {"moe_intermediate_size": 32, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
            {"swa_num_attention_heads": 4, "swa_num_key_value_heads": 2, "swa_head_dim": 16},
            sliding_window_size=WINDOW,
            rel_extent=16,
            logits_mup_width_multiplier=4.0,  # a power of two: the library divides before the unembedding
        ),
        "relative positions, convolutions behind both parts, divided logits",
        tails=False,
    ),
    Entry(
        "mllama",
        "mllama",
        config("mllama", NO_SHAPE, text_config={**COMMON, **GROUPED, "cross_attention_layers": [1, 3]}),
        "blocks that attend to an image alone and do not run on text",
    ),
    Entry(
        "xlnet",
        "xlnet",
        config("xlnet", NO_SHAPE, XLNET),
        "tokens in front of the rows, distances of one more than the tokens",
        parts=False,
        tails=False,
    ),
    Entry(
        "xlnet_windowed",
        "xlnet",
        config("xlnet", NO_SHAPE, XLNET, same_length=True, clamp_len=3),
        "the same with distances that end at three tokens",
        parts=False,
        tails=False,
    ),
    Entry(
        "reformer",
        "reformer",
        config("reformer", REFORMER),
        "reversible blocks of two streams, prompts that the own forward pads to whole chunks",
        parts=False,
        tails=False,
    ),
    Entry(
        "reformer_chunk",
        "reformer",
        config("reformer", REFORMER, local_attn_chunk_length=32, **AXIAL),
        "the same with prompts of one chunk, and positions along two axes",
        parts=False,
        tails=False,
    ),
)
