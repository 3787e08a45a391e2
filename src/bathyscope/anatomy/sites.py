"""Contributions: what attention and MLP add to the residual stream, read while a block runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from typing import Any

from torch import Tensor, nn

from bathyscope.anatomy.family import Family, Site
from bathyscope.errors import ModelError


def submodule(root: nn.Module, path: str) -> nn.Module | None:
    """The submodule at a dotted path, or None."""
    try:
        found = reduce(getattr, path.split("."), root)
    except AttributeError:
        return None
    return found if isinstance(found, nn.Module) else None


def site_module(block: nn.Module, site: Site) -> nn.Module | None:
    """The module a site reads in this block: the first of its alternatives that exists."""
    return next((m for m in (submodule(block, path) for path in site.paths) if m is not None), None)


def sites_of(family: Family, config: Any) -> Mapping[str, Site]:
    """The family's sites by part: ``attention``, ``mlp``, and ``other0`` … where a family adds further terms.

    Empty where the family, or this configuration of it, has no separable contributions.
    """
    if family.attention is None or family.mlp is None:
        return {}
    if family.parts_when is not None:
        attribute, wanted = family.parts_when
        if bool(getattr(config, attribute, wanted)) is not wanted:
            return {}
    others = {f"other{i}": site for i, site in enumerate(family.others)}
    return {"attention": family.attention, "mlp": family.mlp, **others}


@contextmanager
def tapped(block: nn.Module, sites: Mapping[str, Site]) -> Iterator[dict[str, Tensor]]:
    """Contributions of the block's next call, by part, in the shape of the residual stream.

    The tensors are clones: some families overwrite a module's output after it is returned (Falcon).

    Raises:
        ModelError: a site is called more than once in one call of the block.
    """
    taken: dict[str, Tensor] = {}
    handles = []
    try:
        for part, site in sites.items():
            module = site_module(block, site)
            if module is not None:
                handles.append(module.register_forward_hook(_reader(block, part, site, taken), with_kwargs=True))
        yield taken
    finally:
        for handle in handles:
            handle.remove()


def _reader(block: nn.Module, part: str, site: Site, taken: dict[str, Tensor]) -> Any:
    def read(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if part in taken:
            raise ModelError(f"The {part} site {'/'.join(site.paths)} ran twice in one block.")
        taken[part] = contribution(block, module, site, args, kwargs, output)

    return read


def contribution(
    block: nn.Module, module: nn.Module, site: Site, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
) -> Tensor:
    """What one call of a site's module adds to the residual stream (a fresh tensor)."""
    value = output[0] if isinstance(output, tuple | list) else output
    if site.minus is not None:
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
        return value - bound.arguments[site.minus]
    if site.scale is not None:
        return value * getattr(block, site.scale)
    return value.clone()
