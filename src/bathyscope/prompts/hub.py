"""Rows of data sets on the hub."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bathyscope.errors import PromptError
from bathyscope.prompts.files import Row


def hub_rows(hub: str, config: str | None, split: str | None, local: str, *, streaming: bool = False) -> Iterable[Row]:
    """The rows of a split, from the cache or the hub.

    Args:
        hub: name of the data set there, or a folder of the same layout.
        config: its configuration; None = the only one.
        local: how a local file is given instead, for messages.
        streaming: fetch no more than is looked at.

    Raises:
        PromptError: the library for it is not installed, or the rows cannot be had; of a stream also while it is read.
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
        rows = datasets.load_dataset(*arguments, split=split, **({"streaming": True} if streaming else {}))
    # The library, its hub client and their network layers each raise kinds of their own.
    except Exception as error:
        raise _unreachable(hub, split, local, error) from error
    return _streamed(rows, hub, split, local) if streaming else rows


def _streamed(rows: Iterable[Row], hub: str, split: str | None, local: str) -> Iterator[Row]:
    try:
        yield from rows
    except Exception as error:
        raise _unreachable(hub, split, local, error) from error


def _unreachable(hub: str, split: str | None, local: str, error: Exception) -> PromptError:
    reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
    return PromptError(
        f"{hub} (split {split!r}) could not be loaded from the hub: {reason}. Without a network {local}."
    )
