"""Which models in memory can be measured at all, decided before anything is run; and by one thread at a time.

Blocks' functions are replaced while a model is measured, so that other threads have to wait.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.anatomy import config_of
from bathyscope.model.anatomy.configurations import length_fault
from bathyscope.model.anatomy.mode import default_settings
from bathyscope.model.anatomy.plain import is_unpacked
from bathyscope.model.kernels import require_steady_kernels
from bathyscope.model.origins import LIBRARIES, homes_of
from bathyscope.model.ranks import size
from bathyscope.model.shards import is_shard, is_split, split_fault
from bathyscope.model.streaming.offloaded import store_of

_LOCKS: WeakKeyDictionary[nn.Module, threading.RLock] = WeakKeyDictionary()
_GUARD = threading.Lock()


@contextmanager
def alone(*models: object) -> Iterator[None]:
    """Keep other threads from measuring these models inside; those that come later wait their turn.

    The caller's autocast and default device are set aside.

    Args:
        models: what ``load`` returns or takes. A name is a model that no other thread has.
    """
    inner_models = (getattr(model, "hf", model) for model in models)
    inner = {without_adapter(hf) for hf in inner_models if isinstance(hf, nn.Module)}
    with _GUARD:
        # in one order for all threads: two that wait for each other's model would wait for ever; and locks that one
        # thread may enter twice, since a survey loads and checks the model that it has locked
        locks = [_LOCKS.setdefault(hf, threading.RLock()) for hf in sorted(inner, key=id)]
    with ExitStack() as stack:
        stack.enter_context(default_settings())
        for lock in locks:
            stack.enter_context(lock)
        yield


_KINDS = {
    "_forward_pre_hooks": "forward pre-hook",
    "_forward_hooks": "forward hook",
    "_backward_pre_hooks": "backward pre-hook",
    "_backward_hooks": "backward hook",
}


def require_no_hooks(hf: nn.Module) -> None:
    """Refuse a model with hooks of others: steering vectors, edited activations, running statistics.

    Rows of a survey are other texts, lengths and histories than those that a hook was written for, and two runs with
    different hooks could not be told apart by their weights.

    Raises:
        ModelError: a hook, with its module's name.
    """
    for where, kind, hook in _hooks(hf):
        if not homes_of(hook) <= {*LIBRARIES}:
            raise ModelError(
                f"A {kind} ({getattr(hook, '__qualname__', type(hook).__name__)}) is registered on {where}. It would "
                "act on rows, tokens and blocks that it was not written for, and its results would pass for those of "
                "the plain model; remove it (handle.remove()), or write what it does into the model itself."
            )


def _hooks(hf: nn.Module) -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """Yield (module's path, kind of hook, function) of all that are registered."""
    for attribute, kind in _KINDS.items():
        for hook in getattr(torch_module, f"_global{attribute}").values():
            yield "every module (torch.nn.modules.module)", kind, hook
        for path, module in hf.named_modules():
            for hook in getattr(module, attribute).values():
                yield path or "the model itself", kind, hook


def without_adapter(model: nn.Module) -> nn.Module:
    """Return the transformers model inside a PEFT model, whose adapters stay in place; any other model as it is.

    Raises:
        ModelError: an adapter that lives outside the model (prompts, prefixes).
    """
    configs: Any = getattr(model, "peft_config", None)
    if not isinstance(configs, dict) or not hasattr(model, "get_base_model"):
        return model
    for name, config in configs.items():
        if getattr(config, "is_prompt_learning", False):
            kind = str(getattr(config, "peft_type", "") or type(config).__name__).rpartition(".")[2]
            raise ModelError(
                f"The adapter {name!r} of this PEFT model ({kind}) puts learned tokens before every prompt, outside "
                "the blocks; such models cannot be measured. Adapters inside the blocks (LoRA and its kin) can."
            )
    inner = model.get_base_model()  # type: ignore[operator]
    assert isinstance(inner, nn.Module)
    return inner


def without_compilation(model: nn.Module) -> nn.Module:
    """Return the model inside a compiled one, whose weights have their own names; any other model as it is."""
    inner = model._modules.get("_orig_mod")
    return model if inner is None else inner


def require_measurable(hf: nn.Module) -> None:
    """Refuse kinds of models that no family's declaration could help."""
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
    # entries alone: XLNet, whose positions are distances, computes a limit of -1 that stands nowhere
    if (fault := length_fault(vars(config_of(hf)))) is not None:
        raise ModelError(f"The configuration of {kind} says {fault}.")
    _require_weights_here(hf)
    _require_plain_tensors(hf)
    require_steady_kernels(hf)
    _require_usable_masks(hf)
    _require_whole_modules(hf)


def quantisation_warning(hf: nn.Module) -> str | None:
    """Say what kernels for weights in few bits do to small effects; None where plain kernels run."""
    if getattr(hf.config, "quantization_config", None) is None or is_unpacked(hf):
        return None
    return (
        "This model's weights are quantised. 8-bit kernels choose outlier columns over a whole batch, which leaks "
        "between tokens; effects near the noise floor are not to be trusted."
    )


def _require_weights_here(hf: nn.Module) -> None:
    store = store_of(hf)
    lent = set() if store is None else store.names
    parameters = dict(hf.named_parameters())
    absent = [name for name, value in parameters.items() if value.device.type == "meta" and name not in lent]
    if absent:
        model = str(getattr(hf.config, "_name_or_path", "") or type(hf).__name__)
        share = "All" if len(absent) == len(parameters) else f"{len(absent)} of {len(parameters)}"
        raise ModelError(
            f"{share} weights of {model} are on the meta device, which stores no values (first: {absent[0]}). Load the "
            "model with its weights, or by its name: bathyscope.load(folder, placement='stream')."
        )


def _require_plain_tensors(hf: nn.Module) -> None:
    """Refuse int8 of torch and torchao, whose weights are no tensors that could be read."""
    for name, module in hf.named_modules():
        kind = type(module)
        if kind.__module__.startswith(("torch.ao.nn", "torch.nn.quantized")):
            raise _quantised(name, f"a {kind.__module__}.{kind.__name__}")
    _require_whole_group(hf)
    for name, value in hf.named_parameters():
        stored: Tensor = value.data
        if is_shard(stored):
            continue
        if hasattr(stored, "__tensor_flatten__"):
            raise _quantised(name, f"held as {type(stored).__name__}", type(stored).__module__.startswith("torchao"))


def _require_whole_group(hf: nn.Module) -> None:
    """Refuse split weights where not all ranks are at work, or that something else than transformers has split."""
    if not is_split(hf):
        return
    fault = split_fault(hf)
    if fault:
        raise ModelError(
            f"This {type(hf).__name__} {fault}, and its blocks cannot be measured so. Load it by "
            "load(name, tensor_parallel='auto'), or without parallelism (device_map, placement='stream')."
        )
    if size() == 1:
        raise ModelError(
            f"This {type(hf).__name__} is split over processes (tensor parallelism), and this call works in one. "
            "load, check, survey and scheduled take split models; load it without tensor_parallel for others "
            "(device_map, placement='stream')."
        )


def _quantised(name: str, how: str, unpacked: bool = False) -> ModelError:
    """Return the error of a packed weight; ``unpacked`` where ``load`` unpacks such weights from their folder."""
    folder = ", or its folder (bathyscope.load(FOLDER)), whose weights are unpacked" if unpacked else ""
    return ModelError(
        f"{name} is {how}, not a plain tensor of numbers, so that neither its contributions nor its weights can be "
        f"read; give the model before it was quantised{folder}."
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
