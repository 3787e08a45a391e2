"""What rounding alone may do to a model: forwards in which every operation is rounded at random.

Monte Carlo arithmetic (Parker 1997): the result of every operation is moved by a random relative error of up to the
unit roundoff of its own precision, and the terms of a sum of k products by up to √k units of the precision that sums
are formed in, the probabilistic bound of a sum in any order (Higham and Mary 2019). Such a forward is one of those that
compute the same function in this precision: in another order, by another kernel, with weights that were rounded
elsewhere. The blocks behind an operation pass its error on as they pass on any change, so width and depth enter by
themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_EXACT: Final = frozenset(
    (
        *(
            "_reshape_copy",
            "_to_copy",
            "_unsafe_view",
            "abs",
            "arange",
            "bincount",
            "bucketize",
            "cat",
            "ceil",
            "clamp",
        ),
        *("clamp_max", "clamp_min", "clone", "constant_pad_nd", "copy", "cummax", "detach", "embedding", "empty"),
        *("empty_like", "empty_strided", "expand_copy", "fill", "flip", "floor", "floor_divide", "fmod", "full"),
        *("full_like", "gather", "histc", "index", "index_copy", "index_put", "index_select", "isfinite", "lift_fresh"),
        *("masked_fill", "masked_scatter", "max", "maximum", "min", "minimum", "neg", "new_empty", "new_full"),
        *("new_ones", "new_zeros", "ones", "ones_like", "rand", "randn", "relu", "remainder", "repeat", "resize"),
        *(
            "roll",
            "round",
            "scalar_tensor",
            "scatter",
            "select_scatter",
            "set",
            "sign",
            "slice_scatter",
            "sort",
            "stack",
        ),
        *("take_along_dim", "threshold", "topk", "tril", "triu", "trunc", "where", "zero", "zeros", "zeros_like"),
    )
)
"""Operations that move numbers, choose among them or count: nothing is rounded."""
_PRODUCTS: Final = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "matmul", "linear", "convolution", "_grouped_mm"), (0, 1)),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "addbmm"), (1, 2)),
}
"""Sums of products: the places of both factors among the arguments."""
_ROUNDINGS_OF_EMBEDDING: Final = 2
"""Roundings in front of block 0. Of equal functions, those that add positions need 0.5, and those that norm the
embedding 1.1; a row that is looked up has none."""
_CLOSE: Final = 2
"""A choice may fall otherwise where its margin is at most this many times what rounding moved the numbers by."""


class RandomRounding(TorchDispatchMode):
    """A context in which every operation is rounded at random.

    Args:
        seed: of the random errors.
        earlier: ``choices`` of two such forwards on the same tokens. Where these show that rounding could decide which
            experts a token takes, it takes the next best one here: a step of the function, whose far side random errors
            may miss.
    """

    supports_higher_order_operators = True

    def __init__(self, seed: int, earlier: Sequence[Sequence[Tensor]] = ()) -> None:
        super().__init__()
        self._seed = seed
        self._generators: dict[torch.device, torch.Generator] = {}
        self._earlier = list(zip(*earlier))
        self.choices: list[Tensor] = []
        """The numbers that were chosen among, choice after choice."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, with the factors of products moved, and move its result."""
        kwargs = kwargs or {}
        schema = getattr(func, "_schema", None)
        if schema is None:
            return func(*args, **kwargs)
        name = schema.name.rpartition("::")[2]
        aliases = [value.alias_info for value in schema.returns if value.alias_info is not None]
        in_place = any(alias.is_write for alias in aliases)
        kind = name if name.startswith("_") else name.removesuffix("_")
        if kind == "topk":
            return func(self._turned(*args), *args[1:], **kwargs)
        if kind in _EXACT or (aliases and not in_place):
            return func(*args, **kwargs)
        result = func(*self._with_moved_factors(kind, args), **kwargs)
        several = isinstance(result, tuple | list)
        if in_place:
            for tensor in filter(_is_rounded, result if several else [result]):
                tensor.copy_(self.moved(tensor))
            return result
        if several:
            return type(result)(self.moved(value) if _is_rounded(value) else value for value in result)
        return self.moved(result) if _is_rounded(result) else result

    def _with_moved_factors(self, kind: str, args: Any) -> Any:
        """Return the arguments of a sum of products with its smaller factor moved; of attention all three."""
        if kind.startswith("_scaled_dot_product"):
            query, key, value = args[:3]
            scores, mean = _error_of_sum(query, query.shape[-1]), _error_of_sum(value, value.shape[-2])
            return (self.moved(query, scores), self.moved(key, scores), self.moved(value, mean), *args[3:])
        if kind not in _PRODUCTS:
            return args
        left, right = _PRODUCTS[kind]
        factors = list(args)
        place = left if args[left].numel() <= args[right].numel() else right
        if _is_rounded(factors[place]):
            terms = prod(args[right].shape[1:]) if kind == "convolution" else args[left].shape[-1]
            factors[place] = self.moved(factors[place], _error_of_sum(factors[place], terms))
        return tuple(factors)

    def _turned(self, values: Tensor, count: int, dim: int = -1, largest: bool = True, *_: Any) -> Tensor:
        """Return the numbers of a choice; the last chosen and the next are exchanged where rounding could do so.

        Which of them was chosen is asked of an earlier forward: its own rounding may have exchanged them here already.
        """
        self.choices.append(values.detach())
        place = len(self.choices) - 1
        if place >= len(self._earlier) or count >= values.shape[dim] or not _is_rounded(values):
            return values
        left, right = self._earlier[place]
        if left.shape != values.shape or right.shape != values.shape:
            return values
        moved_by = (left.float() - right.float()).abs().nan_to_num(0.0).amax(dim, keepdim=True)
        best, places = left.topk(count + 1, dim, largest)
        last, behind = (best.narrow(dim, at, 1).float() for at in (count - 1, count))
        is_close = (last - behind).abs() <= _CLOSE * moved_by
        pair = places.narrow(dim, count - 1, 2)
        numbers = values.gather(dim, pair)
        exchanged = numbers.sort(dim, descending=not largest).values
        return values.scatter(dim, pair, torch.where(is_close, exchanged, numbers))

    def embedded(self, resid_BTD: Tensor) -> Tensor:
        """Return the stream in front of block 0 with the error of what gives it."""
        return self.moved(resid_BTD, _ROUNDINGS_OF_EMBEDDING * _unit(resid_BTD.dtype))

    def moved(self, values: Tensor, most: float | None = None) -> Tensor:
        """Return numbers with a random relative error each.

        Args:
            most: the largest error; None = the unit roundoff of their precision.
        """
        device = values.device
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(self._seed)
        scale = _unit(values.dtype) if most is None else most
        error = torch.rand(values.shape, generator=self._generators[device], device=device)
        wide = values.float() if values.element_size() < 4 else values
        # The error is added as a number of its own: 1 + error would be rounded itself.
        moved = wide + wide * (error * (2 * scale) - scale).to(wide.dtype)
        return torch.where(moved.isfinite(), moved, wide).to(values.dtype)


def _is_rounded(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point() and value.element_size() > 1 and value.numel() > 0


def _unit(dtype: torch.dtype) -> float:
    """Return the unit roundoff: the largest relative error of rounding to the nearest number."""
    return torch.finfo(dtype).eps / 2


def _error_of_sum(values: Tensor, terms: int) -> float:
    """Return the relative error of each term of a sum; numbers below float32 are summed in float32."""
    return _unit(torch.float32 if values.element_size() < 4 else values.dtype) * sqrt(terms)
