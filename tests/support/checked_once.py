"""A model that is loaded again as it was is not checked again: checks at load are costly.

``load`` measures the gaps of a model by running its blocks a hundred times. Tests load the same tiny models thousands
of times, most of them to look at something else. What those gaps are follows from the model and from the code that
runs, so that they are kept, in memory and for this process, under all of it: every byte of its tensors, the classes
and attributes of its modules, its configuration, the settings of torch, and what the modules and classes hold that
the checks and the model are made of, by identity. Whatever cannot be put under a key is checked as ever: models with
hooks, on accelerators, without weights, streamed ones, and attributes of unknown kinds. Failures are never kept.

Tests of ``model`` and ``wavefront`` run every check (``SUBJECT``).
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Hashable, Iterator
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final

SUBJECT: Final = ("tests/model/", "tests/wavefront/")
"""Rooms whose tests are about the checks, the models' replay or what runs them."""
_CODE: Final = ("bathyscope.model", "bathyscope.errors", "bathyscope.options")
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class UnknownError(Exception):
    """Something of a model that has no key."""


class CheckedOnce:
    """What checks measured, by what they looked at.

    Args:
        check: what measures the gaps of an anatomy.
    """

    def __init__(self, check: Callable[[Any], Any]) -> None:
        self.check = check
        self.is_on = True
        self.known: dict[Hashable, Any] = {}
        self.codes: dict[tuple[int, ...], tuple[Any, ...]] = {}

    def __call__(self, anatomy: Any) -> Any:
        """The gaps of an anatomy, measured now or when the same was checked before."""
        if not self.is_on:
            return self.check(anatomy)
        try:
            key = self.key(anatomy)
        except UnknownError:
            return self.check(anatomy)
        if key not in self.known:
            self.known[key] = self.check(anatomy)
        else:
            anatomy.note_padding_gap(self.known[key].padding)
        return self.known[key]

    def key(self, anatomy: Any) -> Hashable:
        """All that decides what the checks of an anatomy measure; raises UnknownError where that cannot be told."""
        modules = dict(anatomy.model.named_modules())
        classes = {one for module in modules.values() for one in type(module).__mro__}
        places = {path: number for number, path in enumerate(modules)}
        return (
            self._code(classes),
            anatomy.family,
            tuple(part for path, module in modules.items() for part in _module(path, module)),
            _tensors(anatomy.model),
            repr(anatomy.model.config.to_dict()),
            tuple(str(getattr(anatomy.model.config, f"_{kind}_implementation", "")) for kind in ("attn", "experts")),
            tuple(id(block) == id(source) for block, source in zip(anatomy.blocks, anatomy.sources)),
            len(places),
            _settings(),
        )

    def _code(self, classes: set[type]) -> tuple[int, ...]:
        """What the modules and classes that run hold, by identity; it is kept, so that nothing takes over its place."""
        import torch

        names = {one.__module__ for one in classes} | {name for name in sys.modules if name.startswith(_CODE)}
        modules = [torch, torch.nn.functional, *(sys.modules[name] for name in sorted(names) if name in sys.modules)]
        rooms = [vars(module) for module in modules]
        own = {
            one for room in rooms if room["__name__"].startswith(_CODE) for one in room.values() if type(one) is type
        }
        owners = [*rooms, *(vars(one) for one in sorted(classes | own, key=_name))]
        # a module that is only now imported changes none of what is there
        parts = [value for owner in owners for value in owner.values() if type(value) is not ModuleType]
        code = tuple(map(id, parts))
        self.codes.setdefault(code, tuple(parts))
        return code


def _name(one: type) -> tuple[str, str]:
    return one.__module__, one.__qualname__


def _module(path: str, module: Any) -> Iterator[Hashable]:
    """A module of a model: its class, its mode and its attributes.

    Raises:
        UnknownError: it has hooks, or an attribute that is no plain value.
    """
    own = vars(module)
    if any(own[name] for name in own if name.endswith("_hooks") and isinstance(own[name], dict)):
        raise UnknownError
    yield path, type(module), module.training
    for name, value in own.items():
        if name not in ("_parameters", "_buffers", "_modules", "training", "config") and not name.endswith(
            ("_hooks", "_kwargs")
        ):
            yield name, _value(value)


def _value(value: Any) -> Hashable:
    """An attribute as a key; raises UnknownError where it has none."""
    import torch
    from transformers import GenerationConfig, PreTrainedConfig

    if isinstance(value, float):
        return "float", value.hex()
    if isinstance(value, _PLAIN):
        return type(value).__name__, value
    if isinstance(value, torch.dtype | torch.device | type | FunctionType):
        return value
    if isinstance(value, PreTrainedConfig | GenerationConfig):
        return repr(value.to_dict())
    if isinstance(value, partial):
        return _value([value.func, value.args, value.keywords])
    if isinstance(value, MethodType):
        return value.__func__, type(value.__self__)
    if isinstance(value, BuiltinFunctionType | Enum):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        parts = [_value(part) for part in value]
        return type(value).__name__, tuple(sorted(parts, key=repr) if isinstance(value, set | frozenset) else parts)
    if isinstance(value, dict):
        return "dict", tuple((_value(name), _value(part)) for name, part in value.items())
    if isinstance(value, torch.Tensor):
        return _bytes(value)
    if isinstance(value, torch.nn.Module):
        return type(value)
    raise UnknownError(type(value))


def _bytes(tensor: Any) -> tuple[Any, ...]:
    import torch

    if (
        type(tensor) not in (torch.Tensor, torch.nn.Parameter)
        or tensor.device.type != "cpu"
        or tensor.layout != torch.strided
    ):
        raise UnknownError
    values = tensor.detach().contiguous().view(-1)
    raw = values.view(torch.uint8).numpy() if values.numel() else b""
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.requires_grad, hashlib.sha256(raw).digest()


def _tensors(model: Any) -> tuple[Any, ...]:
    """Every parameter and buffer, with the names of those that are one tensor."""
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    first: dict[int, str] = {}
    return tuple((name, first.setdefault(id(tensor), name), _bytes(tensor)) for name, tensor in named)


def _settings() -> tuple[Any, ...]:
    """Settings of torch that the numbers may depend on."""
    import torch

    return (
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.is_inference_mode_enabled(),
        torch.is_grad_enabled(),
    )


def install() -> None:
    """Has models checked once from now on, where something has been imported that loads them."""
    proving: Any = sys.modules.get("bathyscope.model.proving")
    if proving is not None and not isinstance(proving.check, CheckedOnce):
        proving.check = CheckedOnce(proving.check)


def switch(on: bool) -> None:
    """Lets what is known of models be used, or has every model checked that is loaded."""
    proving: Any = sys.modules.get("bathyscope.model.proving")
    if proving is not None and isinstance(proving.check, CheckedOnce):
        proving.check.is_on = on
