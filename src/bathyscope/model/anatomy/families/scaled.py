"""Contributions times a constant before they are added; h_0 is the embedding times ``embedding_multiplier``."""

from bathyscope.model.anatomy.family import Family, Site

_SCALE = "residual_multiplier"

FAMILIES = (
    # Inkling: short convolutions behind attention and MLP. Logits are divided, and padded rows are cut off.
    Family(
        "inkling",
        ("inkling_text",),
        attention=Site("attn_sconv"),
        mlp=Site("mlp_sconv"),
        logit_divisor="logits_mup_width_multiplier",
        logit_entries="unpadded_vocab_size",
    ),
    # Granite: contributions, embedding and logits each times a constant.
    Family(
        "granite",
        ("granite", "granite_swa"),
        attention=Site("self_attn", scale=_SCALE),
        mlp=Site("mlp", scale=_SCALE),
        logit_divisor="logits_scaling",
    ),
    # Granite with experts, and with a shared MLP beside them.
    Family(
        "granitemoe",
        ("granitemoe", "granitemoe_swa", "granitemoeshared"),
        attention=Site("self_attn", scale=_SCALE),
        mlp=Site("block_sparse_moe", scale=_SCALE, also=(Site("shared_mlp", scale=_SCALE),)),
        logit_divisor="logits_scaling",
    ),
    # Granite 4: state-space or attention mixers, a shared MLP and, in some models, experts.
    Family(
        "granitemoehybrid",
        ("granitemoehybrid",),
        attention=Site(("self_attn", "mamba"), scale=_SCALE),
        mlp=Site("shared_mlp", scale=_SCALE, also=(Site("block_sparse_moe", scale=_SCALE),)),
        logit_divisor="logits_scaling",
    ),
    # HyperCLOVA X: norms on the outputs, times a constant. Unlike Granite's, logits_scaling multiplies.
    Family(
        "hyperclovax",
        ("hyperclovax",),
        attention=Site("post_norm1", scale=_SCALE),
        mlp=Site("post_norm2", scale=_SCALE),
        logit_multiplier="logits_scaling",
    ),
    # MiniCPM 3: contributions times a depth-dependent scale, logits divided. The normed state is divided before the
    # head, which is the same as dividing the logits. h_0 is the embedding times scale_emb instead.
    Family(
        "minicpm3",
        ("minicpm3",),
        attention=Site("self_attn", scale="residual_scale"),
        mlp=Site("mlp", scale="residual_scale"),
        logit_divisor="logits_scaling",
    ),
    # Falcon-H1: attention and a state-space mixer side by side in every block, each times a constant.
    Family(
        "falcon_h1",
        ("falcon_h1",),
        final_norm="model.final_layernorm",
        attention=Site("self_attn", scale="attn_out_multiplier", also=(Site("mamba", scale="ssm_out_multiplier"),)),
        mlp=Site("feed_forward"),
        logit_multiplier="lm_head_multiplier",
    ),
)
