"""Which models in memory can be measured at all, said before anything is run."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from bathyscope.anatomy.anatomy import config_of
from bathyscope.errors import ModelError, warn
from bathyscope.streaming.offloaded import store_of


def without_adapter(model: nn.Module) -> nn.Module:
    """The transformers model inside of a PEFT model, whose adapters stay in place; any other model as it is.

    Raises:
        ModelError: an adapter that lives outside of the model (prompts, prefixes).
    """
    configs: Any = getattr(model, "peft_config", None)
    if not isinstance(configs, dict) or not hasattr(model, "get_base_model"):
        return model
    for name, config in configs.items():
        if getattr(config, "is_prompt_learning", False):
            kind = str(getattr(config, "peft_type", "") or type(config).__name__).rpartition(".")[2]
            raise ModelError(
                f"The adapter {name!r} of this PEFT model ({kind}) puts learned tokens before every prompt, outside of "
                "the blocks; such models cannot be measured. Adapters inside of the blocks (LoRA and its kin) can."
            )
    inner = model.get_base_model()  # type: ignore[operator]
    assert isinstance(inner, nn.Module)
    return inner


def without_compilation(model: nn.Module) -> nn.Module:
    """The model that ``torch.compile`` was given, whose weights have their own names; any other model as it is."""
    inner = model._modules.get("_orig_mod")
    return model if inner is None else inner


def require_measurable(hf: nn.Module) -> None:
    """Refuses kinds of models that no family file could help.

    Raises:
        ModelError: with the kind.
    """
    config: Any = hf.config
    kind = f"{getattr(config, 'model_type', '')} ({type(hf).__name__})"
    if getattr(config, "is_encoder_decoder", False):
        raise ModelError(
            f"{kind} is an encoder with a decoder, and only causal language models made of one list of blocks can be "
            "measured; give a decoder-only model."
        )
    blocks = getattr(config_of(hf), "num_hidden_layers", None)
    if isinstance(blocks, int) and blocks < 1:
        raise ModelError(f"The configuration of {kind} asks for {blocks} blocks; a model has at least one.")
    _require_weights_here(hf)
    _require_plain_tensors(hf)
    _require_usable_masks(hf)
    _require_whole_modules(hf)


def warn_of_quantisation(hf: nn.Module) -> None:
    """Says what weights in few bits do to small effects."""
    if getattr(hf.config, "quantization_config", None) is not None:
        warn(
            "This model's weights are quantised. 8-bit kernels choose outlier columns over a whole batch, which "
            "leaks between tokens; effects near the noise floor are not to be trusted."
        )


def _require_weights_here(hf: nn.Module) -> None:
    store = store_of(hf)
    lent = set() if store is None else store.names
    absent = [name for name, value in hf.named_parameters() if value.device.type == "meta" and name not in lent]
    if absent:
        raise ModelError(
            f"{len(absent)} weights of {type(hf).__name__} are not in memory ({absent[0]}, …), and nothing says where "
            "they are: a device map left them out, or the model was made without weights. Load it whole, or by its "
            "name: bathyscope.load(folder, placement='stream')."
        )


def _require_plain_tensors(hf: nn.Module) -> None:
    """Refuses int8 of torch and torchao, whose weights are no tensors that could be read."""
    for name, module in hf.named_modules():
        kind = type(module)
        if kind.__module__.startswith(("torch.ao.nn", "torch.nn.quantized")):
            raise _quantised(name, f"a {kind.__module__}.{kind.__name__}")
    for name, value in hf.named_parameters():
        stored: Tensor = value.data
        if hasattr(stored, "__tensor_flatten__"):
            raise _quantised(name, f"held as {type(stored).__name__}")


def _quantised(name: str, how: str) -> ModelError:
    return ModelError(
        f"{name} is {how}, not a plain tensor of numbers, so that neither its contributions nor its weights can be "
        "read; give the model before it was quantised or distributed by torch."
    )


def _require_usable_masks(hf: nn.Module) -> None:
    attention = str(getattr(config_of(hf), "_attn_implementation", "") or "")
    if "flex" in attention or "paged" in attention:
        raise ModelError(
            f"The attention implementation {attention!r} compiles its mask for one shape of batch, so that recorded "
            "masks cannot serve other rows; load the model with attn_implementation='sdpa' (or 'eager')."
        )


def _require_whole_modules(hf: nn.Module) -> None:
    for name, module in hf.named_modules():
        if name and "_orig_mod" in module._modules:
            raise ModelError(
                f"{name} was put in its place by torch.compile, and hides what it is called with; compile a module "
                "where it is (module.compile()), which is measured as it was, or give the model before it was compiled."
            )
