"""What the checks at load measure of a model, and what follows for its rows."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from bathyscope.schedule import Schedule


@dataclass(frozen=True)
class Checks:
    """Gaps measured on a short random batch: logits relative to the largest of them, streams token by token.

    Args:
        no_op: replayed blocks against the plain forward's, largest of all boundaries; 0 = bit-equal.
        readout: declared readout of h_L against the model's logits.
        contributions: per block, h_l plus the contributions against h_{l+1}, relative to it; NaN = no sites.
        tail: tail against full row by first own token, largest of all blocks; NaN where a tail cannot be run.
        tolerance: what counts as equal in this dtype.
        tail_reason: why tails are not used, where they are not.
        sources: per block the earlier blocks whose keys and values it takes instead of its own; empty where
            no block does.
        givers: blocks that pass on to the next one what is no stream (chosen positions, a router's state).
        takers: blocks that compute with what they are passed so.
        later: tokens against the same with other tokens behind them, largest of all boundaries.
        padding: a prompt next to a longer and a shorter one against the prompt alone, largest of all boundaries.
    """

    no_op: float
    readout: float
    contributions: tuple[float, ...]
    tail: dict[int, float]
    tolerance: float
    tail_reason: str = ""
    sources: tuple[frozenset[int], ...] = ()
    givers: frozenset[int] = frozenset()
    takers: frozenset[int] = frozenset()
    later: float = 0.0
    padding: float = 0.0

    @property
    def parts(self) -> bool:
        """Whether attention and MLP contributions are available."""
        return all(gap <= self.tolerance for gap in self.contributions)

    def lacking(self, order: Iterable[int]) -> str:
        """Say what the first block of an order that cannot run would not find; empty where all can.

        A block takes the keys and values of certain blocks. What is passed on from block to block comes from whichever
        ran last. Blocks that run in parallel take nothing from each other.
        """
        ran: set[int] = set()
        for stage in order.stages if isinstance(order, Schedule) else [(block,) for block in order]:
            for block in stage:
                giving = self.givers.intersection(stage) - {block}
                if block in self.takers and (giving or not ran & self.givers):
                    what = f"block {min(giving)} would run in parallel" if giving else "none would have run before it"
                    return f"block {block} takes what the block before it passes on, and {what}"
                missing = (self.sources[block] if self.sources else frozenset()) - ran - {block}
                if missing:
                    return (
                        f"block {block} takes the keys and values of block {min(missing)}, which would not have run "
                        "before it"
                    )
            ran.update(stage)
        return ""

    def kept_for_others(self, removable: Collection[int]) -> int | None:
        """Return which of some blocks has to stay so that any others of them can be left out together; None where none.

        Each can be left out alone. But where several pass on what a later block takes, one of them has to run before
        it: the last one stays.
        """
        first = min(self.takers, default=0)
        before = [block for block in self.givers if block < first]
        return max(before) if before and set(before) <= set(removable) else None

    @property
    def tails(self) -> bool:
        """Whether tails may share their donors' keys and values."""
        return bool(self.tail) and all(gap <= self.tolerance for gap in self.tail.values())
