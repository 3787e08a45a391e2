"""Figures of a report: what they share (``kit``), one file each (``of``), and the registry that lists them.

A figure becomes bytes in ``render`` and part of a page in ``svg``; ``panels`` finds a part of it by name.
"""
