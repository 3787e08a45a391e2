"""Every error a user can meet, and warnings. Each message says what was given, what is allowed and how to fix it."""

import difflib
import sys
import unicodedata
import warnings
from collections.abc import Iterable
from pathlib import PurePath

_PACKAGE = __name__.partition(".")[0]
_PLAIN = (str, bytes, bool, int, float, complex, type(None), list, tuple, dict, set, frozenset, PurePath)
_MOST_LETTERS = 60
_LONGEST_MESSAGE = 20_000
"""Letters; those that name every file of a large folder have a few thousand."""
_OUT_OF_MEMORY = ("can't allocate memory", "CUDA error: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


class BathyscopeError(Exception):
    """Base of all errors raised on purpose. ``exit_code`` is what the command line ends with.

    Example:
        >>> try:
        ...     bathyscope.survey(model, ["Some text."], ["lense"])
        ... except bathyscope.BathyscopeError as error:
        ...     print(error.exit_code, error)
        2 Unknown measure 'lense'. Did you mean 'lens'? ...
    """

    exit_code = 1

    def __str__(self) -> str:
        # messages name tensors, files and fields that others have named
        return _as_message(super().__str__())


class OptionError(BathyscopeError, ValueError):
    """An option, a measure's name or a schedule's text is not allowed."""

    exit_code = 2


class ArgumentError(OptionError, TypeError):
    """A call has a keyword that its function lacks, or lacks an argument; also Python's own error of such calls."""


class PromptError(BathyscopeError, ValueError):
    """A prompt, a data set or a text file cannot be used."""

    exit_code = 3


class ModelError(BathyscopeError, ValueError):
    """A model cannot be loaded or its anatomy does not hold."""

    exit_code = 4


class MeetingError(ModelError):
    """The processes that are to hold one model together do not find each other; each that notices says so itself."""


class StoreError(BathyscopeError, RuntimeError):
    """A run on disk is unreadable, altered, unwritable, or belongs to another configuration."""

    exit_code = 5


class PruningError(BathyscopeError, ValueError):
    """Nothing can be left out of a model at the cost that is allowed.

    Args:
        plan: the ``bathyscope.Plan`` with the numbers that say so; None where it was refused without them.
    """

    exit_code = 6

    def __init__(self, message: str, plan: object = None) -> None:
        super().__init__(message)
        self.plan = plan


class RepairError(BathyscopeError, ValueError):
    """No repair makes a model without some of its blocks better than leaving it alone.

    Args:
        repaired: the ``bathyscope.extend.Repaired`` with the numbers that say so.
    """

    exit_code = 7

    def __init__(self, message: str, repaired: object = None) -> None:
        super().__init__(message)
        self.repaired = repaired


class RankError(BathyscopeError, RuntimeError):
    """Another of the processes that hold one model together has ended, and this one cannot go on.

    Args:
        exit_code: of the process that ended first.
        speaks: whether this process is the one that says so.
    """

    def __init__(self, message: str, exit_code: int = 1, speaks: bool = True) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.speaks = speaks


def legible(text: object, keep: str = "") -> str:
    r"""Return the text with every letter escaped that would act on a terminal or a page, or that no file can hold.

    Controls (``\x1b``, ``\n``), marks that turn the direction of text (``\u202e``), halves of letters (``\udc80``)
    and what is no letter at all; letters, signs and blanks of every script stay as they are.

    Args:
        text: anything; its ``str`` is taken.
        keep: letters that stay although they act, such as ``"\\n"`` where lines are wanted.
    """
    letters = str(text)
    # Nearly every text is: one pass in C, and no letter is looked at alone.
    if letters.isprintable():
        return letters
    return "".join(letter if _harmless(letter) or letter in keep else _escape(letter) for letter in letters)


def _harmless(letter: str) -> bool:
    # the two joiners belong to the spelling of several scripts
    return letter.isprintable() or letter in "\u200c\u200d" or unicodedata.category(letter) in ("Zs", "Co")


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")


_LONGEST_NAME = 200
"""Letters of a name that others are compared with; comparing takes as long as both are long."""


def did_you_mean(name: str, allowed: Iterable[str]) -> str:
    """`` Did you mean 'lens'?`` (leading blank) for a near miss, else the empty string."""
    if len(name) > _LONGEST_NAME:
        return ""
    others = [word for word in allowed if word != name]  # the word itself cannot be what was meant
    # a letter in the other case has nothing in common with the letter that is meant
    alike = [word for word in others if word.casefold() == name.casefold()]
    close = alike or difflib.get_close_matches(name, others, n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def describe_value(value: object) -> str:
    """Return a plain value as it is written; of a model, a run or a table, whose text has many lines, the type."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = repr(value) if isinstance(value, _PLAIN) else ""
    if not text or "\n" in text:
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 1]}…"


def describe_type(value: object) -> str:
    """Describe an argument and its type."""
    text = describe_value(value)
    if isinstance(value, type):
        return text
    kind = f"of type {type(value).__name__}"
    return text if text.endswith(kind) else f"{text} {kind}"


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an error means out of memory, on an accelerator or on the host.

    Torch has a class for its own allocator's failure alone, and texts for the host's, for CUDA's (pinned memory)
    and for those of CUDA's libraries, which make room for themselves.
    """
    named = type(error).__name__ == "OutOfMemoryError"  # asked by name, since nothing here may wait for torch
    return named or isinstance(error, MemoryError) or any(text in str(error) for text in _OUT_OF_MEMORY)


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """A warning that points at the line outside of the package whose call it is about.

    That is the caller of the outermost frame of the package, however deep the warning arises: frames that decorators
    and contexts put between count for nothing.
    """
    # 1 is this frame, 2 its caller
    outermost, level, frame = 1, 2, sys._getframe(0).f_back
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] == _PACKAGE:
            outermost = level
        frame, level = frame.f_back, level + 1
    warnings.warn(_as_message(message), category, stacklevel=outermost + 1)


def _as_message(text: str) -> str:
    """Return a message that can be shown, whatever the names in it are made of, and however long they are."""
    # shortened before, since escaping takes long of much text, and after, since an escaped letter is up to ten
    message = legible(text[: _LONGEST_MESSAGE + 1], keep="\n")
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[: _LONGEST_MESSAGE - 1]}…"
