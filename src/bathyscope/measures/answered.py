"""Which prompts a measure of the answer's prediction can use."""

from __future__ import annotations

from collections.abc import Sequence

from bathyscope.errors import OptionError, PromptError, warn
from bathyscope.prompts.prompt import TokenizedPrompt


def measurable(measure: str, prompts: Sequence[TokenizedPrompt], max_tokens: int | None, growth: str) -> frozenset[int]:
    """The numbers of the prompts that have an answer and at most ``max_tokens`` tokens (None = no limit).

    One warning counts the others.

    Args:
        measure: who asks, for messages.
        growth: how the measure's cost grows with a prompt's length, for messages.

    Raises:
        OptionError: a limit below two tokens.
        PromptError: no prompt is left.
    """
    if max_tokens is not None and max_tokens < 2:
        raise OptionError(
            f"{measure}: max_tokens={max_tokens} is out of range; allowed: 2 or more, or None (no limit)."
        )
    with_answer = [n for n, prompt in enumerate(prompts) if prompt.answer_tokens is not None]
    if not with_answer:
        raise PromptError(
            f"{measure} measures the prediction of the answer, and none of the {len(prompts)} prompts has one; give "
            "answer= with text=, or answer_tokens= with ids=."
        )
    found = frozenset(n for n in with_answer if max_tokens is None or len(prompts[n]) <= max_tokens)
    longer, without = len(with_answer) - len(found), len(prompts) - len(with_answer)
    if not found:
        shortest = min(len(prompts[n]) for n in with_answer)
        raise PromptError(
            f"{measure}: all {longer} prompts with an answer are longer than max_tokens={max_tokens} (the shortest has "
            f"{shortest} tokens); give shorter prompts or a larger max_tokens. Its cost grows {growth}."
        )
    reasons = [f"{without} without an answer"] if without else []
    reasons += [f"{longer} longer than max_tokens={max_tokens}"] if longer else []
    if reasons:
        warn(
            f"{measure}: {without + longer} of {len(prompts)} prompts are not measured ({', '.join(reasons)}).",
        )
    return found
