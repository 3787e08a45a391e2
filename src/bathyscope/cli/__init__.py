"""The command line. ``bathyscope.cli:main`` is its entry point; importing it does not load torch."""

from bathyscope.cli.main import main

__all__ = ["main"]
