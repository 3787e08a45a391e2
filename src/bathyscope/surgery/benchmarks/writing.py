"""Answers that a model writes: greedy, until a stop, in batches, each as if its document stood alone.

The harness ends a batch only where all of its rows have met the same stop sequence, and cuts what a row wrote after its
own at the sequence's text, which is gone where that is a special token. Here every row ends by itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from lm_eval.models.utils import postprocess_generated_text
from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList, PreTrainedModel, StoppingCriteria, StoppingCriteriaList

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.anatomy import config_of
from bathyscope.model.anatomy.gaps import gap, tolerance
from bathyscope.model.anatomy.independence import depends_on_padding
from bathyscope.model.anatomy.mode import goes_on_from_a_cache
from bathyscope.model.anatomy.recording import reset_rotary

_TRIED = 2
"""Tokens that are written to see whether padding changes them: one on the prompts, one on the cache."""


@dataclass(frozen=True)
class Question:
    """What an answer is written to.

    Args:
        ids: tokens of the prompt.
        until: texts that end the answer and are no part of it.
        most: tokens of the answer at most.
    """

    ids: tuple[int, ...]
    until: tuple[str, ...]
    most: int


class Writer:
    """Writes with a model as it runs at the moment.

    Args:
        hf: the model, under whatever schedule.
        tokenizer: with a padding token.
        batch_size: rows at once.
        advance: is told how many answers are finished.
    """

    def __init__(self, hf: PreTrainedModel, tokenizer: Any, batch_size: int, advance: Callable[[int], None]) -> None:
        self._hf, self._tokenizer, self._batch_size, self._advance = hf, tokenizer, batch_size, advance
        own = getattr(hf.generation_config, "eos_token_id", None)
        ends = [*(own if isinstance(own, list | tuple) else [own]), tokenizer.eos_token_id]
        self._ends = sorted({int(end) for end in ends if end is not None})

    def write(self, questions: Sequence[Question]) -> list[str]:
        """The answers, in the order of the questions.

        Raises:
            ModelError: predictions that are no numbers.
        """
        found = [""] * len(questions)
        for kind in dict.fromkeys((one.until, one.most) for one in questions):
            places = [place for place, one in enumerate(questions) if (one.until, one.most) == kind]
            places.sort(key=lambda place: -len(questions[place].ids))
            prompts = [questions[place].ids for place in places]
            equal = self._batch_size > 1 and self._padding_matters(prompts)
            for first, last in _batches([len(ids) for ids in prompts], self._batch_size, equal):
                answers = self._answers(prompts[first:last], *kind)
                for place, answer in zip(places[first:last], answers):
                    found[place] = answer
                self._advance(last - first)
        return found

    def _answers(self, prompts: Sequence[tuple[int, ...]], until: tuple[str, ...], most: int) -> list[str]:
        ends = _Ends(self._tokenizer, until, self._ends, max(map(len, prompts)), len(prompts))
        criteria = StoppingCriteriaList([ends])
        ids_BT = self._generated(
            prompts, max_new_tokens=most, eos_token_id=self._ends or None, stopping_criteria=criteria
        ).sequences
        written = [row[ends.given : ends.given + length] for row, length in zip(ids_BT.tolist(), ends.lengths)]
        return [self._text(ids, until) for ids in written]

    def _text(self, ids: Sequence[int], until: tuple[str, ...]) -> str:
        shown = ids[:-1] if ids and ids[-1] in self._ends else ids
        text = str(self._tokenizer.decode(shown, skip_special_tokens=True))
        return str(postprocess_generated_text(text, list(until), None))

    def _generated(self, prompts: Sequence[tuple[int, ...]], **options: Any) -> Any:
        """What ``generate`` gives for prompts padded on the left."""
        tokens, pad = max(map(len, prompts)), int(self._tokenizer.pad_token_id or 0)
        reset_rotary(self._hf)
        ids_BT = torch.tensor([[pad] * (tokens - len(ids)) + list(ids) for ids in prompts])
        mask_BT = torch.tensor([[0] * (tokens - len(ids)) + [1] * len(ids) for ids in prompts])
        generate: Any = self._hf.generate
        return generate(
            ids_BT.to(self._hf.device),
            attention_mask=mask_BT.to(self._hf.device),
            do_sample=False,
            num_beams=1,
            pad_token_id=pad,
            use_cache=goes_on_from_a_cache(self._hf),
            logits_processor=LogitsProcessorList([_Finite()]),
            return_dict_in_generate=True,
            **options,
        )

    def _padding_matters(self, prompts: Sequence[tuple[int, ...]]) -> bool:
        """Whether prompts get other predictions beside longer ones, as tried on three of these, the longest first."""
        tried = list({len(ids): ids for ids in (prompts[0], prompts[len(prompts) // 2], prompts[-1])}.values())
        if len(tried) == 1 or depends_on_padding(config_of(self._hf)):
            return len(tried) > 1
        together, alone = self._scores(tried), [self._scores([ids]) for ids in tried]
        allowed = tolerance(self._hf.dtype)
        for row, own in enumerate(alone):
            for step in range(_TRIED):
                if not gap(together[step][row], own[step][0]) <= allowed:
                    return True
                if together[step][row].argmax() != own[step][0].argmax():
                    break  # two tokens that are alike: what follows differs, and says nothing
        return False

    def _scores(self, prompts: Sequence[tuple[int, ...]]) -> tuple[Tensor, ...]:
        """For every step [rows, vocabulary]; as they choose tokens, since penalties look at the padding as well."""
        found: tuple[Tensor, ...] = self._generated(
            prompts, max_new_tokens=_TRIED, eos_token_id=None, output_scores=True
        ).scores
        return found


class _Ends(StoppingCriteria):
    """Ends every row by itself, at an end-of-text token or where a stop sequence is in its text.

    Args:
        until: stop sequences.
        ends: end-of-text tokens.
        given: tokens of the prompts with their padding.
        rows: how many.
    """

    def __init__(self, tokenizer: Any, until: Sequence[str], ends: Sequence[int], given: int, rows: int) -> None:
        self._tokenizer, self._until, self._ends, self.given = tokenizer, until, frozenset(ends), given
        # a sequence has no more tokens than bytes; one before them, whose blank some tokenizers take away
        self._reach = max((len(stop.encode()) for stop in until), default=0) + 2
        self._done = [False] * rows
        self.lengths = [0] * rows
        """Tokens that each row has written, with those that ended it."""

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        """Which rows have ended."""
        written = input_ids[:, self.given :]
        latest = written[:, -self._reach :].tolist()
        for row, ids in enumerate(latest):
            if not self._done[row]:
                self.lengths[row] = written.shape[1]
                self._done[row] = ids[-1] in self._ends or self._stops(ids)
        return torch.tensor(self._done, device=input_ids.device)

    def _stops(self, ids: Sequence[int]) -> bool:
        text = self._tokenizer.decode(ids, skip_special_tokens=False) if self._until else ""
        return any(stop in text for stop in self._until)


class _Finite(LogitsProcessor):
    """Refuses predictions that are no numbers, which would choose tokens all the same."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """The scores as they are.

        Raises:
            ModelError: NaN among them.
        """
        if torch.isnan(scores).any():
            raise ModelError(
                "The model gives NaN predictions while it writes answers; load it with a wider dtype (dtype='float32')."
            )
        return scores


def _batches(lengths: Sequence[int], size: int, equal: bool) -> list[tuple[int, int]]:
    """First and one past the last of each batch, of lengths in descending order."""
    found, first = [], 0
    for place in range(1, len(lengths) + 1):
        full = place - first == size
        if place == len(lengths) or full or (equal and lengths[place] != lengths[first]):
            found.append((first, place))
            first = place
    return found
