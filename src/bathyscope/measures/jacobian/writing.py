"""Writing files of Jacobian lenses; ``files`` reads them.

A file holds ``sums`` [halves, boundaries, width, width] in float32 and ``squares`` [boundaries] in float64; J_b is the
sum over both halves divided by the number of prompts. What the lens was fitted to be in the file's metadata.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bathyscope.core.atomic import create, written_atomically
from bathyscope.core.own_files import require_own
from bathyscope.core.paths import given_path
from bathyscope.errors import StoreError
from bathyscope.measures.options import require_ending

FORMAT: Final = "bathyscope Jacobian lens 1"


def write_lens(path: str | Path, about: Mapping[str, Any], sums_HBDD: Tensor, squares_B: Tensor) -> Path:
    """Write a lens; a file of that name is replaced only once the new one is whole.

    Args:
        about: what the file says of the lens, for JSON.

    Raises:
        OptionError: as :func:`lens_place`.
        StoreError: the file cannot be written, or is there and no lens.
    """
    place = lens_place(path, "path")
    require_own(place, "a lens", _is_lens)
    # a single entry: safetensors writes several in any order, and equal lenses should be equal files
    metadata = {FORMAT: json.dumps(about, sort_keys=True)}
    tensors = {"sums": sums_HBDD.contiguous().cpu(), "squares": squares_B.contiguous().cpu()}
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with written_atomically(place) as partial_file:
            # the library makes files that only their owner can read; this one is as open as the umask lets files be
            descriptor = create(partial_file)
            mode = os.fstat(descriptor).st_mode
            os.close(descriptor)
            save_file(tensors, partial_file, metadata)
            os.chmod(partial_file, mode & 0o777)
    except (OSError, SafetensorError) as error:
        reason = f"The lens cannot be written to {place} ({error})."
        raise StoreError(f"{reason} Free space, or give another path.") from error
    return place


def lens_place(path: str | Path, name: str) -> Path:
    """Return the path of a lens that a user gave as ``name``.

    Raises:
        OptionError: no path, or another ending than that of the files of lenses.
    """
    place = given_path(path, name)
    require_ending(place, name)
    return place


def _is_lens(place: Path) -> bool:
    try:
        with safe_open(place, "pt") as file:
            return FORMAT in (file.metadata() or {})
    except SafetensorError:
        return False
