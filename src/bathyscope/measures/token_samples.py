"""Random samples of a prompt's tokens, which are read out where only a mean over tokens is wanted.

Tokens that predict the prompt's answer are always read, and count once. The others are drawn without replacement, and
each drawn token counts for as many as there are for one that is drawn. So the mean over all tokens is estimated without
bias, for every row of a prompt from the same tokens. Its standard error is that of a stratified sample.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bathyscope.errors import warn
from bathyscope.prompts.prompt import TokenizedPrompt

_FEWEST_DRAWN = 2
"""Tokens that are drawn at least, where there are as many: fewer have no standard error."""


@dataclass(frozen=True)
class TokenSample:
    """Some of a prompt's tokens.

    Args:
        places: their positions in the prompt, in order.
        is_drawn: of each, whether it was drawn by chance; the others are certain to be read.
        population: how many tokens the drawn ones stand for, themselves included.
    """

    places: tuple[int, ...]
    is_drawn: tuple[bool, ...]
    population: int

    @property
    def total(self) -> int:
        """How many tokens the mean is over."""
        return self.population + len(self.is_drawn) - sum(self.is_drawn)

    def mean(self, values_RS: Tensor) -> Tensor:
        """Estimate the mean over all tokens from the values of those that were read, [rows] float64."""
        n_drawn = sum(self.is_drawn)
        # Horvitz and Thompson: each token counts as one over the chance that it is read.
        weights = [self.population / n_drawn if chance else 1.0 for chance in self.is_drawn]
        weights_S = torch.tensor(weights, dtype=torch.float64, device=values_RS.device)
        return (values_RS.double() * weights_S).sum(-1) / self.total

    def error(self, values_RS: Tensor) -> Tensor:
        """Estimate the standard error of the mean that comes from reading only some tokens, [rows] float64."""
        n_drawn = sum(self.is_drawn)
        if n_drawn == self.population:
            return values_RS.new_zeros(values_RS.shape[:-1], dtype=torch.float64)
        drawn_S = torch.tensor(self.is_drawn, device=values_RS.device)
        variance_R = values_RS[..., drawn_S].double().var(-1)
        # The finite population: had every token been read, none of the error would be left.
        unread = 1 - n_drawn / self.population
        return (self.population / self.total) * (variance_R * unread / n_drawn).sqrt()


def draw_sample(tokens: range, answer: range, count: int, seed: Sequence[int]) -> TokenSample:
    """Draw about ``count`` of some tokens, those of the answer always among them.

    Args:
        tokens: positions that a mean is over.
        answer: positions that predict the answer.
        count: how many are read; more where the answer leaves fewer than two to be drawn.
        seed: numbers that name this sample: the same ones, the same sample.
    """
    certain = [place for place in tokens if place in answer]
    others = np.array([place for place in tokens if place not in answer], dtype=np.int64)
    n_drawn = min(len(others), max(count - len(certain), _FEWEST_DRAWN))
    chosen = np.random.default_rng(list(seed)).choice(others, n_drawn, replace=False).tolist()
    by_chance = set(chosen)
    places = sorted([*certain, *chosen])
    return TokenSample(tuple(places), tuple(place in by_chance for place in places), len(others))


class TokenSampler:
    """Draws the samples of a survey's prompts; each depends on the seed and on the prompt's number alone."""

    def __init__(self, count: int, prompts: Sequence[TokenizedPrompt], seed: int, measure: str) -> None:
        self._count = count
        self._prompts = prompts
        self._seed = seed
        whole = sum(len(prompt) <= count for prompt in prompts)
        if whole:
            warn(
                f"{measure}: read_tokens={count} is no less than the length of {whole} of {len(prompts)} prompts; all "
                "of their tokens are read."
            )

    def sample(self, number: int, first: int, last: int) -> TokenSample:
        """Draw from the positions ``first`` … ``last`` − 1 of the prompt of this number."""
        prompt = self._prompts[number]
        end = len(prompt) - 1
        answer = range(end - (prompt.answer_tokens or 0), end)
        return draw_sample(range(first, last), answer, self._count, (self._seed, number, first))

    def share(self, tokens: int) -> float:
        """Return the share of a prompt's tokens that is read."""
        return min(1.0, self._count / tokens)


def sampler_of(options: Any, prompts: Sequence[TokenizedPrompt], seed: int, measure: str) -> TokenSampler | None:
    """Return what draws a measure's samples; None where every token is read."""
    count: int | None = options.read_tokens
    return None if count is None else TokenSampler(count, prompts, seed, measure)


def reduce_by_prompt(
    samples: Sequence[TokenSample], values_RS: Tensor, reduce: Callable[[TokenSample, Tensor], Tensor]
) -> Tensor:
    """Reduce the values of all prompts' samples, prompt after prompt, to [prompts, rows]."""
    pieces = values_RS.split([len(sample.places) for sample in samples], dim=-1)
    return torch.stack([reduce(sample, piece) for sample, piece in zip(samples, pieces, strict=True)])


def places_in_batch(samples: Sequence[TokenSample], lengths: Sequence[int], device: torch.device) -> Tensor:
    """Return where the samples' tokens are among all real tokens of a batch, prompt after prompt."""
    starts = np.cumsum([0, *lengths[:-1]]).tolist()
    places = [start + place for start, sample in zip(starts, samples, strict=True) for place in sample.places]
    return torch.tensor(places, dtype=torch.long, device=device)
