"""What a checkpoint's files say of its special tokens, without loading its tokenizer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from bathyscope.core.foreign import read_regular
from bathyscope.core.strict import DAMAGED
from bathyscope.prompts.padding import EdgeTokens

_SETTINGS: Final = ("tokenizer_config.json", "special_tokens_map.json")
"""Files that name special tokens."""
_PADS: Final = ("pad_token",)
_ENDS: Final = ("bos_token", "eos_token")


def edges_in_files(source: str | Path, *, revision: str | None = None) -> EdgeTokens:
    """Return the tokens that pad, begin and end texts, as far as the files of a checkpoint name them.

    A file that is missing or damaged names nothing: token ids can be measured without a tokenizer. Its vocabulary is
    looked at only for tokens whose numbers stand nowhere else.

    Args:
        source: a folder, or a name on the hub, of which the cache is looked at.
        revision: of the hub.
    """
    return _Files(Path(source) if Path(source).is_dir() else str(source), revision).edges


@dataclass(frozen=True)
class _Files:
    """The files of a checkpoint: of a folder, or (a text) of the cache of a name on the hub."""

    source: str | Path
    revision: str | None

    @property
    def edges(self) -> EdgeTokens:
        settings = [self.read(name) for name in _SETTINGS]
        return EdgeTokens(*(frozenset(self.numbers(_named(settings, names))) for names in (_PADS, _ENDS)))

    def numbers(self, tokens: Iterable[str]) -> Iterable[int]:
        for token in tokens:
            places = (self.added, self.vocabulary) if token not in self.added else (self.added,)
            number = next((place[token] for place in places if token in place), None)
            if isinstance(number, int):
                yield number

    @cached_property
    def added(self) -> dict[str, Any]:
        """Numbers of added tokens, as the settings list them."""
        listed = self.read(_SETTINGS[0]).get("added_tokens_decoder")
        numbers = dict(self.read("added_tokens.json"))
        for number, token in listed.items() if isinstance(listed, Mapping) else ():
            if str(number).isdecimal():
                numbers[_content(token)] = int(number)
        return numbers

    @cached_property
    def vocabulary(self) -> dict[str, Any]:
        """Numbers of all tokens, of the files that are JSON."""
        whole = self.read("tokenizer.json")
        model, added = whole.get("model"), whole.get("added_tokens")
        pieces = model.get("vocab") if isinstance(model, Mapping) else None
        numbers = dict(pieces) if isinstance(pieces, Mapping) else {}
        if isinstance(pieces, list):
            numbers = {str(piece[0]): number for number, piece in enumerate(pieces) if piece}
        for token in added if isinstance(added, list) else ():
            if isinstance(token, Mapping):
                numbers[_content(token)] = token.get("id")
        return numbers or dict(self.read("vocab.json"))

    def read(self, name: str) -> Mapping[str, Any]:
        """Return the object that a file holds; an empty one without that file."""
        try:
            path = self.path(name)
            value = {} if path is None else json.loads(read_regular(path, path.parent))
        except DAMAGED:
            return {}
        return value if isinstance(value, Mapping) else {}

    def path(self, name: str) -> Path | None:
        if isinstance(self.source, Path):
            path = self.source / name
            return path if path.is_file() else None
        from huggingface_hub import try_to_load_from_cache

        # whoever made token ids here has the tokenizer's files; nothing is fetched for a look at them
        stored = try_to_load_from_cache(self.source, name, revision=self.revision)
        return Path(stored) if isinstance(stored, str) else None


def _named(settings: Iterable[Mapping[str, Any]], names: Iterable[str]) -> list[str]:
    """Return the texts of special tokens, by whichever file names them."""
    tokens = [_content(values.get(name)) for values in settings for name in names]
    return list(dict.fromkeys(token for token in tokens if token))


def _content(token: Any) -> str:
    """Return the text of a token, which is written as it is or with how it is matched."""
    content = token.get("content") if isinstance(token, Mapping) else token
    return content if isinstance(content, str) else ""
