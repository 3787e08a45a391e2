"""``push``: a run, or the folder of one, as a data set on the hub."""

from __future__ import annotations

from pathlib import Path

from bathyscope.store.run import Run, open_run


def push(run: Run | str | Path, to: str, *, private: bool = True) -> str:
    """Publishes a run as a data set on the Hugging Face hub, texts of its prompts included where it keeps them.

    Args:
        run: a run, or its folder.
        to: ``owner/name`` of the data set; made where it is not there yet.
        private: whether only its owner can read it.

    Returns:
        The address that ``bathyscope.open`` takes, ``hf://datasets/owner/name``.

    Raises:
        OptionError: ``to`` is no name.
        StoreError: the run is not finished or altered; there is a run already; no token, no network, no such owner.

    Example:
        >>> bathyscope.push("runs/model", "user/name")  # doctest: +SKIP
        'hf://datasets/user/name'
    """
    return (run if isinstance(run, Run) else open_run(run)).push(to, private=private)
