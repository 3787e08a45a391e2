"""Blocks whose parts cannot be told apart: only whole blocks are measured."""

from bathyscope.model.anatomy.family import Family

FAMILIES = (
    # Doge: the residual itself is multiplied by a learned vector at each sum, so that h_{l+1} − h_l is not a sum of
    # module outputs.
    Family("doge", ("doge",), attention=None, mlp=None),
    # Beam: each sum is scaled by how many parts were added before, so h_{l+1} − h_l is not a sum of module outputs.
    Family("beam", ("beam",), attention=None, mlp=None, logit_softcap="final_logit_softcapping"),
    # GPT-NeoX-Japanese: the last block's attention bias is added to the residual stream by a plain function, so no
    # module returns the attention's contribution.
    Family(
        "gpt_neox_japanese",
        ("gpt_neox_japanese",),
        blocks="gpt_neox_japanese.layers",
        final_norm="gpt_neox_japanese.final_layer_norm",
        attention=None,
        mlp=None,
        head="embed_out",
    ),
    # The first GPT: no final norm. The stream is normed after each sum, so that the parts' contributions do not add up
    # to the block's.
    Family("openai_gpt", ("openai-gpt",), blocks="transformer.h", final_norm=None, attention=None, mlp=None),
    # MiniMax-Text-01: the stream itself is normed and weighted at each sum, α·norm(x) + β·f(norm(x)).
    Family("minimax", ("minimax",), attention=None, mlp=None),
    # Mamba, Mamba-2 and Falcon-Mamba: one recurrent mixer a block and no MLP. The mixer's contribution is the block's,
    # so there are no parts to tell apart.
    Family(
        "mamba",
        ("falcon_mamba", "mamba", "mamba2"),
        blocks="backbone.layers",
        final_norm="backbone.norm_f",
        attention=None,
        mlp=None,
    ),
    # Nemotron-H: every block holds one mixer, be it state space, attention, MLP or experts. The mixer's contribution is
    # the block's, so there are no parts to tell apart.
    Family("nemotron_h", ("nemotron_h",), final_norm="model.norm_f", attention=None, mlp=None),
    # Zamba 2: state-space blocks, some of them with attention that several blocks share. The shared attention reaches
    # the stream only through the mixer's input, so the mixer's contribution is the block's. Every block also reads h_0.
    Family("zamba2", ("zamba2",), final_norm="model.final_layernorm", attention=None, mlp=None),
    # RWKV-4: time mixing and channel mixing. The first block replaces its input by a norm of it, so its parts do not
    # sum to its contribution. Where rescale_every is at least 1, the model halves the stream between blocks, which no
    # block shows: set rescale_every to 0 in the configuration before loading.
    Family("rwkv", ("rwkv",), blocks="rwkv.blocks", final_norm="rwkv.ln_out", attention=None, mlp=None, head="head"),
)
