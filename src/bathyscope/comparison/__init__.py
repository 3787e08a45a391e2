"""Comparing runs: differences of effective depth between models, data sets and levels of difficulty."""

from __future__ import annotations

from bathyscope.comparison.comparing import compare
from bathyscope.comparison.result import Comparison

__all__ = ["Comparison", "compare"]
