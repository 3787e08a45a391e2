"""How many prompts an interval of a wanted width needs, from the width that fewer prompts gave."""

import math

from scipy import stats

FEWEST = 5
"""Units below which the spread is too poorly known to say how many more are needed."""
_SPREAD_LEVEL = 0.8
"""Coverage of the interval of the spread, and so of the range of sizes."""
_MOST = 10_000_000


def units_needed(width: float, units: int, target_width: float, level: float) -> tuple[int, int]:
    """Smallest and largest number of prompts (or clusters) that may make Student's interval ``target_width`` wide.

    The spread behind ``width`` is known from ``units`` alone, so that its own interval (chi-square, 80 %) gives a
    range. Both are more than ``units``, and are rounded up to two digits.

    Args:
        width: of the interval from ``units`` of them, more than ``target_width``.
        level: coverage of the interval.
    """
    freedom = units - 1
    spread = width * math.sqrt(units) / _quantile(freedom, level)
    tail = (1 - _SPREAD_LEVEL) / 2
    low, high = (spread * math.sqrt(freedom / stats.chi2.ppf(share, freedom)) for share in (1 - tail, tail))
    fewest, most = (_size(end / target_width, level) for end in (low, high))
    return max(_rounded_up(fewest), units + 1), max(_rounded_up(most), units + 2)


def _quantile(freedom: int, level: float) -> float:
    return float(stats.t.ppf((1 + level) / 2, freedom))


def _size(relative_spread: float, level: float) -> int:
    """The smallest n with t(n − 1) · spread / √n ≤ 1, found from below, where each step comes closer to it."""
    size = 2
    while size < _MOST:
        needed = math.ceil((_quantile(size - 1, level) * relative_spread) ** 2)
        if needed <= size:
            return size
        # far below, Student's quantile asks for too many: the normal one never does
        normal = math.ceil((float(stats.norm.ppf((1 + level) / 2)) * relative_spread) ** 2)
        size = max(size + 1, min(needed, normal))
    return _MOST


def _rounded_up(size: int) -> int:
    step = 10 ** max(len(str(size)) - 2, 0)
    return math.ceil(size / step) * step
