"""Models whose parts stand in lists next to each other (XLM): a block is one part of each list.

What stands between the parts, such as the sums, is in the model's own forward, and is run there: a block by itself is
that forward, in which another block's place hands on the state and the parts of the next place are the block's. So
nothing of it is rewritten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, update_wrapper
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.between import as_returned
from bathyscope.model.anatomy.calls import Call, called, replaced_forwards
from bathyscope.model.anatomy.family import Family
from bathyscope.model.anatomy.forms import Single
from bathyscope.model.anatomy.loops import IDS
from bathyscope.model.anatomy.plain import plain_forward, probe_ids
from bathyscope.model.anatomy.sites import submodule
from bathyscope.model.anatomy.streams import FoldedStreams


class _BlockEnded(Exception):  # noqa: N818 — no error: it ends a forward behind the block that is run
    def __init__(self, state: Tensor) -> None:
        super().__init__()
        self.state = state


class SideBySideBlock(nn.Module):
    """A block of parts that stand in different lists.

    Args:
        model: the causal language model.
        parts: the model's own modules of this block, in the order in which they run; the first takes the stream, and
            what the last returns is the stream behind the block.
    """

    def __init__(self, model: nn.Module, parts: Sequence[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        # no submodule, or the model would be part of its own block
        self.__dict__["run_model"] = getattr(model, "base_model", model)
        self.__dict__["own_forwards"] = [part.forward for part in parts]
        self.__dict__["run_alone"] = None

    def forward(self, hidden_states: Tensor, bathyscope_ids: Tensor) -> Tensor:
        """Return the stream behind the block, [rows, tokens, width].

        Args:
            hidden_states: [rows, tokens, width], of the last tokens of the ids.
            bathyscope_ids: [rows, all tokens].
        """
        tokens = hidden_states.shape[1]
        # a tail has the last tokens alone; positions count from the first
        full = nn.functional.pad(hidden_states, (0, 0, bathyscope_ids.shape[1] - tokens, 0))
        run: Callable[[Tensor, Tensor], Tensor] = self.__dict__["run_alone"]
        return run(full, bathyscope_ids)[:, -tokens:]


@dataclass(frozen=True)
class SideBySide(FoldedStreams):
    """The blocks of a model whose parts stand in lists next to each other.

    Args:
        lengths: by list None where its modules return a tensor, else the length of the tuple.
    """

    lengths: tuple[int | None, ...] = ()

    def require_exchangeable(self) -> None:
        """Refuse to change the order of blocks inside of the model's own forward.

        Raises:
            ModelError: always.
        """
        raise ModelError(
            "The parts of this model's blocks stand in lists next to each other, so its own forward has no list of "
            "blocks that could change places. The measures drop, swap, repeat and pairs run it in other orders."
        )

    @contextmanager
    def replaced(self, forwards: Sequence[Callable[..., Any]]) -> Iterator[None]:
        """Run the given function on the stream in the place of each block, in forwards of the model."""
        entered: dict[int, Tensor] = {}
        input_ids: list[Tensor] = []

        def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            input_ids[:] = [kwargs["input_ids"] if "input_ids" in kwargs else args[0]]

        def answer(number: int) -> Any:
            out = forwards[number](entered.pop(number), **{IDS: input_ids[0]})
            state: Tensor = out[0] if isinstance(out, tuple | list) else out
            # a copy, since the model's own forward may go on writing into it
            return state.clone()

        watch = self.sources[0].__dict__["run_model"].register_forward_pre_hook(note, with_kwargs=True)
        try:
            with self._standing_in([partial(answer, number) for number in range(len(self.sources))], entered):
                yield
        finally:
            watch.remove()

    def run_alone(self, number: int, state: Tensor, ids: Tensor) -> Tensor:
        """Return the stream behind one block, which is given ``state``, [rows, tokens, width]."""
        # the place before hands the state on, so that the first block runs in the place of the second one
        place = max(number, 1)
        forwards: list[Callable[..., Any]] = self.sources[number].__dict__["own_forwards"]

        def end(*args: Any, **kwargs: Any) -> Any:
            out = forwards[-1](*args, **kwargs)
            raise _BlockEnded(out[0] if isinstance(out, tuple | list) else out)

        with (
            self._standing_in([state.clone for _ in range(place)], {}),
            replaced_forwards(list(self.sources[place].parts), [*forwards[:-1], end]),  # type: ignore[arg-type]
        ):
            try:
                self.sources[0].__dict__["run_model"](input_ids=ids, use_cache=False)
            except _BlockEnded as ended:
                return ended.state
        raise AssertionError("a block of the own forward did not run")

    @contextmanager
    def _standing_in(self, answers: Sequence[Callable[[], Any]], entered: dict[int, Tensor]) -> Iterator[None]:
        """Let the last part of the first blocks answer with these streams, and the others hand their input on.

        Args:
            entered: where the stream is put that the first part of a block was given, by block.
        """
        modules, forwards = [], []
        for number, get_answer in enumerate(answers):
            parts = list(self.sources[number].parts)  # type: ignore[arg-type]
            for place, part in enumerate(parts):
                modules.append(part)
                forwards.append(self._stand_in(part, number, place, get_answer, entered))
        with replaced_forwards(modules, forwards):
            yield

    def _stand_in(
        self, part: nn.Module, number: int, place: int, get_answer: Callable[[], Any], entered: dict[int, Tensor]
    ) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            value = next(v for v in (*args, *kwargs.values()) if isinstance(v, Tensor))
            if place == 0:
                entered[number] = value
            last = place == len(self.lengths) - 1
            return as_returned(get_answer() if last else value, self.lengths[place])

        return update_wrapper(forward, part.forward)


def find_side_by_side(model: nn.Module, family: Family) -> SideBySide | None:
    """Return the blocks of a model whose parts stand in lists next to each other; None where blocks are modules.

    Raises:
        ModelError: a path leads to no list, or lists differ in length, or there is but one block.
    """
    paths = family.part_lists
    if not paths:
        return None
    lists = [submodule(model, path) for path in paths]
    missing = next((path for path, listed in zip(paths, lists) if not isinstance(listed, nn.ModuleList)), None)
    if missing is not None:
        raise ModelError(f"{family.name}: this model has no list of modules {missing}.")
    lengths = {len(listed) for listed in lists}  # type: ignore[arg-type]
    if len(lengths) > 1 or lengths < {2}:
        raise ModelError(
            f"{family.name}: the lists of its blocks' parts have {', '.join(map(str, sorted(lengths)))} modules; they "
            "must have as many as each other, and two at least."
        )
    blocks = tuple(SideBySideBlock(model, parts) for parts in zip(*lists))
    side_by_side = SideBySide(blocks, blocks, Single(), None, _lengths(model, family, blocks[0]))
    for number, block in enumerate(blocks):
        block.__dict__["run_alone"] = partial(side_by_side.run_alone, number)
    return side_by_side


def _lengths(model: nn.Module, family: Family, block: SideBySideBlock) -> tuple[int | None, ...]:
    """Return by part of a block None where it returns a tensor, else the length of the tuple."""
    length_by_part: dict[int, int | None] = {}

    def note(call: Call) -> None:
        length_by_part[int(call.path)] = len(call.output) if isinstance(call.output, tuple | list) else None

    with torch.no_grad(), called([(str(place), part) for place, part in enumerate(block.parts)], note):
        plain_forward(model, probe_ids(model, 1, 2), family.name)
    return tuple(length_by_part[place] for place in range(len(block.parts)))
