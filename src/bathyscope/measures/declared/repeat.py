"""Declaration of repeat; its code is ``measures.repeat``."""

from dataclasses import dataclass
from typing import Annotated, Final

from bathyscope.measures.declaration import Declaration
from bathyscope.measures.declared.schedules import Positions, schedule_table
from bathyscope.options import Range


@dataclass(frozen=True)
class RepeatOptions:
    """Options of repeat.

    Args:
        length: blocks in the window.
        times: how often each block of the window is repeated (1 = it runs twice).
        positions: what means are over, "next" or "published"; as drop's.
    """

    length: Annotated[int, Range(1)] = 5
    times: Annotated[int, Range(1, 100)] = 1
    positions: Positions = "next"


DECLARATION: Final = Declaration(
    "repeat",
    "Next-token statistics with each window of blocks repeated block by block.",
    RepeatOptions,
    schedule_table("start"),
)
