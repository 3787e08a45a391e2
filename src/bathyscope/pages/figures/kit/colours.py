"""From values to colours: one range for all maps that readers compare by eye."""

from dataclasses import dataclass
from typing import Any, Final, Literal, Self, get_args

import matplotlib as mpl
import numpy as np
from matplotlib.colors import Colormap, LogNorm, Normalize
from numpy.typing import NDArray

from bathyscope.errors import OptionError, describe_value, did_you_mean
from bathyscope.pages.figures.kit import style
from bathyscope.statistics.inputs import as_numbers

Kind = Literal["linear", "log", "signed"]

_CLIP_QUANTILE: Final = 0.995
# Colours are clipped only where the largest value is at least this many times the quantile.
_CLIP_FROM: Final = 2.0
_LOG_RANGE: Final = 1e-4
_LOG_FROM: Final = 10.0
"""Values are drawn on a logarithmic scale where the largest exceeds the median this many times."""


def choose_scale(values: NDArray[Any], scale: Literal["auto", "linear", "log"]) -> Literal["linear", "log"]:
    """Return the scale of values without a sign: as chosen, or logarithmic where few values outweigh all others."""
    if scale != "auto":
        return scale
    positive = values[np.isfinite(values) & (values > 0)]
    return "log" if positive.size and positive.max() > _LOG_FROM * np.median(positive) else "linear"


@dataclass(frozen=True)
class Colours:
    """The values at the two ends of a colour bar.

    Args:
        kind: ``linear`` from 0, ``log``, or ``signed``: linear, as far below 0 as above it.
        clips: whether a few large values may exceed the high end.

    Example:
        >>> from bathyscope.extend.figures import Colours
        >>> Colours.spanning(np.array([-2.0, 0.5, 1.0]), "signed").low
        -2.0
    """

    kind: Kind
    low: float
    high: float
    clips: bool = True

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise OptionError(
                f"Colours: kind={describe_value(self.kind)} is unknown.{did_you_mean(str(self.kind), get_args(Kind))} "
                f"Allowed: {', '.join(get_args(Kind))}."
            )
        ends = (self.low, self.high)
        if (
            not all(isinstance(end, int | float) for end in ends)
            or not self.low <= self.high
            or (self.kind == "log" and self.low <= 0)
        ):
            raise OptionError(
                f"Colours: low={describe_value(self.low)} and high={describe_value(self.high)} are no range; give the "
                "lower value first, and above 0 of a log scale."
            )

    @classmethod
    def spanning(cls, values: NDArray[Any], kind: Kind, clips: bool = True) -> Self:
        """Return a range that shows these values.

        It ends at the largest value (in size, where signed). If it clips, it ends at the 99.5th percentile where a few
        values would otherwise leave all others in nearly the same colour. A logarithmic range covers at most four
        decades.

        Raises:
            OptionError: no numbers, or an unknown kind.
        """
        values = as_numbers(values, "values", "an array of them")
        sizes = np.abs(values[np.isfinite(values)])
        high = _find_ceiling(sizes, clips)
        if kind == "signed":
            return cls(kind, -high, high, clips)
        if kind == "linear":
            return cls(kind, 0.0, high, clips)
        positive = sizes[sizes > 0]
        low = max(float(positive.min()), high * _LOG_RANGE) if positive.size else high * _LOG_RANGE
        return cls(kind, low, high if high > low else low * 10, clips)

    @property
    def norm(self) -> Normalize:
        """Maps values to 0 … 1."""
        return LogNorm(self.low, self.high) if self.kind == "log" else Normalize(self.low, self.high)

    @property
    def colormap(self) -> Colormap:
        """The colour map, with a separate colour for values above its end, and blanks for missing ones."""
        name = style.SIGNED_MAP if self.kind == "signed" else style.EFFECT_MAP
        # Missing values are transparent and show the grey of the axes. Magenta is in neither map, so clipping is seen.
        return mpl.colormaps[name].with_extremes(bad=(0, 0, 0, 0), over=style.CLIPPED)

    def drawable(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values as a logarithm can take them: 0 lies below the low end and is not blank."""
        # The logarithm of 0 would be masked, and an effect of exactly 0 would look as if it were missing.
        return np.where(values <= 0, self.low / 10, values) if self.kind == "log" else values

    def beyond(self, values: NDArray[Any]) -> tuple[int, int]:
        """Count the values below the low end and above the high end."""
        seen = values[np.isfinite(values)]
        return int((seen < self.low).sum()), int((seen > self.high).sum())


def _find_ceiling(sizes: NDArray[Any], clips: bool) -> float:
    if not sizes.size:
        return 1.0
    # One attention sink can be a hundred times larger than everything else in a map.
    top, usual = float(sizes.max()), float(np.quantile(sizes, _CLIP_QUANTILE))
    chosen = usual if clips and top > _CLIP_FROM * usual > 0 else top
    return chosen if chosen > 0 else 1.0
