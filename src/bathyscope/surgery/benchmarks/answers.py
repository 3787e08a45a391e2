"""Answers that a model writes: greedy, until a stop, in batches, each as if its document stood alone.

The harness ends a batch only where all of its rows have met the same stop sequence, and cuts what a row wrote after its
own at the sequence's text, which is lost where that is a special token. Here every row ends by itself.
"""

import inspect
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
from bathyscope.model.anatomy.recording import reset_rotary
from bathyscope.model.continuing import writes_on_a_cache
from bathyscope.model.writing import ends_in_settings
from bathyscope.prompts.tokenizer import ask

# Tokens that are written to see whether padding changes them: one on the prompts, one on the cache.
_TRIED = 2


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


@dataclass(frozen=True)
class WrittenAnswer:
    """What was written to a question.

    Args:
        text: without the stop that ended it.
        is_cut_off: the model had not ended when it had written as many tokens as it may.
    """

    text: str
    is_cut_off: bool


def _obstacle_to_text(hf: PreTrainedModel) -> str:
    """Say what the model's ``generate`` writes where that is no text, or none in batches; empty elsewhere."""
    if hasattr(hf, "build_delay_pattern_mask"):
        return "codebooks of sound, each one step behind the one before, and no text"
    if "perm_mask" in inspect.signature(hf.forward).parameters:
        return "each token at a place that it is not shown, by masks that take no padding"
    return ""


def ends_of_answers(hf: PreTrainedModel, tokenizer: Any) -> list[int]:
    """Return the tokens that end an answer: those of the model's generation settings, and the tokenizer's."""
    end = tokenizer.eos_token_id
    return sorted(ends_in_settings(hf) | (set() if end is None else {int(end)}))


class Writer:
    """Writes with a model as it runs at the moment.

    Args:
        hf: the model, under whatever schedule.
        tokenizer: with a padding token.
        batch_size: rows at once.
        advance: called with how many answers are finished.

    Raises:
        ModelError: a model whose ``generate`` writes no text.
    """

    def __init__(self, hf: PreTrainedModel, tokenizer: Any, batch_size: int, advance: Callable[[int], None]) -> None:
        if obstacle := _obstacle_to_text(hf):
            raise ModelError(
                f"{type(hf).__name__} writes {obstacle}; ask tasks whose answers are given, such as hellaswag or "
                "arc_easy."
            )
        self._hf, self._tokenizer, self._batch_size, self._advance = hf, tokenizer, batch_size, advance
        self._cached = True
        self._ends = ends_of_answers(hf, tokenizer)

    def write(self, questions: Sequence[Question]) -> list[WrittenAnswer]:
        """Return the answers, in the order of the questions.

        Raises:
            ModelError: predictions that are no numbers.
        """
        # under one schedule the answer is another than under the next
        self._cached = writes_on_a_cache(self._hf)
        written = [WrittenAnswer("", is_cut_off=False)] * len(questions)
        for kind in dict.fromkeys((question.until, question.most) for question in questions):
            places = [place for place, question in enumerate(questions) if (question.until, question.most) == kind]
            # Like lengths share a batch. The longest come first: one that does not fit into memory fails at once.
            places.sort(key=lambda place: -len(questions[place].ids))
            prompts = [questions[place].ids for place in places]
            equal = self._batch_size > 1 and self._padding_matters(prompts)
            for first, last in _split_batches([len(ids) for ids in prompts], self._batch_size, equal):
                answers = self._write_batch(prompts[first:last], *kind)
                for place, answer in zip(places[first:last], answers):
                    written[place] = answer
                self._advance(last - first)
        return written

    def _write_batch(
        self, prompts: Sequence[tuple[int, ...]], until: tuple[str, ...], most: int
    ) -> list[WrittenAnswer]:
        ends = _Ends(self._tokenizer, until, self._ends, max(map(len, prompts)), len(prompts))
        criteria = StoppingCriteriaList([ends])
        ids_BT = self._generate(
            prompts, max_new_tokens=most, eos_token_id=self._ends or None, stopping_criteria=criteria
        ).sequences
        written = [
            row[ends.prompt_tokens : ends.prompt_tokens + length] for row, length in zip(ids_BT.tolist(), ends.lengths)
        ]
        return [
            WrittenAnswer(self._decode_answer(ids, until), is_cut_off=not has_ended)
            for ids, has_ended in zip(written, ends.have_ended)
        ]

    def _decode_answer(self, ids: Sequence[int], until: tuple[str, ...]) -> str:
        # The token that ended a row is no part of its text.
        kept_ids = ids[:-1] if ids and ids[-1] in self._ends else ids
        text = str(ask(self._tokenizer.decode, kept_ids, skip_special_tokens=True))
        return str(postprocess_generated_text(text, list(until), None))

    def _generate(self, prompts: Sequence[tuple[int, ...]], **options: Any) -> Any:
        """Run ``generate`` on prompts padded on the left."""
        tokens = max(map(len, prompts))
        pad = int(self._tokenizer.pad_token_id or 0)
        reset_rotary(self._hf)
        # On the left, so that every row goes on from the last column.
        ids_BT = torch.tensor([[pad] * (tokens - len(ids)) + list(ids) for ids in prompts])
        mask_BT = torch.tensor([[0] * (tokens - len(ids)) + [1] * len(ids) for ids in prompts])
        generate: Any = self._hf.generate
        return generate(
            ids_BT.to(self._hf.device),
            attention_mask=mask_BT.to(self._hf.device),
            do_sample=False,
            num_beams=1,
            pad_token_id=pad,
            use_cache=self._cached,
            logits_processor=LogitsProcessorList([_Finite()]),
            return_dict_in_generate=True,
            **options,
        )

    def _padding_matters(self, prompts: Sequence[tuple[int, ...]]) -> bool:
        """Return whether longer prompts in a batch change a prompt's predictions, as tried on three of them."""
        # Prompts of three lengths, padded to one batch and alone, show whether padding leaks into predictions.
        tried = list({len(ids): ids for ids in (prompts[0], prompts[len(prompts) // 2], prompts[-1])}.values())
        if len(tried) == 1 or depends_on_padding(config_of(self._hf)):
            return len(tried) > 1
        together = self._first_scores(tried)
        alone = [self._first_scores([ids]) for ids in tried]
        allowed = tolerance(self._hf.dtype)
        for row, alone_scores in enumerate(alone):
            for step in range(_TRIED):
                if not gap(together[step][row], alone_scores[step][0]) <= allowed:
                    return True
                if together[step][row].argmax() != alone_scores[step][0].argmax():
                    break  # two tokens that are alike: what follows differs, and says nothing
        return False

    def _first_scores(self, prompts: Sequence[tuple[int, ...]]) -> tuple[Tensor, ...]:
        """Return for every step the scores that choose tokens, [rows, vocabulary]."""
        scores: tuple[Tensor, ...] = self._generate(
            prompts, max_new_tokens=_TRIED, eos_token_id=None, output_scores=True
        ).scores
        return scores


class _Ends(StoppingCriteria):
    """Ends every row by itself, at an end-of-text token or where a stop sequence is in its text.

    Args:
        until: stop sequences.
        ends: end-of-text tokens.
        prompt_tokens: of the prompts with their padding.
        rows: how many.
    """

    def __init__(
        self, tokenizer: Any, until: Sequence[str], ends: Sequence[int], prompt_tokens: int, rows: int
    ) -> None:
        self._tokenizer, self._until, self._ends = tokenizer, until, frozenset(ends)
        self.prompt_tokens = prompt_tokens
        # a sequence has no more tokens than bytes; one before them, whose blank some tokenizers take away
        self._reach = max((len(stop.encode()) for stop in until), default=0) + 2
        self._done = [False] * rows
        self.lengths = [0] * rows
        """Tokens that each row has written, with those that ended it."""

    def __call__(self, input_ids: Tensor, scores: Any, **_: Any) -> Tensor:
        """Return which rows have ended."""
        written = input_ids[:, self.prompt_tokens :]
        latest = written[:, -self._reach :].tolist()
        for row, ids in enumerate(latest):
            if not self._done[row]:
                self.lengths[row] = written.shape[1]
                self._done[row] = ids[-1] in self._ends or self._has_stop(ids)
        return torch.tensor(self._done, device=input_ids.device)

    @property
    def have_ended(self) -> tuple[bool, ...]:
        """Which rows have ended by themselves, by a token or a stop; the others by the limit."""
        return tuple(self._done)

    def _has_stop(self, ids: Sequence[int]) -> bool:
        text = ask(self._tokenizer.decode, ids, skip_special_tokens=False) if self._until else ""
        return any(stop in text for stop in self._until)


class _Finite(LogitsProcessor):
    """Refuses predictions that are no numbers, which would choose tokens all the same."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return the scores as they are.

        Raises:
            ModelError: NaN among them.
        """
        if torch.isnan(scores).any():
            raise ModelError(
                "The model gives NaN predictions while it writes answers; load it with a wider dtype (dtype='float32')."
            )
        return scores


def _split_batches(lengths: Sequence[int], size: int, equal: bool) -> list[tuple[int, int]]:
    """Return the first and one past the last of each batch, of lengths in descending order."""
    batches = []
    first = 0
    for place in range(1, len(lengths) + 1):
        full = place - first == size
        if place == len(lengths) or full or (equal and lengths[place] != lengths[first]):
            batches.append((first, place))
            first = place
    return batches
