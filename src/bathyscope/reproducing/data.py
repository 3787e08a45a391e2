"""Local copies of data sets in place of the hub's, and the text files that stand for the papers' corpora."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from bathyscope.errors import PromptError, did_you_mean
from bathyscope.papers.reproductions import REPRODUCTIONS
from bathyscope.prompts.datasets import registry
from bathyscope.prompts.spec import CORPUS_SUFFIXES, SourceSpec, parse

_SUFFIXES = (".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".parquet")


def local_data(given: Sequence[str]) -> dict[str, str]:
    """Data set or corpus → its local file.

    Args:
        given: NAME=FILE, or folders that hold files named after data sets (``gsm8k.jsonl``) or corpora (``pile.txt``),
            or folders of a data set's name with a file of the split that the papers used (``gsm8k/test.jsonl``).

    Raises:
        PromptError: no such file or folder, a name that is neither data set nor corpus, a corpus that is no plain
            text, or several files that could be meant.
    """
    found: dict[str, str] = {}
    for text in given:
        name, equals, file = text.partition("=")
        if Path(text).expanduser().is_dir():
            found |= _in_folder(Path(text).expanduser())
        elif equals:
            _require_known(name, file)
            found[name] = _existing(file)
        else:
            raise PromptError(f"--data {text!r} is no folder; give a folder, or NAME=FILE such as gsm8k=test.jsonl.")
    return found


def localised(source: str, data: Mapping[str, str], count: int | None = None) -> SourceSpec:
    """A source that reads the local file of its data set or corpus, where there is one.

    Args:
        count: prompts (of each level, where the source says so) in place of the source's own number.
    """
    spec = parse(source)
    path = data.get(_corpus_name(spec) or spec.name or "")
    if path is not None:
        spec = replace(spec, path=path)
    if count is None:
        return spec
    if spec.number("per_level") is not None:
        options = tuple((key, count if key == "per_level" else value) for key, value in spec.options)
        return replace(spec, options=options)
    return replace(spec, count=count)


@cache
def corpora() -> tuple[str, ...]:
    """Names of the papers' corpora: ``pile`` for ``pile.txt``."""
    texts = [one.prompts for paper in REPRODUCTIONS.values() for one in paper.surveys if isinstance(one.prompts, str)]
    return tuple(dict.fromkeys(name for text in texts if (name := _corpus_name(parse(text)))))


def _corpus_name(spec: SourceSpec) -> str | None:
    return Path(str(spec.path)).name.split(".")[0] if spec.kind == "corpus" else None


def _in_folder(folder: Path) -> dict[str, str]:
    candidates = {name: [folder / f"{name}{suffix}" for suffix in CORPUS_SUFFIXES] for name in corpora()}
    for name, data_set in registry().items():
        candidates[name] = [folder / f"{name}{suffix}" for suffix in _SUFFIXES]
        candidates[name] += [
            file
            for file in sorted((folder / name).glob("*"))
            if file.name.endswith(_SUFFIXES) and file.name.lower().startswith((data_set.split or "").lower())
        ]
    found = {}
    for name, files in candidates.items():
        there = [str(file) for file in files if file.is_file()]
        if len(there) > 1:
            raise PromptError(
                f"--data {folder}: {name} could be any of {', '.join(there)}; say which: --data {name}={there[0]}"
            )
        if there:
            found[name] = there[0]
    return found


def _require_known(name: str, file: str) -> None:
    known = (*registry(), *corpora())
    if name not in known:
        raise PromptError(f"--data: {name!r} is no data set.{did_you_mean(name, known)} Allowed: {', '.join(known)}.")
    if name in corpora() and not file.endswith(CORPUS_SUFFIXES):
        raise PromptError(
            f"--data {name}={file}: {name} is plain text; give a file ending in {', '.join(CORPUS_SUFFIXES)}."
        )


def _existing(file: str) -> str:
    path = Path(file).expanduser()
    if not path.is_file():
        raise PromptError(f"--data: there is no file {file!r}.")
    return str(path)
