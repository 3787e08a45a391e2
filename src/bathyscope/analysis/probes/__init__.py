"""Probes: what can be read off hidden states, or off a few neurons, with a linear classifier and labelled data.

Also heads that gather the tokens of a word, found with words of one and of several tokens.
"""

from bathyscope.analysis.probes.ing import ing_probe
from bathyscope.analysis.probes.subjoiner import subjoiner
from bathyscope.analysis.probes.wic import wic_probe

__all__ = ["ing_probe", "subjoiner", "wic_probe"]
