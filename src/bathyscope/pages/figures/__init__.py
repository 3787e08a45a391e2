"""Figures of a report: what they share (``kit``), one file each (``of``), and the registry that lists them."""
