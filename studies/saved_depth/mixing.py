"""Trainings on a task alone and mixed with texts: every step reads the same problems, mixtures read texts besides.

A recipe of the laboratory has texts or a task. Here a step's loss is (1 − s) times that of the answers and s times that
of all tokens of the texts, s the share of texts; the optimiser is that of the recipes. Words of the task and pieces of
the texts have ids of their own, so that a word is one token.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from bathyscope_lab.batches import Encoded, padded, windows
from bathyscope_lab.tokenizer import train_bpe
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, LlamaConfig

from bathyscope.errors import PromptError
from bathyscope.extend.prompts import Problem, task
from studies.common.arrays import IntArray
from studies.common.files import write_file
from studies.saved_depth.expected import BATCH, CONTEXT, MIXED_TASK, SHAPE, STEPS, TASKS, TEXT_ROWS

BEGIN, END = 0, 1
"""Ids that open a row and end a problem; words follow them, pieces of texts follow the words."""
VOCABULARY: Final = 512
_LEARNING_RATE, _WARMUP, _FINAL, _CLIP = 0.003, 30, 0.1, 1.0
_HELD_OUT_SHARE: Final = 0.05
_TOKENIZER_CHARACTERS: Final = 200_000


@dataclass(frozen=True)
class Texts:
    """Texts as ids, behind those of the task's words.

    Args:
        training: the stream that is learned.
        held_out: its end, which is not.
        size: how many ids there are in all, the words' among them.
    """

    training: IntArray
    held_out: IntArray
    size: int


def read_texts(file: Path, words: Sequence[str]) -> Texts:
    """Return a text file as two streams of ids.

    Raises:
        PromptError: the file cannot be read.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise PromptError(f"{file} cannot be read: {error.strerror}. Give --texts a plain text file.") from error
    tokenizer = train_bpe([text[:_TOKENIZER_CHARACTERS]], VOCABULARY)
    offset = 2 + len(words)
    ids = np.array(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"], np.int64) + offset
    end = round(len(ids) * (1 - _HELD_OUT_SHARE))
    return Texts(ids[:end], ids[end:], offset + VOCABULARY)


def encode_words(problem: Problem, words: Sequence[str]) -> Encoded:
    """Return a problem as ids: begin, question, answer, end; answer and end are scored."""
    ids = {word: 2 + place for place, word in enumerate(words)}
    middle = [ids[word] for word in f"{problem.question} {problem.answer}".split()]
    return Encoded((BEGIN, *middle, END), 1 + len(problem.answer.split()))


def train_mixture(folder: Path, share: float, seed: int, texts: Texts, steps: int = STEPS["mixture"]) -> Any:
    """Return a trained model, from its folder where it is finished.

    Args:
        folder: of the weights and of what the training came to.
        share: of the texts in the loss; 0 = the task alone.
        seed: of weights and problems.
        texts: with the same words as the task.
        steps: of the optimiser.
    """
    if (folder / "training.json").is_file():
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    model = _new_model(texts.size, seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=_LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rate_at(step, steps))
    made = task(MIXED_TASK, **TASKS[MIXED_TASK])
    assert made.words is not None
    for step in range(steps):
        numbers = range(step * BATCH, (step + 1) * BATCH)
        rows = [encode_words(made.problem(number, seed, "train"), made.words) for number in numbers]
        loss = (1 - share) * _loss(model, **padded(rows, END, answer_only=True))
        if share:
            start = (seed * len(texts.training)) // 7 + step * TEXT_ROWS * (CONTEXT - 1)
            ids = windows(texts.training, start, TEXT_ROWS, CONTEXT, BEGIN)
            loss = loss + share * _loss(model, ids, ids)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP)
        optimiser.step()
        schedule.step()
        optimiser.zero_grad()
    model.eval()
    model.save_pretrained(folder)
    write_file(folder / "training.json", (json.dumps(text_losses(model, texts)) + "\n").encode())
    return model


def rate_at(step: int, steps: int) -> float:
    """Return the share of the peak rate at a step: a linear warm-up, then a cosine."""
    if step < _WARMUP:
        return (step + 1) / _WARMUP
    angle = math.pi * (step - _WARMUP) / max(1, steps - _WARMUP)
    return _FINAL + (1 - _FINAL) * (1 + math.cos(angle)) / 2


@torch.no_grad()
def text_losses(model: Any, texts: Texts, rows: int = 64) -> dict[str, float]:
    """Return the model's loss on held-out text, and that of the training's frequencies of single tokens."""
    ids = windows(texts.held_out, 0, rows, CONTEXT, BEGIN)
    counts = np.bincount(texts.training, minlength=texts.size) + 1.0
    frequencies = np.log(counts / counts.sum())
    return {
        "text_loss": float(_loss(model, ids, ids)),
        "unigram_loss": float(-frequencies[ids[:, 1:].numpy()].mean()),
    }


def _new_model(size: int, seed: int) -> Any:
    keys = {key: value for key, value in SHAPE.items() if key != "type"}
    config = LlamaConfig(**keys, vocab_size=size, bos_token_id=BEGIN, eos_token_id=END, pad_token_id=None)
    torch.manual_seed(seed)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).train()


def _loss(model: Any, input_ids: Any, labels: Any, attention_mask: Any = None) -> Any:
    logits = model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits[:, :-1]
    return cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())
