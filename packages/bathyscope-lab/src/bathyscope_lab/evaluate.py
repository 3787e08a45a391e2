"""How well a model does on what it was not trained on: loss on texts by source, exact answers to a task's problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from bathyscope_lab.batches import IGNORED, Batch, Encoded, in_batches, padded, windows

ROWS_TOKENS = 4096
"""Tokens of one batch of an evaluation, unless a single row is longer."""

Scores = dict[str, float]
"""``<source>_loss`` and ``<split>_loss`` in nats per token, ``<split>_accuracy`` in shares of problems.

With ``steps`` of a recipe both are of the answer given the true steps, or with ``loss: written`` of both together."""


@dataclass(frozen=True)
class HeldOut:
    """What a run never trains on.

    Args:
        streams: source → packed tokens.
        problems: split → problems as tokens.
        context: tokens of a window of a stream.
        begin: the token that opens every window.
        pad: fills rows of problems up.
    """

    streams: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    problems: Mapping[str, Sequence[Encoded]] = field(default_factory=dict)
    context: int = 2
    begin: int = 0
    pad: int = 0

    def scores(self, model: PreTrainedModel) -> Scores:
        """Losses and accuracies of a model, which is left in the mode it was in."""
        training = model.training
        model.eval()
        found: Scores = {}
        for source, stream in self.streams.items():
            found[f"{source}_loss"] = text_loss(model, stream, self.context, self.begin)
        for split, examples in self.problems.items():
            found[f"{split}_loss"], found[f"{split}_accuracy"] = answer_scores(model, examples, self.pad)
        model.train(training)
        return found


@torch.no_grad()
def text_loss(model: PreTrainedModel, stream: np.ndarray[Any, Any], context: int, begin: int) -> float:
    """Mean cross-entropy in nats per token over the whole windows of a stream (one that wraps, if it is shorter)."""
    count = max(1, len(stream) // (context - 1))
    rows = max(1, ROWS_TOKENS // context)
    total = 0.0
    for first in range(0, count, rows):
        n = min(rows, count - first)
        ids = windows(stream, first * (context - 1), n, context, begin)
        total += float(_losses(model, {"input_ids": ids, "labels": ids})[0].double().sum())
    return total / (count * (context - 1))


@torch.no_grad()
def answer_scores(model: PreTrainedModel, examples: Sequence[Encoded], pad: int) -> tuple[float, float]:
    """Mean loss of the answers' tokens and ends, and the share of problems whose whole answer is right.

    An answer is right if its every token, and the end after it, is the likeliest one given the tokens before
    it. Decoding greedily would then write just that answer, and otherwise another one. Source: csordas2025,
    sequence-exact accuracy.
    """
    widest = max(len(example.ids) for example in examples)
    total, n_tokens, right = 0.0, 0, 0
    for group in in_batches(examples, max(1, ROWS_TOKENS // widest)):
        losses, hits, counted = _losses(model, padded(group, pad, answer_only=True))
        total += float(losses.double().sum())
        n_tokens += int(counted.sum())
        right += int((hits | ~counted).all(dim=1).sum())
    return total / n_tokens, right / len(examples)


def _losses(model: PreTrainedModel, batch: Batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Loss of each next token (0 where it does not count), whether it is the likeliest, and whether it counts."""
    given = {name: tensor.to(model.device) for name, tensor in batch.items()}
    labels = given.pop("labels")[:, 1:]
    logits = model(**given, use_cache=False).logits[:, :-1].float()
    losses = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="none"
    )
    return losses.view_as(labels), logits.argmax(-1) == labels, labels != IGNORED
