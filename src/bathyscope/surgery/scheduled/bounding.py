"""A model whose contributions are bounded in every coordinate, on the weights of another: massive activations cut.

A few numbers of some models' streams are thousands of times as large as the rest (massive activations, mostly at the
first token). They are written by single contributions, so that a bound on these takes them away and leaves the rest
to the bit. The module that writes gets a class of its own, derived from its own class, whose output is bounded: what
a block adds is still the sum of what its parts add, and every measure works.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from bathyscope.core.write_bound import WriteBound
from bathyscope.errors import ModelError, OptionError, describe_value
from bathyscope.model import Model, load
from bathyscope.model.anatomy.family import Site
from bathyscope.model.anatomy.sites import site_modules
from bathyscope.model.replaced import replaced_in_words
from bathyscope.model.structure import copy_modules

_LARGEST: Final[WeakKeyDictionary[nn.Module, Tensor]] = WeakKeyDictionary()
"""The largest number that each bounded module would have written, as a share of its limit, since it was last asked for.

It is no attribute of the module, since a model whose attributes change is another model.
"""


def bounded(model: Model, bound: str | WriteBound) -> Model:
    """Return a model on the same weights whose attention and MLP write no number above a bound.

    Where no contribution has a larger number, every number of the model is unchanged. The embedding is not bounded.
    The source of the question is Sun et al. 2024 (massive activations), who set such activations themselves to other
    values; here it is what is added to the stream.

    Args:
        model: what ``bathyscope.load`` returns.
        bound: ``clamp:1000``: larger numbers of a contribution become 1000 with their sign; ``zero:1000``: they become
            0. In the units of the residual stream. Infinite numbers and NaN stay, so that an overflow is noticed.

    Raises:
        OptionError: no model that was loaded, or no such bound.
        ModelError: contributions that are not each the output of one module; streamed blocks, several devices or ranks;
            methods that were replaced in memory.

    Example:
        >>> mild = bathyscope.extend.bounded(model, "clamp:0.5")
        >>> mild.n_blocks == model.n_blocks, mild.weight_hash == model.weight_hash
        (True, False)
    """
    if not isinstance(model, Model):
        raise OptionError(
            f"bounded() takes a model that was loaded; {describe_value(model)} given. Give bathyscope.load(FOLDER)."
        )
    chosen = WriteBound.parse(bound)
    require_boundable(model)
    try:
        hf: Any = copy_modules(model.hf, lambda tensor: tensor)
    except TypeError as error:
        raise _refused(model, f"its modules cannot be copied ({error})") from error
    paths = {id(module): path for path, module in model.hf.named_modules()}
    # blocks may share a module, which is bounded once
    writers = {paths[id(module)]: (site, scale) for module, site, scale in _writers(model)}
    for path, (site, scale) in writers.items():
        _bound_module(hf.get_submodule(path), site, chosen, scale)
    copy = load(hf.eval(), family=model.anatomy.family)
    # of the texts of the checks, which nobody asks for
    take_largest(copy)
    return replace(
        model,
        name=f"{model.name}, {chosen.in_words}",
        anatomy=copy.anatomy,
        checks=copy.checks,
        weight_hash=copy.weight_hash,
        settings_hash=copy.settings_hash,
        origin=model,
    )


def take_largest(model: Model) -> float | None:
    """Return the largest number that a bounded model would have written, as a share of the bound, and begin again.

    Infinite numbers count for nothing. None where no block has run.
    """
    shares = [_LARGEST.pop(module) for module in model.hf.modules() if module in _LARGEST]
    return float(torch.stack([share.cpu().double() for share in shares]).max()) if shares else None


def require_boundable(model: Model) -> None:
    """Refuse models whose contributions cannot be bounded, before any compute.

    Raises:
        ModelError: the reason, and what can be measured in its place.
    """
    anatomy = model.anatomy
    if model.blocks is not None or model.ranks > 1 or _has_hooks(model.hf):
        raise _refused(model, "its blocks are streamed, or lie on several devices; load it with placement='resident'")
    if replaced_in_words(model.hf):
        raise _refused(model, replaced_in_words(model.hf))
    if not anatomy.sites or anatomy.loops is not None or anatomy.streams is not None:
        raise _refused(model, "its attention and MLP cannot be told apart, or its blocks take several streams or loop")
    for index, block in enumerate(anatomy.blocks):
        for part, site in anatomy.sites.items():
            modules = [module for module, _ in site_modules(block, site)]
            if len(modules) > 1:
                names = " and ".join(type(module).__name__ for module in modules)
                raise _refused(model, f"{part} of block {index} is the sum of {names}")
    scales: dict[int, float] = {}
    for module, _, scale in _writers(model):
        if hasattr(module, "write_limit"):
            raise _refused(model, "they are bounded already; give the model that this one was made of")
        if scales.setdefault(id(module), scale) != scale:
            raise _refused(model, f"blocks share a {type(module).__name__} and multiply it by different numbers")


def _refused(model: Model, reason: str) -> ModelError:
    return ModelError(
        f"The contributions of {model.name} cannot be bounded: {reason}. Measure it as it is, or without a block "
        "(drop, skip)."
    )


def _has_hooks(hf: nn.Module) -> bool:
    """Return whether accelerate moves tensors around modules, which a copy would do with the original's."""
    return any(hasattr(module, "_hf_hook") for module in hf.modules())


def _writers(model: Model) -> Iterator[tuple[nn.Module, Site, float]]:
    """Yield the modules that write into the stream, where, and what their output is multiplied by."""
    for block in model.anatomy.blocks:
        for declared in model.anatomy.sites.values():
            for module, site in site_modules(block, declared):
                yield module, site, 1.0 if site.scale is None else float(getattr(block, site.scale))


def _bound_module(module: Any, site: Site, bound: WriteBound, scale: float) -> None:
    """Give a module the class whose output is bounded."""
    module.write_kind, module.write_from = bound.kind, site.minus
    module.write_limit = bound.value / abs(scale)
    module.__class__ = _bounding_class(type(module))


def _bounding_class(kind: type[nn.Module]) -> type[nn.Module]:
    """Return a class derived from a module's, whose forward bounds what it adds to the residual stream."""
    signature = inspect.signature(kind.forward)

    @functools.wraps(kind.forward)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        output = kind.forward(self, *args, **kwargs)
        is_first_of_several = isinstance(output, tuple | list)
        value = output[0] if is_first_of_several else output
        stream = None
        if self.write_from is not None:
            # the module's output holds the stream, which stays
            stream = signature.bind(self, *args, **kwargs).arguments[self.write_from]
        _note_largest(self, value, stream)
        value = limited(value, stream, self.write_limit, clamps=self.write_kind == "clamp")
        return type(output)([value, *output[1:]]) if is_first_of_several else value

    return type(f"Bounded{kind.__name__}", (kind,), {"forward": forward, "__module__": __name__})


@torch.no_grad()
def _note_largest(module: Any, value: Tensor, stream: Tensor | None) -> None:
    """Note what a module is about to write, on its own device, so that nothing waits for the number."""
    added = (value if stream is None else value - stream).detach()
    share = added.abs().nan_to_num(0, posinf=0).max().float() / module.write_limit
    before = _LARGEST.get(module)
    _LARGEST[module] = share if before is None else torch.maximum(before, share)


def limited(value: Tensor, stream: Tensor | None, limit: float, *, clamps: bool) -> Tensor:
    """Return an output whose contribution, the output without the stream, has no finite number above a limit."""
    added = value if stream is None else value - stream
    is_beyond = (added.abs() > limit) & added.isfinite()
    allowed = added.clamp(-limit, limit) if clamps else torch.zeros_like(added)
    return torch.where(is_beyond, allowed if stream is None else stream + allowed, value)
