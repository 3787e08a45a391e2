"""The same sums under other names: GPT-2 and its time."""

from bathyscope.model.anatomy.family import Family, Site

_TRANSFORMER = ("transformer.h", "transformer.ln_f")
"""Blocks and final norm."""
_BLOCKS = ("transformer.blocks", "transformer.norm_f")
_SECOND_MATRIX = Site("fc2")
"""Where there is no MLP module, the MLP's contribution is the output of its second matrix."""

FAMILIES = (
    # GPT-2 and its direct descendants: learned positions, one module each for attention and MLP. h_0 includes the
    # position embedding. GPT-2's matrices are Conv1D, stored [in, out].
    Family("gpt2", ("gpt2", "gpt_bigcode", "gpt_neo"), *_TRANSFORMER, attention=Site("attn")),
    # CTRL: the layout of GPT-2 under older names. h_0 includes sinusoidal positions. The head has a bias.
    Family(
        "ctrl",
        ("ctrl",),
        blocks="transformer.h",
        final_norm="transformer.layernorm",
        attention=Site("multi_head_attention"),
        mlp=Site("ffn"),
    ),
    # DBRX: the attention is nested in a module that also holds both norms.
    Family("dbrx", ("dbrx",), *_BLOCKS, attention=Site("norm_attn_norm.attn"), mlp=Site("ffn")),
    # OPT: fc2 returns flat [batch · tokens, width] outputs. h_0 includes the position embedding. The 350m checkpoint
    # norms after the sum, has no final norm and projects before the head.
    Family(
        "opt",
        ("opt",),
        blocks="model.decoder.layers",
        final_norm="model.decoder.final_layer_norm",
        mlp=_SECOND_MATRIX,
        parts_when=("do_layer_norm_before", True),
        projection="model.decoder.project_out",
    ),
    # XGLM: h_0 includes sinusoidal positions.
    Family("xglm", ("xglm",), final_norm="model.layer_norm", mlp=_SECOND_MATRIX),
    # BioGPT: h_0 includes the position embedding.
    Family(
        "biogpt",
        ("biogpt",),
        blocks="biogpt.layers",
        final_norm="biogpt.layer_norm",
        mlp=_SECOND_MATRIX,
        head="output_projection",
    ),
    # BLOOM: both modules return states to which the residual is already added. h_0 is the normed embedding; positions
    # enter through ALiBi.
    Family(
        "bloom",
        ("bloom",),
        *_TRANSFORMER,
        attention=Site("self_attention", minus="residual"),
        mlp=Site("mlp", minus="residual"),
        parts_when=("apply_residual_connection_post_layernorm", False),
    ),
    # MPT: the MLP returns a state to which the residual is already added. Positions enter through ALiBi; in its masks
    # True means masked.
    Family("mpt", ("mpt",), *_BLOCKS, attention=Site("attn"), mlp=Site("ffn", minus="residual")),
    # MusicGen's decoder alone, with one codebook of sound: the decoder of BART, with a list of embeddings and of heads.
    Family(
        "musicgen_decoder",
        ("musicgen_decoder", "musicgen_melody_decoder"),
        blocks="model.decoder.layers",
        final_norm="model.decoder.layer_norm",
        mlp=_SECOND_MATRIX,
        head="lm_heads.0",
        requires=(
            "num_codebooks",
            1,
            "it reads and predicts several codebooks of sound for each token, so a prompt is no list of token ids",
        ),
    ),
)
