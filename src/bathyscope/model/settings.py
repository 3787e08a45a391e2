"""What a model computes with beside its weights, as one hash: two models of equal weights may still differ in it."""

import hashlib
import json
from typing import Any

from torch import nn
from transformers import PreTrainedConfig

# where a model came from, how it is called, and its special tokens change no number of a survey
_OF_NO_ACCOUNT = frozenset(
    {
        *("_name_or_path", "architectures", "auto_map", "dtype", "torch_dtype", "transformers_version"),
        *("use_cache", "return_dict", "output_attentions", "output_hidden_states", "id2label", "label2id"),
        *("bos_token_id", "eos_token_id", "pad_token_id", "initializer_range"),
    }
)
_OF_ADAPTERS = ("active_adapters", "disable_adapters", "scaling")


def config_hash(hf: nn.Module) -> str:
    """SHA-256 over a model's configuration, its class's defaults left out, and over its adapters' states."""
    adapters = {
        name: {one: str(getattr(module, one, None)) for one in _OF_ADAPTERS}
        for name, module in hf.named_modules()
        if isinstance(getattr(module, "scaling", None), dict)
    }
    text = json.dumps([_told(hf.config), adapters], sort_keys=True, default=str)  # type: ignore[arg-type]
    return hashlib.sha256(text.encode()).hexdigest()


def adapters_of(hf: nn.Module) -> str | None:
    """The adapters in a model's layers and what each does, such as ``default active``; None = there are none.

    An adapter is active, merged into the weights, disabled with all others, or inactive beside another one. What was
    merged and unloaded is no adapter any more, and the weights tell.
    """
    states: dict[str, set[str]] = {}
    for module in hf.modules():
        merged, disabled = (getattr(module, name, None) for name in ("merged_adapters", "disable_adapters"))
        if merged is None or disabled is None:
            continue
        active = getattr(module, "active_adapters", ())
        for name in {name for kind in getattr(module, "adapter_layer_names", ()) for name in getattr(module, kind, ())}:
            used = "merged" if name in merged else "active" if name in active else "inactive"
            states.setdefault(name, set()).add("disabled" if disabled else used)
    return ", ".join(f"{name} {' and '.join(sorted(own))}" for name, own in sorted(states.items())) or None


def _told(config: PreTrainedConfig) -> dict[str, Any]:
    """What a configuration says beyond its class: newer versions of the library add entries with defaults."""
    try:
        usual = type(config)().to_dict()
    except Exception:  # a class of whatever code, which cannot be made without arguments, has no defaults
        usual = {}
    found: dict[str, Any] = {}
    for name, value in config.to_dict().items():
        inner = vars(config).get(name)  # entries that differ by block may not be asked for as attributes
        if isinstance(inner, PreTrainedConfig):
            found[name] = _told(inner)
        elif name not in _OF_NO_ACCOUNT and (name not in usual or usual[name] != value):
            found[name] = value
    return found
