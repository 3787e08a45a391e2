"""Declaration of repeat; its code is ``measures.repeat``."""

from dataclasses import dataclass
from typing import Annotated, Final

from bathyscope.measures.declaration import Declaration
from bathyscope.measures.schedule_tables import PANELS, Positions, ReadTokens, require_next_positions, schedule_table
from bathyscope.options import Range


@dataclass(frozen=True)
class RepeatOptions:
    """Options of repeat.

    Args:
        length: blocks in the window.
        times: how often each block of the window is repeated (1 = it runs twice).
        positions: what means are over, "next" or "published"; as drop's.
        read_tokens: read out only so many tokens of each prompt, drawn at random with those of its answer among them:
            means stay unbiased, and their standard errors are given. None = all tokens.
    """

    length: Annotated[int, Range(1)] = 5
    times: Annotated[int, Range(1, 100)] = 1
    positions: Positions = "next"
    read_tokens: ReadTokens = None

    def __post_init__(self) -> None:
        require_next_positions("repeat", self.positions, self.read_tokens)


DECLARATION: Final = Declaration(
    "repeat",
    "Next-token statistics with each window of blocks repeated block by block.",
    RepeatOptions,
    schedule_table("start"),
    order=140,
    example={"length": 2},
    panels=PANELS,
    question="what does it change to run a few blocks twice?",
    rows="one per window of blocks",
)
