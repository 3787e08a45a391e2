"""A batch of prompts as the wavefront sees it: token ids padded on the right, and who owns which token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from bathyscope.wavefront.places import index, sent


@dataclass(frozen=True)
class Batch:
    """Token ids [batch, tokens], padded on the right, and the prompts' lengths.

    ``answers`` says how many of each prompt's last tokens are its answer (None = it has none). Padding on the
    right needs no mask: causal attention never looks at later tokens. Pad tokens enter no statistic.
    """

    ids_BT: Tensor
    lengths: tuple[int, ...]
    answers: tuple[int | None, ...] = ()

    @classmethod
    def of(
        cls,
        prompts: Sequence[Sequence[int]],
        device: torch.device | str = "cpu",
        answers: Sequence[int | None] | None = None,
    ) -> Batch:
        """Return a batch of token-id lists; pads repeat each prompt's last token (a valid id in every vocabulary)."""
        longest = max(len(p) for p in prompts)
        rows = [[*p, *[p[-1]] * (longest - len(p))] for p in prompts]
        answer_lengths = tuple(answers) if answers is not None else (None,) * len(prompts)
        return cls(torch.tensor(rows, device=device), tuple(len(p) for p in prompts), answer_lengths)

    @property
    def size(self) -> int:
        """Number of prompts."""
        return len(self.lengths)

    @property
    def tokens(self) -> int:
        """Length of the longest prompt."""
        return int(self.ids_BT.shape[1])

    @property
    def is_ragged(self) -> bool:
        """Prompts differ in length."""
        return len(set(self.lengths)) > 1

    @cached_property
    def valid_BT(self) -> Tensor:
        """True at real tokens."""
        return within(self.tokens, 0, self.lengths, self.ids_BT.device)

    def split(self, values_N: Tensor) -> list[Tensor]:
        """Split values of all real tokens [..., N], prompt after prompt, into one piece per prompt."""
        return list(values_N.split(list(self.lengths), dim=-1))

    def flat(self, resid_BTD: Tensor) -> Tensor:
        """Return the vectors of all real tokens [N, width], prompt after prompt."""
        return resid_BTD.flatten(0, 1)[self._valid_places_N] if self.is_ragged else resid_BTD.flatten(0, 1)

    @cached_property
    def _valid_places_N(self) -> Tensor:
        """The places of real tokens in the flattened batch."""
        places = [row * self.tokens + token for row, length in enumerate(self.lengths) for token in range(length)]
        return sent(places, self.ids_BT.device)

    @cached_property
    def next_ids_N(self) -> Tensor:
        """For every real token the id of the next one, −1 at each prompt's last token."""
        return self.flat(self.ids_BT.roll(-1, dims=1).masked_fill(~self.predicting(), -1))

    @property
    def answer_counts(self) -> list[int]:
        """Tokens of each prompt's answer, 0 where it has none."""
        return [answer or 0 for answer in self.answers]

    def answer_states(self, resid_BTD: Tensor) -> Tensor:
        """The vectors [N, width] that predict the answers' tokens, prompt after prompt."""
        spans = zip(self.lengths, self.answer_counts)
        return torch.cat([resid_BTD[row, n - count - 1 : n - 1] for row, (n, count) in enumerate(spans)])

    @cached_property
    def answer_ids_N(self) -> Tensor:
        """The ids of the answers' tokens, prompt after prompt."""
        spans = zip(self.lengths, self.answer_counts)
        return torch.cat([self.ids_BT[row, n - count : n] for row, (n, count) in enumerate(spans)])

    def predicting(self, *, answer: bool = False) -> Tensor:
        """Return True at tokens that predict another token of their prompt, or of its answer, as [batch, tokens]."""
        last = [length - 1 for length in self.lengths]
        first = [end - (answer_tokens or 0) for end, answer_tokens in zip(last, self.answers)] if answer else 0
        return within(self.tokens, first, last, self.ids_BT.device)


def within(size: int, first: int | Sequence[int], before: Sequence[int] | None, device: torch.device) -> Tensor:
    """Return per prompt True at the positions ``first`` … ``before`` − 1, [batch or 1, size]; None = up to the last."""
    position = torch.arange(size, device=device)[None]
    inside = position >= (first if isinstance(first, int) else index(first, device)[:, None])
    return inside if before is None else inside & (position < index(before, device)[:, None])


def plan_batches(lengths: Sequence[int], rows: int, call_tokens: int, equal_lengths: bool) -> list[list[int]]:
    """Decide which prompts are computed together: index lists into ``lengths``, each sorted by length.

    Several prompts share a batch only while their rows leave room in one call, and while padding stays
    below one token in twenty, since a padded token costs as much as a real one.

    Args:
        lengths: tokens of each prompt.
        rows: rows each prompt brings on average.
        call_tokens: tokens worth putting into one call of a block.
        equal_lengths: batch only prompts of the same length (length-dependent rotary tables).
    """
    # Prompts of nearly equal length next to each other leave few pads.
    order = sorted(range(len(lengths)), key=lambda i: (lengths[i], i))
    batches: list[list[int]] = []
    for prompt in order:
        if batches:
            batch = batches[-1]
            longest = lengths[prompt]
            real_tokens = sum(lengths[i] for i in batch) + longest
            padded_tokens = longest * (len(batch) + 1)
            fits = padded_tokens * rows <= call_tokens and padded_tokens <= 1.05 * real_tokens
            if fits and (not equal_lengths or lengths[batch[0]] == longest):
                batch.append(prompt)
                continue
        batches.append([prompt])
    return batches
