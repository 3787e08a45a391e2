"""Where a pruned model, writing by itself, first writes another token than the full one, and whether it still ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bathyscope.core.tables import TextTable
from bathyscope.core.text import counted


@dataclass(frozen=True)
class WritingDeparture:
    """What the full and the pruned model write to the test prompts, greedily.

    Args:
        limit: tokens that each may write.
        lengths: by prompt, tokens that the full model wrote.
        agreed: by prompt, tokens before the first one in which the pruned model differs; ``lengths`` where none does.
        full_ended, pruned_ended: by prompt, whether the model ended its text within the limit.
    """

    limit: int
    lengths: tuple[int, ...]
    agreed: tuple[int, ...]
    full_ended: tuple[bool, ...]
    pruned_ended: tuple[bool, ...]

    @classmethod
    def of(
        cls, limit: int, ends: frozenset[int], texts: Sequence[tuple[Sequence[int], Sequence[int]]]
    ) -> WritingDeparture:
        """Return what follows from the tokens of both models, by prompt (full, pruned)."""
        agreed = [_count_agreeing(full, pruned) for full, pruned in texts]
        return cls(
            limit,
            tuple(len(full) for full, _ in texts),
            tuple(agreed),
            tuple(full[-1] in ends for full, _ in texts),
            tuple(pruned[-1] in ends for _, pruned in texts),
        )

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> WritingDeparture:
        """Return the departure of a record.

        Raises:
            KeyError, TypeError, ValueError: an entry is missing, of another kind, or of another number of prompts.
        """
        numbers = {name: tuple(record[name]) for name in ("lengths", "agreed")}
        truths = {name: tuple(record[name]) for name in ("full_ended", "pruned_ended")}
        if not all(type(number) is int for values in numbers.values() for number in values):
            raise TypeError("its lengths are no whole numbers")
        if not all(isinstance(truth, bool) for values in truths.values() for truth in values):
            raise TypeError("whether its texts ended is no truth value")
        if type(record["limit"]) is not int or len({len(v) for v in (*numbers.values(), *truths.values())}) != 1:
            raise ValueError("its entries are of different prompts")
        return cls(record["limit"], **numbers, **truths)

    def record(self) -> dict[str, Any]:
        """Return the numbers by name, and what they come to."""
        return {
            "limit": self.limit,
            "lengths": list(self.lengths),
            "agreed": list(self.agreed),
            "full_ended": list(self.full_ended),
            "pruned_ended": list(self.pruned_ended),
            "same": self.same,
            "no_longer_end": self.no_longer_end,
        }

    @property
    def departs_after(self) -> tuple[int, ...]:
        """Tokens before the first other one, of the texts that have one."""
        ends = zip(self.agreed, self.lengths, self.full_ended, self.pruned_ended)
        return tuple(agreed for agreed, length, full, pruned in ends if agreed < length or full != pruned)

    @property
    def same(self) -> int:
        """How many texts are the same to the end."""
        return len(self.agreed) - len(self.departs_after)

    @property
    def no_longer_end(self) -> int:
        """How many texts the full model ends within the limit and the pruned one does not."""
        return sum(full and not pruned for full, pruned in zip(self.full_ended, self.pruned_ended))

    @property
    def text(self) -> str:
        """What was found, in a sentence."""
        texts, departing = counted(len(self.agreed), "text"), self.departs_after
        if not departing:
            cut = len(self.full_ended) - sum(self.full_ended)
            until = f"; the limit of {counted(self.limit, 'token')} cut off {cut} of them" if cut else ""
            return f"Writing by itself, the model without them writes the same {texts}, token for token{until}."
        return (
            f"Writing by itself, the model without them departs in {len(departing)} of {texts}, after "
            f"{np.median(departing):g} equal tokens (median); {self.no_longer_end} of the {sum(self.full_ended)} that "
            f"ended within {self.limit} tokens no longer end."
        )

    def table(self, left_out: str) -> TextTable:
        """Return the numbers as a table."""
        departing = self.departs_after
        quartiles = np.percentile(departing, [25, 50, 75]).tolist() if departing else [None] * 3
        return TextTable(
            ["texts written by itself", "number"],
            [
                ["texts", len(self.agreed)],
                ["tokens of the full model (median)", float(np.median(self.lengths))],
                ["the same to the end", self.same],
                ["with another token", len(departing)],
                ["… equal tokens before it (median)", quartiles[1]],
                ["… equal tokens before it (first quarter)", quartiles[0]],
                ["… equal tokens before it (last quarter)", quartiles[2]],
                [f"ended within {self.limit} tokens by the full model", sum(self.full_ended)],
                ["… that no longer end", self.no_longer_end],
            ],
            f"What the model without {left_out} writes",
            ["Greedy tokens of both models to the test prompts."],
            forms={"number": ".4g"},
        )


def _count_agreeing(full: Sequence[int], pruned: Sequence[int]) -> int:
    """Return how many first tokens are the same."""
    same = (first == second for first, second in zip(full, pruned))
    return next((place for place, agrees in enumerate(same) if not agrees), min(len(full), len(pruned)))
