"""Sections of a page for results that are no runs: plans, repairs, courses, and where two models part."""
