"""What a data set declares, and how its rows are read from the hub or from a local copy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from bathyscope.errors import PromptError
from bathyscope.prompts.files import Row, read_rows
from bathyscope.prompts.prompt import Prompt


@dataclass(frozen=True)
class DataSet:
    """A data set in the format the papers measured it in.

    Args:
        name: what the user types.
        hub: its id on the hub.
        config: its configuration on the hub; None = the only one.
        split: the split the papers used; another may be asked for by ``?split=``.
        columns: the columns that ``to_prompt`` reads.
        to_prompt: makes the prompt of one row; raises ``PromptError`` where the row does not fit.
        source: paper key and section of the format.
    """

    name: str
    hub: str
    config: str | None
    split: str
    columns: tuple[str, ...]
    to_prompt: Callable[[Row], Prompt]
    source: str

    def prompts(
        self, *, count: int | None = None, path: str | None = None, split: str | None = None
    ) -> tuple[Prompt, ...]:
        """The first ``count`` rows (None = all) as prompts, in the data set's order.

        Args:
            path: a local file with the same columns (JSONL, CSV, parquet); None = the hub.
            split: of the hub's copy; None = the papers' split.

        Raises:
            PromptError: the hub cannot be reached, columns are missing, there are fewer rows than asked for,
                or a row does not fit the format.
        """
        where = path if path is not None else f"{self.hub} ({split or self.split})"
        rows = self._hub_rows(split or self.split) if path is None else read_rows(path)
        chosen = list(islice(rows, count))
        if not chosen or (count is not None and len(chosen) < count):
            asked = "there are no rows" if not chosen else f"{count} rows asked for"
            raise PromptError(f"{self.name}: {asked}, but {where} has {len(chosen)}; give a count of 1 to that.")
        self._check_columns(chosen[0], where)
        return tuple(self._prompt(row, number, where) for number, row in enumerate(chosen, start=1))

    def _hub_rows(self, split: str) -> Iterable[Row]:
        import datasets

        arguments: list[Any] = [self.hub] if self.config is None else [self.hub, self.config]
        try:
            return datasets.load_dataset(*arguments, split=split)
        # The library, its hub client and their network layers each raise kinds of their own.
        except Exception as error:
            reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
            raise PromptError(
                f"{self.name}: {self.hub} (split {split!r}) could not be loaded from the hub: {reason}. "
                f"Without a network give a local file with the columns {', '.join(self.columns)}: "
                f"{self.name}:10@FILE.jsonl (or .csv, .parquet)."
            ) from error

    def _check_columns(self, row: Row, where: str) -> None:
        missing = [column for column in self.columns if column not in row]
        if missing:
            raise PromptError(
                f"{self.name}: {where} lacks {', '.join(missing)}. Columns needed: "
                f"{', '.join(self.columns)}; found: {', '.join(map(str, row))}."
            )

    def _prompt(self, row: Row, number: int, where: str) -> Prompt:
        self._check_columns(row, f"row {number} of {where}")
        try:
            return self.to_prompt(row)
        except PromptError as error:
            raise PromptError(f"{self.name}, row {number} of {where}: {error}") from error


def text_of(row: Row, column: str) -> str:
    """A column that must hold text.

    Raises:
        PromptError: it holds something else.
    """
    value = row[column]
    if not isinstance(value, str):
        raise PromptError(f"column {column!r} must hold text, not {type(value).__name__}.")
    return value
