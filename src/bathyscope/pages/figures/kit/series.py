"""Curves along the depth axis: a variable of a dataset, its look, and the summary that is drawn."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bathyscope import labels
from bathyscope.options import Range, convert
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.summary import Summary, Weighting, summarise
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.prompts.parts import clusters_in

DEPTH_LABEL: Final = "block or boundary (0-based index)"
BLOCK_LABEL: Final = "block (0-based index)"
BOUNDARY_LABEL: Final = "boundary (index; 0 = what enters block 0)"
SHARE_LABEL: Final = "share of the depth (dimensionless)"
PLACES: Final = {
    "block": BLOCK_LABEL,
    "boundary": BOUNDARY_LABEL,
    "dropped": "dropped block (0-based index)",
    "skipped": "skipped block (0-based index)",
    "swapped": "first of the swapped blocks (0-based index)",
    "parallel": "first of the blocks in parallel (0-based index)",
    "start": "first block of the window (0-based index)",
    "head": "head (0-based index)",
}
"""Labels of axes by dimension."""


@dataclass(frozen=True)
class Look:
    """Colour, marker and line style of a series."""

    colour: str
    marker: str = "o"
    line: str = "-"


STREAM: Final = Look(style.MUTED, "D", "-.")
PARTS: Final = {
    "attention": Look(style.BLUE, "o", "--"),
    "mlp": Look(style.VERMILION, "s", ":"),
    "block": Look(style.GREEN, "^"),
}
"""Parts of a block have the same dashes in every figure, and so has the stream."""
# Five colours and seven markers have no common divisor, so 35 pairs differ.
_COLOURS: Final = (style.BLUE, style.VERMILION, style.GREEN, style.PURPLE, style.MUTED)
_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
LINES: Final = ("-", "--", ":", "-.")


def nth_look(i: int) -> Look:
    """Return the look of the i-th series: 35 pairs of colour and marker, and another line from the sixth on."""
    return Look(_COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)], LINES[i // len(_COLOURS) % len(LINES)])


_COUNT: Final = Annotated[int, Range(0)]


def looks(count: int) -> list[Look]:
    """Return the looks of the first ``count`` series: each its colour, marker and line style.

    Args:
        count: of the series.

    Raises:
        OptionError: no whole number of 0 or more.

    Example:
        >>> from bathyscope.extend.figures import looks
        >>> [look.marker for look in looks(3)]
        ['o', 's', '^']
    """
    convert(_COUNT, count, "count")
    return [nth_look(i) for i in range(count)]


@dataclass(frozen=True)
class Series:
    """A named curve with its band over the places ``x``.

    Args:
        name: of the variable.
        place: dimension of ``x``; boundaries are one more than blocks.
    """

    label: str
    x: NDArray[Any]
    summary: Summary
    look: Look
    name: str = ""
    place: str = ""


@dataclass(frozen=True)
class Axis:
    """Labels and scale of a panel of lines.

    Args:
        title: of the panel.
        x: label of the depth axis.
        y: label of the other axis, with its unit.
        scale: ``"auto"`` is logarithmic where positive values span more than a factor of 50; ``"bent"`` is logarithmic
            beyond the usual size where a few places outweigh all others, of either sign.
        rules: horizontal reference lines, height → name.
        whole: the depth axis counts blocks or boundaries; otherwise it is a share of the depth.
        apart: each curve has its own axes, side by side on one scale, with the others in grey behind it.
    """

    title: str
    x: str
    y: str
    scale: Literal["linear", "log", "auto", "bent"] = "linear"
    rules: dict[float, str] = field(default_factory=dict)
    whole: bool = True
    apart: bool = False


@dataclass(frozen=True)
class Curve:
    """A variable (prompt, place) as a line; a variable (place) has no band.

    Args:
        positions: ``"tokens"``: values are means over tokens, which give their weights (``labels.token_weights``);
            ``"prompts"``: they are not, and each prompt counts the same.
        at: the place along further dimensions.
    """

    name: str
    label: str
    look: Look
    positions: Weighting = "tokens"
    at: Mapping[str, Any] = field(default_factory=dict)


def summarise_curve(dataset: xr.Dataset, curve: Curve, options: FigureOptions) -> Series:
    """Summarise a variable of the dataset over its place."""
    dataset = dataset.sel(curve.at)
    variable = dataset[curve.name].transpose("prompt", ..., missing_dims="ignore")
    (place,) = (dim for dim in variable.dims if dim != "prompt")
    x = variable[place].values
    if "prompt" not in variable.dims:
        return Series(curve.label, x, Summary(variable.values, None, None), curve.look, place=str(place))
    weights_P = np.ones(len(variable)) if curve.positions == "prompts" else labels.token_weights(dataset, curve.name)
    cluster, limits = clusters_in(variable, options.cluster), labels.mean_limits(curve.name, variable)
    summary = summarise(variable.values, weights_P, options, cluster, limits)
    return Series(curve.label, x, summary, curve.look, curve.name, str(place))
