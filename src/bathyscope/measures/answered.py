"""Measures of the answer's prediction, token by token: which prompts they can use, and what is said of the tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from bathyscope.errors import PromptError, warn
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts, Options
from bathyscope.prompts.prompt import TokenizedPrompt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from bathyscope.wavefront.batch import Batch

BEYOND = 4
"""Times ``max_tokens`` that the shortest prompts may be long where none is within it."""


def require_answers(measure: str, prompts: Sequence[TokenizedPrompt]) -> None:
    """Raises PromptError where a measure is to look at answers alone and a prompt has none."""
    for prompt in prompts:
        if not prompt.answer_tokens:
            raise PromptError(
                f"{measure}: prompt {prompt.id!r} has no answer, and positions='answer' looks at nothing else; leave "
                "that prompt out, give its answer, or give positions='all'."
            )


class AnsweredMeasure(Measure[Options]):
    """A measure at every token of prompts with an answer; long ones are left out (``max_tokens``, ``shortest``).

    Class attributes:
        growth: how its cost grows with a prompt's length, for messages.
    """

    growth: ClassVar[str]
    _measured: frozenset[int]
    _longest = 0

    def choose(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt]) -> None:
        """Decides which prompts are measured: those that have an answer and at most ``max_tokens`` tokens.

        If no prompt is that short, the ``shortest`` few, up to ``BEYOND`` times as long. One warning counts the others.

        Raises:
            PromptError: no prompt is left.
        """
        options: Any = self.options
        most, name = options.max_tokens, self.name
        with_answer = [n for n, prompt in enumerate(prompts) if prompt.answer_tokens is not None]
        if not with_answer:
            raise PromptError(
                f"{name} measures the prediction of the answer, and none of the {len(prompts)} prompts has one; give "
                "answer= with text=, or answer_tokens= with ids=; or let the model write one (write=1, --write 1)."
            )
        measured = frozenset(n for n in with_answer if most is None or len(prompts[n]) <= most)
        by_length = sorted(with_answer, key=lambda n: (len(prompts[n]), n))
        if not measured and most is not None:
            measured = frozenset(n for n in by_length[: options.shortest] if len(prompts[n]) <= BEYOND * most)
        longer, without = len(with_answer) - len(measured), len(prompts) - len(with_answer)
        if not measured:
            raise PromptError(
                f"{name}: all {longer} prompts with an answer are longer than max_tokens={most} (the shortest has "
                f"{len(prompts[by_length[0]])} tokens); give shorter prompts or a larger max_tokens. Its cost grows "
                f"{self.growth}."
            )
        reasons = [f"{without} without an answer"] if without else []
        reasons += [f"{longer} longer than max_tokens={most}"] if longer else []
        if reasons:
            warn(f"{name}: {without + longer} of {len(prompts)} prompts are not measured ({', '.join(reasons)}).")
        self._measured = measured
        self._longest = max(len(prompts[n]) for n in measured)
        self.pieces = {n: facts.pieces(prompts[n].ids) for n in measured}

    def stays_valid(self, before: Self, prompts: int) -> bool:
        return before._measured == {n for n in self._measured if n < prompts}

    def measures_prompt(self, number: int) -> bool:
        return number in self._measured

    @property
    def lengths_by_dim(self) -> Mapping[str, int]:
        return {"token": self._longest}


class AnsweredProbe(MeasureProbe):
    """The observer of one batch for such a measure; ``_measured`` are those of its prompts that are measured."""

    def __init__(self, measure: AnsweredMeasure[Any], facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> None:
        super().__init__()
        self._options = measure.options
        self._facts = facts
        self._batch = batch
        self._width = measure.lengths_by_dim["token"]
        self._pieces = [measure.pieces.get(i) for i in indices]
        self._measured = [prompt for prompt, texts in enumerate(self._pieces) if texts is not None]

    def answer(self, prompt: int) -> int:
        """Tokens of a measured prompt's answer."""
        answer = self._batch.answers[prompt]
        assert answer is not None
        return answer

    def answer_start(self) -> NDArray[np.int64]:
        """Each prompt's first token of the answer, −1 where the prompt is not measured."""
        import numpy as np

        starts = np.full(self._batch.size, -1, dtype=np.int64)
        for prompt in self._measured:
            starts[prompt] = self._batch.lengths[prompt] - self.answer(prompt)
        return starts

    def token_coords(self) -> dict[str, Any]:
        """The dimension of tokens, and the texts of tokens."""
        import numpy as np

        return {
            "token": np.arange(self._width),
            "piece": (("prompt", "token"), padded_pieces(self._pieces, self._width)),
        }


def padded_pieces(pieces: Sequence[Sequence[str] | None], width: int) -> NDArray[np.object_]:
    """Tokens as texts, [prompt, token], empty where a prompt has none."""
    import numpy as np

    padded = np.full((len(pieces), width), "", dtype=object)
    for prompt, texts in enumerate(pieces):
        padded[prompt, : len(texts or ())] = texts or ()
    return padded
