"""Figures, tables and the page of several runs compared."""
