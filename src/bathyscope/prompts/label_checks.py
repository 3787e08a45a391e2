"""Labels of prompts, checked before any compute: every one can be kept, and none takes the place of a result."""

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Final

from bathyscope.core.text import elided
from bathyscope.errors import OptionError, PromptError, warn
from bathyscope.prompts.prompt import Label, TokenizedPrompt

RESERVED_LABELS: Final = frozenset(
    {
        *("prompt", "prompt_id", "prompt_copy_of", "n_tokens", "dataset", "schedule", "measure"),
        *("boundary", "boundary_other", "block", "skipped", "part", "site"),
        *("dropped", "swapped", "parallel", "start", "head", "neuron", "sample", "k", "distance", "offset"),
        *("token", "tokens", "piece", "estimator", "reduction", "norm", "stream", "place"),
    }
)
"""Names that results use for dimensions and coordinates of their own.

``level`` is a label although a dimension has that name: results by level of difficulty have no dimension of prompts.
"""

_MOST = 2**63
_EXACT = 2**53
"""Up to here every whole number is a float."""


def require_label_name(name: str) -> None:
    """Refuse a name that no label can have.

    Raises:
        OptionError: it is empty, results use it themselves, or files cannot hold it.
    """
    if not name.strip():
        raise OptionError(f"label={name!r} is empty; give the label a name, such as 'solved_by'.")
    if name in RESERVED_LABELS:
        raise OptionError(f"label={name!r} is not allowed, since results use that name; the usual one is 'solved_by'.")
    try:
        checked_labels({name: ""})
    except PromptError as error:
        raise OptionError(f"label={elided(repr(name), 40)}: {error}") from error


def checked_labels(labels: Mapping[str, Label]) -> dict[str, Label]:
    """A prompt's labels as Python's own values; a PromptError for a name or a value that results cannot keep."""
    checked: dict[str, Label] = {}
    for name, value in labels.items():
        # Numbers of NumPy and torch become Python's, which JSON and the manifest can hold.
        plain = value.item() if hasattr(value, "item") else value
        if not isinstance(name, str) or not name.strip() or "/" in name or not name.isprintable() or name == ".":
            raise PromptError(
                f"{name!r} cannot be the name of a label; give a name of letters that is not empty and holds no '/'."
            )
        if not isinstance(plain, (str, int, float)):
            raise PromptError(f"the label {name!r} must be a text or a number, not {type(value).__name__}.")
        # HDF5 has integers of 64 bits; Python's have no end.
        if isinstance(plain, int) and not -_MOST <= plain < _MOST:
            raise PromptError(
                f"the label {name!r} is {_short(plain)}, beyond the whole numbers of 64 bits that results keep; give "
                "it as a text."
            )
        # Python reads and writes Infinity, and other programs do not: results print null, as of no label
        if isinstance(plain, float) and math.isnan(plain):
            raise PromptError(f"the label {name!r} is NaN, which is no number; leave the label out.")
        if isinstance(plain, float) and math.isinf(plain):
            raise PromptError(
                f"the label {name!r} is {plain}, which JSON does not have; give a finite number or a text."
            )
        if name in RESERVED_LABELS:
            raise PromptError(f"a label cannot be called {name!r}, which results use themselves; rename it.")
        checked[name] = plain
    return checked


def require_exact(prompts: Sequence[TokenizedPrompt]) -> None:
    """Refuse whole numbers that would be rounded: next to fractions, or to prompts without the label."""
    for name in dict.fromkeys(name for prompt in prompts for name in prompt.labels):
        values = [prompt.labels.get(name) for prompt in prompts]
        if any(isinstance(value, str) for value in values) or all(isinstance(value, int) for value in values):
            continue
        large = next((p for p in prompts if isinstance(v := p.labels.get(name), int) and abs(v) > _EXACT), None)
        if large is not None:
            neighbours = "prompts without the label" if None in values else "fractions"
            raise PromptError(
                f"The label {name!r} of prompt {large.id!r} is {large.labels[name]}, which would be rounded next to "
                f"{neighbours}: numbers with gaps are floats, exact up to 2^53. Give every prompt a whole number, or "
                "give texts."
            )


def require_apart(prompts: Sequence[TokenizedPrompt]) -> None:
    """Refuse a text next to the number that it reads as, since both would be groups of one name, and the like.

    Raises:
        PromptError: with the two prompts; also of truth values next to numbers.
    """
    for name in dict.fromkeys(name for prompt in prompts for name in prompt.labels):
        texts: dict[str, str] = {}
        numbers: dict[str, str] = {}
        for prompt in prompts:
            if name in prompt.labels:
                value = prompt.labels[name]
                # truth values are read as Python and as JSON write them
                for spelling in (value,) if isinstance(value, str) else (str(value), str(value).lower()):
                    (texts if isinstance(value, str) else numbers).setdefault(spelling, prompt.id)
        alike = next((text for text in texts if text in numbers), None)
        if alike is not None:
            what = "truth value" if alike.lower() in ("true", "false") else "number"
            raise PromptError(
                f"The label {name!r} is the text {alike!r} of prompt {texts[alike]!r} and the {what} {alike} of prompt "
                f"{numbers[alike]!r}, which read alike but are two groups; give it as a text or as a {what} everywhere."
            )
        _require_no_mixture(name, prompts)
        _warn_of_blanks(name, texts)


def _require_no_mixture(name: str, prompts: Sequence[TokenizedPrompt]) -> None:
    """Refuse truth values next to numbers, with which they would become 1 and 0."""
    values = [(prompt.id, prompt.labels[name]) for prompt in prompts if name in prompt.labels]
    truth = next(((id_, value) for id_, value in values if isinstance(value, bool)), None)
    number = next(
        ((id_, value) for id_, value in values if isinstance(value, int | float) and not isinstance(value, bool)), None
    )
    if truth is not None and number is not None:
        raise PromptError(
            f"The label {name!r} is {truth[1]} of prompt {truth[0]!r} and the number {number[1]} of prompt "
            f"{number[0]!r}, next to which it would be {int(truth[1])}; give it as a truth value or as a number "
            "everywhere."
        )


def _warn_of_blanks(name: str, texts: Mapping[str, str]) -> None:
    """Tell of values that differ by white space alone: two groups that read alike."""
    first: dict[str, str] = {}
    for text, prompt in texts.items():
        other = first.setdefault(" ".join(text.split()), text)
        if other != text:
            warn(
                f"The label {name!r} is {elided(other, 40)!r} of prompt {texts[other]!r} and {elided(text, 40)!r} of "
                f"prompt {prompt!r}, which differ by white space alone and are two groups. Is one of them mistyped?"
            )
            return


def require_free(labels: Iterable[str], results: Mapping[str, Collection[Hashable]]) -> None:
    """Refuses a label that is also a variable or a dimension of ``results``, which has their names by measure."""
    for measure, names in results.items():
        taken = set(labels) & set(names)
        if taken:
            raise PromptError(
                f"A label cannot be called {min(taken)!r}, which is the name of a result of {measure}; rename it."
            )


def _short(number: int) -> str:
    """A number of thousands of digits is not written out, which Python refuses as well."""
    return str(number) if abs(number) < 10**40 else f"a number of {number.bit_length()} bits"
