"""Probes: what can be read off hidden states, or off a few neurons, with a linear classifier and labelled data."""

from bathyscope.probing.ing import ing_probe
from bathyscope.probing.wic import wic_probe

__all__ = ["ing_probe", "wic_probe"]
