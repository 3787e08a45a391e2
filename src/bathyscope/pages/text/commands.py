"""How a page writes the commands that it recommends.

Models and prompts are named as a shell takes them, else by a word in capitals; no line ends inside of a flag.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from bathyscope.core.text import legible, without_places
from bathyscope.prompts.continued import source_of_questions, writing_flags
from bathyscope.prompts.reading import reading_flags
from bathyscope.prompts.spec import source_in, with_count

if TYPE_CHECKING:
    from bathyscope.runs.run import Run

_LOADABLE: Final = re.compile(r"[\w.-]+(/[\w.-]+)?")
"""Names that a model on the hub can have."""
_CLASS: Final = re.compile(r"\w+(ForCausalLM|LMHeadModel|ForConditionalGeneration)")
"""A model that was made in memory is called by its class, which nobody can load."""


def quote_model(name: str) -> str:
    """Return the model as a shell takes it; MODEL where its name cannot be loaded, or says where it is on a disk."""
    if without_places(name) != name:
        return "MODEL"
    is_loadable = _LOADABLE.fullmatch(name) and not _CLASS.fullmatch(name)
    return shlex.quote(name) if is_loadable or Path(name).is_dir() else "MODEL"


def quote_result(folder: Path | None, word: str = "PLAN") -> str:
    """Return the folder of a result as a shell takes it, from the folder where the page is written.

    Args:
        folder: None = it was not stored.
        word: stands for a folder that is elsewhere, whose path would tell of this machine alone.
    """
    if folder is None:
        return word
    if not folder.is_absolute():
        return shlex.quote(str(folder)) if ".." not in folder.parts else word
    here = Path.cwd()
    return shlex.quote(str(folder.relative_to(here))) if folder.is_relative_to(here) and folder != here else word


def mark_up_command(command: str) -> Markup:
    """Return a command as HTML in which lines end between words: browsers would break ``--out`` behind its hyphens."""
    words = (
        Markup('<span class="flag">{}</span>').format(legible(word)) if "-" in word else Markup.escape(legible(word))
        for word in command.split(" ")
    )
    return Markup(" ").join(words)


def quote_prompts(name: str) -> str:
    """Return the prompts as a shell takes them; YOURS.jsonl where their name is no source, or a place on a disk."""
    if without_places(name) != name or source_in(name) is None:
        return "YOURS.jsonl"
    return shlex.quote(name)


def prompts_flags(run: Run, prompts: str = "") -> str:
    """Return the flags that give a command prompts of a run's kind, read as the run read its own.

    Args:
        prompts: as a shell takes them, where others are to be given; empty = those of the run.
    """
    continued = writing_flags(run.identity.dataset)
    return f"--prompts {prompts or quote_prompts(run.source)}{reading_flags(run.prompts.reading)}{continued}"


def more_prompts(run: Run, count: int | None = None) -> str:
    """Return a source of more prompts than a run has: its own source where the run ended before it did.

    Args:
        count: how many are needed; None = twice as many, or all of the source.
    """
    if run.unread:
        if count is None:
            return quote_prompts(source_of_questions(run.identity.dataset))
        # a file without a number has more than were read, though no more than it has
        if count <= run.identity.prompts + run.unread:
            return quote_prompts(with_count(source_of_questions(run.identity.dataset), count))
    return quote_more_prompts(run.identity.dataset, count)


def quote_more_prompts(name: str, count: int | None = None) -> str:
    """Return a source of more prompts of a kind, as a shell takes it.

    Args:
        name: of the source of some prompts, such as ``gsm8k:10``.
        count: how many are needed; None = twice as many.

    Returns:
        The source with its new count; MORE.jsonl where the source gave all that it has, and YOURS.jsonl where the name
        is no source.
    """
    spec = source_in(source_of_questions(name))
    if spec is None:
        return "YOURS.jsonl"
    if spec.count is None:
        return "MORE.jsonl"
    return shlex.quote(str(replace(spec, count=count or 2 * spec.count)))
