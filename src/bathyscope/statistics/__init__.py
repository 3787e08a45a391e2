"""Means over prompts, crossings of depth curves, bootstrap intervals, effective depth: numpy and scipy only."""
