"""Where files live that can be made again."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the user's cache folder of this package, which need not exist."""
    home = os.environ.get("XDG_CACHE_HOME")
    # the specification of these folders has relative paths ignored
    base = Path(home) if home and Path(home).is_absolute() else Path.home() / ".cache"
    return base / "bathyscope"


def stored_smollm2() -> Path:
    """Return the folder in which ``python -m studies.real_model fetch`` stores SmolLM2-135M-Instruct."""
    return cache_folder() / "smollm2-135m-instruct-q4_1"


def stored_gemma3() -> Path:
    """Return the folder in which ``python -m studies.real_model fetch --model gemma3`` stores Gemma 3 270M."""
    return cache_folder() / "gemma-3-270m-q4_k_m"
