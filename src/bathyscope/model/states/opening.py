"""From a folder of stored states and a head to a model that can be surveyed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from bathyscope.core.progress import ProgressBar
from bathyscope.core.text import without_folders
from bathyscope.model.anatomy.gaps import tolerance
from bathyscope.model.anatomy.measured_gaps import Checks
from bathyscope.model.anatomy.mode import default_settings, evaluating
from bathyscope.model.devices import as_dtype
from bathyscope.model.model import Model
from bathyscope.model.states.anatomy import StoredAnatomy
from bathyscope.model.states.checks import require_sound, warn_of_unknowns
from bathyscope.model.states.folder import open_folder
from bathyscope.model.states.head import read_head


def open_states(
    folder: str | Path,
    head: str | Path,
    *,
    boundaries: Sequence[int] | None = None,
    dtype: str | torch.dtype | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    progress: bool = False,
) -> Model:
    """Return stored states as a model whose boundaries are read and whose blocks are not run.

    Args:
        folder, head, boundaries, dtype, revision, trust_remote_code: as for ``survey_states``.
        progress: show how far the files are read.

    Raises:
        ModelError: files that hold no states, or states that are not what they are said to be; a head that cannot be
            read.
    """
    with default_settings():
        states = open_folder(folder)
        name = str(head)
        readout = read_head(name, states.dtype if dtype is None else as_dtype(dtype), revision, trust_remote_code)
        states = states.with_boundaries(boundaries, readout.n_blocks)
        with evaluating(readout.model):
            notes = require_sound(states, readout)
        warn_of_unknowns(states, readout.n_blocks)
        size = sum(file.states.stop - file.states.start for file in states.files)
        with ProgressBar(f"reading {without_folders(str(states.folder))}", size, quiet=not progress) as bar:
            states = replace(states.hashed(bar.advance), notes=notes)
        anatomy = StoredAnatomy.of(states, readout)
    missing = (math.nan,) * readout.n_blocks
    checks = Checks(0.0, 0.0, missing, {}, tolerance(anatomy.dtype or torch.float32), "no block is run")
    return Model(name, revision, anatomy, checks, weight_hash="", trust_remote_code=trust_remote_code, states=states)
