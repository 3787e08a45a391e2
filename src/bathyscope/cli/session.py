"""What every command may know about its invocation: the typed arguments, and which messages are shown."""

import os
import shlex
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Literal, get_args

Level = Literal["debug", "info", "warning", "error"]
"""Levels of messages, the least urgent first; debug also shows tracebacks and what libraries print."""
DEBUG_VARIABLE = "BATHYSCOPE_DEBUG"


@dataclass(frozen=True)
class Session:
    """One invocation.

    Args:
        arguments: as typed, without the program's name; the name of an earlier version replaced by today's words.
        program: how the program is called in a shell.
        debug: show tracebacks and what libraries print.
        level: the least urgent messages that are shown.
        as_json: messages are written as JSON, one a line.
        renamed: warning that the command was typed by its name of an earlier version; empty where it was not.
        ranks: how many processes do the same work, each on its part of a model.
        silent: another of them writes and prints.
    """

    arguments: tuple[str, ...] = ()
    program: str = "bathyscope"
    debug: bool = False
    level: Level = "info"
    as_json: bool = False
    renamed: str = ""
    ranks: int = 1
    silent: bool = False

    @property
    def command_line(self) -> str:
        """The line that repeats this invocation in a shell."""
        return shlex.join([*shlex.split(self.program), *self.arguments])


_CURRENT: ContextVar[Session] = ContextVar("session")


def current() -> Session:
    """Return the invocation that runs now."""
    return _CURRENT.get(Session())


def begin(arguments: list[str], program: str = "bathyscope", renamed: str = "") -> None:
    """Start an invocation; the environment may request debugging."""
    debug = os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")
    _CURRENT.set(Session(tuple(arguments), program, debug, renamed=renamed))


def log(level: Level, as_json: bool) -> None:
    """Set how messages of this invocation are written."""
    _CURRENT.set(replace(current(), level=level, as_json=as_json, debug=current().debug or level == "debug"))


def work_on_ranks(ranks: int, silent: bool) -> None:
    """Note that this invocation is one of several on one model, and whether another one writes and prints."""
    _CURRENT.set(replace(current(), ranks=ranks, silent=silent))


def speak() -> None:
    """Write and print in this process after all, where the one that does so has ended."""
    _CURRENT.set(replace(current(), silent=False))


def shows(level: Level) -> bool:
    """Whether messages of a level are shown."""
    if current().silent:
        return False
    order = get_args(Level)
    return order.index(level) >= order.index(current().level)
