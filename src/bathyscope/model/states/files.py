"""Files of stored states: what each holds, and its numbers as they are read, a few at a time.

A file is a safetensors file with ``hidden_states`` [tokens, boundaries, width] and ``token_ids`` [tokens]. Some have
more: ``lengths``, where one file holds several prompts, one after the other, and what the served model predicted behind
each token, ``top1_ids`` and ``next_logprobs``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from bathyscope.errors import ModelError
from bathyscope.model.streaming.files import CheckpointFile, Place

STATES: Final = "hidden_states"
IDS: Final = "token_ids"
LENGTHS: Final = "lengths"
TOP1: Final = "top1_ids"
LOGPROBS: Final = "next_logprobs"
_CHUNK_BYTES: Final = 1 << 22
_MOST_TOKENS: Final = 1 << 28
"""Of one file: token ids are read as a whole."""


class StatesFile(CheckpointFile):
    """One file of stored states, as it was when it was first looked at."""

    use = "which holds stored states,"
    since = "it was first looked at"
    again = "Write the states again, or put the file back as it was; finished shards are kept."

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._require_whole()
        for name in (STATES, IDS):
            if name not in self.places:
                raise ModelError(
                    f"{path} holds no {name} but {_listed(self.places)}. A file of states has {STATES} [tokens, "
                    f"boundaries, width] and {IDS} [tokens]; take other files out of the folder."
                )
        self._require_shapes()

    @property
    def states(self) -> Place:
        """Where its states are, with their shape [tokens, boundaries, width]."""
        return self.places[STATES]

    @property
    def dtype(self) -> torch.dtype:
        """Of its states."""
        assert self.states.dtype is not None
        return self.states.dtype

    @property
    def tokens(self) -> int:
        """Tokens of all of its prompts."""
        return self.states.shape[0]

    @cached_property
    def ids(self) -> tuple[tuple[int, ...], ...]:
        """Token ids of each of its prompts."""
        ids = self.whole(IDS).tolist()
        ends = torch.tensor(self._lengths).cumsum(0).tolist()
        return tuple(tuple(ids[end - length : end]) for end, length in zip(ends, self._lengths))

    @cached_property
    def _lengths(self) -> list[int]:
        """Tokens of each of its prompts."""
        if LENGTHS not in self.places:
            return [self.tokens]
        lengths: list[int] = self.whole(LENGTHS).tolist()
        if not lengths or min(lengths) < 1 or sum(lengths) != self.tokens:
            raise ModelError(
                f"{self.path}: its {LENGTHS} sum to {sum(lengths)}, and it has {self.tokens} tokens. Give the number "
                "of tokens of each prompt, in order."
            )
        return lengths

    def whole(self, name: str) -> Tensor:
        """Return one of its lists of numbers."""
        place = self.places[name]
        values = torch.empty(place.shape, dtype=place.dtype)
        with self.reading() as stream:
            self.read(stream, name, values)
        return values

    def states_of(self, first: int, tokens: int) -> Tensor:
        """Return the states of some neighbouring tokens, [tokens, boundaries, width]."""
        states_TBD = torch.empty((tokens, *self.states.shape[1:]), dtype=self.dtype)
        with self.reading() as stream:
            self.read(stream, STATES, states_TBD, first)
        return states_TBD

    def sha256(self, report: Callable[[int], None], boundaries: tuple[int, ...]) -> str:
        """Hash the file, and refuse states that are no finite numbers, in one reading.

        Args:
            report: takes the bytes that were read, from time to time.
            boundaries: of its states, for messages.

        Raises:
            ModelError: NaN or Inf, with the token and the boundary where it is first.
        """
        digest = hashlib.sha256()
        with self.reading() as stream:
            for piece, first in self._pieces():
                content = bytearray(stream.read(piece))
                if len(content) != piece:
                    raise ModelError(f"{self.path} has been cut short while it was read. {self.again}")
                digest.update(content)
                if first is not None:
                    self._require_finite(torch.frombuffer(content, dtype=self.dtype), first, boundaries)
                    report(piece)
        return digest.hexdigest()

    def _pieces(self) -> Iterator[tuple[int, int | None]]:
        """Yield the file in order: bytes, and of those that are states the number of the first token."""
        place, row_bytes = self.states, self.states.shape[1] * self.states.shape[2] * self.dtype.itemsize
        yield place.start, None
        rows = max(1, _CHUNK_BYTES // row_bytes)
        for first in range(0, self.tokens, rows):
            yield min(rows, self.tokens - first) * row_bytes, first
        behind = self._stamp[0] - place.stop
        yield from ((min(_CHUNK_BYTES, behind - done), None) for done in range(0, behind, _CHUNK_BYTES))

    def _require_finite(self, values: Tensor, first: int, boundaries: tuple[int, ...]) -> None:
        finite = torch.isfinite(values)
        if finite.all():
            return
        _, count, width = self.states.shape
        place = int((~finite).nonzero()[0])
        token, entry = divmod(place, count * width)
        raise ModelError(
            f"{self.path} holds NaN or Inf: first at token {first + token}, boundary {boundaries[entry // width]}. Its "
            "writer failed or overflowed; write these states again, or take the file out of the folder."
        )

    def _require_whole(self) -> None:
        end = max((place.stop for place in self.places.values()), default=0)
        if self._stamp[0] < end:
            raise ModelError(
                f"{self.path} has {self._stamp[0]:,} bytes of {end:,}: it was cut short, or is being written (vLLM "
                "writes in the background). Wait for its writer, or take the file out of the folder."
            )

    def _require_shapes(self) -> None:
        """Refuse tensors of other shapes or kinds than states have."""
        states, ids = self.states, self.places[IDS]
        if len(states.shape) != 3 or 0 in states.shape:
            raise ModelError(
                f"{self.path}: {STATES} has the shape {list(states.shape)}; states have three axes of one entry at "
                "least: [tokens, boundaries, width]."
            )
        if states.dtype is None or not states.dtype.is_floating_point or states.dtype.itemsize < 2:
            raise ModelError(
                f"{self.path}: {STATES} is stored as {_kind(states.dtype)}, whose scales are unknown here. Write the "
                "states as bfloat16, float16 or float32."
            )
        for name in (IDS, LENGTHS, TOP1):
            place = self.places.get(name)
            if place is not None and not _is_whole(place.dtype):
                raise ModelError(
                    f"{self.path}: {name} is stored as {_kind(place.dtype)}; token ids and lengths are whole numbers."
                )
        lengths, logprobs = self.places.get(LENGTHS), self.places.get(LOGPROBS)
        if lengths is not None and len(lengths.shape) != 1:
            raise ModelError(
                f"{self.path}: {LENGTHS} has the shape {list(lengths.shape)}. Give the number of tokens of each "
                "prompt, in order."
            )
        if logprobs is not None and (logprobs.dtype is None or not logprobs.dtype.is_floating_point):
            raise ModelError(
                f"{self.path}: {LOGPROBS} is stored as {_kind(logprobs.dtype)}; log-probabilities are real numbers."
            )
        if ids.shape != (states.shape[0],) or states.shape[0] > _MOST_TOKENS:
            raise ModelError(
                f"{self.path}: {STATES} is of {states.shape[0]} tokens and {IDS} has the shape {list(ids.shape)}. Each "
                "token has an id and a state at every boundary; write the file again."
            )
        for name in (TOP1, LOGPROBS):
            place = self.places.get(name)
            if place is not None and (place.shape != ids.shape or place.dtype is None):
                raise ModelError(
                    f"{self.path}: {name} has the shape {list(place.shape)}, and there are {ids.shape[0]} tokens. Give "
                    "one number for each token: what was predicted behind it."
                )


def _is_whole(dtype: torch.dtype | None) -> bool:
    return dtype is not None and not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def _kind(dtype: torch.dtype | None) -> str:
    return "an unknown kind of number" if dtype is None else str(dtype).removeprefix("torch.")


def _listed(names: object) -> str:
    listed = sorted(map(str, names))  # type: ignore[call-overload]
    more = len(listed) - 3
    return ", ".join(listed[:3]) + (f" and {more} more" if more > 0 else "") if listed else "nothing"
