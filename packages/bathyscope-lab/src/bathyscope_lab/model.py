"""The model of a recipe: of any type that transformers knows, with freshly drawn weights."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Mapping
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_CAUSAL_LM_MAPPING,
    AutoModelForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from bathyscope.errors import OptionError, did_you_mean
from bathyscope_lab.tokenizer import special_ids

FROM_THE_TOKENIZER = ("vocab_size", "bos_token_id", "eos_token_id", "pad_token_id")
CONTEXTS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "n_ctx")
WRITES = ("o_proj", "down_proj")
"""Last name of the matrices that write into the residual stream, in Llama and its many relatives."""


def build_model(
    model: Mapping[str, Any],
    tokenizer: PreTrainedTokenizerBase,
    context: int,
    seed: int = 0,
    scaled_writes: bool = False,
) -> PreTrainedModel:
    """A causal language model in float32 whose weights depend on ``seed`` alone.

    Args:
        model: ``type`` and keys of that type's configuration.
        tokenizer: gives the size of the vocabulary and the special tokens.
        context: the longest row it will be trained on.
        seed: of the weights.
        scaled_writes: draw what each block adds to the stream 1/√(2·blocks) smaller.

    Raises:
        OptionError: an unknown type or key, a value that the type refuses, or a context that is too short.
    """
    config = build_config(model, tokenizer, context)
    torch.manual_seed(seed)
    try:
        built: PreTrainedModel = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    # each type of model has its own ways to fail on sizes that fit no tensor, or not each other
    except Exception as error:
        raise OptionError(
            f"model: no {config.model_type} can be built of these keys ({' '.join(str(error).split())}); check its "
            "sizes."
        ) from error
    if scaled_writes:
        _scale_writes(built)
    return built


def build_config(model: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase, context: int) -> PreTrainedConfig:
    """The configuration of a recipe's model.

    Raises:
        OptionError: as for `build_model`.
    """
    keys = dict(model)
    kind = keys.pop("type", None)
    config_class = _config_class(kind)
    allowed = _keys(config_class)
    for key in keys:
        if key in FROM_THE_TOKENIZER:
            raise OptionError(f"model: {key} follows from the tokenizer; leave it out.")
        if key not in allowed:
            raise OptionError(
                f"model: {kind} has no key {key!r}.{did_you_mean(key, allowed)} Allowed: {', '.join(allowed)}."
            )
    begin, end = special_ids(tokenizer)
    try:
        config: PreTrainedConfig = config_class(
            **keys, vocab_size=len(tokenizer), bos_token_id=begin, eos_token_id=end, pad_token_id=None
        )
    except (StrictDataclassError, TypeError, ValueError) as error:
        raise OptionError(f"model: {kind} refuses these keys: {' '.join(str(error).split())}") from error
    blocks = getattr(config, "num_hidden_layers", 1)
    if blocks < 1:
        raise OptionError(f"model: {kind} would have {blocks} blocks; give at least 1.")
    longest = context_of(config)
    if longest is not None and longest < context:
        raise OptionError(
            f"A stage has context {context}, the model {longest}; shorten the stage or lengthen the model."
        )
    return config


def context_of(config: PreTrainedConfig) -> int | None:
    """The longest row that a model declares; None where it sets no limit."""
    found = next((getattr(config, name) for name in CONTEXTS if getattr(config, name, None)), None)
    return None if found is None else int(found)


def _config_class(kind: object) -> type[Any]:
    """The configuration class of a model type that can predict the next token."""
    if isinstance(kind, str) and kind.startswith("bathyscope_"):
        importlib.import_module("bathyscope_lab.models")  # makes its types known
    if isinstance(kind, str) and kind in CONFIG_MAPPING and CONFIG_MAPPING[kind] in MODEL_FOR_CAUSAL_LM_MAPPING:
        return CONFIG_MAPPING[kind]
    # asking of every type imports its file, which takes seconds
    causal = [name for name in CONFIG_MAPPING if CONFIG_MAPPING[name] in MODEL_FOR_CAUSAL_LM_MAPPING]
    given = "needs a type" if kind is None else f"{kind!r} is no type of causal language model"
    raise OptionError(
        f"model: {given}.{did_you_mean(str(kind), causal)} Allowed: bathyscope_universal, bathyscope_moeut and the "
        "model types of transformers, such as llama, gpt2, olmo2."
    )


def _keys(config_class: type[Any]) -> list[str]:
    """What a recipe may say about a configuration: its own keys, and their common names where they have others."""
    everywhere = {*inspect.signature(PreTrainedConfig.__init__).parameters, *FROM_THE_TOKENIZER}
    own = [name for name in inspect.signature(config_class.__init__).parameters if name not in everywhere]
    own = [name for name in own if name not in ("args", "kwargs", "use_cache")]
    return [*own, *(name for name in config_class.attribute_map if name not in own)]


def _scale_writes(model: PreTrainedModel) -> None:
    writes = [
        module
        for name, module in model.named_modules()
        if name.split(".")[-1] in WRITES and isinstance(module, torch.nn.Linear)
    ]
    if not writes:
        raise OptionError(
            f"scaled_writes: {type(model).__name__} has no matrices called {' or '.join(WRITES)}; leave it out."
        )
    scale = 1 / math.sqrt(2 * model.config.num_hidden_layers)
    with torch.no_grad():
        for module in writes:
            module.weight.mul_(scale)
