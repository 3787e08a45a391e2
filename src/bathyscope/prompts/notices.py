"""What reading prompts notices of many of them, and says once for all: how many, and which is the first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bathyscope.core.text import counted, elided
from bathyscope.errors import PromptError, warn
from bathyscope.prompts.clock import TEMPLATE_DATE

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from bathyscope.prompts.chat import ChatTemplate


@dataclass
class Notices:
    """Names of prompts by what was noticed of them, in the order in which they were read.

    Args:
        unanswered: prompts that are measured without their answer, and why.
        begins_twice: prompts whose BOS is taken once.
        one_words: prompts whose answer continues the question's last word, and that word.
        blanks: prompts whose answer was put behind a text with more than one blank between them.
        marked: prompts in a chat whose texts hold special tokens, and the first such token.
        strange: prompts of which half or more are the token for unknown words, and how many tokens are.
        unknown: that token; None = the tokenizer has none.
        remarks: of a chat template's rendering: what is said of it, and of which prompts.
    """

    unanswered: dict[str, PromptError] = field(default_factory=dict)
    begins_twice: list[str] = field(default_factory=list)
    one_words: dict[str, tuple[str, str]] = field(default_factory=dict)
    blanks: list[str] = field(default_factory=list)
    marked: dict[str, str] = field(default_factory=dict)
    strange: dict[str, str] = field(default_factory=dict)
    unknown: int | None = None
    remarks: dict[str, list[str]] = field(default_factory=dict)
    _texts: set[str] = field(default_factory=set)
    _ids: set[tuple[int, ...]] = field(default_factory=set)

    def add_text(self, text: str, ids: tuple[int, ...]) -> None:
        """Count a text and what was read of it; two of each are enough to tell whether texts stay apart."""
        if len(self._texts) < 2:
            self._texts.add(" ".join(text.split()))
        if len(self._ids) < 2:
            self._ids.add(ids)

    def warn_of(self, dataset: str, total: int, tokenizer: PreTrainedTokenizerBase, template: ChatTemplate) -> None:
        """Warn of everything that was noticed, once for each kind.

        Args:
            dataset: what the prompts are called.
            total: how many prompts there are.
            template: which wrote the chats, where they are any.
        """
        where = f"{total} prompts of {dataset}"
        if self.unanswered:
            name, error = next(iter(self.unanswered.items()))
            warn(
                f"{len(self.unanswered)} of {where} are measured without their answer, whose tokens cannot be told "
                f"from the question's; the first is prompt {name!r}: {error}",
            )
        if self.begins_twice:
            warn(
                f"{len(self.begins_twice)} of {where} begin with {tokenizer.bos_token or tokenizer.cls_token}, which "
                "the tokenizer puts before every text; it is taken once. The first is prompt "
                f"{self.begins_twice[0]!r}. (With add_special_tokens=False (--no-add-special-tokens) texts are taken "
                "as they stand.)",
            )
        if self.one_words:
            name, (word, answer) = next(iter(self.one_words.items()))
            warn(
                f"In {len(self.one_words)} of {where} the answer continues the last word; the first is prompt "
                f"{name!r}: {word}. Begin the answer with a space: {answer}."
            )
        if self.blanks:
            warn(
                f"In {len(self.blanks)} of {where} two blanks or more stand before the answer, which are a token of "
                f"their own; the first is prompt {self.blanks[0]!r}. End the text without a blank, and begin the "
                "answer with one."
            )
        if self.marked:
            name, mark = next(iter(self.marked.items()))
            warn(
                f"{len(self.marked)} of {where} hold special tokens, which chat=True puts inside a turn; the first is "
                f"prompt {name!r}: {mark}. Remove them, or leave chat out for chats that are written out."
            )
        if self.strange and self.unknown is not None:
            name, share = next(iter(self.strange.items()))
            unknown = tokenizer.convert_ids_to_tokens(self.unknown)
            warn(
                f"In {len(self.strange)} of {where} half of the tokens or more are {unknown}, which stands "
                f"for what the tokenizer does not know; the first is prompt {name!r}: {share}. Give texts of the "
                "model's own language, or load the model with its own tokenizer (load(model, tokenizer=…))."
            )
        for remark, names in self.remarks.items():
            warn(f"In {len(names)} of {where} {remark}; the first is prompt {names[0]!r}.")
        for option in template.idle_options:
            why = "Templates may read it only where the assistant's turn is begun. " if not template.begun else ""
            warn(
                f"The option {option!r} of the chat template changes nothing in {counted(template.chats, 'chat')} of "
                f"{dataset}, which would be the same without it. {why}Leave it out."
            )
        if template.asks_clock:
            warn(
                f"The chat template asks for the day's date, which is taken to be {TEMPLATE_DATE:%d %b %Y} every day, "
                "so that the same prompts have the same tokens."
            )
        if len(self._texts) > 1 and len(self._ids) == 1:
            warn(f"All texts among the {where} have the same token ids: the tokenizer does not tell them apart.")

    def look_for_unknown(self, name: str, ids: tuple[int, ...]) -> None:
        """Remember a prompt that is largely the token for unknown words, of which a model can tell little."""
        count = 0 if self.unknown is None else ids.count(self.unknown)
        if 2 * count >= len(ids) > 0:
            self.strange[name] = f"{count} of {len(ids)}"

    def look_at_seam(self, name: str, question: str, answer: str) -> None:
        """Remember a prompt whose answer continues the question's last word."""
        word = (question.split() or [""])[-1] + (answer.split() or [""])[0]
        self.one_words[name] = elided(repr(word), 40), elided(repr(f" {answer}"), 40)
