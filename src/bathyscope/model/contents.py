"""What values, functions and classes in memory hold, as texts that are the same in every process.

Numbers, arrays and tensors are read exactly, containers and objects by their parts, functions by their code and by all
that it reaches: what they enclose, defaults, globals. What a library defines is known by its name. What cannot be read
is unknown, and equal to nothing but itself.
"""

from __future__ import annotations

import dis
import hashlib
import logging
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, GenericAlias, MethodType, ModuleType, UnionType
from typing import Any, Final
from uuid import uuid4

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig

from bathyscope.model.origins import is_installed, is_installed_module, layers_of

_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, range, slice)
_BY_TEXT: Final = (Enum, PurePath, logging.Logger, type(Ellipsis), UnionType, GenericAlias)
_MOST_VALUES: Final = 20_000
"""That are read of one value; a larger one is unknown."""
_OF_EVERY_CLASS: Final = frozenset(
    {
        *("__doc__", "__module__", "__qualname__", "__dict__", "__weakref__", "__annotations__", "_abc_impl"),
        "__slotnames__",
        *("__firstlineno__", "__static_attributes__", "__annotate__", "__annotations_cache__", "__abstractmethods__"),
    }
)
_OF_PYTHON: Final = 1 << 9
"""A flag of classes that are made while a program runs, and are not part of the interpreter."""
_TOKENS: dict[int, tuple[Callable[[], Any], str]] = {}
"""Of unknown values: each is equal to itself for as long as it lives."""


@dataclass(frozen=True)
class Content:
    """What a value holds.

    Args:
        text: the same for equal contents alone.
        unread: the class of the first part that cannot be read; None = all is read.
    """

    text: str
    unread: str | None = None


class ContentReader:
    """Reads what values in a model hold.

    Args:
        hf: the model. Its own modules are identified by their places, since its weights are hashed.
    """

    def __init__(self, hf: nn.Module) -> None:
        self._places = {id(module): path for path, module in hf.named_modules()}
        config = getattr(hf, "config", None)
        self._configs = {id(part) for part in (config, *vars(config or object).values())}
        self._digests: dict[int, str] = {}
        self._open: list[int] = []
        # an id is that of one object for as long as the object lives
        self._alive: list[Any] = []
        self._n_read = 0
        self._unread: str | None = None

    def read(self, value: Any) -> Content:
        """Return what a value holds; of a class its name where it is installed, else the code of its methods."""
        return self._read(lambda: self._text(value))

    def read_function(self, function: Any) -> Content:
        """Return what a function, and all that it is wrapped around, compute."""
        return self._read(lambda: _digest("layers", *map(self._text, layers_of(function))))

    def _read(self, compute: Callable[[], str]) -> Content:
        self._digests, self._open, self._n_read, self._unread = {}, [], 0, None
        self._alive.clear()
        return Content(compute(), self._unread)

    def _text(self, value: Any) -> str:
        if type(value) in _PLAIN:
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, _BY_TEXT):
            return f"{type(value).__qualname__} {value}"
        self._n_read += 1
        if self._n_read > _MOST_VALUES:
            return self._unknown(value)
        if id(value) in self._open:
            return f"inside {self._open.index(id(value))}"
        if id(value) not in self._digests:
            self._alive.append(value)
            self._open.append(id(value))
            # a value that is nested too deeply, or whose own code fails while it is read, is unknown like any other
            try:
                text = self._compose(value)
            except Exception:
                text = self._unknown(value)
            self._open.pop()
            self._digests[id(value)] = text
        return self._digests[id(value)]

    def _compose(self, value: Any) -> str:
        if isinstance(value, Tensor):
            return content_of_tensor(value)
        if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
            return _digest(type(value).__name__, str(value.dtype), str(value.shape), value.tobytes().hex())
        if isinstance(value, type):
            return self._text_of_class(value)
        if isinstance(value, FunctionType):
            return self._text_of_function(value)
        if isinstance(value, MethodType):
            return _digest("method", self._text(value.__func__), self._text(value.__self__))
        if isinstance(value, CodeType):
            return self._text_of_code(value)
        if isinstance(value, ModuleType):
            return f"module {value.__name__}" if is_installed_module(value) else self._unknown(value)
        if isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, ModuleType | type | None):
            return f"builtin {value.__module__}.{value.__qualname__}"
        if isinstance(value, weakref.ref):
            return _digest("reference", self._text(value()))
        return self._text_of_object(value)

    def _text_of_object(self, value: Any) -> str:
        """Return an object by its class, its parts, and what it would be pickled as."""
        kind = self._text(type(value))
        if id(value) in self._places:
            return _digest("own module", kind, self._places[id(value)])
        if isinstance(value, PreTrainedConfig):
            # the model's own is hashed as its settings
            return "own configuration" if id(value) in self._configs else _digest(kind, self._text(value.to_dict()))
        parts = [kind]
        if isinstance(value, partial):
            parts += map(self._text, (value.func, value.args, value.keywords))
        elif isinstance(value, set | frozenset):
            parts += sorted(map(self._text, value))
        elif isinstance(value, list | tuple):
            parts += map(self._text, value)
        elif isinstance(value, Mapping):
            parts += [self._text(part) for pair in value.items() for part in pair]
        elif type(value) is not object and not isinstance(value, nn.Module):
            # whatever holds more than Python can see refuses this
            reduced = value.__reduce_ex__(2)
            parts += [reduced] if isinstance(reduced, str) else map(self._text_of_reduced, reduced)
        state = dict(getattr(value, "__dict__", {}))
        return _digest("object", *parts, *self._named(state))

    def _text_of_reduced(self, part: Any) -> str:
        # items of lists and dicts come as iterators
        return self._text(list(part) if hasattr(part, "__next__") else part)

    def _text_of_function(self, function: FunctionType) -> str:
        enclosed = dict(zip(function.__code__.co_freevars, map(_held_in, function.__closure__ or ())))
        if is_installed(function):
            # its code changes with the version of the library, its name does not
            return _digest("installed", f"{function.__module__}.{function.__qualname__}", *self._named(enclosed))
        names = [name for name in _global_names(function.__code__) if name in function.__globals__]
        attributes = {name for part in _codes_in(function.__code__) for name in part.co_names}
        return _digest(
            "function",
            self._text_of_code(function.__code__),
            self._text(function.__defaults__),
            self._text(function.__kwdefaults__),
            *self._named(enclosed),
            *(f"{name} {self._text_of_global(function.__globals__[name], attributes)}" for name in sorted(names)),
            *self._named(vars(function)),
        )

    def _text_of_global(self, value: Any, attributes: Iterable[str]) -> str:
        """Return what a function reaches by a global name; of a module that is not installed, what it uses."""
        if not isinstance(value, ModuleType) or is_installed_module(value) or id(value) in self._open:
            return self._text(value)
        self._open.append(id(value))
        used = {name: vars(value)[name] for name in attributes if name in vars(value)}
        texts = [f"{name} {self._text_of_global(part, attributes)}" for name, part in sorted(used.items())]
        self._open.pop()
        return _digest("module", *texts)

    def _text_of_class(self, kind: type) -> str:
        if is_installed(kind) or not kind.__flags__ & _OF_PYTHON:
            return f"class {kind.__module__}.{kind.__qualname__}"
        members = {name: value for name, value in vars(kind).items() if name not in _OF_EVERY_CLASS}
        slots = {name for name, value in members.items() if type(value).__name__ == "member_descriptor"}
        parts = {name: _inside_of_descriptor(value) for name, value in members.items() if name not in slots}
        bases = [self._text(base) for base in kind.__bases__]
        return _digest("class", kind.__name__, *bases, *self._named(parts), *sorted(slots))

    def _text_of_code(self, code: CodeType) -> str:
        # the body of a class stores the line that it begins in
        line = code.co_firstlineno if "__firstlineno__" in code.co_names else None
        constants = [self._text(part) for part in code.co_consts if line is None or part != line]
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        handlers = getattr(code, "co_exceptiontable", b"")
        return _digest("code", code.co_code.hex(), handlers.hex(), *map(repr, names), *constants)

    def _named(self, values: Mapping[str, Any]) -> list[str]:
        return [f"{name} {self._text(value)}" for name, value in sorted(values.items())]

    def _unknown(self, value: Any) -> str:
        if self._unread is None:
            self._unread = type(value).__qualname__
        return f"unknown {_token(value)}"


def content_of_tensor(value: Tensor) -> str:
    """Return a tensor by its shape, its dtype and its bytes; on ``meta`` it has none."""
    if value.device.type == "meta":
        return f"{tuple(value.shape)} {value.dtype} elsewhere"
    dense = value.detach().to_dense() if value.layout is not torch.strided else value.detach()
    content = dense.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return f"{tuple(value.shape)} {value.dtype} {hashlib.sha256(content.data).hexdigest()}"


def _inside_of_descriptor(value: Any) -> Any:
    if isinstance(value, property):
        return (value.fget, value.fset)
    return value.__func__ if isinstance(value, staticmethod | classmethod) else value


def _held_in(cell: Any) -> Any:
    # a cell is empty until the function that it belongs to has set it
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _codes_in(code: CodeType) -> list[CodeType]:
    return [code, *(inner for part in code.co_consts if isinstance(part, CodeType) for inner in _codes_in(part))]


def _global_names(code: CodeType) -> set[str]:
    """Return the names that a function, and those defined inside of it, look up outside."""
    instructions = (instruction for part in _codes_in(code) for instruction in dis.get_instructions(part))
    return {str(step.argval) for step in instructions if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}


def _token(value: Any) -> str:
    entry = _TOKENS.get(id(value))
    if entry is not None and entry[0]() is value:
        return entry[1]
    try:
        reference: Callable[[], Any] = weakref.ref(value)
    except TypeError:
        reference = partial(_itself, value)
    _TOKENS[id(value)] = (reference, uuid4().hex)
    return _TOKENS[id(value)][1]


def _itself(value: Any) -> Any:
    return value


def _digest(*parts: str) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
