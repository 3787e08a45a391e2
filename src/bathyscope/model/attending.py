"""Functions that a model attends with, where somebody has registered them under a name.

The library's own implementations are one function up to rounding, whatever they are called; a function from elsewhere
may attend otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from torch import nn
from transformers import PreTrainedConfig
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from bathyscope.model.contents import Content, ContentReader
from bathyscope.model.origins import LIBRARIES, OWN, home_of, layers_of

_TABLES: Final = (("attention", ALL_ATTENTION_FUNCTIONS), ("mask", ALL_MASK_ATTENTION_FUNCTIONS))


def registered_functions(hf: nn.Module) -> dict[str, Content]:
    """Return what the model attends with that is not the library's own, by the place of the configuration.

    The name that a function is registered under changes nothing.
    """
    contents = ContentReader(hf)
    return {
        f"{path} {kind} function".strip(): contents.read_function(function)
        for path, kind, _, function in _somebodys_functions(hf)
    }


def registered_in_words(hf: nn.Module) -> str:
    """Return which function somebody has registered for what the model attends with, as a clause; empty where none."""
    for _, kind, name, function in _somebodys_functions(hf):
        called = getattr(function, "__qualname__", type(function).__name__).rpartition("<locals>.")[2]
        return f"its {kind} function {name!r} is one that was registered in memory ({called})"
    return ""


def _somebodys_functions(hf: nn.Module) -> Iterator[tuple[str, str, str, Any]]:
    """Yield the functions that are not the library's own: place of the configuration, kind, name and the function."""
    for path, config in _configurations(hf):
        name = getattr(config, "_attn_implementation", None)
        if not isinstance(name, str):
            continue
        for kind, table in _TABLES:
            function = table.get(name)
            if function is not None and not _is_of_library(function):
                yield path, kind, name, function


def implementations_of(hf: nn.Module) -> dict[str, str]:
    """Return the name of the attention implementation of each configuration that modules hold, by place."""
    return {path: str(getattr(config, "_attn_implementation", None)) for path, config in _configurations(hf)}


def _configurations(hf: nn.Module) -> list[tuple[str, Any]]:
    """Return the configurations of modules, each once, with the place of the first module that holds it."""
    configs = {
        id(config): (path, config)
        for path, module in reversed(list(hf.named_modules()))
        if isinstance(config := vars(module).get("config"), PreTrainedConfig)
    }
    return list(configs.values())


def _is_of_library(function: Any) -> bool:
    layers = list(layers_of(function))
    return all(home_of(layer) in (*LIBRARIES, OWN, "kernels") and not isinstance(layer, partial) for layer in layers)
