"""The sums that least squares needs, of tokens that are all at hand."""

from __future__ import annotations

import numpy as np

from bathyscope.statistics.least_squares import Sums


def sums_of(x_ND: np.ndarray, y_NE: np.ndarray) -> Sums:
    mean_x, mean_y = x_ND.mean(0), y_NE.mean(0)
    x, y = x_ND - mean_x, y_NE - mean_y
    return Sums(len(x), mean_x, mean_y, x.T @ x, x.T @ y, float((y * y).sum()))
