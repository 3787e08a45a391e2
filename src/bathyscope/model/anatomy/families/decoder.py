"""The block of Llama: attention and MLP are added one after the other, or side by side."""

from bathyscope.model.anatomy.family import Family, Site

_TRANSFORMER = ("transformer.h", "transformer.ln_f")
"""Blocks and final norm."""

_LLAMA_LIKE = """
    apertus arcee aria_text axk1 bitnet cwm deepseek_v2 deepseek_v3 deepseek_v32 diffllama dots1 ernie4_5 ernie4_5_moe
    exaone_moe flint gemma glm glm4_moe glm4_moe_lite gpt_oss helium hunyuan_v1_dense hunyuan_v1_moe hy_v3 internlm3
    jais2 kimi_linear laguna llama mellum mimo_v2_flash minimax_m2 minimax_m3_vl_text ministral ministral3 mistral
    mixtral nemotron olmo olmoe phi3 phimoe qwen2 qwen2_moe qwen3 qwen3_moe seed_oss smollm3 solar_open starcoder2
    youtu
"""

FAMILIES = (
    # Llama and the many families that kept its block: norm, attention, norm, MLP or experts. Some experts return
    # (output, router scores); the first element is the contribution. In Kimi Linear the self_attn of most blocks is a
    # delta-rule mixer.
    Family("llama", tuple(_LLAMA_LIKE.split())),
    # Mllama: some blocks attend to an image alone, and are passed over where there is none.
    Family("mllama", ("mllama_text_model",), idle="cross_attn"),
    # HRM: two stacks that run in turn. The low one takes its state plus the high one's, and the reverse; the norm of
    # a stack is behind it, that of the high stack before the unembedding too.
    Family(
        "hrm_text",
        ("hrm_text",),
        blocks="model.L_module.layers + model.H_module.layers",
        final_norm="model.H_module.final_norm",
        loops="H_cycles",
    ),
    # Persimmon: the Llama block under another name for the final norm.
    Family("persimmon", ("persimmon",), final_norm="model.final_layernorm"),
    # JetMoE: experts in the attention too.
    Family("jetmoe", ("jetmoe",), attention=Site("self_attention")),
    # Llama 4: the MLP or the experts live in ``feed_forward``. Multimodal checkpoints load as their language model. The
    # experts return flat [batch · tokens, width] outputs, in a tuple with the router's scores.
    Family("llama4", ("llama4", "llama4_text"), mlp=Site("feed_forward")),
    # StableLM: parallel or serial residual, by a flag of the configuration.
    Family("stablelm", ("stablelm",), parallel="use_parallel_residual"),
    # Phi: attention and MLP both read the block's normed input. One dropout module serves both parts, so it is no site.
    # The head has a bias.
    Family("phi", ("phi",), final_norm="model.final_layernorm", parallel=True),
    # Cohere (Command): parallel residual and scaled logits.
    Family("cohere", ("cohere", "cohere2", "cohere2_moe"), parallel=True, logit_multiplier="logit_scale"),
    # nanochat: norms without weights, one of them on the embedding, softcapped logits. h_0 is the normed embedding.
    Family("nanochat", ("nanochat",), logit_softcap="final_logit_softcapping"),
    # VaultGemma: Gemma 2 without the norms on the outputs. Norm weights are stored as w of (1 + w).
    Family("vaultgemma", ("vaultgemma",), logit_softcap="final_logit_softcapping"),
    # GPT-NeoX (Pythia): parallel or serial residual, by a flag of the configuration.
    Family(
        "gpt_neox",
        ("gpt_neox",),
        blocks="gpt_neox.layers",
        final_norm="gpt_neox.final_layer_norm",
        attention=Site("attention"),
        parallel="use_parallel_residual",
    ),
    # GPT-J and CodeGen: attention and MLP both read the block's normed input. The head has a bias.
    Family("gptj", ("codegen", "gptj"), *_TRANSFORMER, attention=Site("attn"), parallel=True),
    # Falcon: parallel or serial residual, by a flag of the configuration. The block adds the attention's output to the
    # MLP's in place: clone outputs when they are read.
    Family("falcon", ("falcon",), *_TRANSFORMER, attention=Site("self_attention"), parallel="parallel_attn"),
    # ModernBERT's decoder: a dense layer with a norm between the final norm and the unembedding. What the model calls
    # lm_head is the transformation before its unembedding.
    Family(
        "modernbert_decoder",
        ("modernbert-decoder",),
        final_norm="model.final_norm",
        attention=Site("attn"),
        projection="lm_head",
        head="decoder",
    ),
)
