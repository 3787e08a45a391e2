"""Repeat a paper's tables and figures with the models at hand, next to what was published."""
