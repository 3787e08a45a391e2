"""Predictions that are worse than equal guesses: what reads or was read is not what the model was trained with."""

import math
from typing import Final

import xarray as xr

from bathyscope.errors import warn

_FACTOR: Final = 1.25
"""Times the loss of equal guesses that a survey's prompts may have.

An untrained model guesses nearly equally: its loss is ln V and a little, which the spread of its logits adds. One that
was trained is surer of itself, and loses far more on tokens that are not its own: 25 nats of ln V = 6.2.
"""


def warn_of_worse_than_guesses(reader: str, mean: float, vocabulary: int, causes: str, *, factor: float = 1.0) -> None:
    """Warn where the prompts' next tokens are predicted worse than by equal guesses.

    Args:
        reader: what predicts, and how: "The head reads out".
        mean: loss of a token, in nats.
        causes: what it may come from, and what would tell.
        factor: times the loss of equal guesses that pass.
    """
    guesses = math.log(vocabulary)
    if not mean <= factor * guesses:
        warn(
            f"{reader} the prompts' next tokens worse than equal guesses: {mean:.2f} nats a token against "
            f"{guesses:.2f}. {causes}"
        )


def warn_of_foreign_prompts(name: str, lens: xr.Dataset, n_blocks: int, vocabulary: int) -> None:
    """Warn where a model predicts the prompts of a survey far worse than equal guesses would.

    Args:
        name: of the model.
        lens: results of the lens by prompt.
    """
    if "cross_entropy" not in lens or n_blocks not in lens["boundary"].values:
        return
    loss = lens["cross_entropy"].sel(boundary=n_blocks)
    mean = float(loss.mean())
    if math.isfinite(mean):
        warn_of_worse_than_guesses(
            f"{name} predicts",
            mean,
            vocabulary,
            "The tokenizer may be another model's, or the prompts no text of the model's kind.",
            factor=_FACTOR,
        )
