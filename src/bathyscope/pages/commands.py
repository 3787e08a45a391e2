"""How commands that a page recommends name models and prompts: as a shell takes them, else by a word in capitals."""

import re
import shlex
from pathlib import Path
from typing import Final

from bathyscope.errors import PromptError
from bathyscope.prompts.spec import parse as parse_source

_LOADABLE: Final = re.compile(r"[\w.-]+(/[\w.-]+)?")
"""Names that a model on the hub can have."""
_CLASS: Final = re.compile(r"\w+(ForCausalLM|LMHeadModel|ForConditionalGeneration)")
"""A model that was made in memory is called by its class, which nobody can load."""


def quote_model(name: str) -> str:
    """Return the model as a shell takes it; MODEL where its name cannot be loaded."""
    is_loadable = _LOADABLE.fullmatch(name) and not _CLASS.fullmatch(name)
    return shlex.quote(name) if is_loadable or Path(name).is_dir() else "MODEL"


def quote_prompts(name: str) -> str:
    """Return the prompts as a shell takes them; YOURS.jsonl where their name is no source."""
    try:
        parse_source(name)
    except PromptError:
        return "YOURS.jsonl"
    return shlex.quote(name)
