"""Estimates over prompts with intervals, and tests: what runs and comparisons compute theirs with.

from bathyscope.extend.statistics import Sampling, mean_interval
"""

from bathyscope.statistics.best import compared_with_best
from bathyscope.statistics.bootstrap import bootstrap_interval, mean_interval
from bathyscope.statistics.correction import holm
from bathyscope.statistics.difference import Term, contrast
from bathyscope.statistics.reading import Reading
from bathyscope.statistics.sampling import Sampling, resample_counts
from bathyscope.statistics.shares import share_difference_interval, share_interval
from bathyscope.statistics.trend import trend

__all__ = [
    "Reading",
    "Sampling",
    "Term",
    "bootstrap_interval",
    "compared_with_best",
    "contrast",
    "holm",
    "mean_interval",
    "resample_counts",
    "share_difference_interval",
    "share_interval",
    "trend",
]
