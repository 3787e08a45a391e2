"""Flags in, tables out; nothing is computed here."""

from bathyscope.cli.main import main

__all__ = ["main"]
