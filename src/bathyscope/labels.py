"""Labels of results: what every array says of itself, and the tables that say it for all arrays of a measure.

Nothing here needs torch, and arrays' libraries are imported only once there is an array.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bathyscope.errors import OptionError, StoreError, describe_value

if TYPE_CHECKING:
    import xarray as xr
    from numpy.typing import NDArray

REDUCTIONS: Final = ("mean", "p95", "max")
"""Over tokens, in the order of the dimension ``reduction``."""
RANGES: Final[Mapping[str, tuple[float, float]]] = {
    r"kl_top_p|kl_tail|\w*(change|interaction|advantage|attribution|completeness|log_p|slope|skew|gain)\w*": (
        -math.inf,  # a divergence is never negative, but what some of its tokens add to it may be
        math.inf,
    ),
    r"(published_)?cos_\w+|self|index|adjacent|half_agreement\w*|cka": (-1.0, 1.0),
    r"overlap|(top1|exit)_agreement\w*|top1_kept|near_ties|mrr|hits|deep_thinking_ratio|gate_exit|jsd|angular|"
    r"identity_share|weight|total_prev5|mean_prev5|self_weight|first_key|head_prev\d|\w*probability|\w*_share|"
    r"\w*_fraction": (0.0, 1.0),
    r"output_(all|future|effect)": (0.0, math.sqrt(2.0)),  # two distributions are never further apart
    r"(kl|added_kl|norm|ratio|output|given|received|fixed_point|entropy|loss|baseline|cross_entropy|(layer_)?effect|published|largest|"
    r"settle_depth|prediction_depth|exit_depth|variance|kurtosis)(_\w+)?": (0.0, math.inf),
}
"""Names of variables → the smallest and largest value that they, and so their means, can have; the first that fits.

Variables that no name fits (counts, numbers of tokens, texts) have no range. One whose label gives its own
(``Label.limits``) needs no name here.
"""
_ROUNDING: Final = 1e-9
_BETWEEN: Final = " to "
_BLANK = re.compile(r"\{(\w+)=([^}]*)\}")


def variable(
    dims: Sequence[str],
    values: Any,
    long_name: str,
    units: str,
    *,
    source: str,
    formula: str = "",
    direction: str = "",
    limits: tuple[float, float] | None = None,
) -> xr.Variable:
    """A labelled array with the attributes every variable carries.

    Args:
        dims: names of the dimensions, one for each axis of ``values``.
        values: an array, of numpy or torch.
        long_name: what it is, in a few words.
        units: nats, bits, 1 (none), deg …
        source: key of the work it is from and the section, or ``own``.
        formula: in the letters of ``docs/measures.md``.
        direction: what is first in a difference, or whether more is better.
        limits: smallest and largest value that it can have, which intervals of its means never leave, such as (0,
            math.inf); None = by its name, if that is one of the package's own.

    Raises:
        OptionError: dimensions that are not those of the values, or limits that are no range.

    Example:
        >>> spread = bathyscope.extend.variable(["prompt", "block"], np.zeros((2, 4)), "spread", "1", source="own")
        >>> spread.attrs["units"]
        '1'
    """
    import numpy as np
    import xarray as xr

    attrs = {"long_name": long_name, "units": units, "formula": formula, "source": source}
    if direction:
        attrs["direction"] = direction
    if limits is not None:
        if not limits[0] <= limits[1]:
            raise OptionError(f"limits={limits} are no range; give the smallest value first, such as (0, math.inf).")
        attrs["range"] = _BETWEEN.join(str(float(end)) for end in limits)
    if hasattr(values, "detach"):
        array = values.detach().cpu()
        values = array.float() if str(array.dtype) == "torch.bfloat16" else array  # which numpy does not have
    numbers = np.asarray(values)
    if isinstance(dims, str) or len(dims) != numbers.ndim:
        raise OptionError(
            f"{describe_value(long_name)} has dims={describe_value(dims)}, which do not name the axes of an array of "
            f"shape {list(numbers.shape)}; give a list with one name for each."
        )
    return xr.Variable(tuple(dims), numbers, attrs)


@dataclass(frozen=True)
class Label:
    """What one variable says of itself; ``{k=5}`` in a text stands for what is known only with a result, 5 by default.

    Args:
        dims: names of its dimensions, separated by blanks; one in brackets may be absent.
        optional: some results lack the variable.
        limits: as for ``variable``.
    """

    dims: str
    long_name: str
    units: str = "1"
    formula: str = ""
    source: str = ""
    direction: str = ""
    optional: bool = False
    limits: tuple[float, float] | None = None

    @property
    def always(self) -> tuple[str, ...]:
        """The dimensions that are always there."""
        return tuple(name for name in self.dims.split() if not name.startswith("["))

    @property
    def most(self) -> tuple[str, ...]:
        """All dimensions there may be."""
        return tuple(name.strip("[]") for name in self.dims.split())

    def of(self, values: Any, **texts: object) -> xr.Variable:
        """The labelled array.

        Args:
            texts: what takes the place of each ``{name=…}``.
        """
        import numpy as np

        dims = self.most if np.ndim(values) == len(self.most) else self.always
        return variable(
            dims,
            values,
            _filled(self.long_name, texts),
            self.units,
            formula=_filled(self.formula, texts),
            source=self.source,
            direction=self.direction,
            limits=self.limits,
        )


Table = Mapping[str, Label]
"""Every variable of a result by name, in order."""


def interval(name: str, label: Callable[..., Label], of: str, *details: str, **more: str) -> dict[str, Label]:
    """Both ends of an interval, ``name_low`` and ``name_high``.

    Args:
        label: makes a label of a long name and what follows.
        of: what they are ends of, such as ``"its interval"``.
    """
    ends = (("low", "lower"), ("high", "upper"))
    return {f"{name}_{end}": label(f"{side} end of {of}", *details, **more) for end, side in ends}


def labelled(
    table: Table, values: Mapping[str, Any], coords: Mapping[str, Any] | None = None, **texts: object
) -> xr.Dataset:
    """A dataset of the arrays, each with the dimensions and attributes that are in its table.

    Args:
        texts: what takes the place of each ``{name=…}``.
    """
    import xarray as xr

    return xr.Dataset({name: table[name].of(value, **texts) for name, value in values.items()}, coords)


def range_of(name: str) -> tuple[float, float]:
    """Smallest and largest value that a variable can have, by its name (``RANGES``); infinite where none is known."""
    for pattern, limits in RANGES.items():
        if re.fullmatch(pattern, name):
            return limits
    return -math.inf, math.inf


def mean_limits(name: str, values: NDArray[Any] | xr.DataArray) -> tuple[float, float]:
    """Smallest and largest mean that a variable can have, as it says itself or by its name: no interval leaves them.

    A mean that is estimated lies between them, and so do the means that an interval is to hold. What of an interval
    lies beyond holds no possible mean, so that cutting it off leaves the interval's coverage as it was.

    Args:
        values: of the variable; where one of them lies beyond, the name is another quantity's, and there are no limits.
    """
    import numpy as np

    stated = str(getattr(values, "attrs", {}).get("range", ""))
    low, high = _read_range(stated) if stated else range_of(name)
    numbers = np.asarray(values, dtype=np.float64)
    within = (numbers >= low - _ROUNDING) & (numbers <= high + _ROUNDING)
    return (low, high) if bool((within | np.isnan(numbers)).all()) else (-math.inf, math.inf)


def _read_range(text: str) -> tuple[float, float]:
    """What a variable's attribute says; no limits where it is another program's, in words of its own."""
    try:
        low, high = map(float, text.split(_BETWEEN))
    except ValueError:
        return -math.inf, math.inf
    return low, high


def token_weights(dataset: xr.Dataset, name: str = "") -> NDArray[Any]:
    """How many tokens each prompt's means are over, [prompt]: what a mean over all tokens of all prompts weighs it by.

    Where that is not every token, the dataset says it: ``n_averaged``, or ``n_averaged_…`` for one variable.

    Args:
        name: of the variable.

    Raises:
        StoreError: what is to be numbers of tokens holds something else.
    """
    for counts_name in (f"n_averaged_{name}", "n_averaged"):
        if counts_name in dataset:
            return _counts(dataset, counts_name)
    counts = _counts(dataset, "n_tokens")
    # Position 0 is left out; or, in runs that earlier versions wrote without counts, the last token.
    without_one = name.endswith("_rest") or name == "cross_entropy" or "baseline_loss" in dataset
    return counts - without_one


def _counts(dataset: xr.Dataset, name: str) -> NDArray[Any]:
    try:
        return dataset[name].values.astype("float64")
    except ValueError as error:
        raise StoreError(f"{name} of these results holds no numbers of tokens; restore them from a copy.") from error


def weighed_by(dataset: xr.Dataset) -> list[str]:
    """The variables that ``token_weights`` reads; a dataset cut to some of its variables keeps them."""
    counts = [str(name) for name in dataset.data_vars if re.fullmatch(r"n_averaged(_\w+)?", str(name))]
    return counts or [name for name in ("baseline_loss",) if name in dataset]


def documented(table: Table) -> list[str]:
    """The rows of a document's table: variable, dimensions, units, what, formula and source."""
    rows = [
        (f"`{name}`", ", ".join(label.always), label.units, label.long_name, label.formula, label.source)
        for name, label in table.items()
    ]
    return ["| " + " | ".join(_filled(cell, {}).replace("|", "\\|") for cell in row) + " |" for row in rows]


def _filled(text: str, texts: Mapping[str, object]) -> str:
    return _BLANK.sub(lambda match: str(texts.get(match[1], match[2])), text)
