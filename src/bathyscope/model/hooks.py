"""Functions that somebody has registered on a model's modules, and that would run on rows they are not meant for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from torch import nn
from torch.nn.modules import module as torch_module

from bathyscope.errors import ModelError

_KINDS = {
    "_forward_pre_hooks": "forward pre-hook",
    "_forward_hooks": "forward hook",
    "_backward_pre_hooks": "backward pre-hook",
    "_backward_hooks": "backward hook",
}
# weight parametrisation, moving of weights between devices, reading of outputs: none acts on the stream
_OF_LIBRARIES = ("torch", "transformers", "accelerate", "peft")


def require_no_hooks(hf: nn.Module) -> None:
    """Refuses a model with hooks of others: steering vectors, edited activations, running statistics.

    Rows of a survey are other texts, lengths and histories than those that a hook was written for, and two runs with
    different hooks could not be told apart by their weights.

    Raises:
        ModelError: there is one, with its module's name.
    """
    for where, kind, hook in _hooks(hf):
        if _home(hook) not in _OF_LIBRARIES:
            raise ModelError(
                f"A {kind} ({getattr(hook, '__qualname__', type(hook).__name__)}) is registered on {where}. It would "
                "act on rows, tokens and blocks that it was not written for, and its results would pass for those of "
                "the plain model; remove it (handle.remove()), or write what it does into the model itself."
            )


def _hooks(hf: nn.Module) -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """(module's path, kind of hook, function) of all that are registered."""
    for attribute, kind in _KINDS.items():
        for hook in getattr(torch_module, f"_global{attribute}").values():
            yield "every module (torch.nn.modules.module)", kind, hook
        for path, module in hf.named_modules():
            for hook in getattr(module, attribute).values():
                yield path or "the model itself", kind, hook


def _home(hook: Callable[..., Any]) -> str:
    """The package that a hook's function is defined in."""
    while isinstance(hook, partial):
        hook = hook.func
    return str(getattr(hook, "__module__", None) or type(hook).__module__).partition(".")[0]
