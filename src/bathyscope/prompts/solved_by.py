"""The label that says which of two models solve a prompt, and its classes."""

from typing import Final

SOLVED_BY: Final = "solved_by"
"""Name of the label."""

NEITHER, ONLY_SHALLOW, ONLY_DEEP, BOTH = CLASSES = ("neither", "only shallow", "only deep", "both")
"""The classes, in the order in which results list them.

A prompt that only the shallow model solves is a class of its own: counting it as "both" or leaving it out would hide
how often a deeper model fails where a shallower one does not, which is the scale on which "only deep" must be read.
"""


def class_of(shallow: bool, deep: bool) -> str:
    """The class of a prompt, from whether the shallow and the deep model solve it."""
    return CLASSES[shallow + 2 * deep]
