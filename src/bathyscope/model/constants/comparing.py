"""In which constants two models differ, or a model and what its configuration makes."""

from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.model.attending import registered_functions
from bathyscope.model.constants.reading import (
    Constants,
    built_constants,
    constants_of,
    is_inside,
    on_host,
    replaced_layers,
)
from bathyscope.model.contents import Content, ContentReader
from bathyscope.model.origins import is_installed
from bathyscope.model.replaced import replaced_methods
from bathyscope.model.tables import tables_of

ROUNDINGS = 4
"""By how many roundings tables may differ that were computed on another device."""
_MISSING = object()


def own_classes(hf: nn.Module) -> dict[str, Content]:
    """Return the code of modules' classes that no installed package defines, by path."""
    contents: dict[type, Content] = {}
    reader = ContentReader(hf)
    classes = {path: type(module) for path, module in hf.named_modules() if not is_installed(type(module))}
    for kind in {*classes.values()}:
        contents[kind] = reader.read(kind)
    return {f"{path} (code)".strip(): contents[kind] for path, kind in classes.items()}


def changed_values(hf: nn.Module) -> list[str]:
    """Return plain values, classes and methods of modules that the model's configuration would make otherwise, by path.

    Where the model cannot be made of it, these are the methods that were replaced in memory. Tables are told by
    ``changed_tables``.
    """
    built = built_constants(hf)
    constants = on_host(constants_of(hf))
    tables = tables_of(hf)
    values = [] if built is None else [name for name in differing_names(constants, built) if name not in tables]
    return [*values, *replaced_methods(hf)]


def differing_constants(first: nn.Module, second: nn.Module, *, across_precisions: bool = False) -> list[str]:
    """Return in which constants and replaced methods two models differ, by path, outside layers with adapters.

    Args:
        across_precisions: tables of equal numbers in two dtypes are equal; otherwise they compute something else.
    """
    inner = (*replaced_layers(first), *replaced_layers(second))
    left, right = (
        {name: value for name, value in on_host(constants_of(hf)).items() if not is_inside(owner_of(name), inner)}
        for hf in (first, second)
    )
    methods = [{**replaced_methods(hf), **registered_functions(hf), **own_classes(hf)} for hf in (first, second)]
    replaced = {name for name in {*methods[0], *methods[1]} if methods[0].get(name) != methods[1].get(name)}
    differing = differing_names(left, right)
    if across_precisions:
        differing = [name for name in differing if not _have_equal_numbers(left.get(name), right.get(name))]
    return [*differing, *sorted(replaced)]


def _have_equal_numbers(value: Any, other: Any) -> bool:
    """Return whether two tables hold the same numbers, whatever their dtypes."""
    if not isinstance(value, Tensor) or not isinstance(other, Tensor) or value.shape != other.shape:
        return False
    if is_absent(value) or is_absent(other):
        return False
    pair = (value.double().cpu(), other.double().cpu())
    return torch.allclose(*pair, rtol=0.0, atol=0.0, equal_nan=True)


def owner_of(name: str) -> str:
    """Return the path of the module that a constant belongs to."""
    return name.removesuffix(" (class)") if name.endswith(" (class)") else name.rpartition(".")[0]


def differing_names(constants: Constants, built: Constants) -> list[str]:
    """Return the paths of constants in which two models differ, sorted."""
    names = sorted(constants.keys() | built.keys())
    pairs = {name: (constants.get(name, _MISSING), built.get(name, _MISSING)) for name in names}
    return [
        name
        for name, pair in pairs.items()
        if not is_same(*pair) and not (_have_one_class(name, constants, built) and _is_left_behind(name, *pair))
    ]


def _have_one_class(name: str, constants: Constants, built: Constants) -> bool:
    key = f"{owner_of(name)} (class)"
    return bool(constants.get(key) == built.get(key))


def is_underscored(name: str) -> bool:
    """Return whether a constant's own name begins with an underscore, as notes of libraries do."""
    return name.rpartition(".")[2].startswith("_")


def _is_left_behind(name: str, value: Any, built: Any) -> bool:
    """Whether a value tells nothing of what a module of one class computes.

    A forward has left a tensor behind (recurrent states), it is on meta, or a library has noted something for itself.
    """
    if is_underscored(name) and (value is _MISSING or built is _MISSING):
        return True
    return (isinstance(value, Tensor) and not isinstance(built, Tensor)) or is_absent(value) or is_absent(built)


def is_absent(value: Any) -> bool:
    """Return whether a constant is a tensor without numbers, on the meta device."""
    return isinstance(value, Tensor) and value.device.type == "meta"


def is_same(value: Any, built: Any) -> bool:
    """Return whether two constants are equal; tables up to the rounding of another device."""
    if isinstance(value, Content) and isinstance(built, Content) and value.unread:
        return False
    if not isinstance(value, Tensor) or not isinstance(built, Tensor):
        return type(value) is type(built) and repr(value) == repr(built)
    if value.shape != built.shape or value.dtype != built.dtype:
        return False
    if is_absent(value) or is_absent(built):
        return True
    if not value.is_floating_point():
        return torch.equal(value, built.to(value.device))
    rounding = ROUNDINGS * torch.finfo(value.dtype).eps
    return torch.allclose(value.double(), built.to(value.device).double(), rtol=rounding, atol=0.0, equal_nan=True)
