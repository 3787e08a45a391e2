"""Convolutions and recurrences in most blocks or in all, attention in the rest."""

from bathyscope.model.anatomy.family import Family, Site

FAMILIES = (
    # Jamba and Bamba: state-space mixers in most blocks, attention in the rest.
    Family(
        "jamba",
        ("bamba", "jamba"),
        final_norm="model.final_layernorm",
        attention=Site(("self_attn", "mamba")),
        mlp=Site("feed_forward"),
    ),
    # Qwen3-Next and Qwen3.5: gated delta-rule mixers in most blocks, attention in the rest. Multimodal checkpoints load
    # as their language model.
    Family(
        "qwen3_next",
        ("qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"),
        attention=Site(("self_attn", "linear_attn")),
    ),
    # LFM2: short convolutions in most blocks, attention in the rest.
    Family(
        "lfm2",
        ("lfm2", "lfm2_moe"),
        final_norm="model.embedding_norm",
        attention=Site(("self_attn", "conv")),
        mlp=Site("feed_forward"),
    ),
    # LFM3: LFM2 with norms on the outputs.
    Family(
        "lfm3",
        ("lfm3",),
        final_norm="model.embedding_norm",
        attention=Site("post_operator_norm"),
        mlp=Site("post_ffn_norm"),
    ),
    # OLMo Hybrid: attention blocks with norms on the outputs, linear blocks with norms on the inputs. Linear blocks
    # have a post_attention_layernorm too, but there it is the MLP's input norm.
    Family(
        "olmo_hybrid",
        ("olmo_hybrid",),
        attention=Site(("linear_attn", "post_attention_layernorm")),
        mlp=Site(("post_feedforward_layernorm", "mlp")),
    ),
    # RecurrentGemma: gated linear recurrences in most blocks, local attention in the rest. h_0 is the embedding times a
    # constant.
    Family(
        "recurrent_gemma",
        ("recurrent_gemma",),
        final_norm="model.final_norm",
        attention=Site("temporal_block"),
        mlp=Site("mlp_block"),
        logit_softcap="logits_soft_cap",
    ),
    # xLSTM: a matrix-memory layer and a gated feed-forward layer.
    Family(
        "xlstm",
        ("xlstm",),
        blocks="backbone.blocks",
        final_norm="backbone.out_norm",
        attention=Site("mlstm_layer"),
        mlp=Site("ffn"),
        logit_softcap="output_logit_soft_cap",
    ),
)
