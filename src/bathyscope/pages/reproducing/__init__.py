"""Repeating a paper's tables and figures: its surveys on the models that there are, beside what was published."""
