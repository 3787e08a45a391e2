"""How verbs are called in a shell: what advice is written with, and where the names of the version before lead."""

from typing import Final

PROGRAM: Final = "bathyscope"
PLACES: Final = {
    "grid": "survey grid",
    "join": "survey join",
    "list": "show names",
    "badge": "show --format badge",
    "card": "show --format card",
    "plot": "report plot",
    "group": "compare group",
    "written": "compare written",
    "solved": "compare solved",
    "solved-by": "compare solved-by",
    "depth-performance": "compare depth-performance",
    "cka": "diff cka",
    "maps": "diff maps",
    "repeat-scan": "prune repeat-scan",
    "exit-advice": "prune exit-advice",
}
"""Command of the version before → the words that call it now. All other verbs are commands of their own name."""


def name_command(verb: str) -> str:
    """Return how a verb is typed, such as ``bathyscope compare group``, for messages, pages and cards that advise it.

    Args:
        verb: name of the command by itself, such as ``group`` or ``survey``.
    """
    return f"{PROGRAM} {PLACES.get(verb, verb)}"
