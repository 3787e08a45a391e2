"""Methods of modules that somebody has replaced in memory, such as the ``forward`` of one block.

No weight and no setting tells such a model from the plain one, and what is built from its configuration lacks them.
Wrappers that libraries put around a module's own method (devices, mixed precision, compiled code) change no number, and
neither do faster kernels of the same function.
"""

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from bathyscope.errors import warn
from bathyscope.model.structure import ADAPTERS

LIBRARIES: Final = ("torch", "transformers", "accelerate", "peft")
"""Weight parametrisation, moving of weights between devices, reading of outputs: none acts on the stream."""
_KERNELS: Final = ("kernels", "liger_kernel")
_OWN: Final = "bathyscope"
_MEASURING: Final = (*LIBRARIES, *_KERNELS, _OWN)
_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), np.generic, torch.dtype, torch.device)
_MOST_DEPTH: Final = 4
"""Of functions in functions that are looked into."""


def replaced_methods(hf: nn.Module) -> dict[str, str]:
    """Return the methods that were replaced in memory, by path, each with a text of what stands there now.

    A ``forward`` of a library's class that another package has exchanged for all modules counts as well. Methods that
    every model has, such as ``to``, are switches of whoever holds it.
    """
    contents = _Contents(hf)
    replaced: dict[str, str] = {}
    for path, module in hf.named_modules():
        for key, method in _methods_in_front(module):
            if _is_replaced(method, key, module):
                replaced[f"{path}.{key}".strip(".")] = contents.text_of(method)
        if _is_exchanged(type(module)):
            replaced.setdefault(f"{path}.forward".strip("."), contents.text_of(type(module).forward))
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


def homes_of(function: Callable[..., Any]) -> set[str]:
    """Return the packages that a function, and all that it is wrapped around, are defined in.

    A wrapper takes over the name and the module of what it wraps; the globals of its code remain its own.
    """
    return {_home(layer) for layer in _layers(function)}


def _methods_in_front(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield what stands in front of methods of a module's class; modules in their place are parts of the model."""
    for key, value in module.__dict__.items():
        of_all_models = key != "forward" and hasattr(PreTrainedModel, key)
        if callable(value) and callable(getattr(type(module), key, None)) and not of_all_models:
            yield key, value


def _is_replaced(method: Any, key: str, module: nn.Module) -> bool:
    layers = list(_layers(method))
    of_class = {id(_unbound(layer)) for layer in _layers(getattr(type(module), key))}
    outer = [layer for layer in layers if id(_unbound(layer)) not in of_class]
    owners = [layer.__self__ for layer in layers if isinstance(getattr(layer, "__self__", None), nn.Module)]
    if any(_home(layer) not in _MEASURING for layer in outer):
        return True
    if type(module).__module__.partition(".")[0] == ADAPTERS:
        # a layer of an adapter that has the method of the layer inside
        return False
    if len(outer) < len(layers):
        # another module's method runs that module
        return any(owner is not module for owner in owners[-1:])
    # A wrapper that a library makes for one module is a function of its own, and some families choose among methods of
    # one class; torch.zeros_like, another module, and the method of another class are neither.
    innermost = _unbound(layers[-1])
    if owners[-1:] == [module] and _unbound(getattr(type(module), innermost.__name__, None)) is innermost:
        return False
    return _home(innermost) in ("torch", "transformers") and "<locals>" not in getattr(innermost, "__qualname__", "")


def _is_exchanged(kind: type) -> bool:
    """Whether a library's class has a ``forward`` that is defined elsewhere."""
    if kind.__module__.partition(".")[0] not in LIBRARIES:
        return False
    return any(_home(layer) not in _MEASURING for layer in _layers(kind.forward))  # type: ignore[attr-defined]


def _layers(function: Any) -> Iterator[Any]:
    """Yield a function and what it is wrapped around, from the outside to the inside."""
    seen: set[int] = set()
    while function is not None and id(function) not in seen:
        seen.add(id(function))
        yield function
        function = getattr(function, "__wrapped__", None)


def _unbound(function: Any) -> Any:
    """Return the function inside of partial ones and of bound methods."""
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__func__", function)


def _home(function: Any) -> str:
    function = _unbound(function)
    names = getattr(function, "__globals__", None)
    if names is not None:
        return str(names.get("__name__")).partition(".")[0]
    # an object that wraps a function takes over its module too, and its class does not
    origin = function if isinstance(function, BuiltinFunctionType | type) else type(function)
    return str(origin.__module__ or "").partition(".")[0]


class _Contents:
    """What functions hold, as plain data whose text is the same in every process.

    Args:
        hf: the model, whose own modules are told by their classes, since its weights are hashed.
    """

    def __init__(self, hf: nn.Module) -> None:
        self._own_modules = {id(module) for module in hf.modules()}

    def text_of(self, function: Any) -> str:
        """Return a hash of what a function computes, as far as its code and the values that it holds tell."""
        return hashlib.sha256(repr([self.of(layer, 0) for layer in _layers(function)]).encode()).hexdigest()

    def of(self, value: Any, depth: int) -> Any:
        """Return a value as plain data: numbers as they are, tensors by their bytes, functions by code and values."""
        if isinstance(value, _PLAIN):
            return repr(value)
        if isinstance(value, np.ndarray) and value.dtype != object:
            return ("array", str(value.dtype), value.shape, hashlib.sha256(value.tobytes()).hexdigest())
        if isinstance(value, Tensor):
            return _content_of_tensor(value)
        if depth < _MOST_DEPTH:
            if isinstance(value, list | tuple | set | frozenset):
                parts = [self.of(part, depth + 1) for part in value]
                return (type(value).__name__, sorted(map(repr, parts)) if isinstance(value, set | frozenset) else parts)
            if isinstance(value, dict):
                return [(self.of(key, depth + 1), self.of(part, depth + 1)) for key, part in value.items()]
            if isinstance(value, partial):
                return ("partial", *(self.of(part, depth + 1) for part in (value.func, value.args, value.keywords)))
            if isinstance(value, MethodType):
                return ("method", self.of(value.__func__, depth + 1), self._of_object(value.__self__, depth + 1))
            if isinstance(value, FunctionType):
                return self._of_function(value, depth)
            if not isinstance(value, type | BuiltinFunctionType | ModuleType):
                return self._of_object(value, depth + 1)
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or type(value).__qualname__
        return f"{getattr(value, '__module__', '')}.{name}"

    def _of_function(self, function: FunctionType, depth: int) -> Any:
        if _home(function) in LIBRARIES:
            # its code changes with the version of the library, its name does not
            return f"{function.__module__}.{function.__qualname__}"
        names = _names_in(function.__code__)
        value_by_name = {
            **{name: function.__globals__[name] for name in names if name in function.__globals__},
            **dict(zip(function.__code__.co_freevars, map(_held_in, function.__closure__ or ()))),
            "defaults": function.__defaults__,
            "keyword defaults": function.__kwdefaults__,
        }
        values = [(name, self.of(value, depth + 1)) for name, value in sorted(value_by_name.items())]
        return ("function", self._of_code(function.__code__), values)

    def _of_object(self, value: Any, depth: int) -> Any:
        """Return an object by its class and the values that it holds, a module by its weights."""
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        if isinstance(value, nn.Module):
            weights = {} if id(value) in self._own_modules else value.state_dict()
            return (kind, [(name, _content_of_tensor(tensor)) for name, tensor in weights.items()])
        state: dict[str, Any] = getattr(value, "__dict__", {})
        return (kind, [(key, self.of(part, depth + 1)) for key, part in sorted(state.items()) if depth < _MOST_DEPTH])

    def _of_code(self, code: CodeType) -> Any:
        constants = [self._of_code(part) if isinstance(part, CodeType) else self.of(part, 0) for part in code.co_consts]
        return (code.co_code.hex(), constants, code.co_names, code.co_varnames)


def _content_of_tensor(value: Any) -> Any:
    if not isinstance(value, Tensor) or value.device.type == "meta":
        return (type(value).__name__, str(getattr(value, "dtype", "")), tuple(getattr(value, "shape", ())))
    as_bytes = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return ("tensor", str(value.dtype), tuple(value.shape), hashlib.sha256(as_bytes.data).hexdigest())


def _held_in(cell: Any) -> Any:
    # a cell is empty until the function that it belongs to has set it
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _names_in(code: CodeType) -> set[str]:
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return {*code.co_names, *(name for part in inner for name in _names_in(part))}
