"""Axes of figures: places of ticks, and scales with plain numbers."""

import math
from typing import Annotated, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from bathyscope.core.text import elided
from bathyscope.errors import OptionError, describe_value, warn
from bathyscope.options import Range, convert
from bathyscope.pages.figures.kit import style

_ONE_OR_MORE: Final = Annotated[int, Range(1)]


def require_axes(ax: object, otherwise: str = "") -> None:
    """Refuse what is no axes of matplotlib; ``otherwise`` is what else may be given.

    Raises:
        OptionError: something else.
    """
    if not isinstance(ax, Axes):
        raise OptionError(
            f"ax={elided(repr(ax), 40)} is of type {type(ax).__name__}. Give axes of plt.subplots(...){otherwise}."
        )


def head_figure(figure: FigureBase, heading: str) -> None:
    """Write a heading at the left of a figure of several axes, as a single axes has its title."""
    figure.suptitle(heading, x=0.01, ha="left", fontsize=style.TITLE_POINTS, fontweight="bold")


def whole_numbers(most: int = 9) -> MaxNLocator:
    """Return a locator of ticks at whole numbers, about ``most`` of them.

    Args:
        most: ticks, 1 or more.

    Raises:
        OptionError: no whole number of 1 or more.

    Example:
        >>> from bathyscope.extend.figures import whole_numbers
        >>> whole_numbers(4).tick_values(0, 6).tolist()
        [0.0, 2.0, 4.0, 6.0]
    """
    convert(_ONE_OR_MORE, most, "most")
    return MaxNLocator(nbins=most, integer=True, min_n_ticks=1, steps=[1, 2, 4, 5, 8, 10])


def log_ticks(low: float, high: float) -> LogLocator:
    """Return a locator of ticks at powers of ten, and at multiples of them where there are few."""
    # Over two decades powers of ten are enough; below one decade there may be a single one, so multiples help.
    if high > 100 * low:
        return LogLocator(numticks=9)
    return LogLocator(subs=(1.0, 2.0, 5.0) if high > 10 * low else (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0), numticks=9)


def block_axis(ax: Axes, label: str, low: float, high: float) -> None:
    """Format a depth axis: whole-number ticks, fewer for deeper models."""
    # Half a block keeps the marks of the first and last block off the frame.
    margin = max(0.5, 0.02 * (high - low))
    ax.set_xlim(low - margin, high + margin)
    ax.xaxis.set_major_locator(whole_numbers())
    ax.set_xlabel(label)


def log_axis(ax: Axes) -> None:
    """Make the axis of existing curves logarithmic, with plain numbers; warns of points that it has no place for.

    Args:
        ax: with curves; the vertical axis is changed.

    Raises:
        OptionError: no axes.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from bathyscope.extend.figures import log_axis
        >>> ax = Figure().subplots()
        >>> _ = ax.plot([1.0, 500.0])
        >>> log_axis(ax)
        >>> ax.get_yscale()
        'log'
    """
    require_axes(ax)
    points = np.concatenate([np.asarray(line.get_ydata(), float).ravel() for line in ax.lines] or [np.empty(0)])
    if count := int((points <= 0).sum()):
        warn(
            f"{count} of {len(points)} points of the curves are 0 or less, where a logarithmic axis has no place; they "
            "are not drawn. bent_axis(ax, linear) is linear near 0 and draws them."
        )
    plain_log_axis(ax)


def plain_log_axis(ax: Axes) -> None:
    """The same where a 0 means that there is nothing to draw."""
    # Clipping would draw zeros as a line to the bottom of the picture, as if they had been measured there.
    ax.set_yscale("log", nonpositive="mask")
    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(log_ticks(low, high))
    ax.yaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)) if high > 100 * low else NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def bent_axis(ax: Axes, linear: float) -> None:
    """Make the axis of existing curves linear up to a size and logarithmic beyond, with plain numbers.

    Args:
        ax: with curves; the vertical axis is changed.
        linear: the size, above 0.

    Raises:
        OptionError: no axes, or no size above 0.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from bathyscope.extend.figures import bent_axis
        >>> ax = Figure().subplots()
        >>> _ = ax.plot([-0.02, 0.1, 40.0])
        >>> bent_axis(ax, 0.1)
        >>> ax.get_yscale()
        'symlog'
    """
    require_axes(ax)
    if not isinstance(linear, int | float) or not 0 < linear < math.inf:
        raise OptionError(
            f"linear={describe_value(linear)} is no size that an axis is linear up to; give a number above 0."
        )
    ax.set_yscale("symlog", linthresh=linear, linscale=1.0)
    ax.margins(y=0.05)
    low, high = ax.get_ylim()
    powers = 10.0 ** np.arange(np.floor(np.log10(linear)), np.log10(max(high, -low)) + 1)
    # In order of preference: 0, powers of ten, then their multiples, each only if no chosen tick is too near.
    candidates = [0.0, *(sign * step * power for step in (1, 5, 2) for power in powers[::-1] for sign in (1, -1))]
    to = ax.yaxis.get_transform().transform
    # Distances count as the axis draws them: nine ticks fit one below the other.
    room = (to(high) - to(low)) / 9
    ticks: list[float] = []
    for value in candidates:
        if low <= value <= high and all(abs(to(value) - to(other)) >= room for other in ticks):
            ticks.append(value)
    ax.yaxis.set_major_locator(FixedLocator(sorted(ticks)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_locator(NullLocator())
