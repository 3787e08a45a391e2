"""The entry point: runs a command and turns what happens into messages on standard error and an exit code."""

import os
import re
import sys
import traceback
from collections.abc import Sequence

from cyclopts import (
    App,
    CycloptsError,
    MissingArgumentError,
    RepeatArgumentError,
    UnknownCommandError,
    UnusedCliTokensError,
)

from bathyscope.cli import session
from bathyscope.cli.app import EVERYWHERE, app, expand_measures_help, short_help
from bathyscope.cli.console import (
    OutputError,
    drop_output,
    flush,
    logged_as_lines,
    prepare_streams,
    say,
    warnings_as_lines,
    widen_terminal,
    write,
)
from bathyscope.cli.over_ranks import ranks_of
from bathyscope.cli.renamed import name_folder, replace_old_name, suggest_command
from bathyscope.core.interrupts import INTERRUPTED, ending_in_order
from bathyscope.core.text import elided
from bathyscope.errors import (
    BathyscopeError,
    MeetingError,
    ModelError,
    OptionError,
    RankError,
    StoreError,
    did_you_mean,
    is_out_of_memory,
)

# Large pages for tensors save about 6 % on a CPU; torch reads this variable once, when it first allocates.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

_PACKAGES = {"lab": "bathyscope-lab"}
"""Command → the package that it comes with."""
BROKEN_PIPE = 141
_HELP_FLAGS = frozenset(("--help", "-h"))
_NEGATION = re.compile("^--(?:no-|un)")


def main(argv: Sequence[str] | None = None, application: App = app.meta, program: str = "bathyscope") -> int:
    """Run the command line, or that of another application such as a study.

    Args:
        argv: arguments without the program's name; None = those of the process.
        program: how the application is called in a shell.

    Returns:
        The exit code: 0 done; 2 usage; a BathyscopeError's own; 130 interrupted; 141 when the reader of
        standard output has closed it (as for other programs in a pipe). Anything unexpected is raised.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    warning = ""
    if application is app.meta:
        arguments, warning = replace_old_name(arguments, [*app])
        arguments = expand_measures_help(arguments)
        if _print_short_help(arguments):
            return 0
        arguments = ["--help"] if arguments == ["--help-all"] else arguments
    # The session knows the typed words, which messages repeat as the line that resumes.
    session.begin(arguments, program, warning)
    prepare_streams()
    widen_terminal()
    # A help is printed by the parser, which does not come to where else the warning is said.
    if warning and not _HELP_FLAGS.isdisjoint(arguments):
        say(warning, level="warning")
    # Each kind of failure ends with words and an exit code of its own, so this is one long list of cases.
    try:
        with warnings_as_lines(), logged_as_lines(), ending_in_order(_say_stopping), ranks_of(arguments):
            _require_working_folder(arguments)
            code = application(arguments, exit_on_error=False, print_error=False, result_action="return_value")
            flush()
    except CycloptsError as error:
        hint = name_folder(error.command_chain or ())
        say(f"error: {_describe_usage(error, program)}{hint}", level="error")
        return OptionError.exit_code
    except OutputError as error:
        drop_output()
        say(f"error: {error}", level="error")
        return error.exit_code
    except BathyscopeError as error:
        return _end_refused(error)
    except KeyboardInterrupt as stop:
        say(str(stop) or "Interrupted.")
        return INTERRUPTED
    # A reader such as head has closed the pipe: programs in a pipe end then without a message.
    except BrokenPipeError:
        drop_output()
        return BROKEN_PIPE
    except Exception as error:
        # A disk that is full or a folder without permission is the user's to mend, and no fault of the program.
        if isinstance(error, OSError) and error.filename is not None and not session.current().debug:
            say(f"error: {_describe_refusal(error)}", level="error")
            return StoreError.exit_code
        # rank 0 says what another rank ended with, whose traceback is for those who ask
        if not is_out_of_memory(error) and session.current().silent and not session.current().debug:
            return 1
        if not is_out_of_memory(error):
            raise
        if session.current().debug:
            traceback.print_exc()
        say(
            f"error: Out of memory: {str(error).partition('. ')[0] or type(error).__name__}. Give shorter prompts or "
            "fewer at a time, a narrower dtype (--dtype bfloat16), or a device with more memory; finished results are "
            "saved where there is a folder for them.",
            level="error",
        )
        return ModelError.exit_code
    return code if isinstance(code, int) else 0


def _end_refused(error: BathyscopeError) -> int:
    """Say what was refused, unless another process does; return the exit code."""
    if session.current().debug:
        traceback.print_exc()
    if isinstance(error, MeetingError) or (isinstance(error, RankError) and error.speaks):
        session.speak()
    say(f"error: {error}", level="error")
    return error.exit_code


def _print_short_help(arguments: Sequence[str]) -> bool:
    """Print the help of the program on one screen where it is requested, or nothing else is."""
    if arguments not in ([], ["--help"], ["-h"]):
        return False
    prepare_streams()
    write(short_help())
    return True


def _require_working_folder(arguments: Sequence[str]) -> None:
    """Refuse to compute in a folder that was removed, where libraries end the process without a word."""
    if not {*_HELP_FLAGS, "--version"}.isdisjoint(arguments):
        return
    try:
        os.getcwd()
    except OSError as error:
        raise StoreError("The working folder no longer exists. Change to another one (cd ~) and try again.") from error


def _describe_refusal(error: OSError) -> str:
    """Return which path the system refuses; paths that users name are refused in better words where they are read."""
    reason = error.strerror or type(error).__name__
    return (
        f"{elided(repr(os.fsdecode(error.filename)), 60)} cannot be used: {reason}. Give another path, or make room "
        "there; --debug shows the traceback."
    )


def _say_stopping() -> None:
    # a launcher sends the ranks that are ending a signal of its own
    if session.current().ranks > 1:
        return
    say("Already stopping; finished results are being saved.")


def _describe_usage(error: CycloptsError, program: str) -> str:
    if isinstance(error, UnknownCommandError) and error.unused_tokens:
        # The parser itself would import every command to list them, which takes seconds.
        name = error.unused_tokens[0]
        if name == "--help-all":
            return f"--help-all stands alone: {program} --help-all lists every command; COMMAND --help explains one."
        if name.startswith("-"):
            flags = ("--help", "--help-all", "--version", "--install-completion", *EVERYWHERE)
            return f"Unknown option {name!r}.{did_you_mean(name, flags)} See {program} --help."
        names = [name for name in app if not name.startswith("-")]
        if name in _PACKAGES:
            return f"The command {name!r} belongs to another package: pip install {_PACKAGES[name]}"
        return f"Unknown command {name!r}.{suggest_command(name, names)} Allowed: {', '.join(names)}."
    where = " ".join((program, *(error.command_chain or ())))
    if isinstance(error, UnusedCliTokensError):
        return f"{where} takes no {', '.join(map(repr, error.unused_tokens or []))}. See {where} --help."
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        flag = error.keyword or next((token.keyword for token in error.argument.tokens if token.keyword), None)
        need = f"{where} needs {error.argument.name}." if flag is None else f"{flag} needs a value."
        # the parser takes what begins with a dash for a flag
        negative = re.search(rf"{re.escape(flag)} (-\d\S*)", session.current().command_line) if flag else None
        if negative is not None:
            need = f"{need} A value that begins with a dash is joined to its flag: {flag}={negative[1]}."
        return f"{need} See {where} --help."
    if isinstance(error, RepeatArgumentError) and error.token.keyword is not None:
        return f"{_describe_repetition(error.token.keyword)} See {where} --help."
    text = str(error)
    return f"{text}{'' if text.endswith(('.', '?')) else '.'} See {where} --help."


def _describe_repetition(flag: str) -> str:
    """Say that a flag stands twice, or with the one that says the opposite (``--paired --unpaired``)."""
    stem = _NEGATION.sub("--", flag)
    typed = re.findall(r"--[\w.-]+", session.current().command_line)
    variants = [word for word in dict.fromkeys(typed) if _NEGATION.sub("--", word) == stem]
    if len(variants) > 1:
        return f"{' and '.join(variants)} contradict each other; give one of them."
    return f"{flag} is given twice; give it once."
