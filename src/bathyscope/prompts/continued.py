"""What data are called that a model continued itself, what that name says of them, and how many a limit may end."""

from __future__ import annotations

import re
from typing import Final

WRITTEN: Final = "continued by up to"
"""In the name of data of which a model wrote the answers, behind the name of what it was asked."""
MOST_CUT_OFF: Final = 0.05
"""Share of texts that the limit may end before it is warned of, since they then say more of it than of the model."""
_NAME: Final = re.compile(
    rf"(?P<source>.+) \({WRITTEN} (?P<tokens>\d+) tokens, "
    r"(?:greedy|temperature (?P<temperature>[\d.e+-]+), seed (?P<seed>\d+))\)",
    re.DOTALL,
)


def name_how(tokens: int, temperature: float, seed: int) -> str:
    """Say how a model continued prompts, as it stands in brackets behind the name of their source."""
    how = "greedy" if temperature == 0 else f"temperature {temperature:g}, seed {seed}"
    return f"{WRITTEN} {tokens} tokens, {how}"


def source_of_questions(name: str) -> str:
    """Return the source of the questions, where a model continued them; else the name itself.

    >>> source_of_questions("gsm8k:4 (continued by up to 8 tokens, greedy)"), source_of_questions("gsm8k:4")
    ('gsm8k:4', 'gsm8k:4')
    """
    match = _NAME.fullmatch(name)
    return name if match is None else match["source"]


def writing_flags(name: str) -> str:
    """Return the flags by which a command has the model continue its prompts so, each behind a space.

    >>> writing_flags("gsm8k:4 (continued by up to 8 tokens, temperature 0.7, seed 2)"), writing_flags("gsm8k:4")
    (' --write 8 --temperature 0.7 --seed 2', '')
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return ""
    how = "" if match["seed"] is None else f" --temperature {match['temperature']} --seed {match['seed']}"
    return f" --write {match['tokens']}{how}"
