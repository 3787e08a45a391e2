"""Where functions and classes are defined: in a library, in another installed package, or in somebody's own code."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from types import BuiltinFunctionType
from typing import Any, Final

LIBRARIES: Final = ("torch", "transformers", "accelerate", "peft")
"""Weight parametrisation, moving of weights between devices, reading of outputs: none acts on the stream."""
OWN: Final = "bathyscope"
_WITH_CHECKPOINTS: Final = "transformers_modules"
"""Code that comes with a checkpoint, and is named by its revision."""
_FOLDERS: Final = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def homes_of(function: Callable[..., Any]) -> set[str]:
    """Return the packages that a function, and all that it is wrapped around, are defined in.

    A wrapper takes over the name and the module of what it wraps; the globals of its code remain its own.
    """
    return {home_of(layer) for layer in layers_of(function)}


def layers_of(function: Any) -> Iterator[Any]:
    """Yield a function and what it is wrapped around, from the outside to the inside."""
    seen: set[int] = set()
    while function is not None and id(function) not in seen:
        seen.add(id(function))
        yield function
        function = getattr(function, "__wrapped__", None)


def unbound(function: Any) -> Any:
    """Return the function inside of partial ones and of bound methods."""
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__func__", function)


def home_of(function: Any) -> str:
    """Return the package that a function is defined in."""
    return _module_of(function).partition(".")[0]


def is_installed(definition: Any) -> bool:
    """Whether a function or class comes from an installed package, so that its name says what it computes.

    A class that its module does not hold under its name is somebody's own, wherever it says that it is from.
    """
    module = _module_of(definition)
    if not _is_installed_module(module):
        return False
    if not isinstance(definition, type):
        return True
    place: Any = sys.modules.get(module)
    for name in definition.__qualname__.split("."):
        place = getattr(place, name, None)
    return place is definition


def is_installed_module(module: Any) -> bool:
    """Whether a module is one of an installed package."""
    return _is_installed_module(str(module.__name__))


def _module_of(definition: Any) -> str:
    definition = unbound(definition)
    names = getattr(definition, "__globals__", None)
    if names is not None:
        return str(names.get("__name__"))
    # an object that wraps a function takes over its module too, and its class does not
    origin = definition if isinstance(definition, BuiltinFunctionType | type) else type(definition)
    return str(origin.__module__ or "")


@lru_cache(maxsize=4096)
def _is_installed_module(name: str) -> bool:
    package = name.partition(".")[0]
    if package in (*LIBRARIES, OWN, f"{OWN}_lab", _WITH_CHECKPOINTS) or package in sys.builtin_module_names:
        return True
    module = sys.modules.get(name)
    path = getattr(module, "__file__", None)
    if path is None:
        return module is not None and package != "__main__"
    return str(path).startswith(_FOLDERS)
