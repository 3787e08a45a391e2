"""Names of commands of the version before, which still work, and words that are nearly the name of a command."""

import difflib
import os
from collections.abc import Mapping, Sequence
from typing import Final

from bathyscope.cli.contents import QUESTIONS, words_inside
from bathyscope.core.commands import PLACES, PROGRAM, name_command
from bathyscope.errors import OptionError

_WITH_VALUE: Final = "--log-level"
"""The one flag for every command that has a value, which may be before the command."""
_ALIKE: Final = 0.5
"""Likeness that a word needs to be answered with a command where it can be nothing else."""
KINDS: Final = ("measures", "datasets", "presets", "families", "estimators", "panels")
"""What names there are of, which people ask for as a command."""
_VERY_ALIKE: Final = 0.7
"""Likeness that a word needs to be taken for a misspelt command where a model or a folder may stand too."""


def replace_old_name(arguments: Sequence[str], commands: Sequence[str]) -> tuple[list[str], str]:
    """Return a command line with the words that call its command now, and the warning, which is empty where it is new.

    Args:
        arguments: as typed, flags for every command before the command among them.
        commands: that there are now; one of another package may have taken an old name.
    """
    index = 0
    while index < len(arguments) and arguments[index].startswith("-"):
        index += 2 if arguments[index] == _WITH_VALUE else 1
    old = arguments[index] if index < len(arguments) else ""
    if old not in PLACES or old in commands:
        return [*arguments], ""
    warning = f"warning: {PROGRAM} {old} is called {name_command(old)} now; the old name ends with this version."
    return [*arguments[:index], *PLACES[old].split(), *arguments[index + 1 :]], warning


def refuse_misspelt(tokens: Sequence[str]) -> None:
    """Refuse a word that is nearly a command inside of a command, and neither a file nor a folder.

    Raises:
        OptionError: such as for ``compare gruop runs/deep``, which would be looked for as a run.
    """
    command, word = (*tokens[:2], "", "")[:2]
    # A path such as ./grid is never a command, and neither is owner/name of the hub.
    if command not in QUESTIONS or word in QUESTIONS[command] or word.startswith("-") or "/" in word:
        return
    if os.path.exists(word):
        return
    if meant := _ask_for(word, words_inside(command), _VERY_ALIKE):
        raise OptionError(f"{word!r} is neither a file nor a folder here.{meant}")


def suggest_command(word: str, commands: Sequence[str]) -> str:
    """`` Did you mean 'bathyscope compare group'?`` (leading blank) for a near miss of any command, else nothing."""
    inside = {name: words for command in QUESTIONS for name, words in words_inside(command).items()}
    inside |= {kind: f"{name_command('list')} {kind}".removeprefix(f"{PROGRAM} ") for kind in KINDS}
    return _ask_for(word, {**inside, **dict(zip(commands, commands))}, _ALIKE)


def _ask_for(word: str, places: Mapping[str, str], likeness: float) -> str:
    close = difflib.get_close_matches(word, places, n=1, cutoff=likeness)
    return f" Did you mean {f'{PROGRAM} {places[close[0]]}'!r}?" if close else ""


def name_folder(chain: Sequence[str]) -> str:
    """Return how a folder is given that is called like the command that was typed; empty where there is no such folder.

    Args:
        chain: words of the command, such as ``compare`` and ``group``.
    """
    inside = len(chain) == 2 and chain[1] in QUESTIONS.get(chain[0], ())
    return f" The folder of that name is given as ./{chain[1]}." if inside and os.path.isdir(chain[1]) else ""
