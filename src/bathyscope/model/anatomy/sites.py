"""Contributions: what attention and MLP add to the residual stream, read, left out or exchanged while a block runs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial, reduce
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.calls import Call, called
from bathyscope.model.anatomy.family import Family, Site


def submodule(root: nn.Module, path: str) -> nn.Module | None:
    """Return the submodule at a dotted path, or None."""
    try:
        value = reduce(getattr, path.split("."), root)
    except AttributeError:
        return None
    return value if isinstance(value, nn.Module) else None


def site_modules(block: nn.Module, site: Site) -> Iterator[tuple[nn.Module, Site]]:
    """Yield the modules whose contributions a site sums in this block: its own first existing path, and ``also``."""
    module = next((m for m in (submodule(block, path) for path in site.paths) if m is not None), None)
    if module is not None:
        yield module, site
    for further in site.also:
        yield from site_modules(block, further)


def sites_of(family: Family, config: Any) -> Mapping[str, Site]:
    """Return the family's sites by part: ``attention``, ``mlp``, and ``other0`` … where a family adds further terms.

    Empty where the family, or this configuration of it, has no separable contributions.
    """
    if family.attention is None or family.mlp is None:
        return {}
    if family.parts_when is not None:
        attribute, required = family.parts_when
        if bool(getattr(config, attribute, required)) is not required:
            return {}
    others = {f"other{i}": site for i, site in enumerate(family.others)}
    return {"attention": family.attention, "mlp": family.mlp, **others}


@contextmanager
def tapped(block: nn.Module, sites: Mapping[str, Site]) -> Iterator[dict[str, Tensor]]:
    """Read the contributions of the block's next call, by part, in the shape of the residual stream.

    The tensors are clones: some families overwrite a module's output after it is returned (Falcon).

    Raises:
        ModelError: a site is called more than once in one call of the block.
    """
    taken: dict[str, Tensor] = {}
    ran: set[tuple[str, nn.Module]] = set()

    def read(part: str, site: Site, call: Call) -> None:
        if (part, call.module) in ran:
            raise ModelError(f"The {part} site {'/'.join(site.paths)} ran twice in one block.")
        ran.add((part, call.module))
        value = contribution(block, site, call)
        # experts and a shared MLP, or two mixers, make up one contribution; some of them return flat tokens
        taken[part] = taken[part] + value.reshape(taken[part].shape) if part in taken else value

    with _at(block, sites, read):
        yield taken


def silenced(block: nn.Module, sites: Mapping[str, Site], silent: Mapping[str, Tensor]) -> AbstractContextManager[None]:
    """Let parts add nothing to the residual stream at the marked tokens, during the block's next call.

    Args:
        silent: part → True at the tokens [rows, tokens] where its contribution is left out.
    """
    nothing = {part: mask.new_zeros((), dtype=torch.float32) for part, mask in silent.items()}
    return replaced(block, sites, nothing, silent)


@contextmanager
def replaced(
    block: nn.Module,
    sites: Mapping[str, Site],
    added: Mapping[str, Tensor],
    where: Mapping[str, Tensor] | None = None,
) -> Iterator[None]:
    """Let parts add something else to the residual stream than their own output, during the block's next call.

    Where several modules make up a contribution, the first carries all of it and the others add nothing.
    Gradients reach ``added``.

    Args:
        added: part → what it adds, [rows, tokens, width], or one number everywhere.
        where: part → True at the tokens [rows, tokens] where it does; parts that are not named do everywhere.
    """
    first = {part: next((module for module, _ in site_modules(block, sites[part])), None) for part in added}

    def replace(part: str, site: Site, call: Call) -> Tensor:
        value = added[part] if call.module is first[part] else torch.zeros_like(added[part])
        value = value.to(call.value.device)
        value = value if site.scale is None else value / getattr(block, site.scale)
        # a copy: some families overwrite what a module returns, which a leaf of the graph must not be
        value = value.expand_as(call.value) if not value.ndim else value.reshape(call.value.shape)
        value = value.to(call.value.dtype, copy=True)
        if site.minus is not None:
            # the module's output holds the residual stream, which must stay
            value = value + call.bound[site.minus]
        if where is None or part not in where:
            return value
        # some modules see all tokens of all rows in one axis
        marked = where[part].to(call.value.device).view(*call.value.shape[:-1], 1)
        return torch.where(marked, value, call.value)

    with _at(block, {part: sites[part] for part in added}, replace):
        yield


@contextmanager
def _at(
    block: nn.Module, sites: Mapping[str, Site], then: Callable[[str, Site, Call], Tensor | None]
) -> Iterator[None]:
    """Tell ``then`` of the calls of all modules of these sites; what it returns takes the place of their output."""
    with ExitStack() as stack:
        for part, declared in sites.items():
            for module, site in site_modules(block, declared):
                stack.enter_context(called([(part, module)], partial(then, part, site)))
        yield


def contribution(block: nn.Module, site: Site, call: Call) -> Tensor:
    """Return what one call of a site's module adds to the residual stream (a fresh tensor)."""
    value: Tensor = call.value
    if site.minus is not None:
        value = value - call.bound[site.minus]
    return value.clone() if site.scale is None else value * getattr(block, site.scale)
