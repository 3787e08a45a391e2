"""Which options of a prompt source go together."""

from collections.abc import Sequence
from pathlib import Path

from bathyscope.core.text import elided
from bathyscope.errors import PromptError
from bathyscope.prompts.files import read_rows
from bathyscope.prompts.harness.documents import PREFIX as HARNESS
from bathyscope.prompts.harness.task_code import YAML_FILES
from bathyscope.prompts.parsed_source import LABEL, TABLE_SUFFIXES, SourceSpec

MOST_GENERATED = 1_000_000
"""Prompts that a generator makes at once; all of them are in memory."""


def missing_columns(spec: SourceSpec, lacking: Sequence[str]) -> str:
    """Return what is said of a source that does not say where its texts are."""
    missing = f"{' and '.join(f'{key}=' for key in lacking)} {'is' if len(lacking) == 1 else 'are'} missing"
    if spec.kind == "hub data set":
        return (
            f"{missing}; write which split, and which column the text is in: "
            f"{spec.path}:10?split=test&text=question&answer=answer. Chats need no column where it is named messages, "
            "conversations, or as alpaca's."
        )
    return (
        f"{missing}; write which column the text is in: {spec.path}:10?text=question&answer=answer. Chats need no "
        f"column where it is named messages, conversations, or as alpaca's.{_columns_of(spec.path)}"
    )


def _columns_of(path: str | None) -> str:
    """Return a sentence with the columns of a table of text; empty for other files, and for one that cannot be read."""
    if path is None or not path.lower().endswith(TABLE_SUFFIXES):
        return ""
    try:
        columns = list(next(read_rows(Path(path).expanduser()), {}))
    except PromptError:
        return ""
    return f" Its columns: {elided(', '.join(columns), 200)}." if columns else ""


def _check_harness(task: str, path: str | None) -> None:
    """Refuse a source of the harness that names no task, or its documents twice."""
    if not task:
        raise PromptError(f"the task is missing; write {HARNESS}TASK:N, such as {HARNESS}arc_easy:100.")
    if path is not None and task.endswith(YAML_FILES):
        raise PromptError(
            f"{Path(task).name} says itself where its documents are (dataset_kwargs: data_files); leave out '@…'."
        )


def check_combination(spec: SourceSpec) -> None:
    """Refuse options that contradict each other or lack one that they need.

    Raises:
        PromptError: with what to leave out, or to add.
    """
    if spec.harness_task is not None:
        _check_harness(spec.harness_task, spec.path)
    if spec.path == "":
        raise PromptError(f"no file after '@'; write {spec.name}@FILE.jsonl (or .csv, .parquet).")
    if spec.kind == "generated" and spec.path is not None:
        raise PromptError(f"{spec.name} are generated and read no file; leave out '@…'.")
    # Nothing on the hub says which column holds the text, or which split is meant.
    lacking = [key for key in ("split", "text") if spec.kind == "hub data set" and spec.option(key) is None]
    # the columns of a data set of chats tell it by themselves
    may_be_chats = lacking == ["text"] and not spec.names_columns
    if lacking and not may_be_chats:
        raise PromptError(missing_columns(spec, lacking))
    if spec.option("labels") is not None and any(key.startswith(LABEL) for key, _ in spec.options):
        raise PromptError("labels= lists columns, and label.NAME=COLUMN names them one by one; give one of the two.")
    if spec.kind == "table" and spec.option("text") is None and spec.names_columns:
        raise PromptError(missing_columns(spec, ["text"]))
    if spec.kind == "prompt file" and spec.options and spec.option("text") is None:
        raise PromptError(
            f"{spec.options[0][0]}= goes with text=, the column that the text is in; without them a file holds "
            "prompts of the fields text, ids, answer and labels."
        )
    per_level = spec.option("per_level")
    if spec.kind == "generated" and spec.count is None and per_level is None:
        raise PromptError(f"say how many, for example {spec.name}:20.")
    requested = max(spec.count or 0, int(per_level or 0))
    if spec.kind == "generated" and requested > MOST_GENERATED:
        # nothing else limits them: a file or a data set ends by itself
        raise PromptError(
            f"{requested:,} prompts of {spec.name} are too many to be made and kept in memory; ask for at most "
            f"{MOST_GENERATED:,}."
        )
    if spec.count is not None and per_level is not None:
        raise PromptError(
            f"':{spec.count}' is the number of prompts altogether and per_level={per_level} that of each level; give "
            "one of them."
        )
    if spec.name is not None and spec.path is not None and spec.option("split") is not None:
        raise PromptError(
            "split= chooses a split of the hub's copy, and a local file has none; leave out one of split= and '@…'."
        )
    if spec.is_folder and spec.option("documents") is not None:
        raise PromptError(
            "documents= gives the line between the documents of a file, and those of a folder are its files; leave it "
            "out."
        )
    if spec.option("window") is not None and spec.option("chars") is not None:
        raise PromptError("a corpus is cut by tokens (window=) or by characters (chars=); give one of them.")
