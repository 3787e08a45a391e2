"""A model of another one's shape whose parameters are initialised again, as its family does it.

Where the configuration makes the model in hand, the library builds the untrained one from it. Where it does not (blocks
that were cut out of their list, narrowed layers, another head), the modules in hand are copied and initialised.
"""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from bathyscope.errors import ModelError
from bathyscope.model.in_hand import departure_in_words
from bathyscope.model.replaced import replaced_in_words
from bathyscope.model.structure import copy_modules, hollow, shape_difference, without_adapters
from bathyscope.model.tables import take_dtypes, take_tables

_OF_PLACEMENT = ("_hf_hook", "_old_forward", "hf_device_map")
_LEAST_BYTES = 2
"""Of a number that is drawn; smaller ones are codes of quantised weights."""


def require_initialisable(hf: PreTrainedModel) -> None:
    """Refuse what cannot be initialised again, before any compute.

    Raises:
        ModelError: weights in few bits; methods that were replaced in memory; parts that the family's initialisation
            leaves as they are.
    """
    _require_plain_numbers(hf)
    _require_own_methods(hf)
    if departure_in_words(hf):
        initialised(hf, 0)


def initialised(hf: PreTrainedModel, seed: int) -> PreTrainedModel:
    """Return a model with the blocks, names, shapes, constants and tables of another one, freshly initialised.

    Adapters are left out, since they begin without effect.

    Args:
        seed: of all draws, which are made on the CPU, so that a seed gives the same model on every machine.

    Raises:
        ModelError: weights in few bits; methods that were replaced in memory; modules that cannot be copied, or that
            the family does not initialise.
    """
    _require_plain_numbers(hf)
    _require_own_methods(hf)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = _initialise_copy(hf) if departure_in_words(hf) else _build(hf)
    take_tables(fresh, hf)
    difference = shape_difference(fresh, hollow(hf))
    if difference:
        raise _refused(hf, f"the fresh copy is another model ({difference})")
    return fresh


def _build(hf: PreTrainedModel) -> PreTrainedModel:
    """Build the model that the configuration makes."""
    dtype = next(p.dtype for p in hf.parameters() if p.is_floating_point())
    fresh: PreTrainedModel = type(hf)._from_config(copy.deepcopy(hf.config), dtype=dtype)
    take_dtypes(fresh, hf)
    return fresh


def _initialise_copy(hf: PreTrainedModel) -> PreTrainedModel:
    """Copy the modules in hand, and initialise their parameters by the family's own code."""
    stored = {id(value) for value in hf.state_dict(keep_vars=True).values()}
    constants: dict[int, Tensor] = {}

    def unset(tensor: Tensor) -> Tensor:
        is_parameter = isinstance(tensor, nn.Parameter)
        if not is_parameter and (id(tensor) not in stored or not tensor.is_floating_point()):
            return tensor.detach().cpu().clone()
        # what is still NaN afterwards was not initialised
        empty = torch.full_like(tensor.detach(), torch.nan, device="cpu")
        if is_parameter:
            return nn.Parameter(empty, requires_grad=False)
        constants[id(empty)] = tensor.detach()
        return empty

    try:
        fresh: Any = without_adapters(copy_modules(hf, unset))
        for module in fresh.modules():
            for name in ("_is_hf_initialized", *_OF_PLACEMENT):
                module.__dict__.pop(name, None)
        fresh.initialize_weights()
    # code of whatever family, on modules that it may not know
    except Exception as error:
        reason = " ".join(str(error).split())
        raise _refused(hf, f"its modules cannot be initialised again ({type(error).__name__}: {reason})") from error
    _fill_rest(hf, fresh, constants)
    copied: PreTrainedModel = fresh
    return copied


@torch.no_grad()
def _fill_rest(hf: PreTrainedModel, fresh: nn.Module, constants: Mapping[int, Tensor]) -> None:
    """Let modules that the family does not know initialise themselves; buffers that nobody initialises are constants.

    Raises:
        ModelError: a parameter that nothing initialises.
    """
    for module in fresh.modules():
        reset: Any = getattr(module, "reset_parameters", None)
        if callable(reset) and any(_is_unset(value) for value in module.parameters(recurse=False)):
            reset()
    for value in fresh.buffers():
        if id(value) in constants and _is_unset(value):
            value.copy_(constants[id(value)])
    _fill_as_built(hf, fresh)
    unset = [name for name, value in fresh.named_parameters() if _is_unset(value)]
    if unset:
        raise _refused(hf, f"nothing initialises {unset[0]}; give its module reset_parameters()")


@torch.no_grad()
def _fill_as_built(hf: PreTrainedModel, fresh: nn.Module) -> None:
    """Give parameters that constructors alone initialise (xIELU's, layers of old families) what the plain model has."""
    unset = {name: value for name, value in fresh.named_parameters() if _is_unset(value)}
    if not unset:
        return
    # the configuration of a changed model may not make one at all
    try:
        built = dict(_build(hf).named_parameters())
    except Exception:
        return
    for name, value in unset.items():
        if name in built and built[name].shape == value.shape:
            value.copy_(built[name])


def _is_unset(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and bool(tensor.isnan().any())


def _require_plain_numbers(hf: PreTrainedModel) -> None:
    """Refuse weights in few bits, of which fresh ones would have other scales or none."""
    for name, value in hf.named_parameters():
        if not value.is_floating_point() or value.element_size() < _LEAST_BYTES:
            kind = str(value.dtype).removeprefix("torch.")
            raise _refused(hf, f"{name} is quantised ({kind}); give the model before it was quantised")


def _require_own_methods(hf: PreTrainedModel) -> None:
    """Refuse methods that were replaced in memory: a fresh model lacks them, and in a copy they may run the first."""
    replaced = replaced_in_words(hf)
    if replaced:
        raise _refused(hf, f"{replaced}, which a fresh one lacks; give the module a class of its own")


def _refused(hf: PreTrainedModel, reason: str) -> ModelError:
    return ModelError(
        f"The control untrained cannot be made of this {type(hf).__name__}: {reason.rstrip('.')}. Or take the control "
        "shuffled_text."
    )
