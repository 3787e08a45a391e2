"""Calls of modules while a model runs, looked at or answered otherwise: where hooks are put on modules."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor, nn

from bathyscope.errors import ModelError


@dataclass(frozen=True)
class Call:
    """One call of a module, as it ends; ``path`` is the name under which the module was listed."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    output: Any
    path: str = ""

    @property
    def value(self) -> Any:
        """The output, or the first of several."""
        return self.output[0] if isinstance(self.output, tuple | list) and self.output else self.output

    @property
    def bound(self) -> Mapping[str, Any]:
        """Return the arguments of the call, by the names of the module's parameters."""
        return inspect.signature(self.module.forward).bind(*self.args, **self.kwargs).arguments

    def copied(self) -> Call:
        """Return the call with copies of all tensors, since some families overwrite arguments and outputs."""
        args, kwargs = tuple(map(_copied, self.args)), {name: _copied(value) for name, value in self.kwargs.items()}
        return Call(self.module, args, kwargs, _copied(self.value), self.path)


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


@contextmanager
def called(modules: Iterable[tuple[str, nn.Module]], then: Callable[[Call], Tensor | None]) -> Iterator[None]:
    """Tell ``then`` of every call of the named modules as it ends.

    A tensor that ``then`` returns takes the place of the module's output, or of the first of several.
    """

    def ended(path: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        value = then(Call(module, args, kwargs, output, path))
        if value is None or not isinstance(output, tuple | list):
            return value
        # MLPs with experts return router scores behind their output, which the block unpacks
        return type(output)([value, *output[1:]])

    with ExitStack() as stack:
        for path, module in modules:
            stack.enter_context(module.register_forward_hook(partial(ended, path), with_kwargs=True))
        yield


@contextmanager
def calls_within(root: nn.Module) -> Iterator[list[Call]]:
    """Collect copies of the calls of a module's submodules that give a tensor, in the order of their ends."""
    calls: list[Call] = []

    def note(call: Call) -> None:
        if isinstance(call.value, Tensor):
            calls.append(call.copied())

    with called([(path, module) for path, module in root.named_modules() if path], note):
        yield calls


@contextmanager
def replaced_forwards(blocks: Sequence[nn.Module], forwards: Sequence[Callable[..., Any]]) -> Iterator[None]:
    """Run the given function instead of each block's own forward, until the context ends."""
    with ExitStack() as stack:
        for block, forward in zip(blocks, forwards):
            # a streamed block has a forward among its own attributes already, which must come back as it was
            attributes = block.__dict__
            if "forward" in attributes:
                stack.callback(attributes.__setitem__, "forward", attributes["forward"])
            else:
                stack.callback(attributes.pop, "forward")
            attributes["forward"] = forward
        yield


def by_name(call: inspect.BoundArguments) -> dict[str, Any]:
    """Return all arguments of a block under their names; those of ``**kwargs`` under their own."""
    named: dict[str, Any] = {}
    for name, value in call.arguments.items():
        kind = call.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            raise ModelError(f"A block takes unnamed arguments (*{name}); its call cannot be replayed.")
        else:
            named[name] = value
    return named
