"""Where a run has been on somebody's disk: the places that it names, to be taken out of what is published."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import quote

from bathyscope.core.paths import impossible
from bathyscope.core.text import left_over_place, without_folders, without_places
from bathyscope.errors import StoreError

_MOST_NAMED: Final = 1000
"""Paths of a run that are looked for wherever they stand, at most."""
_MOST_DEEP: Final = 64
"""Folders in one of them, at most."""
_LONGEST_TEXT: Final = 1 << 16
"""Letters of a text that may be a command, at most."""
_ROOTS: Final = ("/", "~/")
_WEB: Final = r"\b[a-z]\w+://[^\s'\"<>]*"
_IN_WORD: Final = re.compile(r"(?:\A|[=:@,])(~?/.*)", re.DOTALL)
_BEHIND: Final = re.compile(r"(?::[\d,-]+|\?.*)\Z", re.DOTALL)
"""What may be behind a file in a source of prompts: a number of them, and options."""


class Places:
    """The places that a run is known to have been in, and what a text is without them.

    Args:
        tree: the run's manifest.
        folders: further ones, such as that of the run.
    """

    def __init__(self, tree: Mapping[str, Any], folders: Iterable[Path] = ()) -> None:
        named = {place for text in _texts(tree) for place in _named(text)}
        named |= {str(folder) for folder in (Path.home(), Path.cwd(), *folders) if folder.is_absolute()}
        folders_of_places = {
            str(place)
            for path in sorted(named)[:_MOST_NAMED]
            for place in (PurePosixPath(path), *PurePosixPath(path).parents)
        }
        # /home alone says nothing, and would be found everywhere
        forms = {form for place in folders_of_places if place.count("/") > 1 for form in _forms(place)}
        listed = "|".join(map(re.escape, sorted(forms, key=len, reverse=True)))
        self._pattern = (
            re.compile(rf"{_WEB}|(?P<place>(?:{listed})(?:/[^\s'\",;:)\]}}>|]*|(?![\w.-])))") if forms else None
        )

    def without(self, text: str) -> str:
        """Return a text in which each place is its last name."""
        if text.startswith(_ROOTS) and "\n" not in text:
            # a text that is a path as a whole may hold blanks
            text = without_folders(text)
        return without_places(self.without_known(text))

    def without_known(self, text: str) -> str:
        """Return a text in which the places of the run are their last names, and other texts stay as they are."""
        return text if self._pattern is None else self._pattern.sub(_last, text)

    def without_in(self, value: Any) -> Any:
        """Return plain values with every place in their texts, keys among them, written as its last name."""
        if isinstance(value, str):
            return self.without(value)
        if isinstance(value, Mapping):
            return {self.without_in(key): self.without_in(inner) for key, inner in value.items()}
        return [self.without_in(inner) for inner in value] if isinstance(value, list | tuple) else value


def require_no_place(tree: Any, where: str) -> None:
    """Refuse what is to be published where a text in it still looks like a path in somebody's home.

    Raises:
        StoreError: says where, and what it begins with.
    """
    for text in _texts(tree):
        if leftover := left_over_place(text):
            raise StoreError(
                f"{where} names a place that cannot be shortened ({leftover!r}). Take it out and push again, or "
                "publish it as it is with keep_paths=True (--keep-paths)."
            )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from (*_texts(key), *_texts(inner))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def _named(text: str) -> Iterator[str]:
    """Yield the absolute paths that a text is, or that are in it as words of a command."""
    if text.startswith(_ROOTS):
        yield from _possible(_BEHIND.sub("", text))
    if len(text) > _LONGEST_TEXT:
        return
    try:
        words = shlex.split(text)
    except ValueError:
        return
    for word in words:
        if match := _IN_WORD.search(word):
            yield from _possible(_BEHIND.sub("", match[1]))


def _possible(path: str) -> Iterator[str]:
    """Yield a path that a run may have been in; others are shortened as paths that nobody knows."""
    if path.count("/") <= _MOST_DEEP and not impossible(path):
        yield path


def _forms(place: str) -> set[str]:
    """A place as it is written: plain, in a shell with and without quotes, in a literal, in an address."""
    escaped = re.sub(r"([\s'\"()&;|])", r"\\\1", place)
    literal = repr(place)[1:-1]
    return {place, place.replace("'", "'\"'\"'"), escaped, literal, quote(place)}


def _last(match: re.Match[str]) -> str:
    if not match["place"]:
        return match[0]
    # as a shell writes a quote inside of quotes
    place = match["place"].replace("'\"'\"'", "_")
    return re.split(r"/", place.rstrip("/"))[-1]
