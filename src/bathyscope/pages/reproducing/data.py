"""Local copies of data sets in place of the hub's, and the files that stand for the papers' corpora and tables."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from bathyscope.errors import PromptError, did_you_mean
from bathyscope.prompts.datasets import REGISTRY
from bathyscope.prompts.spec import CORPUS_SUFFIXES, PROMPT_FILE_SUFFIXES, SourceSpec, parse
from bathyscope.surveying.papers.reproductions import REPRODUCTIONS

VALIDATION = "wic_validation"
_SUFFIXES = (".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".parquet")
_SOURCES = ("survey", "maps", "subjoiner", "ing")
"""Works whose data are a source in the grammar of prompts."""


def local_data(given: Sequence[str]) -> dict[str, str]:
    """Data set, corpus, task or table → its local file.

    Args:
        given: NAME=FILE, or folders that hold files of such names (``gsm8k.jsonl``, ``pile.txt``, ``scores.csv``), or
            folders of a data set's name with a file of the split that the papers used (``gsm8k/test.jsonl``).
    """
    found: dict[str, str] = {}
    for text in given:
        name, equals, file = text.partition("=")
        # os.path, not Path, which raises where a text is longer than a file's name may be
        if os.path.isdir(os.path.expanduser(text)):
            found |= _in_folder(Path(text).expanduser())
        elif equals:
            _require_known(name, file)
            if not os.path.isfile(os.path.expanduser(file)):
                raise PromptError(f"--data: there is no file {file!r}.")
            found[name] = str(Path(file).expanduser())
        else:
            raise PromptError(f"--data {text!r} is no folder; give a folder, or NAME=FILE such as gsm8k=test.jsonl.")
    return found


def localised(source: str, data: Mapping[str, str], count: int | None = None) -> SourceSpec:
    """A source that reads the local file of its data set or corpus, where there is one.

    ``count`` stands in place of the source's own number (of each level, where the source says so).
    """
    spec = parse(source)
    path = data.get(spec.name or _file_name(spec))
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
    """Names that files may be given for: data sets, corpora, tasks and tables of the papers → endings of the files."""
    found: dict[str, tuple[str, ...]] = dict.fromkeys((*REGISTRY, VALIDATION), _SUFFIXES)
    works = [work for paper in REPRODUCTIONS.values() for work in paper.works]
    for verb, data in [(work.verb, work.data) for work in works if isinstance(work.data, str)]:
        if verb not in _SOURCES:
            found |= {Path(name).stem: _SUFFIXES for name in data.split(",")}
        elif (spec := parse(data)).name is None:
            found[_file_name(spec)] = CORPUS_SUFFIXES if spec.kind == "corpus" else PROMPT_FILE_SUFFIXES
    return found


def _file_name(spec: SourceSpec) -> str:
    """``pile`` for ``pile.txt``."""
    return Path(str(spec.path)).name.split(".")[0]


def _in_folder(folder: Path) -> dict[str, str]:
    candidates = {name: [folder / f"{name}{suffix}" for suffix in endings] for name, endings in files().items()}
    for name, data_set in REGISTRY.items():
        candidates[name] += [
            file
            for file in sorted((folder / name).glob("*"))
            if file.name.endswith(_SUFFIXES) and file.name.lower().startswith((data_set.split or "").lower())
        ]
    found = {}
    for name, places in candidates.items():
        there = [str(file) for file in places if file.is_file()]
        if len(there) > 1:
            raise PromptError(
                f"--data {folder}: {name} could be any of {', '.join(there)}; say which: --data {name}={there[0]}"
            )
        if there:
            found[name] = there[0]
    return found


def _require_known(name: str, file: str) -> None:
    known = files()
    if name not in known:
        raise PromptError(f"--data: {name!r} is no data set.{did_you_mean(name, known)} Allowed: {', '.join(known)}.")
    if known[name] != _SUFFIXES and not file.endswith(known[name]):
        kind = "plain text" if known[name] == CORPUS_SUFFIXES else "a file of prompts"
        raise PromptError(f"--data {name}={file}: {name} is {kind}; give a file ending in {', '.join(known[name])}.")
