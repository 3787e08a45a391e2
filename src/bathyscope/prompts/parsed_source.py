"""A source of prompts as it was typed, taken apart: which kind it is, its count, its path and its options."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bathyscope.prompts.generators import GENERATORS
from bathyscope.prompts.harness.documents import PREFIX as HARNESS

CORPUS_SUFFIXES = (".txt", ".txt.gz")
PROMPT_FILE_SUFFIXES = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz", ".json", ".json.gz")
TABLE_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")

Kind = Literal["data set", "generated", "corpus", "prompt file", "table", "hub data set", "harness task"]

LABEL = "label."
"""Beginning of an option that names a label, of which the value is the column."""
HUB = "hf:"
"""Beginning of the source of any data set on the hub, by its columns."""


@dataclass(frozen=True)
class SourceSpec:
    """A parsed source; ``str(spec)`` is the text it came from, in canonical form.

    Args:
        name: a data set's or generator's name, a task of the harness with its prefix, or None for a corpus or a file
            of prompts.
        count: how many prompts; None = all.
        path: the local file, where there is one.
        options: key and value pairs in the order given; numbers are already numbers, ranges are texts (``1-6``).
    """

    name: str | None
    count: int | None = None
    path: str | None = None
    options: tuple[tuple[str, int | str], ...] = ()

    @property
    def kind(self) -> Kind:
        """Which of the kinds of source this is."""
        if self.harness_task is not None:
            return "harness task"
        if self.name is not None:
            return "generated" if self.name in GENERATORS else "data set"
        if str(self.path).startswith(HUB):
            return "hub data set"
        name = str(self.path).lower()
        if self.is_folder or name.endswith(CORPUS_SUFFIXES):
            return "corpus"
        return "table" if name.endswith(TABLE_SUFFIXES) else "prompt file"

    @property
    def harness_task(self) -> str | None:
        """The task of lm-evaluation-harness, by its name or its YAML file; None for other sources."""
        return self.name.removeprefix(HARNESS) if self.name is not None and self.name.startswith(HARNESS) else None

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of the text, the answer and labels, as they are given."""
        columns: dict[str, Any] = {key: value for key, value in self.options if not key.startswith(LABEL)}
        labels = {key.removeprefix(LABEL): str(value) for key, value in self.options if key.startswith(LABEL)}
        return {**columns, "labels": labels} if labels else columns

    @property
    def is_folder(self) -> bool:
        """Whether the texts of a folder are documents."""
        return self.name is None and str(self.path).endswith("/") and not str(self.path).startswith(HUB)

    @property
    def names_columns(self) -> bool:
        """Whether it says which columns hold the text, the answer or labels."""
        return any(key in ("text", "answer", "labels") or key.startswith(LABEL) for key, _ in self.options)

    def option(self, key: str) -> int | str | None:
        """An option's value, or None where it was not given."""
        return dict(self.options).get(key)

    @property
    def label(self) -> str:
        """The ``dataset`` coordinate of results: the text without folders or the local copy's path."""
        if self.kind == "hub data set" and not str(self.path).startswith((f"{HUB}/", f"{HUB}.", f"{HUB}~")):
            return str(self)
        if self.harness_task is not None:
            return f"{HARNESS}{Path(self.harness_task).name}{self._suffix}"
        return (self.name or Path(str(self.path)).name + "/" * self.is_folder) + self._suffix

    @property
    def _suffix(self) -> str:
        count = "" if self.count is None else f":{self.count}"
        options = "&".join(f"{key}={value}" for key, value in self.options)
        return f"{count}?{options}" if options else count

    def __str__(self) -> str:
        if self.name is None:
            return f"{self.path}{self._suffix}"
        return f"{self.name}{self._suffix}" + ("" if self.path is None else f"@{self.path}")
