"""Which prompts a measure of the answer's prediction can use, and what its results say of their tokens."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bathyscope.errors import PromptError, warn
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.wavefront.batch import Batch

BEYOND = 4
"""Times ``max_tokens`` that the shortest prompts may be long where none is within it."""


def measurable(
    measure: str, prompts: Sequence[TokenizedPrompt], max_tokens: int | None, growth: str, shortest: int = 0
) -> frozenset[int]:
    """The numbers of the prompts that have an answer and at most ``max_tokens`` tokens (None = no limit).

    Where there is none, the shortest few, up to ``BEYOND`` times as long. One warning counts the others.

    Args:
        measure: who asks, for messages.
        shortest: how many of these.
        growth: how the measure's cost grows with a prompt's length, for messages.

    Raises:
        PromptError: no prompt is left.
    """
    with_answer = [n for n, prompt in enumerate(prompts) if prompt.answer_tokens is not None]
    if not with_answer:
        raise PromptError(
            f"{measure} measures the prediction of the answer, and none of the {len(prompts)} prompts has one; give "
            "answer= with text=, or answer_tokens= with ids=."
        )
    found = frozenset(n for n in with_answer if max_tokens is None or len(prompts[n]) <= max_tokens)
    if not found and max_tokens is not None:
        few = sorted(with_answer, key=lambda n: (len(prompts[n]), n))[:shortest]
        found = frozenset(n for n in few if len(prompts[n]) <= BEYOND * max_tokens)
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


def answer_starts(batch: Batch, pieces: Sequence[Sequence[str] | None]) -> NDArray[np.int64]:
    """Each prompt's first token of the answer, −1 where ``pieces`` has None: the prompt is not measured."""
    found = [n - (a or 0) if own is not None else -1 for own, n, a in zip(pieces, batch.lengths, batch.answers)]
    return np.array(found, dtype=np.int64)


def padded_pieces(pieces: Sequence[Sequence[str] | None], width: int) -> NDArray[np.object_]:
    """Tokens as texts, [prompt, token], empty where a prompt has none."""
    found = np.full((len(pieces), width), "", dtype=object)
    for prompt, own in enumerate(pieces):
        found[prompt, : len(own or ())] = own or ()
    return found
