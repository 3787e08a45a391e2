"""Reading files of Jacobian lenses: those that ``writing`` makes, and the published ``.pt`` files."""

from __future__ import annotations

import math
import pickle
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bathyscope.core.foreign import require_regular
from bathyscope.core.paths import given_path
from bathyscope.core.strict import DAMAGED, read_json
from bathyscope.core.text import elided
from bathyscope.errors import StoreError
from bathyscope.measures.jacobian.archives import require_plain_archive
from bathyscope.measures.jacobian.matrices import FittedLens, LensOrigin
from bathyscope.measures.jacobian.writing import FORMAT

_MOST_DEEP: Final = 8
"""Lists and objects inside of each other in what a file says of itself."""
_MOST_COUNTED: Final = 1 << 53
"""Whole numbers from here on are none of a sum of floats."""
_FLOATS: Final = (torch.float32, torch.float64)
_COUNTS: Final = frozenset({"n_blocks", "directions", "skip_first", "tokens"})
_KINDS: Final = {"seed": int}
"""Of the entries that are neither texts nor counts."""
_LISTS: Final = frozenset({"versions", "fitted"})
_ALWAYS: Final = frozenset({"model", "seed", "prompts"})
_PUBLISHED: Final = {"J", "n_prompts", "d_model"}
"""Entries of the files that the reference implementation writes."""


def open_lens(path: str | Path) -> FittedLens:
    """Read a lens that ``FittedLens.save`` or the reference implementation (``.pt``) has written.

    A ``.pt`` file is read as plain tensors alone, never as code. It does not say which model it belongs to, nor what
    halves of its prompts gave, and its layer l is boundary l + 1.

    Args:
        path: the file.

    Raises:
        StoreError: no such file, an interrupted fit, or anything else than a lens.

    Example:
        >>> bathyscope.open("lens.safetensors").prompts  # doctest: +SKIP
        100
    """
    lens, unfinished = read_lens(path)
    if unfinished is not None:
        raise StoreError(
            f"The fit of the lens in {str(path)!r} was interrupted after {unfinished} prompts. Give the same command "
            "again to finish it."
        )
    return lens


def read_lens(path: str | Path) -> tuple[FittedLens, int | None]:
    """Read a lens and, where its fit is not finished, how many prompts that has taken."""
    place = given_path(path, "path")
    if not place.exists():
        raise StoreError(f"There is no lens in {str(path)!r}: no such file. Give a file that fit_lens(…).save wrote.")
    try:
        require_regular(place)
    except OSError as error:
        raise StoreError(f"{place} cannot be read: {error.strerror or error}. Give the file of a lens.") from error
    return (_published(place), None) if place.suffix == ".pt" else _read_own_file(place)


def _read_own_file(place: Path) -> tuple[FittedLens, int | None]:
    try:
        with safe_open(place, "pt") as file:
            metadata = file.metadata() or {}
            if FORMAT not in metadata:
                raise StoreError(f"{place} is no Jacobian lens. Give a file that fit_lens(…).save wrote.")
            sums_HBDD, squares_B = file.get_tensor("sums"), file.get_tensor("squares")
        about = read_json(metadata[FORMAT], _MOST_DEEP)
        origin = LensOrigin.of_record(about["origin"])
        boundaries, counts, unfinished = about["boundaries"], about["counts"], about["unfinished"]
        if fault := _fault_of_own(origin, boundaries, counts, unfinished, sums_HBDD, squares_B):
            raise StoreError(f"{place} is no Jacobian lens: {fault}. Fit it again.")
    except StoreError:
        raise
    except (SafetensorError, *DAMAGED) as error:
        reason = elided(error, 80)
        raise StoreError(
            f"{place} is no whole Jacobian lens ({type(error).__name__}: {reason}). Fit it again, or give a file that "
            "fit_lens(…).save wrote."
        ) from error
    return FittedLens(origin, boundaries, sums_HBDD, counts, squares_B), unfinished


def _fault_of_own(
    origin: LensOrigin, boundaries: Any, counts: Any, unfinished: Any, sums_HBDD: Tensor, squares_B: Tensor
) -> str:
    """Say why what is in a file of ours is none of a lens; empty where it is."""
    if not isinstance(counts, list) or not isinstance(boundaries, list):
        return "its counts and boundaries are no lists"
    shape = tuple(sums_HBDD.shape)
    if len(shape) != 4 or shape[:2] != (len(counts), len(boundaries)) or shape[2] != shape[3] or 0 in shape:
        return f"its matrices are {shape}"
    if sums_HBDD.dtype not in _FLOATS or squares_B.dtype not in _FLOATS:
        return f"its numbers are {sums_HBDD.dtype} and {squares_B.dtype}, and float32 or float64 is needed"
    return (
        _fault_of_origin(origin)
        or _fault_of(counts, boundaries, sums_HBDD, origin.n_blocks)
        or ("the squares of its prompts are no numbers" if not _are_squares(squares_B, len(boundaries)) else "")
        or ("its number of finished prompts is none" if unfinished is not None and not _is_count(unfinished) else "")
    )


def _fault_of_origin(origin: LensOrigin) -> str:
    """Say which entry of an origin is of another kind than it is written as; empty where none is."""
    for entry in fields(origin):
        value = getattr(origin, entry.name)
        if entry.name in _LISTS:
            is_sound = value is None or all(
                isinstance(text, str) for part in value for text in (part if isinstance(part, tuple) else (part,))
            )
        elif value is None:
            is_sound = entry.name not in _ALWAYS
        else:
            kind = _KINDS.get(entry.name, str)
            is_sound = _is_count(value) if entry.name in _COUNTS else type(value) is kind
        if not is_sound:
            return f"its {entry.name} is {elided(repr(value), 40)}"
    return ""


def _published(place: Path) -> FittedLens:
    """Read a file of the reference implementation: {"J": {layer: [d, d]}, "n_prompts", "d_model", …}."""
    advice = "Give a file with the entries J, n_prompts and d_model, or a .safetensors file."
    try:
        require_plain_archive(place)
        content: Any = torch.load(place, map_location="cpu", weights_only=True)
        return _lens_in(place, content, advice)
    except (*DAMAGED, pickle.UnpicklingError, zipfile.BadZipFile, struct.error, EOFError, AssertionError) as error:
        if isinstance(error, StoreError):
            raise
        reason = elided(" ".join(str(error).split()), 80)
        raise StoreError(f"{place} holds more than plain tensors, or is damaged ({reason}). {advice}") from error


def _lens_in(place: Path, content: Any, advice: str) -> FittedLens:
    """Return the lens in the content of a published file."""
    if not isinstance(content, dict) or not content.keys() >= _PUBLISHED or not isinstance(content["J"], dict):
        raise StoreError(f"{place} is no Jacobian lens. {advice}")
    width, matrices = content["d_model"], content["J"]
    # values of other kinds are not written into sentences: lists may hold each other
    other = next((name for name in ("d_model", "n_prompts") if not isinstance(content[name], int | float)), None)
    if other is not None:
        raise StoreError(f"{place} is no Jacobian lens: its {other} is no number. {advice}")
    if not matrices or not all(_is_matrix(layer, matrix, width) for layer, matrix in matrices.items()):
        raise StoreError(f"{place} is no Jacobian lens: J is not one {width} × {width} matrix for each layer. {advice}")
    stored = {matrix.untyped_storage().data_ptr(): matrix.untyped_storage().nbytes() for matrix in matrices.values()}
    if sum(matrix.nbytes for matrix in matrices.values()) > sum(stored.values()):
        # a small file may say so of one matrix as often as it likes
        raise StoreError(f"{place} is no Jacobian lens: several of its matrices are the same numbers. {advice}")
    layers, prompts = sorted(matrices), content["n_prompts"]
    # the reference counts the outputs of blocks from 0, and boundaries count the embedding first
    boundaries = [layer + 1 for layer in layers]
    means_BDD = torch.stack([matrices[layer].detach().float() for layer in layers])
    fault = _fault_of([prompts], boundaries, means_BDD, None, first=1)
    if fault:
        raise StoreError(f"{place} is no Jacobian lens: {fault}. {advice}")
    sums_BDD = means_BDD * prompts
    origin = LensOrigin(place.stem)
    return FittedLens(origin, boundaries, sums_BDD[None], [prompts], torch.zeros(len(layers), dtype=torch.float64))


def _fault_of(
    counts: Sequence[Any], boundaries: Sequence[Any], matrices: Tensor, n_blocks: int | None, first: int = 0
) -> str:
    """Say why numbers in a file are none of a lens; empty where they are.

    Args:
        first: the first boundary that there may be a matrix of.
    """
    if not all(map(_is_count, counts)) or not any(counts):
        return f"it is of {elided(' and '.join(map(repr, counts)), 40)} prompts, and a whole number from 1 on is needed"
    last = math.inf if n_blocks is None else n_blocks
    outside = next((b for b in boundaries if not _is_count(b) or not first <= b <= last), None)
    if outside is not None:
        return f"it has a matrix of boundary {elided(repr(outside), 40)}"
    if list(boundaries) != sorted({*boundaries}):
        return "its boundaries are not in order"
    bad = int((~torch.isfinite(matrices)).sum())
    return f"{bad} of the {matrices.numel()} values of its matrices are NaN or infinite" if bad else ""


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_COUNTED


def _are_squares(squares_B: Tensor, boundaries: int) -> bool:
    return squares_B.shape == (boundaries,) and bool((torch.isfinite(squares_B) & (squares_B >= 0)).all())


def _is_matrix(layer: object, matrix: object, width: object) -> bool:
    return (
        isinstance(layer, int)
        and not isinstance(layer, bool)
        and isinstance(width, int)
        and isinstance(matrix, Tensor)
        and matrix.shape == (width, width)
        and matrix.is_floating_point()
        # dense, on the host, and as large as it says: a stride of 0 would make a matrix of a number
        and matrix.layout == torch.strided
        and matrix.device.type == "cpu"
        and not matrix.is_nested
        and matrix.is_contiguous()
        and matrix.untyped_storage().nbytes() >= matrix.numel() * matrix.element_size() > 0
    )
