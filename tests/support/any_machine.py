"""Another machine's rounding: a product of matrices depends in its last place on the sizes of the call.

    make test-any-machine
    .venv/bin/python -m pytest -p tests.support.any_machine tests/...

Kernels of matrix products choose their order of summation by the sizes of a call, and which sizes differ depends on
the processor, its library and the number of threads. So the same row may come out one unit in the last place apart in
a call of 2 rows and in one of 12, and a test that wants equal bits of the two passes on one machine and fails on
another. With this module loaded two thirds of a product's columns, drawn by all sizes of the call, are one unit in the
last place higher or lower. Calls of equal sizes agree to the bit; calls of other sizes differ.

Where. The kernels themselves are replaced, below autograd, vmap, subclasses and modes: ``linear``, ``matmul``,
``einsum`` and their kin arrive here from any thread, and so do the products of backward passes. Fused attention and
convolutions are moved too. Sums along an axis, softmax and norms do not depend on other rows; numpy is not reached.

Which dtypes. float32 and float64. Below float32 a unit in the last place is up to 2⁻⁷ of a number, while another order
of summation moves a sum in float32, which changes few of the rounded results. To move most of them would be no
machine's rounding, and bounds that follow from a dtype's precision would be broken by more than rounding.

What stays: 0, infinities, NaN, numbers that are whole, and sums of a single term. Sums of whole numbers, and rows that
a 1 picks, are the same in any order of summation.

Programs that tests start inherit ``VARIABLE`` and a path on which ``at_start/sitecustomize.py`` lies; it loads this
module behind torch. Programs that shut their environment out (``python -I``) are not reached.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

VARIABLE = "BATHYSCOPE_TESTS_ON_ANY_MACHINE"
AT_START = Path(__file__).parent / "at_start"
_MOVED = {torch.float32: 2.0**-24, torch.float64: 2.0**-53}
"""By dtype x of which a number times 1 − x is its neighbour nearer to 0, and divided by it the one further from 0."""
_AT_ONCE = 2**16
"""Numbers that are moved at once."""

# by operator, which of its arguments are multiplied
_PRODUCTS = {
    "mm": (0, 1),
    "mm.out": (0, 1),
    "bmm": (0, 1),
    "bmm.out": (0, 1),
    "addmm": (1, 2),
    "addmm.out": (1, 2),
    "addmm_": (1, 2),
    "mv": (0, 1),
    "addmv": (1, 2),
    "addmv.out": (1, 2),
    "addmv_": (1, 2),
    "baddbmm": (1, 2),
    "baddbmm.out": (1, 2),
    "baddbmm_": (1, 2),
    "convolution": (0, 1),
    "_scaled_dot_product_flash_attention_for_cpu": (0, 1),
}
_SUMS_ALONE = {"mm", "mm.out", "bmm", "bmm.out", "mv"}
"""Operators that add nothing to their sums: a sum of a single term is rounded once, and so the same on any machine."""
_CHANNELS = {"convolution": 1}
"""By operator, the axis along which numbers move; elsewhere the last."""

_inside = threading.local()
_COUNTING = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)
_MARK = "rounds_as_another_machine"
"""Name under which torch holds the library of this process: the module may be imported under several names."""


@lru_cache(maxsize=4096)
def _factors(sizes: tuple[tuple[int, ...], ...], columns: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """What each column of a call of these sizes is multiplied and divided by: both 1, or one of them less."""
    draw = torch.Generator().manual_seed(crc32(repr(sizes).encode()))
    moves = torch.randint(-1, 2, (columns,), generator=draw)
    down, up = ((moves == way).to(dtype) for way in (-1, 1))
    return 1.0 - _MOVED[dtype] * down, 1.0 - _MOVED[dtype] * up


def _move(product: Tensor, sizes: tuple[tuple[int, ...], ...], axis: int) -> None:
    """Moves a product in place, some rows at a time, so that it needs little memory of its own."""
    trailing = (1,) * (product.ndim - 1 - axis) if axis >= 0 else ()
    down, up = (factors.view(-1, *trailing) for factors in _factors(sizes, product.shape[axis], product.dtype))
    for rows in product.split(max(1, _AT_ONCE * len(product) // product.numel())):
        rows.copy_(torch.where(rows == rows.round(), rows, rows * down / up))


def _replacement(operator: str) -> Callable[..., Any]:
    kernel = torch.library.get_kernel(f"aten::{operator}", "CPU")
    multiplied, axis = _PRODUCTS[operator], _CHANNELS.get(operator, -1)

    def answer(keys: torch.DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        if getattr(_inside, "kernel", False):  # one kernel that uses another is one product
            return kernel.call_boxed(keys, *args, **kwargs)
        _inside.kernel = True
        try:
            result = kernel.call_boxed(keys, *args, **kwargs)
            product = result[0] if isinstance(result, tuple) else result
            sizes = tuple(tuple(args[i].shape) for i in multiplied)
            if product.dtype in _MOVED and product.numel() and not (operator in _SUMS_ALONE and sizes[0][-1] == 1):
                # a product's first value is the moved one: no write that is counted
                with torch._C._AutoDispatchBelowAutograd(), torch._C._ExcludeDispatchKeyGuard(_COUNTING):
                    _move(product, sizes, axis)
            return result
        finally:
            _inside.kernel = False

    return answer


def install() -> None:
    """Replaces the kernels of this process, once and to its end."""
    if hasattr(torch, _MARK):
        return
    library = torch.library.Library("aten", "IMPL")
    setattr(torch, _MARK, library)
    answers = {operator: _replacement(operator) for operator in _PRODUCTS}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning only once for all operators")
        for operator, answer in answers.items():
            library.impl(operator, answer, "CPU", with_keyset=True, allow_override=True)


def path(*folders: str) -> str:
    """Return a ``PYTHONPATH`` of these folders, for programs that are to round as this process does."""
    start = [str(AT_START)] if os.environ.get(VARIABLE) else []
    return os.pathsep.join(filter(None, (*start, *folders)))


def reach_programs() -> None:
    """Has programs that are started from here round as this process does."""
    if not os.environ.get(VARIABLE):
        os.environ[VARIABLE] = "1"
        os.environ["PYTHONPATH"] = path(os.environ.get("PYTHONPATH", ""))


def pytest_configure() -> None:
    """As a plugin of pytest: this process and all that it starts."""
    reach_programs()
    install()
