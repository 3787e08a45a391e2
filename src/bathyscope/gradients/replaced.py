"""Running a block with the contribution of one of its parts replaced."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.anatomy.family import Site
from bathyscope.anatomy.sites import site_modules


@contextmanager
def replaced(block: nn.Module, site: Site, added_NTD: Tensor) -> Iterator[None]:
    """During the block's next call the part adds ``added_NTD`` to the residual stream instead of its own output.

    Where several modules make up the contribution, the first carries all of it and the others add nothing.
    Gradients reach ``added_NTD``.
    """
    handles = []
    try:
        for number, (module, own) in enumerate(site_modules(block, site)):
            given = added_NTD if number == 0 else torch.zeros_like(added_NTD)
            handles.append(module.register_forward_hook(_replacer(block, own, given), with_kwargs=True))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _replacer(block: nn.Module, site: Site, added_NTD: Tensor) -> Any:
    def replace(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        old = output[0] if isinstance(output, tuple | list) else output
        value = added_NTD if site.scale is None else added_NTD / getattr(block, site.scale)
        # a copy: some families overwrite what a module returns, which a leaf of the graph must not be
        value = value.reshape(old.shape).to(old.dtype, copy=True)
        if site.minus is not None:
            # the module's output holds the residual stream, which must stay
            value = value + inspect.signature(module.forward).bind(*args, **kwargs).arguments[site.minus]
        return type(output)([value, *output[1:]]) if isinstance(output, tuple | list) else value

    return replace
