"""Names of the harness's tasks, read off the first words of its files.

The harness's own index parses every one of its some ten thousand YAML files, which takes up to a minute. A few words
at the beginnings of lines say which names there are, and in which file each is, within a second.
"""

import importlib.util
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path

from bathyscope.core.foreign import read_text

# An entry at the top of a file: its key, and its value on the same line or as a list below it.
_ENTRY = re.compile(r"^[\"']?(task|group|tag|class|include)[\"']?[ \t]*:[ \t]*(.*(?:\n[ \t]*-[ \t].*)*)", re.MULTILINE)
_IGNORED = frozenset({"__pycache__", ".ipynb_checkpoints"})


@dataclass(frozen=True)
class TaskNames:
    """What may be asked for by name.

    Args:
        files: task or group → the file that defines it.
        tags: names that stand for several tasks, wherever their files are.
    """

    files: dict[str, Path] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()

    def __contains__(self, name: object) -> bool:
        return name in self.files or name in self.tags

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self.files, *self.tags}))


def installed_names() -> TaskNames:
    """Return the names in the installed harness, which is not imported for it."""
    package = importlib.util.find_spec("lm_eval")
    folders = () if package is None else tuple(package.submodule_search_locations or ())
    return names_in(Path(folders[0]) / "tasks") if folders else TaskNames()


@lru_cache(maxsize=4)
def names_in(folder: Path) -> TaskNames:
    """Return the names that YAML files below a folder define."""
    files: dict[str, Path] = {}
    tags: set[str] = set()
    for path in _list_yaml_files(str(folder)):
        entries = _read_entries(path)
        # a file with a class is a task even where it names its group
        key = "task" if "class" in entries or "group" not in entries else "group"
        names = _split_words(entries.get(key, ""))
        if len(names) == 1:
            files.setdefault(names[0], Path(path))
            if key == "task":
                tags.update(_split_words(entries.get("tag", "")))
    return TaskNames(files, frozenset(tags - set(files)))


def _list_yaml_files(folder: str) -> list[str]:
    paths: list[str] = []
    # not Path.rglob, which takes a second for this many files
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _IGNORED]
        paths += [os.path.join(place, name) for name in names if name.endswith(".yaml")]
    return sorted(paths)


@cache
def _read_entries(path: str) -> dict[str, str]:
    """Return the entries of a file as text, with those of the files that it includes where it has none of its own."""
    try:
        own_entries = dict(_ENTRY.findall(read_text(Path(path))))
    except (OSError, UnicodeDecodeError):
        return {}
    entries: dict[str, str] = {}
    for name in _split_words(own_entries.pop("include", "")):
        entries |= _read_entries(os.path.normpath(os.path.join(os.path.dirname(path), name)))
    return {**entries, **own_entries}


def _split_words(value: str) -> list[str]:
    """Return the words of a value: one, or those of a list."""
    lines = [line.split(" #")[0].strip().removeprefix("- ") for line in value.splitlines()]
    words = [word.strip(" \t\"'") for line in lines for word in line.strip("[],").split(",")]
    return [word for word in words if word]
