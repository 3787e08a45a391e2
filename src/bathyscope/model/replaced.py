"""Methods of modules that somebody has replaced in memory, such as the ``forward`` of one block.

No weight and no setting tells such a model from the plain one, and what is built from its configuration lacks them.
Wrappers that libraries put around a module's own method (devices, mixed precision, compiled code) change no number, and
neither do faster kernels of the same function.
"""

import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any, Final

from torch import nn
from transformers import PreTrainedModel

from bathyscope.errors import warn
from bathyscope.model.contents import Content, ContentReader
from bathyscope.model.origins import LIBRARIES, OWN, home_of, is_installed, layers_of, unbound
from bathyscope.model.structure import ADAPTERS

_KERNELS: Final = ("kernels", "liger_kernel")
_MEASURING: Final = (*LIBRARIES, *_KERNELS, OWN)


def replaced_methods(hf: nn.Module) -> dict[str, Content]:
    """Return the methods that were replaced in memory, by path, each with what is there now.

    A ``forward`` of a library's class that another package has exchanged for all modules counts as well, and so do
    somebody's own functions in the place of others that such a class or its module defines. Methods that every model
    has, such as ``to``, are switches of whoever holds it.
    """
    contents = ContentReader(hf)
    replaced: dict[str, Content] = {}
    exchanged: dict[type, dict[str, Any]] = {}
    for path, module in hf.named_modules():
        kind = type(module)
        for key, method in _methods_in_front(module):
            if _is_replaced(method, key, module):
                replaced[f"{path}.{key}".strip(".")] = contents.read_function(method)
        if kind not in exchanged:
            exchanged[kind] = dict(_exchanged_methods(kind))
        for key, method in exchanged[kind].items():
            replaced.setdefault(f"{path}.{key}".strip("."), contents.read_function(method))
    for name in sorted({kind.__module__ for kind in exchanged}):
        functions = _exchanged_functions(name)
        replaced |= {f"{name}.{key}": contents.read_function(function) for key, function in functions}
    return replaced


def replaced_in_words(hf: nn.Module) -> str:
    """Return which methods were replaced, as a clause; empty where none was."""
    paths = list(replaced_methods(hf))
    if not paths:
        return ""
    more = f" (and {len(paths) - 1} more)" if len(paths) > 1 else ""
    return f"{paths[0]}{more} was replaced in memory"


def warn_of_replaced_methods(hf: nn.Module) -> None:
    """Warn of methods that were replaced in memory, and of what cannot be had of such a model."""
    replaced = replaced_in_words(hf)
    if replaced:
        warn(
            f"{replaced}: results count as those of another model, and its exports and the control untrained are "
            "refused. Give the module a class of its own where that is meant."
        )


def _methods_in_front(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield what is in front of methods of a module's class; modules in their place are parts of the model."""
    for key, value in module.__dict__.items():
        of_all_models = key != "forward" and hasattr(PreTrainedModel, key)
        if callable(value) and callable(getattr(type(module), key, None)) and not of_all_models:
            yield key, value


def _is_replaced(method: Any, key: str, module: nn.Module) -> bool:
    layers = list(layers_of(method))
    of_class = {id(unbound(layer)) for layer in layers_of(getattr(type(module), key))}
    outer = [layer for layer in layers if id(unbound(layer)) not in of_class]
    owners = [layer.__self__ for layer in layers if isinstance(getattr(layer, "__self__", None), nn.Module)]
    if any(home_of(layer) not in _MEASURING for layer in outer):
        return True
    if type(module).__module__.partition(".")[0] == ADAPTERS:
        # a layer of an adapter that has the method of the layer inside
        return False
    if len(outer) < len(layers):
        # another module's method runs that module
        return any(owner is not module for owner in owners[-1:])
    # A wrapper that a library makes for one module is a function of its own, and some families choose among methods of
    # one class; torch.zeros_like, another module, and the method of another class are neither.
    innermost = unbound(layers[-1])
    if owners[-1:] == [module] and unbound(getattr(type(module), innermost.__name__, None)) is innermost:
        return False
    return home_of(innermost) in ("torch", "transformers") and "<locals>" not in getattr(innermost, "__qualname__", "")


def _exchanged_methods(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the methods of a library's class that are defined elsewhere."""
    if kind.__module__.partition(".")[0] not in LIBRARIES:
        return
    if any(home_of(layer) not in _MEASURING for layer in layers_of(kind.forward)):  # type: ignore[attr-defined]
        yield "forward", kind.forward  # type: ignore[attr-defined]
    # what all models have in common are switches
    bases = [base for base in kind.__mro__ if base not in PreTrainedModel.__mro__]
    for key in dict.fromkeys(key for base in bases for key in vars(base)):
        method = getattr(kind, key, None)
        if key != "forward" and isinstance(method, FunctionType) and _is_somebodys(method):
            yield key, method


def _exchanged_functions(module: str) -> Iterator[tuple[str, Any]]:
    """Yield somebody's own functions in the place of those that a module of a library's models uses."""
    if module.partition(".")[0] == "transformers" and module in sys.modules:
        for key, value in sorted(vars(sys.modules[module]).items()):
            if isinstance(value, FunctionType) and _is_somebodys(value):
                yield key, value


def _is_somebodys(function: FunctionType) -> bool:
    return not all(is_installed(layer) for layer in layers_of(function))
