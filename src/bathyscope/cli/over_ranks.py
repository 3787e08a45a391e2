"""A command that several processes run together on one model: they find each other before anything else is done."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from bathyscope.cli import session
from bathyscope.core.launched import launched_processes, launched_rank

_FLAG: Final = "--tensor-parallel"
_NO_WORK: Final = ("--help", "-h", "--version")


@contextmanager
def ranks_of(arguments: Sequence[str]) -> Iterator[None]:
    """Let all processes of a command with ``--tensor-parallel`` end together, whatever ends one of them.

    Rank 0 alone prints. Other commands, and a process that was started alone, are not touched.
    """
    split = split_in(arguments)
    if split is None or launched_processes() < 2 or not set(arguments).isdisjoint(_NO_WORK):
        yield
        return
    leave_words_to_first(split)
    # the ranks begin to look for each other there, and torch, which takes seconds, is imported for these commands alone
    from bathyscope.model.ranks import together

    with together(split):
        yield


def leave_words_to_first(split: object) -> None:
    """Let rank 0 alone print where a model is split, as a flag or a recipe says.

    Args:
        split: what is given as ``tensor_parallel``; None = nothing is split.
    """
    if split is not None and launched_processes() > 1:
        session.work_on_ranks(launched_processes(), launched_rank() > 0)


def split_in(arguments: Sequence[str]) -> str | None:
    """Return what a command line gives for ``--tensor-parallel``; None where it does not."""
    for place, word in enumerate(arguments):
        if word.startswith(f"{_FLAG}="):
            return word.partition("=")[2]
        if word == _FLAG:
            return arguments[place + 1] if place + 1 < len(arguments) else ""
    return None
