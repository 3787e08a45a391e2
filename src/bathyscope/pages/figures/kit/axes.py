"""Axes of figures: where ticks stand, and scales that are drawn with plain numbers."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator


def whole_numbers(most: int = 9) -> MaxNLocator:
    """Ticks at whole numbers, at most about so many."""
    return MaxNLocator(nbins=most, integer=True, min_n_ticks=1, steps=[1, 2, 4, 5, 8, 10])


def log_ticks(low: float, high: float) -> LogLocator:
    """Ticks at powers of ten, and at multiples of them where there are few."""
    if high > 100 * low:
        return LogLocator(numticks=9)
    return LogLocator(subs=(1.0, 2.0, 5.0) if high > 10 * low else (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0), numticks=9)


def block_axis(ax: Axes, label: str, low: float, high: float) -> None:
    """A depth axis with whole-number ticks that thin out as the model gets deeper."""
    margin = max(0.5, 0.02 * (high - low))
    ax.set_xlim(low - margin, high + margin)
    ax.xaxis.set_major_locator(whole_numbers())
    ax.set_xlabel(label)


def log_axis(ax: Axes) -> None:
    """A logarithmic axis of values that are drawn already, with plain numbers on it (marks of powers are markup)."""
    ax.set_yscale("log", nonpositive="mask")
    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(log_ticks(low, high))
    ax.yaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)) if high > 100 * low else NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def bent_axis(ax: Axes, linear: float) -> None:
    """An axis of values that are drawn already, linear up to a size and logarithmic beyond, with plain numbers."""
    ax.set_yscale("symlog", linthresh=linear, linscale=1.0)
    ax.margins(y=0.05)
    low, high = ax.get_ylim()
    powers = 10.0 ** np.arange(np.floor(np.log10(linear)), np.log10(max(high, -low)) + 1)
    # 0 first, then powers of ten, then what stands between them, as long as there is room
    wanted = [0.0, *(sign * step * power for step in (1, 5, 2) for power in powers[::-1] for sign in (1, -1))]
    to = ax.yaxis.get_transform().transform
    room = (to(high) - to(low)) / 9
    kept: list[float] = []
    for value in wanted:
        if low <= value <= high and all(abs(to(value) - to(other)) >= room for other in kept):
            kept.append(value)
    ax.yaxis.set_major_locator(FixedLocator(sorted(kept)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_locator(NullLocator())
