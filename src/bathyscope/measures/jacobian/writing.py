"""Writing files of Jacobian lenses; ``files`` reads them.

A file holds ``sums`` [halves, boundaries, width, width] in float32 and ``squares`` [boundaries] in float64; J_b is the
sum over both halves divided by the number of prompts. What the lens was fitted to stands in the file's metadata.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from bathyscope.core.atomic import create, written_atomically
from bathyscope.core.paths import given_path
from bathyscope.errors import StoreError

FORMAT: Final = "bathyscope Jacobian lens 1"


def write_lens(path: str | Path, about: Mapping[str, Any], sums_HBDD: Tensor, squares_B: Tensor) -> Path:
    """Write a lens; a file of that name is replaced only once the new one is whole.

    Args:
        about: what the file says of the lens, for JSON.

    Raises:
        StoreError: the file cannot be written.
    """
    place = given_path(path, "path")
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
