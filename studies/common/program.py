"""How a study is a program: an application runs, and what goes wrong is a sentence and an exit code."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TextIO

from cyclopts import App, CycloptsError

from bathyscope.errors import BathyscopeError, OptionError
from studies.common.console import say

INTERRUPTED: Final = 130


def main(argv: Sequence[str] | None, application: App, program: str) -> int:
    """The exit code: 0 done, 2 wrong usage, a BathyscopeError's own, 130 interrupted; anything else is raised.

    Args:
        argv: arguments without the program's name; None = those of the process.
        program: how the application is called in a shell.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with _warnings_as_lines():
            code = application(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        text = str(error)
        say(f"error: {text}{'' if text.endswith(('.', '?')) else '.'} See {program} --help.")
        return OptionError.exit_code
    except BathyscopeError as error:
        say(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt as stop:
        say(str(stop) or "Interrupted.")
        return INTERRUPTED
    return code if isinstance(code, int) else 0


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """One line for each warning, without those that are meant for programmers."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if not issubclass(category, FutureWarning | DeprecationWarning | PendingDeprecationWarning):
            say(f"warning: {' '.join(str(message).split())}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield
