"""What ships with the package for trying it out: a small trained model and a few prompts."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def model_path() -> Path:
    """Return the folder of the bundled checkpoint (Llama-like, 12 blocks; see its MODEL_CARD.md).

    Example:
        >>> bathyscope.load(bathyscope.extend.bundled_model()).n_blocks
        12
    """
    return Path(str(files(__name__) / "model"))


def prompts_path() -> Path:
    """Return the JSONL file of the demonstration prompts, with the fields text, answer, id and labels.

    Example:
        >>> from bathyscope.extend.prompts import bundled_prompts
        >>> bundled_prompts().name
        'prompts.jsonl'
    """
    return Path(str(files(__name__) / "prompts.jsonl"))
