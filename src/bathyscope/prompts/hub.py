"""Rows of data sets on the hub, and prompts of any of them, of which the source says which columns they are in."""

from collections.abc import Iterable, Iterator

from bathyscope.core.network import cache_alone_without_network
from bathyscope.errors import PromptError
from bathyscope.prompts.columns import by_columns
from bathyscope.prompts.files import Row
from bathyscope.prompts.prompt import Prompt
from bathyscope.prompts.prompt_rows import recognised_prompts


def hub_rows(hub: str, config: str | None, split: str | None, local: str, *, streaming: bool = False) -> Iterable[Row]:
    """The rows of a split, from the cache or the hub.

    Args:
        hub: name of the data set there, or a folder of the same layout.
        config: its configuration; None = the only one.
        local: how a local file is given instead, for messages.
        streaming: fetch no more than is looked at; that rows cannot be had may show while they are.
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
        with cache_alone_without_network():
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


def column_prompts(
    hub: str,
    *,
    split: str,
    missing: str,
    text: str | None = None,
    answer: str | None = None,
    labels: str = "",
    config: str | None = None,
    count: int | None = None,
) -> tuple[Prompt, ...]:
    """The first rows of a split as prompts; no more of it is fetched than they need.

    Args:
        hub, config: as for ``hub_rows``.
        missing: the message where the rows are no chats and no column is named.
        text: the column of the text; the answer comes behind it, after a space, where it does not end with it. None =
            chats, which their columns tell.
        answer: the column of the answer, text or a number; None = prompts have none.
        labels: columns of texts or numbers that become labels, with commas between them.
        count: how many rows; None = all.
    """
    where = f"{hub} (split {split!r})"
    # Streamed: of a corpus of terabytes the first rows are fetched alone.
    rows = hub_rows(hub, config, split, "give a local file (mine.jsonl, one prompt a line)", streaming=True)
    if text is None:
        return recognised_prompts(rows, where, missing, count=count)
    return by_columns(rows, where, text=text, answer=answer, labels=labels, count=count)
