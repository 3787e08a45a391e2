"""What a recipe's data come to: a tokenizer, a batch for every step, and what is held out."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from bathyscope.errors import ModelError, OptionError
from bathyscope.prompts.tasks import Problem, Split, Task
from bathyscope.prompts.tasks import task as task_of
from bathyscope.prompts.tasks.vocabulary import word_tokenizer
from bathyscope.prompts.tokenizer import load_tokenizer
from bathyscope_lab.batches import Batch, Encoded, TaskSteps, TextSteps, encode
from bathyscope_lab.checkpoint import PARTIAL
from bathyscope_lab.corpus import held_out_sources, pack, sample, training_sources
from bathyscope_lab.evaluate import HeldOut
from bathyscope_lab.folder import RunFolder
from bathyscope_lab.recipe import Recipe
from bathyscope_lab.tokenizer import character_tokenizer, special_ids, train_bpe

HELD_OUT_SPLITS: tuple[Split, ...] = ("interpolate", "extrapolate")
HELD_OUT_SEED = 0
"""Every seed of a recipe is judged on the same problems."""
VOCABULARY_SEED = 0
"""Every seed of a recipe reads the same tokens, so that losses and depths of its models can be compared."""
SAMPLED_PROBLEMS = 10_000
"""Of a task, for the vocabulary of a BPE."""


@dataclass(frozen=True)
class Prepared:
    """Data of a run.

    Args:
        tokenizer: of the model.
        steps: item i is the batch of step i.
        held_out: for evaluations during training.
        final: for the card.
    """

    tokenizer: PreTrainedTokenizerBase
    steps: Dataset[Batch]
    held_out: HeldOut
    final: HeldOut


def prepare(folder: RunFolder, data: Path | None) -> Prepared:
    """The data of a folder's recipe; what takes long is kept in the folder.

    Args:
        folder: of the run.
        data: folder that holds the texts; None where the recipe needs none.

    Raises:
        OptionError: a source, a task or a tokenizer that is not there or does not fit.
        PromptError: a missing file, or problems that do not fit the rows.
        ModelError: a tokenizer that cannot be loaded or has no end token.
    """
    recipe = folder.recipe
    task = None if recipe.task is None else task_of(recipe.task.name, **recipe.task.options)
    if task is not None and recipe.steps and not any(_problem(task, i, recipe.seed).steps for i in range(20)):
        raise OptionError(f"steps: true, but problems of {task.name} have no intermediate steps; leave it out.")
    tokenizer = _tokenizer(folder, data, task)
    if task is None:
        return _texts(folder, data, tokenizer)
    return _problems(recipe, task, tokenizer)


def _texts(folder: RunFolder, data: Path | None, tokenizer: PreTrainedTokenizerBase) -> Prepared:
    recipe = folder.recipe
    assert recipe.data is not None
    mix, (begin, end) = recipe.data.mix, special_ids(tokenizer)
    held_out_texts = held_out_sources(data, mix)

    def held_out(tokens: int) -> HeldOut:
        streams = {name: pack(held_out_texts, {name: 1.0}, tokenizer, tokens) for name in mix}
        return HeldOut(streams=streams, context=recipe.context, begin=begin, pad=end)

    steps = TextSteps(_stream(folder, data, tokenizer), recipe, begin)
    return Prepared(tokenizer, steps, held_out(recipe.evaluation.tokens), held_out(recipe.evaluation.final_tokens))


def _stream(folder: RunFolder, data: Path | None, tokenizer: PreTrainedTokenizerBase) -> np.ndarray[Any, Any]:
    """The folder's packed stream, memory-mapped; packed first where it is not there yet."""
    recipe = folder.recipe
    assert recipe.data is not None
    if not folder.stream.is_file():
        sources = training_sources(data, recipe.data.mix, recipe.seed)
        stream = pack(sources, recipe.data.mix, tokenizer, recipe.data.tokens)
        unfinished = folder.path / f"{PARTIAL}{folder.stream.name}"
        np.save(unfinished, stream, allow_pickle=False)
        unfinished.rename(folder.stream)
    mapped: np.ndarray[Any, Any] = np.load(folder.stream, mmap_mode="r", allow_pickle=False)
    return mapped


def _problems(recipe: Recipe, task: Task, tokenizer: PreTrainedTokenizerBase) -> Prepared:
    begin, end = special_ids(tokenizer)

    def encoded(problem: Problem) -> Encoded:
        return encode(problem, tokenizer, recipe.steps, score_steps=recipe.loss == "written")

    def held_out(count: int) -> HeldOut:
        problems: dict[str, list[Encoded]] = {
            split: [encoded(task.problem(index, HELD_OUT_SEED, split)) for index in range(count)]
            for split in HELD_OUT_SPLITS
        }
        return HeldOut(problems=problems, begin=begin, pad=end)

    steps = TaskSteps(lambda index: encoded(_problem(task, index, recipe.seed)), recipe, end)
    return Prepared(tokenizer, steps, held_out(recipe.evaluation.problems), held_out(recipe.evaluation.final_problems))


def _problem(task: Task, index: int, seed: int) -> Problem:
    return task.problem(index, seed, "train")


def _tokenizer(folder: RunFolder, data: Path | None, task: Task | None) -> PreTrainedTokenizerBase:
    """The recipe's tokenizer; one that is trained is kept in the folder."""
    recipe = folder.recipe
    choice = recipe.tokenizer
    if choice is None or choice.type == "folder":
        source = recipe.base if choice is None else choice.folder
        loaded = load_tokenizer(str(source))
        if loaded is None:
            raise ModelError(f"{source} holds no tokenizer; give a checkpoint that has one.")
        return loaded
    if choice.type == "characters":
        return character_tokenizer()
    if choice.type == "words":
        if task is None or task.words is None:
            raise OptionError("tokenizer: this task has no list of words; give bpe or characters.")
        return word_tokenizer(task.words)
    if not folder.tokenizer.is_dir():
        unfinished = folder.path / f"{PARTIAL}{folder.tokenizer.name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        assert choice.vocabulary is not None
        train_bpe(_sampled(recipe, data, task), choice.vocabulary).save_pretrained(unfinished)
        unfinished.rename(folder.tokenizer)
    kept = load_tokenizer(folder.tokenizer)
    assert kept is not None
    return kept


def _sampled(recipe: Recipe, data: Path | None, task: Task | None) -> list[str]:
    """Training text that a vocabulary is made from."""
    if task is not None:
        problems = (_problem(task, index, VOCABULARY_SEED) for index in range(SAMPLED_PROBLEMS))
        return [problem.example(written=recipe.steps).text for problem in problems]
    assert recipe.data is not None
    mix = recipe.data.mix
    return sample(training_sources(data, mix, VOCABULARY_SEED), mix, recipe.data.tokenizer_characters)
