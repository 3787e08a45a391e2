"""The command line. ``bathyscope.cli:main`` is its entry point; importing it does not load torch."""

from __future__ import annotations

from bathyscope.cli.main import main

__all__ = ["main"]
