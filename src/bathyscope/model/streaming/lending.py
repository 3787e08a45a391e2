"""Blocks that are lent: whoever runs a block, or reads its weights, asks for it here, wherever they lie.

A block in memory is simply there. One whose weights are elsewhere is known to a *lender*, which brings them for as long
as they are needed. Streamed blocks also lend themselves whenever they are called, so that no forward can meet weights
that are not there; asking beforehand keeps them for several calls, and is what reading weights takes.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, Protocol

from torch import Tensor, nn


class Lender(Protocol):
    """Brings blocks' weights into memory."""

    def lend(self, index: int) -> AbstractContextManager[None]:
        """Keep the weights of a block in memory inside."""
        ...

    def keeping(self, window: int) -> AbstractContextManager[None]:
        """Keep this many blocks in memory inside, once they are there."""
        ...

    def absent(self, index: int) -> Mapping[str, Tensor]:
        """Return what replaces a block's weights while they are elsewhere, by name."""
        ...


# an attribute of the block itself, so that both are forgotten together
LENDING: Final = "_bathyscope_lender"
"""Where a block says who lends it."""


def register(blocks: Iterable[nn.Module], lender: Lender) -> None:
    """Let ``lender`` lend these blocks, in their order, from now on."""
    for index, block in enumerate(blocks):
        block.__dict__[LENDING] = (lender, index)


def lender_of(block: nn.Module) -> Any:
    """Return who lends a block; None = its weights are in memory."""
    return _lending_of(block)[0]


def _lending_of(block: nn.Module) -> tuple[Any, int]:
    """Return who lends a block, and its number there; None = its weights are in memory."""
    lending: tuple[Any, int] = block.__dict__.get(LENDING, (None, 0))
    return lending


def lasting_parameters(block: nn.Module) -> list[Tensor]:
    """Return the parameters of a block; of one that is lent, what stands for them, wherever they are at the moment."""
    lender, index = _lending_of(block)
    absent = {} if lender is None else lender.absent(index)
    return [absent.get(name, parameter) for name, parameter in block.named_parameters()]


@contextmanager
def lent(block: nn.Module) -> Iterator[nn.Module]:
    """Give the block, with its weights in memory inside. What is used of them later must be a copy."""
    lender, index = _lending_of(block)
    with nullcontext() if lender is None else lender.lend(index):
        yield block


def keeping(block: nn.Module, window: int) -> AbstractContextManager[None]:
    """Keep ``window`` blocks of this block's model in memory inside, once they are there."""
    lender: Lender | None = lender_of(block)
    return nullcontext() if lender is None else lender.keeping(window)
