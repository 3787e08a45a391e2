"""Means over prompts, depths read off curves, bootstrap intervals: numpy, scipy and statsmodels only."""
