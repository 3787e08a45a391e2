"""Comparing runs, and groups of prompts within a run: differences of effective depth, with their uncertainty."""

from bathyscope.comparison.comparing import compare
from bathyscope.comparison.grouping import grouped
from bathyscope.comparison.milder import milder
from bathyscope.comparison.result import Comparison

__all__ = ["Comparison", "compare", "grouped", "milder"]
