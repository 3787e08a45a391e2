"""Tables of a model next to those of its configuration, up to the rounding of casts."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.model.anatomy.recording import reset_rotary
from bathyscope.model.constants.comparing import ROUNDINGS, is_absent, is_same
from bathyscope.model.constants.reading import built_constants, constants_of, on_host
from bathyscope.model.tables import tables_of

_CASTS: tuple[tuple[torch.dtype, ...], ...] = (
    *((), (torch.float32,), (torch.bfloat16,), (torch.float16,)),
    *((torch.float16, torch.bfloat16), (torch.bfloat16, torch.float16)),
)
"""Through which dtypes a model may have been cast before it has the one that it has now."""


def changed_tables(hf: nn.Module) -> list[str]:
    """Return the tables that the model's configuration would make otherwise, by path.

    Casting a model rounds its tables too, and a checkpoint is loaded with those of its configuration again: tables that
    differ by no more than such a rounding are no change; nor are dynamic ones that a long forward has stretched.
    """
    built = built_constants(hf)
    if built is None:
        return []
    reset_rotary(hf)
    constants = on_host(constants_of(hf))
    return [
        name for name in sorted(tables_of(hf)) if name in constants and not _is_cast(constants[name], built.get(name))
    ]


def rounded_tables(hf: nn.Module) -> dict[str, float]:
    """Return the tables that were rounded in memory, as casting a model rounds them, by path.

    Each with the largest difference from what the configuration makes, as a share of a number. A model that is loaded
    in a dtype has none: there the library leaves its tables in full.
    """
    built = built_constants(hf)
    if built is None:
        return {}
    reset_rotary(hf)
    constants = on_host(constants_of(hf))
    pairs = {name: (constants[name], built.get(name)) for name in sorted(tables_of(hf)) if name in constants}
    shares = {name: _share_of_rounding(value, table) for name, (value, table) in pairs.items()}
    return {name: share for name, share in shares.items() if share > 0}


def _share_of_rounding(value: Tensor, table: Any) -> float:
    """Return the largest difference of a cast table, as a share of a number; 0 where it is the same to its rounding."""
    if not isinstance(table, Tensor) or is_absent(value) or is_absent(table) or value.shape != table.shape:
        return 0.0
    if not (table.is_floating_point() and value.is_floating_point()):
        return 0.0
    numbers, exact = value.to(table.device).double(), table.double()
    # another device rounds the same table in its last digits
    if _lies_within(numbers, table, ()):
        return 0.0
    shares = ((numbers - exact) / exact).abs()
    finite = shares.isfinite()
    return float(shares[finite].max()) if finite.any() else 0.0


def _is_cast(value: Tensor, table: Any) -> bool:
    """Whether a value is a table, up to rounding, as it comes out of casts of its model; also where there is no table.

    What modules hold that their configuration does not make, a forward has left behind (recurrent states).
    """
    if not isinstance(table, Tensor) or is_absent(value) or is_absent(table):
        return True
    if value.shape != table.shape:
        return False
    if not table.is_floating_point() or not value.is_floating_point():
        return is_same(value, table)
    return any(_lies_within(value, table, casts) for casts in _CASTS)


def _lies_within(value: Tensor, table: Tensor, casts: Sequence[torch.dtype]) -> bool:
    """Whether a value lies between the casts of the lowest and the highest numbers that rounding makes of a table.

    Casts keep the order of numbers, so that those between two numbers are cast to what lies between their casts.
    """
    exact = table.double()
    spread = exact.abs()
    if table.ndim > 1:
        # sines by position: an angle rounds as its position does, however small its sine
        spread = spread + torch.arange(table.shape[-2], device=table.device)[:, None]
    spread = ROUNDINGS * torch.finfo(table.dtype).eps * spread.nan_to_num(posinf=0.0)
    ends = [exact - spread, exact + spread]
    for dtype in (table.dtype, *casts, value.dtype):
        ends = [end.to(dtype) for end in ends]
    low, high = (end.double() for end in ends)
    numbers = value.to(table.device).double()
    return bool((((numbers >= low) & (numbers <= high)) | (numbers.isnan() & exact.isnan())).all())
