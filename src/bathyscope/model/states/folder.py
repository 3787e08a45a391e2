"""A folder of stored states: its files in their order, the prompts in them, and which boundaries they are of.

Three layouts are read, which differ in the names of files alone: vLLM writes one file for each request, speculators
numbers them (``hs_0.safetensors``), and the plain layout has one ``states.safetensors`` or several. No file says which
boundaries it holds. ``states.json`` next to them does, or whoever asks; all L + 1 need not be named.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from bathyscope.core.contents import contents_of
from bathyscope.core.foreign import read_regular
from bathyscope.core.paths import given_path
from bathyscope.core.strict import DAMAGED, read_json
from bathyscope.core.text import counted, elided
from bathyscope.errors import ModelError, did_you_mean, warn
from bathyscope.model.states.files import StatesFile

RECORD: Final = "states.json"
_FIELDS: Final = ("boundaries", "n_blocks")
CONFIRMED: Final = "predictions of the served model: those of the readout"
"""How a note begins that says so."""
_SUFFIX: Final = ".safetensors"
_OTHERS: Final = {
    ".pt": "a pickle, as speculators wrote until 0.3, which is not opened here",
    ".zst": "packed by zstd",
}
_FORMS: Final = "boundaries=[0, 16, 32] (--boundaries 0,16,32)"


@dataclass(frozen=True)
class StoredPrompt:
    """Where the states of a prompt are.

    Args:
        name: of its file, and its number there where it is not alone.
        file: number of the file.
        first: its first token there.
        ids: its token ids.
    """

    name: str
    file: int
    first: int
    ids: tuple[int, ...]


@dataclass(frozen=True)
class StatesFolder:
    """Stored states of some prompts.

    Args:
        folder: that holds the files.
        layout: ``vllm``, ``speculators`` or ``plain``.
        files: in their order.
        prompts: each with other tokens, in the order of the files.
        boundaries: in the order of the states; empty = unknown.
        n_blocks: L as the record tells it; None = it does not.
        hashes: of each file, once it was read as a whole.
        notes: what was asked of them, and what came out.
    """

    folder: Path
    layout: str
    files: tuple[StatesFile, ...]
    prompts: tuple[StoredPrompt, ...]
    boundaries: tuple[int, ...] = ()
    n_blocks: int | None = None
    hashes: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def dtype(self) -> torch.dtype:
        """Of all states."""
        return self.files[0].dtype

    @property
    def count(self) -> int:
        """How many boundaries there are."""
        return self.files[0].states.shape[1]

    @property
    def width(self) -> int:
        """Of the residual stream."""
        return self.files[0].states.shape[2]

    @cached_property
    def _by_ids(self) -> dict[tuple[int, ...], StoredPrompt]:
        return {prompt.ids: prompt for prompt in self.prompts}

    def find(self, ids: Sequence[int]) -> StoredPrompt | None:
        """Return the prompt of these token ids; None where no file has it."""
        return self._by_ids.get(tuple(ids))

    def states_of(self, prompt: StoredPrompt, tokens: int | None = None) -> Tensor:
        """Return a prompt's states, [tokens, boundaries, width], or those of its first tokens."""
        count = len(prompt.ids) if tokens is None else min(tokens, len(prompt.ids))
        return self.files[prompt.file].states_of(prompt.first, count)

    def told_of(self, prompt: StoredPrompt, name: str) -> Tensor | None:
        """Return what a file tells of each token of a prompt, such as the served top-1; None where it does not."""
        file = self.files[prompt.file]
        return file.whole(name)[prompt.first : prompt.first + len(prompt.ids)] if name in file.places else None

    def with_boundaries(self, asked_for: Sequence[int] | None, n_blocks: int) -> StatesFolder:
        """Return the states with the boundaries that they are of, of a model of this many blocks.

        Raises:
            ModelError: they are not told, are told otherwise than asked for, or cannot be those of this model.
        """
        if self.n_blocks not in (None, n_blocks):
            raise ModelError(
                f"{self.folder / RECORD} says that the states are of a model of {elided(self.n_blocks, 20)} blocks, "
                f"and the head's has {n_blocks}. Give the head of the model that was served."
            )
        if asked_for is not None and self.boundaries and tuple(asked_for) != self.boundaries:
            raise ModelError(
                f"boundaries={_ids_in_words(asked_for)} is not what {self.folder / RECORD} says "
                f"({_ids_in_words(self.boundaries)}). Leave boundaries out, or correct the file."
            )
        boundaries = self.boundaries or tuple(asked_for or ())
        if not boundaries and self.count == n_blocks + 1:
            boundaries = tuple(range(n_blocks + 1))
        self._require_boundaries(boundaries, n_blocks)
        return replace(self, boundaries=boundaries, n_blocks=n_blocks)

    def _require_boundaries(self, boundaries: Sequence[int], n_blocks: int) -> None:
        if not boundaries:
            usual = [2, n_blocks // 2, n_blocks - 3, n_blocks]
            hint = f" (by default speculators stores {usual})" if self.count == len(usual) and n_blocks > 6 else ""
            raise ModelError(
                f"{self.folder} does not say which {self.count} of the {n_blocks + 1} boundaries its states are of. "
                f"Give the layer ids that the server was started with{hint}: {_FORMS}, or a {RECORD}."
            )
        if len(boundaries) != self.count:
            raise ModelError(
                f"{counted(len(boundaries), 'boundary', 'boundaries')} {_ids_in_words(boundaries)} for states of "
                f"{self.count}: one is missing or too many. Give one id for each boundary that a file holds."
            )
        if any(first >= second for first, second in pairwise(boundaries)):
            raise ModelError(
                f"boundaries {_ids_in_words(boundaries)} do not ascend. vLLM stores layers in ascending order, "
                "whatever order they were asked for in; give them so."
            )
        if boundaries[0] < 0 or boundaries[-1] > n_blocks:
            raise ModelError(
                f"boundaries {_ids_in_words(boundaries)} are not of a model of {n_blocks} blocks, whose boundaries "
                f"are 0 (the embedding) to {n_blocks} (behind the last block). Ids that are one too high count from 1."
            )
        if len(boundaries) < 2:
            raise ModelError(
                f"These states are of boundary {boundaries[0]} alone, and a survey compares boundaries. Store two or "
                "more."
            )

    def hashed(self, report: Callable[[int], None]) -> StatesFolder:
        """Return the states with the hash of every file, each of which is read and holds finite numbers.

        Raises:
            ModelError: NaN or Inf in a file, named with its token and boundary.
        """
        return replace(self, hashes=tuple(file.sha256(report, self.boundaries) for file in self.files))

    def identity(self) -> dict[str, Any]:
        """Return what a run says of them: layout, boundaries, and one hash of all files."""
        lines = "\n".join(f"{file.path.name} {sha256}" for file, sha256 in zip(self.files, self.hashes, strict=True))
        return {
            "layout": self.layout,
            "boundaries": list(self.boundaries),
            "files": len(self.files),
            "sha256": hashlib.sha256(lines.encode()).hexdigest(),
        }

    def record(self) -> dict[str, Any]:
        """Return what a reader should know besides: folder, the hash of each file, and what was checked."""
        return {
            "folder": self.folder.name,
            "files": {file.path.name: sha256 for file, sha256 in zip(self.files, self.hashes, strict=True)},
            "checks": list(self.notes),
            "confirmed": any(note.startswith(CONFIRMED) for note in self.notes),
        }


def open_folder(folder: str | Path) -> StatesFolder:
    """Look at a folder of stored states; no state is read yet.

    Raises:
        ModelError: no folder, nothing there that holds states, a damaged file, or files that are not of one model.
    """
    place = given_path(folder, "states")
    paths = _paths(place)
    files = tuple(map(StatesFile, paths))
    first = files[0]
    for file in files[1:]:
        if (file.dtype, file.states.shape[1:]) != (first.dtype, first.states.shape[1:]):
            raise ModelError(
                f"{file.path.name} holds {_described(file)}, and {first.path.name} {_described(first)}. All files of "
                "a folder are of one model and of the same boundaries; put others into a folder of their own."
            )
    record = _read_record(place)
    return StatesFolder(place, _layout(paths), files, _prompts(files), **record)


def _paths(folder: Path) -> list[Path]:
    """Return the files of states in a folder, in the order of their names as people count."""
    if not folder.is_dir():
        what = "is a file; give the folder that it lies in" if folder.is_file() else "is no folder"
        raise ModelError(f"{folder} {what}. Stored states are a folder of {_SUFFIX} files.")
    paths = sorted((path for path in folder.iterdir() if path.suffix == _SUFFIX), key=_as_counted)
    if paths:
        return paths
    present = {path.suffix for path in folder.iterdir()}
    other = next((f"; its {suffix} files are {why}" for suffix, why in _OTHERS.items() if suffix in present), "")
    contents = contents_of(folder)
    holding = f" It holds {contents}." if contents else ""
    raise ModelError(
        f"{folder} holds no {_SUFFIX} file{other}.{holding} Give the folder that vLLM or speculators wrote states to."
    )


def _as_counted(path: Path) -> list[tuple[bool, int, str]]:
    """Sort ``hs_2`` before ``hs_10``."""
    parts = re.findall(r"[0-9]{1,18}|[^0-9]+|[0-9]+", path.name)
    return [(not part.isdigit(), int(part) if part.isdigit() and len(part) < 19 else 0, part) for part in parts]


def _layout(paths: Sequence[Path]) -> str:
    if all(re.fullmatch(r"hs_[0-9]+", path.stem) for path in paths):
        return "speculators"
    return "plain" if all(path.stem.startswith("states") for path in paths) else "vllm"


def _prompts(files: Sequence[StatesFile]) -> tuple[StoredPrompt, ...]:
    """Return the prompts of all files; those with the tokens of an earlier one are left out, with a warning."""
    by_ids: dict[tuple[int, ...], StoredPrompt] = {}
    copies: list[str] = []
    for number, file in enumerate(files):
        first = 0
        for place, ids in enumerate(file.ids):
            name = file.path.stem if len(file.ids) == 1 else f"{file.path.stem}-{place}"
            prompt = by_ids.setdefault(ids, StoredPrompt(name, number, first, ids))
            copies += [f"{name} ({prompt.name})"] if prompt.name != name else []
            first += len(ids)
    if copies:
        more = f" and {len(copies) - 3} more" if len(copies) > 3 else ""
        warn(f"Left out, since an earlier prompt has the same tokens: {', '.join(copies[:3])}{more}.")
    return tuple(by_ids.values())


def _read_record(folder: Path) -> dict[str, Any]:
    """Return what ``states.json`` says; nothing without such a file."""
    path = folder / RECORD
    # a link that leads nowhere is a record that cannot be read
    if not os.path.lexists(path):
        return {}
    try:
        record = read_json(read_regular(path, folder), deepest=4)
        unknown = next((name for name in record if name not in _FIELDS), None)
        if unknown is not None:
            raise ModelError(
                f"{path} has an unknown entry {elided(repr(unknown), 40)}.{did_you_mean(str(unknown), _FIELDS)} It has "
                f"{' and '.join(_FIELDS)}."
            )
        boundaries, n_blocks = record.get("boundaries", []), record.get("n_blocks")
        if not all(type(boundary) is int for boundary in boundaries) or type(n_blocks) not in (int, type(None)):
            raise ValueError("boundaries is a list of whole numbers, and n_blocks one")
    except DAMAGED as error:
        if isinstance(error, ModelError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise ModelError(
            f"{path} cannot be read ({elided(reason, 160)}). It is a JSON object such as "
            '{"boundaries": [0, 16, 32], "n_blocks": 32}.'
        ) from error
    return {"boundaries": tuple(boundaries), "n_blocks": n_blocks}


def _ids_in_words(boundaries: Sequence[int]) -> str:
    """Return boundaries for a message, which a record may have without end."""
    return elided(list(boundaries), 300)


def _described(file: StatesFile) -> str:
    _, count, width = file.states.shape
    return f"{counted(count, 'boundary', 'boundaries')} of width {width} in {str(file.dtype).removeprefix('torch.')}"
