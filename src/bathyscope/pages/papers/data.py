"""Local copies of data sets in place of the hub's, and files for the corpora and tables of the papers."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from os import PathLike, fspath
from pathlib import Path

from bathyscope.core.strict import whole_number_in
from bathyscope.errors import OptionError, PromptError, describe_value, did_you_mean
from bathyscope.prompts.datasets import REGISTRY
from bathyscope.prompts.parsed_source import CORPUS_SUFFIXES, PROMPT_FILE_SUFFIXES, SourceSpec
from bathyscope.prompts.source import require_there
from bathyscope.prompts.spec import parse
from bathyscope.surveying.papers.reproduction import Work
from bathyscope.surveying.papers.reproductions import REPRODUCTIONS

VALIDATION = "wic_validation"
_NUMBER = re.compile(r"[+-]?[\d.,_]+(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf)")
_SUFFIXES = (".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".parquet")
_SOURCES = ("survey", "maps", "subjoiner", "ing")
"""Works whose data are a source of prompts."""


def local_data(arguments: Sequence[str]) -> dict[str, str]:
    """Return the local file of each data set, corpus, task or table that was given.

    Args:
        arguments: NAME=FILE, or folders with files of such names (``gsm8k.jsonl``, ``pile.txt``, ``scores.csv``), or
            folders named after a data set with a file of the split that the papers used (``gsm8k/test.jsonl``).
    """
    path_by_name: dict[str, str] = {}
    files_by_name: set[str] = set()  # those of NAME=FILE alone, which may stand in for files of a folder
    for text in arguments:
        name, equals, file = text.partition("=")
        # Path.is_dir raises for a text longer than a file name can be; os.path.isdir returns False.
        if os.path.isdir(os.path.expanduser(text)):
            path_by_name |= _find_files(Path(text).expanduser())
        elif equals:
            _require_known(name, file)
            if name in files_by_name:
                raise PromptError(f"--data gives {name!r} more than one file; give each name one.")
            files_by_name.add(name)
            if not os.path.isfile(os.path.expanduser(file)):
                raise PromptError(f"--data {name}={file!r}: file not found.")
            path_by_name[name] = str(Path(file).expanduser())
        else:
            raise PromptError(f"--data {text!r} is not a folder. Give a folder, or NAME=FILE such as gsm8k=test.jsonl.")
    return path_by_name


def read_prompts_option(prompts: int | str | PathLike[str] | None) -> tuple[int | None, str | None]:
    """Return the number of prompts or the source that ``reproduce`` is given; a digit is a number.

    Raises:
        OptionError: a number below 1.
        PromptError: no such source, or no such file.
    """
    if prompts is not None and (isinstance(prompts, bool) or not isinstance(prompts, int | str | PathLike)):
        raise OptionError(
            f"prompts={describe_value(prompts)} is neither a whole number of prompts nor a source, such as mine.jsonl."
        )
    number = prompts if prompts is None or isinstance(prompts, int) else whole_number_in(fspath(prompts))
    if isinstance(number, int):
        if number < 1:
            raise OptionError(f"--prompts {number} is out of range; give a whole number, 1 or more.")
        return number, None
    if prompts is None:
        return None, None
    source = fspath(prompts)  # type: ignore[arg-type]
    if _NUMBER.fullmatch(source):
        raise OptionError(f"--prompts {source} is no number of prompts; give a whole number, 1 or more, or a source.")
    require_there(source)
    return None, source


def takes_own_prompts(work: Work) -> bool:
    """Return whether a work measures any prompts: not those of each level of difficulty, nor single problems."""
    if work.verb not in ("survey", "maps") or not isinstance(work.data, str):
        return False
    return parse(work.data).option("per_level") is None


def localised(source: str, data: Mapping[str, str], count: int | None = None) -> SourceSpec:
    """Return a source that reads the local file of its data set or corpus, if any.

    ``count`` replaces the source's number of prompts (of each level, where the source counts by level).
    """
    spec = parse(source)
    path = data.get(spec.name or _name_file(spec))
    if path is not None:
        spec = replace(spec, path=path)
    if count is None:
        return spec
    if spec.option("per_level") is not None:
        options = tuple((key, count if key == "per_level" else value) for key, value in spec.options)
        return replace(spec, options=options)
    return replace(spec, count=count)


@cache
def files() -> Mapping[str, tuple[str, ...]]:
    """Return the names that files may be given for, with the allowed endings of the files.

    The names are those of data sets, corpora, tasks and tables of the papers.
    """
    suffixes_by_name: dict[str, tuple[str, ...]] = dict.fromkeys((*REGISTRY, VALIDATION), _SUFFIXES)
    works = [work for paper in REPRODUCTIONS.values() for work in paper.works]
    for verb, data in [(work.verb, work.data) for work in works if isinstance(work.data, str)]:
        if verb not in _SOURCES:
            suffixes_by_name |= {Path(name).stem: _SUFFIXES for name in data.split(",")}
        elif (spec := parse(data)).name is None:
            suffixes_by_name[_name_file(spec)] = CORPUS_SUFFIXES if spec.kind == "corpus" else PROMPT_FILE_SUFFIXES
    return suffixes_by_name


def _name_file(spec: SourceSpec) -> str:
    """Return ``pile`` for ``pile.txt``."""
    return Path(str(spec.path)).name.split(".")[0]


def _find_files(folder: Path) -> dict[str, str]:
    candidates = {name: [folder / f"{name}{suffix}" for suffix in endings] for name, endings in files().items()}
    for name, data_set in REGISTRY.items():
        candidates[name] += [
            file
            for file in sorted((folder / name).glob("*"))
            if file.name.endswith(_SUFFIXES) and file.name.lower().startswith((data_set.split or "").lower())
        ]
    path_by_name = {}
    for name, places in candidates.items():
        existing = [str(file) for file in places if file.is_file()]
        if len(existing) > 1:
            raise PromptError(
                f"--data {folder}: {name} could be any of {', '.join(existing)}; say which: --data {name}={existing[0]}"
            )
        if existing:
            path_by_name[name] = existing[0]
    return path_by_name


def _require_known(name: str, file: str) -> None:
    suffixes_by_name = files()
    if name not in suffixes_by_name:
        raise PromptError(
            f"--data: {name!r} is not a data set.{did_you_mean(name, suffixes_by_name)} "
            f"Allowed: {', '.join(suffixes_by_name)}."
        )
    if suffixes_by_name[name] != _SUFFIXES and not file.endswith(suffixes_by_name[name]):
        kind = "plain text" if suffixes_by_name[name] == CORPUS_SUFFIXES else "a file of prompts"
        raise PromptError(
            f"--data {name}={file}: {name} is {kind}; give a file ending in {', '.join(suffixes_by_name[name])}."
        )
