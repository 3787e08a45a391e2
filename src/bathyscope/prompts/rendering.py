"""A chat template applied to messages: a program that comes with the model, bounded in time and memory.

It runs in a process of its own, where the system can make one: single steps of a template may take for ever, such as a
comparison of lists of lists, and nothing but the end of their process ends them. Inside of that process most of what
would take too long is stopped with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypedDict

from bathyscope.core.apart import Apart, can_be_apart
from bathyscope.core.deadline import deadline
from bathyscope.core.headroom import headroom
from bathyscope.core.text import elided, in_bytes
from bathyscope.errors import OptionError, PromptError, did_you_mean
from bathyscope.prompts.template_sandbox import MARK, bounded_templates

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_SECONDS: Final = 5.0
"""That a template may take for one chat, which takes milliseconds."""
_GRACE: Final = 2.0
"""Seconds after which a process is ended that has not stopped its template by then."""
_MEMORY: Final = 1 << 29
"""Bytes that it may take, as much as hundreds of the longest chats."""
_MOST_LETTERS: Final = 1 << 25
"""Letters that it may write, twice those of the longest prompt."""
_LONGEST_REASON: Final = 200
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_TAG: Final = re.compile(r"\{[%{].*?[%}]\}", re.DOTALL)
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_TESTED: Final = re.compile(r"(?<![.\w])([A-Za-z_]\w*)\s+is\s+(?:not\s+)?defined")
_CONDITION: Final = re.compile(r"\b(?:if|elif|and|or)\s+(?:not\s+)?([A-Za-z_]\w*)\b(?!\s*[.\[(])")
_ASSIGNED: Final = re.compile(r"\b(?:set|for|macro)\s+([^=%]*?)(?:=|\bin\b|%)")
_SET_HERE: Final = frozenset(
    {
        *("messages", "conversation", "tools", "documents", "chat_template", "add_generation_prompt", "tokenize"),
        *("continue_final_message", "padding", "truncation", "max_length", "return_tensors", "return_dict"),
        *("return_assistant_tokens_mask", "tokenizer_kwargs", "strftime_now", "raise_exception"),
    }
)
"""Arguments of the library, and what a template is given with the chat."""


class _Outcome(TypedDict):
    """What came of applying a template: a text, or why it was refused."""

    text: str | None
    refusal: str


class Rendering:
    """Chats as a tokenizer's templates write them.

    Args:
        tokenizer: as it is when the first chat is written.
        options: of the template itself, such as ``{"enable_thinking": False}``.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, options: Mapping[str, Any]) -> None:
        self._tokenizer = tokenizer
        self._options = dict(options)
        # not a method of its own: what holds this object would keep the other process from ending with it
        self._apart = Apart(lambda request: _outcome(tokenizer, **request))
        self._is_overdue = False

    def __call__(self, messages: list[dict[str, Any]], template: str, *, is_open: bool, without: str = "") -> str:
        """Return the chat as text.

        Args:
            template: to be applied.
            is_open: whether the assistant's turn is to be begun.
            without: an option that is left out.

        Raises:
            PromptError: the template refuses the messages, or takes too much time or memory.
        """
        request: dict[str, Any] = {
            "messages": messages,
            "template": template,
            "is_open": is_open,
            "options": {name: value for name, value in self._options.items() if name != without},
        }
        # other forms of the same chat would take as long
        if self._is_overdue:
            raise PromptError(_overdue())
        try:
            outcome = (
                self._apart(request, _SECONDS + _GRACE) if can_be_apart() else _outcome(self._tokenizer, **request)
            )
        except TimeoutError:
            self._is_overdue = True
            raise PromptError(_overdue()) from None
        except OSError as error:
            reason = error.strerror or str(error)
            raise PromptError(
                f"the process that applies the tokenizer's chat template has ended ({reason}); leave chat out."
            ) from error
        if outcome["text"] is None:
            raise PromptError(outcome["refusal"])
        return str(outcome["text"])


def require_options(options: Mapping[str, Any], template: str) -> None:
    """Refuse options that a template does not read, which would change nothing, and those that are set for it.

    Raises:
        OptionError: names the option, and the nearest name that the template has.
    """
    names = set(_NAME.findall(template)) - _SET_HERE
    for name in options:
        if name in _SET_HERE:
            raise OptionError(f"chat.{name} is no option of a chat template to choose; leave it out.")
        if name not in names:
            raise OptionError(
                f"The chat template does not read the option {elided(repr(name), 40)}, which would change nothing."
                f"{did_you_mean(name, _options_of(template))} Check its name in the model's documentation, or leave it "
                "out."
            )


def _options_of(template: str) -> list[str]:
    """Return the names that a template asks for and gives no value itself, among which an option is looked for."""
    code = " ".join(_QUOTED.sub("''", tag) for tag in _TAG.findall(template))
    assigned = set(_NAME.findall(" ".join(_ASSIGNED.findall(code))))
    # what is set where it was not given is an option too
    return sorted((set(_TESTED.findall(code)) | set(_CONDITION.findall(code)) - assigned) - _SET_HERE - {"not"})


def _overdue() -> str:
    return f"the tokenizer's chat template did not end within {_SECONDS:g} s; leave chat out."


def _outcome(
    tokenizer: PreTrainedTokenizerBase,
    messages: list[dict[str, Any]],
    template: str,
    is_open: bool,
    options: dict[str, Any],
) -> _Outcome:
    """Apply a template; whatever it raises is its refusal.

    Raises:
        TimeoutError: it took too long, and could be stopped.
    """
    try:
        with headroom(_MEMORY), bounded_templates(), deadline(_SECONDS):
            rendered = tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=is_open, chat_template=MARK + template, **options
            )
            if len(rendered) <= _MOST_LETTERS:
                return {"text": str(rendered), "refusal": ""}
            refusal = f"the tokenizer's chat template writes more than {_MOST_LETTERS:,} letters; leave chat out."
    except TimeoutError:
        raise
    except MemoryError:
        refusal = f"the tokenizer's chat template asks for more than {in_bytes(_MEMORY)} of memory; leave chat out."
    # a template is a program of its author's, which raises whatever it likes
    except Exception as error:
        first = str(error).strip().split("\n")[0] or type(error).__name__
        reason = elided(first, _LONGEST_REASON).rstrip(".")
        refusal = f"the tokenizer's chat template does not take it: {reason}."
        # of the library of templates, which the outer rooms alone import
        if type(error).__name__ == "TemplateSyntaxError":
            refusal = f"the tokenizer's chat template is no valid one ({reason}); leave chat out."
    return {"text": None, "refusal": refusal}
