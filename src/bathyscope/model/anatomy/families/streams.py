"""Several residual streams, or further states next to the stream: measured as one state, mostly in whole blocks."""

from bathyscope.model.anatomy.family import Family

_CAP = "final_logit_softcapping"

FAMILIES = (
    # DeepSeek-V4: hyper-connections with doubly stochastic mixing in front of attention and MLP. The write of a part is
    # added to mixed streams, so parts do not sum to the block's contribution.
    Family("deepseek_v4", ("deepseek_v4",), final_norm=None, attention=None, mlp=None, own_readout=True),
    # HY-V4: hyper-connections without mixing; blocks hand the chosen positions of sparse attention to the next one.
    Family(
        "hy_v4",
        ("hy_v4",),
        final_norm=None,
        attention=None,
        mlp=None,
        adds_to_streams=True,
        passes="prev_topk_indices",
        own_readout=True,
    ),
    # Qwen4: gated residuals on streams that are in the width already. One module collapses them for the unembedding.
    Family(
        "qwen4_exp",
        ("qwen4_exp", "qwen4_exp_text"),
        final_norm="model.hyper_connection_mixer",
        attention=None,
        mlp=None,
        streams_in_width="hc_count",
        adds_to_streams=True,
    ),
    # Gemma 3n: alternating updates (AltUp) predict all streams and correct them by what one of them gives.
    Family(
        "gemma3n",
        ("gemma3n_text",),
        final_norm=None,
        attention=None,
        mlp=None,
        logit_softcap=_CAP,
        own_readout=True,
    ),
    # Gemma 3n with its encoders: the language model sits one level deeper.
    Family(
        "gemma3n_multimodal",
        ("gemma3n",),
        blocks="model.language_model.layers",
        final_norm=None,
        attention=None,
        mlp=None,
        logit_softcap=_CAP,
        own_readout=True,
    ),
    # Inkling 2: attention residuals. Every few blocks the stream is stored and begins again, and inputs attend over
    # what is stored.
    Family(
        "inkling2",
        ("inkling2_text",),
        final_norm=None,
        attention=None,
        mlp=None,
        logit_softcap=_CAP,
        logit_entries="unpadded_vocab_size",
        earlier_streams=("block_states", "is_block_boundary"),
        adds_to_streams=True,
    ),
    # GLM-5: sparse attention, whose chosen positions are handed to the next block.
    Family("glm_moe_dsa", ("glm_moe_dsa",), passes="prev_topk_indices"),
    # Zaya: the router's state is handed to the next block. Sums scale the residual, so parts do not add up.
    Family("zaya", ("zaya",), attention=None, mlp=None, passes="prev_router_hidden_states"),
    # XLNet in one direction (Transformer-XL): tokens are in front of the rows. Norms are behind the sums.
    Family(
        "xlnet",
        ("xlnet",),
        blocks="transformer.layer",
        final_norm=None,
        attention=None,
        mlp=None,
        head="lm_loss",
        requires=("attn_type", "uni", "every token attends to all others"),
    ),
    # Reformer with local attention: reversible blocks, each of whose two streams only gets what is made of the other.
    # One norm reads both. Hashed attention sorts all tokens into chunks, so that later ones move earlier ones.
    Family(
        "reformer",
        ("reformer",),
        blocks="reformer.encoder.layers",
        final_norm="reformer.encoder.layer_norm",
        attention=None,
        mlp=None,
        head="lm_head.decoder",
        paired=(("prev_attn_output", "attn_output"), ("hidden_states", "hidden_states")),
        chunk="local_attn_chunk_length",
        tokens="orig_sequence_length",
        adds_to_streams=True,
        requires=("attn_layers", "local", "hashed attention sorts tokens into chunks that depend on later tokens"),
    ),
    # ProphetNet: behind the stream of the tokens one for each token ahead that is predicted, along the tokens. The
    # logits are those of the first one. Norms are behind the sums.
    Family(
        "prophetnet",
        ("prophetnet",),
        blocks="prophetnet.decoder.layers",
        final_norm=None,
        attention=None,
        mlp=None,
        own_readout=True,
    ),
)
