"""Where studies keep what can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """The user's cache folder of this package, which need not exist."""
    home = os.environ.get("XDG_CACHE_HOME")
    # the specification of these folders has relative paths ignored
    base = Path(home) if home and Path(home).is_absolute() else Path.home() / ".cache"
    return base / "bathyscope"


def stored_smollm2() -> Path:
    """Where ``python -m studies.real_model fetch`` stores SmolLM2-135M-Instruct, and ``bathyscope demo`` finds it."""
    return cache_folder() / "smollm2-135m-instruct-q4_1"
