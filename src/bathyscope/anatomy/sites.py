"""Contributions: what attention and MLP add to the residual stream, read or left out while a block runs."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from typing import Any

import torch
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


def site_modules(block: nn.Module, site: Site) -> Iterator[tuple[nn.Module, Site]]:
    """The modules whose contributions a site sums in this block: its own first existing path, and ``also``."""
    module = next((m for m in (submodule(block, path) for path in site.paths) if m is not None), None)
    if module is not None:
        yield module, site
    for further in site.also:
        yield from site_modules(block, further)


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
        for part, declared in sites.items():
            for module, site in site_modules(block, declared):
                handles.append(module.register_forward_hook(_reader(block, part, site, taken), with_kwargs=True))
        yield taken
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def silenced(block: nn.Module, sites: Mapping[str, Site], silent: Mapping[str, Tensor]) -> Iterator[None]:
    """During the block's next call, parts add nothing to the residual stream at the marked tokens.

    Args:
        silent: part → True at the tokens [rows, tokens] where its contribution is left out.
    """
    handles = []
    try:
        for part, mask_NT in silent.items():
            for module, site in site_modules(block, sites[part]):
                handles.append(module.register_forward_hook(_silencer(site, mask_NT), with_kwargs=True))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _silencer(site: Site, mask_NT: Tensor) -> Any:
    def silence(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        value = output[0] if isinstance(output, tuple | list) else output
        mask = mask_NT.view(*value.shape[:-1], 1)  # some modules see all tokens of all rows in one axis
        if site.minus is None:
            value = value.masked_fill(mask, 0.0)
        else:
            # the module's output holds the residual stream, which must stay
            value = torch.where(mask, _argument(module, site.minus, args, kwargs), value)
        return type(output)([value, *output[1:]]) if isinstance(output, tuple | list) else value

    return silence


def _argument(module: nn.Module, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    found: Tensor = inspect.signature(module.forward).bind(*args, **kwargs).arguments[name]
    return found


def _reader(block: nn.Module, part: str, site: Site, taken: dict[str, Tensor]) -> Any:
    ran = False

    def read(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        nonlocal ran
        if ran:
            raise ModelError(f"The {part} site {'/'.join(site.paths)} ran twice in one block.")
        ran = True
        value = contribution(block, module, site, args, kwargs, output)
        taken[part] = taken[part] + value.reshape(taken[part].shape) if part in taken else value

    return read


def contribution(
    block: nn.Module,
    module: nn.Module,
    site: Site,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    output: Any,
) -> Tensor:
    """What one call of a site's module adds to the residual stream (a fresh tensor)."""
    value = output[0] if isinstance(output, tuple | list) else output
    if site.minus is not None:
        value = value - _argument(module, site.minus, args, kwargs)
    return value.clone() if site.scale is None else value * getattr(block, site.scale)
