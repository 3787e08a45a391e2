"""Hashes of models that compute with something that cannot be read: no other one is known to be equal."""

from typing import Final

_UNREAD: Final = "unknown "
"""In front of a hash of weights, where the model also computes with something that cannot be read."""


def unreadable(weights: str, path: str) -> str:
    """Return the hash of a model that computes with a value that cannot be read: no other is known to be equal."""
    return f"{_UNREAD}{weights} {path}"


def unread_in_words(*weights: str | None) -> str:
    """Return what in a model with one of these hashes cannot be read, and what helps; empty where all can."""
    paths = [text.removeprefix(_UNREAD).partition(" ")[2] for text in weights if text and text.startswith(_UNREAD)]
    return f"{paths[0]} cannot be read, and may be another one; make it a buffer or a number" if paths else ""
