"""Rows of data sets on the hub."""

from __future__ import annotations

from collections.abc import Iterable

from bathyscope.errors import PromptError
from bathyscope.prompts.files import Row


def hub_rows(hub: str, config: str | None, split: str | None, local: str) -> Iterable[Row]:
    """The rows of a split, from the cache or the hub.

    Args:
        hub: name of the data set there.
        config: its configuration; None = the only one.
        local: how a local file is given instead, for messages.

    Raises:
        PromptError: the library for it is not installed, or the rows cannot be had.
    """
    try:
        import datasets
    except ImportError as error:
        raise PromptError(
            f"{hub} (split {split!r}) is on the hub, which is read by a library that is not installed; install it "
            f"(pip install datasets). Without it {local}."
        ) from error
    arguments = (hub,) if config is None else (hub, config)
    try:
        return datasets.load_dataset(*arguments, split=split)
    # The library, its hub client and their network layers each raise kinds of their own.
    except Exception as error:
        reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
        raise PromptError(
            f"{hub} (split {split!r}) could not be loaded from the hub: {reason}. Without a network {local}."
        ) from error
