"""Norms on the outputs: a contribution is what the norm gives, since that is what is added."""

from bathyscope.model.anatomy.family import Family, Site

_NORMS = (Site("post_attention_layernorm"), Site("post_feedforward_layernorm"))
_ALONE = ("model.layers", "model.norm", *_NORMS)
_INSIDE = ("model.language_model.layers", "model.language_model.norm", *_NORMS)
"""Blocks, final norm, attention and MLP of a language model by itself, and of one that has encoders."""
_CAP, _SCALAR = "final_logit_softcapping", "layer_scalar"
_PER_LAYER = (Site("post_per_layer_input_norm"),)

FAMILIES = (
    # OLMo 2 and relatives: no norms on the inputs, norms on the outputs.
    Family("olmo2", ("exaone4", "flex_olmo", "olmo2", "olmo3"), *_ALONE),
    # Gemma 2 and 3: norms on inputs and outputs, softcapped logits where the configuration says so. Norm weights are
    # stored as w of (1 + w). The embedding module itself scales; h_0 is its output.
    Family("gemma2", ("gemma2", "gemma3_text"), *_ALONE, logit_softcap=_CAP),
    # Gemma 3 with its image encoder: the language model sits one level deeper. Measured on text alone. Unlike the
    # language model by itself, this one never applies a softcap.
    Family("gemma3_multimodal", ("gemma3",), *_INSIDE),
    # Gemma 4: a third contribution from per-layer embeddings, and a scalar on the whole block. The last blocks take
    # keys and values that earlier blocks leave in a dictionary. The block scales its output in place: clone outputs
    # when they are read.
    Family(
        "gemma4", ("gemma4_text", "gemma4_unified_text"), *_ALONE, _PER_LAYER, block_scale=_SCALAR, logit_softcap=_CAP
    ),
    # Gemma 4 with its encoders: the language model sits one level deeper. Measured on text alone; attributes of the
    # configuration are those of its text part.
    Family(
        "gemma4_multimodal", ("gemma4", "gemma4_unified"), *_INSIDE, _PER_LAYER, block_scale=_SCALAR, logit_softcap=_CAP
    ),
    # GLM 4: norms on inputs and outputs, under names of its own.
    Family("glm4", ("glm4", "kolibri1"), attention=Site("post_self_attn_layernorm"), mlp=Site("post_mlp_layernorm")),
    # AFMoE (Trinity): norms on inputs and outputs, experts.
    Family("afmoe", ("afmoe",), attention=Site("post_attention_layernorm"), mlp=Site("post_mlp_layernorm")),
)
