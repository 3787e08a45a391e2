"""A tiny model of every causal type of the installed transformers: the zoo's own, else a shrunk default.

A default configuration is shrunk by the names under which sizes are known; what a type needs beyond them is in ``OWN``.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from support import zoo
from support.zoo.entry import randomise
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

BLOCKS: Final = 4
_BY_VALUE: Final[dict[int, tuple[str, ...]]] = {
    120: ("vocab_size",),
    64: ("hidden_size", "d_model", "n_embd", "emb_dim", "embedding_size", "input_embedding_size", "encoder_embed_dim"),
    96: (
        *("intermediate_size", "ffn_hidden_size", "encoder_ffn_dim", "decoder_ffn_dim", "d_inner", "dff", "dim_ff"),
        *("feed_forward_size", "intermediate_size_mlp"),
    ),
    BLOCKS: (
        *("num_hidden_layers", "n_layers", "n_layer", "decoder_layers", "num_decoder_layers", "num_layers"),
        *("num_attention_heads", "n_heads", "n_head", "encoder_attention_heads", "decoder_attention_heads"),
        *("num_heads", "n_routed_experts", "num_experts", "num_local_experts"),
    ),
    1: ("encoder_layers", "num_encoder_layers", "bos_token_id", "n_group", "topk_group"),
    2: ("num_key_value_heads", "num_experts_per_tok", "moe_topk", "eos_token_id"),
    0: ("pad_token_id", "zero_expert_num"),
    16: ("head_dim", "dim_head", "kv_lora_rank", "qk_nope_head_dim", "v_head_dim"),
    32: ("moe_intermediate_size", "shared_expert_intermediate_size", "expert_ffn_hidden_size", "num_buckets"),
    256: ("max_position_embeddings",),
    24: ("q_lora_rank",),
    8: ("qk_rope_head_dim",),
    6: ("sliding_window",),
}
SIZES: Final[dict[str, Any]] = {
    **{name: value for value, names in _BY_VALUE.items() for name in names},
    "is_decoder": True,
    "add_cross_attention": False,
}
"""Small values of the settings that most types share, by their names."""

_INDEXED: Final = {"index_topk": 6, "index_head_dim": 16, "index_n_heads": 2}
_ROTARY: Final = {"rope_type": "default", "rope_theta": 1e4}
_LATENT: Final = {"head_dim": 8, "num_attention_heads": 4, "num_key_value_heads": 4}
_DOTS: Final = {
    **{"num_attention_heads": 4, "num_key_value_heads": 4, "per_layer_config": {}, "num_hidden_layers": BLOCKS},
    **{"layer_types": ["indexed_attention"] * BLOCKS, "qk_rope_head_dim": 8, **_INDEXED},
}
OWN: Final[dict[str, dict[str, Any]]] = {
    "axk1": _LATENT,
    "axk2": {**_LATENT, **_INDEXED},
    "bailing_hybrid": {
        **_LATENT,
        **{"num_expert_group": 1, "num_experts_per_token": 2},
        **{"linear_head_dim": 16, "linear_num_heads": 4, "layer_group_size": 2},
    },
    "cohere_compass_text": {"rope_parameters": {"full_attention": {**_ROTARY, "mrope_section": [4, 2, 2]}}},
    "dots3_note_text": _DOTS,
    "longcat_flash": _LATENT,
    "xmod": {"default_language": "en_XX"},
    "zamba": {
        **{"attention_hidden_size": 128, "attention_head_dim": 32, "use_mamba_kernels": False, "mamba_dt_rank": 4},
        **{"num_hidden_layers": 6, "attn_layer_period": 2, "attn_layer_offset": 1, "num_key_value_heads": 4},
    },
}
"""Settings that a type needs beyond those of ``SIZES``."""


_PART: Final = {
    "dots3_note": "dots3_note_text",
    "musicgen": "musicgen_decoder",
    "musicgen_melody": "musicgen_melody_decoder",
    "qwen4_exp": "qwen4_exp_text",
}
"""Types whose causal model has the configuration of a part, which is a type by itself."""


def type_of_model(model_type: str) -> str:
    """The type of the configuration that the causal model of a type has."""
    return _PART.get(model_type, model_type)


def causal_types() -> list[str]:
    """The types for which transformers has a causal language model, in alphabetical order."""
    return sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def build(model_type: str, *, seed: int = 0) -> PreTrainedModel:
    """A tiny random model of a type, in evaluation mode; never shared.

    Raises:
        Exception: whatever transformers says where no such model can be built.
    """
    model_type = type_of_model(model_type)
    own = _entries().get(model_type)
    return build_shrunk(model_type, seed=seed) if own is None else zoo.entry(own).build(seed=seed)


def build_shrunk(model_type: str, *, seed: int = 0) -> PreTrainedModel:
    """A tiny random model of the shrunk default configuration of a type."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(shrunk(model_type), dtype=torch.float32)
    randomise(model, seed)
    return model.eval()  # type: ignore[no-any-return]


def shrunk(model_type: str) -> PreTrainedConfig:
    """The default configuration of a type with small sizes."""
    kind = CONFIG_MAPPING[model_type]
    changes: dict[str, Any] = dict(OWN.get(model_type, {}))
    default = kind(**changes)
    for name in getattr(kind, "sub_configs", {}):
        inner = getattr(default, name, None)
        if inner is not None and hasattr(inner, "model_type"):
            changes[name] = {**_small(inner), **changes.get(name, {}), "model_type": inner.model_type}
    return kind(**{**_small(default), **changes})


def _small(config: PreTrainedConfig) -> dict[str, Any]:
    """Small values of the settings that a configuration has; those that differ by block are left to it."""
    known = config.to_dict()
    return {name: value for name, value in SIZES.items() if name in known and not isinstance(known[name], dict)}


def _entries() -> dict[str, str]:
    """By type the first entry of the zoo that is built from it."""
    names: dict[str, str] = {}
    for refused in (False, True):
        for entry in zoo.entries(refused=refused):
            names.setdefault(entry.config().model_type, entry.name)
    return names
