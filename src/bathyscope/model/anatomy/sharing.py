"""Copies of a module that share its weights, so that hooks and forwards of each copy are its own."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from types import MethodType
from typing import Any

from torch import nn

from bathyscope.model.streaming.lending import lender_of, lent


def share(module: nn.Module) -> nn.Module:
    """Return a copy of a module that shares all parameters and buffers with it, in evaluation mode.

    The copy sees new tensors too that are put in the place of others, as streaming does, because it holds the same
    dictionaries. Hooks are not copied.
    """
    return _share(module, {}).eval()


def _share(module: nn.Module, copies: dict[int, nn.Module]) -> nn.Module:
    if id(module) in copies:
        return copies[id(module)]
    twin = module.__class__.__new__(module.__class__)
    copies[id(module)] = twin
    attributes = dict(module.__dict__)
    children = attributes["_modules"]
    for name, value in attributes.items():
        if name.endswith("_hooks") and isinstance(value, OrderedDict):
            attributes[name] = OrderedDict()
        elif isinstance(value, list | dict) and name not in ("_parameters", "_buffers"):
            attributes[name] = copy.copy(value)
    attributes["_modules"] = {
        name: None if child is None else _share(child, copies) for name, child in children.items()
    }
    twin.__dict__.update(attributes)
    if lender_of(module) is not None:
        # a streamed block's forward belongs to that block; the copy borrows the same weights
        twin.__dict__["forward"] = _lending(twin)
    return twin


def _lending(block: nn.Module) -> Callable[..., Any]:
    """Return the forward of a copy of a streamed block: it runs with the block's weights in memory."""
    run = MethodType(type(block).forward, block)

    def forward(*args: Any, **kwargs: Any) -> Any:
        with lent(block):
            return run(*args, **kwargs)

    forward.__dict__["__wrapped__"] = run
    return forward
