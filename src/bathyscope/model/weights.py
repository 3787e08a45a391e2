"""A model's weights in one reading: their hash, and whether all of them are numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor, nn

_CHUNK_BYTES = 1 << 24
# hashing lets other threads run; each holds one chunk
_THREADS = 4


@dataclass(frozen=True)
class Weights:
    """What one reading of all weights finds.

    Args:
        sha256: over names, shapes, dtypes and every byte of all parameters, and of the buffers a checkpoint carries.
        bad: the first parameter that holds NaN or Inf, with how many; None if all are finite.
    """

    sha256: str
    bad: str | None


def read_weights(hf: nn.Module) -> Weights:
    """Hash and finiteness of a model's weights, wherever they lie; no more than a few chunks are copied at a time."""
    named = dict(_named(hf))
    with ThreadPoolExecutor(_THREADS) as pool:
        found = list(pool.map(_read, named, named.values()))
    total = hashlib.sha256(b"".join(digest for digest, _ in found))
    parameters = {name for name, _ in hf.named_parameters()}
    counted = ((name, bad) for name, (_, bad) in zip(named, found, strict=True) if bad and name in parameters)
    first = next(counted, None)
    bad = None if first is None else f"{first[0]} ({first[1]} of {named[first[0]].numel()} values)"
    return Weights(total.hexdigest(), bad)


def weight_hash(hf: nn.Module) -> str:
    """``Weights.sha256`` of a model."""
    return read_weights(hf).sha256


def _named(hf: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from hf.named_parameters()
    kept = hf.state_dict().keys()
    yield from ((name, buffer) for name, buffer in hf.named_buffers() if name in kept)


def _read(name: str, value: Tensor) -> tuple[bytes, int]:
    """SHA-256 of one tensor under its name, and how many of its values are no finite numbers."""
    digest = hashlib.sha256(json.dumps([name, list(value.shape), str(value.dtype)]).encode())
    bad = 0
    for chunk in _chunks(value.detach()):
        here = chunk.cpu().contiguous()
        digest.update(here.view(torch.uint8).numpy().data)
        if here.is_floating_point():
            # numbers of eight bits have no test of their own
            finite = torch.isfinite(here.float() if here.element_size() == 1 else here)
            bad += 0 if finite.all() else int((~finite).sum())
    return digest.digest(), bad


def _chunks(value: Tensor) -> Iterator[Tensor]:
    """The values in their order, in flat pieces that are views wherever the tensor's memory allows it."""
    if value.is_contiguous() or value.ndim < 2:
        yield from value.reshape(-1).split(_CHUNK_BYTES // value.element_size())
    else:
        for row in value.unbind(0):
            yield from _chunks(row)
