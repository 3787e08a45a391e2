"""A survey in parts, by processes that need not know of each other.

Every part plans the whole survey, so that prompts, positions and shards are those of a single run; it computes its own
share of the shards, and ``bathyscope.join`` puts all shares together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from bathyscope.core.text import elided
from bathyscope.errors import OptionError

_WRITTEN = re.compile(r"([1-9][0-9]{0,8})/([1-9][0-9]{0,8})")


@dataclass(frozen=True)
class Part:
    """One of several equal shares of a plan's shards, which are neighbours in it.

    Args:
        number: from 1.
        of: how many there are.
    """

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Part:
        """``3/16`` is the third of sixteen.

        Raises:
            OptionError: another form, or no such part.
        """
        match = _WRITTEN.fullmatch(str(text).strip())
        if match is None or int(match[1]) > int(match[2]):
            raise OptionError(
                f"part={elided(repr(text), 40)} is no part; write which of how many, such as 3/16 (from 1/16 to 16/16)."
            )
        return cls(int(match[1]), int(match[2]))

    def shards(self, count: int) -> range:
        """Indices of the shards of this part.

        Raises:
            OptionError: there are more parts than shards.
        """
        if self.of > count:
            raise OptionError(
                f"part={self}: the survey has {count} shard{'s' * (count > 1)} and cannot be cut into {self.of} parts. "
                f"Give fewer (at most {count}), or smaller shards (batch_tokens=..., --batch-tokens ...)."
            )
        # Neighbours, and every shard in one part, whatever the number of parts.
        return range((self.number - 1) * count // self.of, self.number * count // self.of)

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"
