"""What hu2025 compares: base models with their long chain-of-thought distillations, and data sets by difficulty."""

from __future__ import annotations

import re
from typing import Final

REASONING_PAIRS: Final = (
    ("Qwen2.5-Math-1.5B", "DeepSeek-R1-Distill-Qwen-1.5B"),
    ("Qwen2.5-Math-7B", "DeepSeek-R1-Distill-Qwen-7B"),
    ("Qwen2.5-14B", "DeepSeek-R1-Distill-Qwen-14B"),
    ("Qwen2.5-32B", "DeepSeek-R1-Distill-Qwen-32B"),
)
"""Base model and the model trained from it on long chains of thought, by their names without an owner."""

DIFFICULTY: Final = ("hellaswag", "gsm8k", "aime24")
"""Data sets from the easiest to the hardest."""

_OTHER_NAMES: Final = {"aime2024": "aime24"}


def difficulty_rank(dataset: str) -> int | None:
    """Place of a data set among :data:`DIFFICULTY`, 0 = easiest; None for others.

    ``dataset`` is a run's label, such as ``gsm8k:10`` or ``AIME_2024.jsonl``.
    """
    begins = re.match(r"[\w-]*", dataset.lower())
    name = re.sub(r"[-_]", "", begins[0]) if begins else ""
    name = _OTHER_NAMES.get(name, name)
    return DIFFICULTY.index(name) if name in DIFFICULTY else None
