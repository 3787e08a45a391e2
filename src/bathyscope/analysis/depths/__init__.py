"""Comparing runs, and groups of prompts within a run: differences of effective depth, with their uncertainty."""

from bathyscope.analysis.depths.comparing import compare
from bathyscope.analysis.depths.grouping import grouped
from bathyscope.analysis.depths.milder import milder
from bathyscope.analysis.depths.result import Comparison

__all__ = ["Comparison", "compare", "grouped", "milder"]
