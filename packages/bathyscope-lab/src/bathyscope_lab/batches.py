"""What every step of a run reads: all of it follows from the number of the step, so that runs are resumed exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from bathyscope.errors import PromptError
from bathyscope.prompts.answers import Span, answer_token_count
from bathyscope.prompts.tasks.problem import Problem
from bathyscope_lab.recipe import Recipe, Stage
from bathyscope_lab.tokenizer import special_ids

Batch = dict[str, torch.Tensor]
"""``input_ids`` and ``labels`` [rows, tokens], ``attention_mask`` where rows are padded; −100 is no label."""

IGNORED = -100


@dataclass(frozen=True)
class Encoded:
    """A problem as tokens, the end token last; the last ``scored`` of them are what is asked for and that end."""

    ids: tuple[int, ...]
    scored: int


class TextSteps(Dataset[Batch]):
    """Windows of a packed stream; item i is the whole batch of step i.

    Args:
        stream: token ids.
        recipe: gives the shapes.
        begin: the token that opens every row.
    """

    def __init__(self, stream: np.ndarray[Any, Any], recipe: Recipe, begin: int) -> None:
        self._stream, self._recipe, self._begin = stream, recipe, begin

    def __len__(self) -> int:
        return self._recipe.total_steps

    def __getitem__(self, step: int) -> Batch:
        stage, start = _stage_at(self._recipe, step, lambda stage: stage.batch * (stage.context - 1))
        ids = windows(self._stream, start, stage.batch, stage.context, self._begin)
        return {"input_ids": ids, "labels": ids.clone()}


class TaskSteps(Dataset[Batch]):
    """Problems of a task; item i is the whole batch of step i.

    Args:
        example: index of a training problem → that problem as tokens.
        recipe: gives the shapes, the number of different problems, and which tokens count.
        pad: fills rows up.
    """

    def __init__(self, example: Callable[[int], Encoded], recipe: Recipe, pad: int) -> None:
        self._example, self._recipe, self._pad = example, recipe, pad

    def __len__(self) -> int:
        return self._recipe.total_steps

    def __getitem__(self, step: int) -> Batch:
        stage, start = _stage_at(self._recipe, step, lambda stage: stage.batch)
        count = None if self._recipe.task is None else self._recipe.task.count
        indices = range(start, start + stage.batch)
        examples = [self._example(index if count is None else index % count) for index in indices]
        for index, example in zip(indices, examples):
            require_fit(example, stage.context, f"training problem {index}")
        return padded(examples, self._pad, answer_only=self._recipe.loss != "all")


def windows(stream: np.ndarray[Any, Any], start: int, count: int, context: int, begin: int) -> torch.Tensor:
    """``count`` consecutive windows from ``start`` (wrapping round), ``begin`` first: int64 [count, context].

    Every token of the stream is predicted exactly once, and position 0 always holds the same token, as it does
    when the model reads a prompt.
    """
    picked = np.take(stream, np.arange(start, start + count * (context - 1)), mode="wrap").astype(np.int64)
    rows = torch.from_numpy(picked).view(count, context - 1)
    return torch.cat([torch.full((count, 1), begin), rows], dim=1)


def encode(
    problem: Problem, tokenizer: PreTrainedTokenizerBase, steps: bool = False, score_steps: bool = False
) -> Encoded:
    """A problem as tokens: question, intermediate steps where they are wanted and there are any, answer, end.

    The answer and the end are scored, with ``score_steps`` the steps before them too.

    Raises:
        PromptError: a word is not in the vocabulary, or a token reaches from the question into the answer.
    """
    text, start = problem.example(written=steps)
    start = len(problem.question) if score_steps else start
    encoded = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
    ids = encoded["input_ids"]
    if tokenizer.unk_token_id is not None and tokenizer.unk_token_id in ids:
        raise PromptError(f"{text!r} holds words that the tokenizer does not know; use another one.")
    marked = zip(encoded["offset_mapping"], encoded["special_tokens_mask"])
    spans = [Span(*span) for span, special in marked if not special]
    _, end = special_ids(tokenizer)
    if ids[-1] != end:
        ids = [*ids, end]
    return Encoded(tuple(ids), answer_token_count(text[:start], text[start:], spans) + 1)


def require_fit(example: Encoded, context: int, name: str) -> None:
    """Raises PromptError where a problem is longer than a row."""
    if len(example.ids) > context:
        raise PromptError(
            f"The {name} of the task has {len(example.ids)} tokens, a row {context}; raise context in stages or make "
            "the task's problems shorter."
        )


def padded(examples: Sequence[Encoded], pad: int, answer_only: bool) -> Batch:
    """Encodeds as one batch, filled up at the end; padding never counts."""
    width = max(len(example.ids) for example in examples)
    ids = torch.full((len(examples), width), pad)
    labels = torch.full((len(examples), width), IGNORED)
    mask = torch.zeros((len(examples), width), dtype=torch.int64)
    for row, example in enumerate(examples):
        n = len(example.ids)
        ids[row, :n] = torch.tensor(example.ids)
        first = n - example.scored if answer_only else 0
        labels[row, first:n] = ids[row, first:n]
        mask[row, :n] = 1
    batch = {"input_ids": ids, "labels": labels}
    return batch if bool(mask.all()) else {**batch, "attention_mask": mask}


def in_batches(examples: Sequence[Encoded], rows: int) -> Iterator[Sequence[Encoded]]:
    """Consecutive examples, ``rows`` at a time."""
    return (examples[first : first + rows] for first in range(0, len(examples), rows))


def _stage_at(recipe: Recipe, step: int, used: Callable[[Stage], int]) -> tuple[Stage, int]:
    """The stage of a step, and how much of the data the steps before it have used."""
    start = begun = 0
    for stage, end in zip(recipe.stages, recipe.stage_ends):
        if step < end:
            return stage, start + (step - begun) * used(stage)
        start += (end - begun) * used(stage)
        begun = end
    raise IndexError(f"step {step} of {recipe.total_steps}")
