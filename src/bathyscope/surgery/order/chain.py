"""Running a model's blocks in another order from within its own forward.

The model's loop over its blocks is left to run as it is. In its list, every block is represented by a stand-in
that only notes how the block is called: with which mask, rotary table, position, per-block input. The last
stand-in then runs the real blocks in the order of the schedule, each with the arguments that were meant for it.
So whatever a family computes for its blocks is computed by the family's own code.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers import Cache

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.between import as_returned
from bathyscope.model.anatomy.calls import by_name
from bathyscope.model.anatomy.loops import IDS, Loops
from bathyscope.model.anatomy.parallel import merge_contributions
from bathyscope.model.anatomy.recording import CACHE_NAMES
from bathyscope.model.anatomy.streams import PASSED, FoldedStreams
from bathyscope.schedule import Schedule
from bathyscope.surgery.options import Arguments

# A cache does not say which order of blocks filled it. Weak, so that it is freed with its last user.
_OWNERS: WeakKeyDictionary[Cache, SlotCache] = WeakKeyDictionary()


class SlotCache:
    """Lays the library's caches out with a layer for every slot, so that a block that runs twice keeps both.

    Blocks address the cache by their own index in the model. They are shown a view of it in which the layer at that
    index is the one of the slot they run in.

    Args:
        order: the block of every slot.
        kinds: the block, or the position in the model's list, whose kind of cache layer (full, sliding window,
            recurrent state) every slot takes.
        looped: blocks run several times in the model itself, and address the cache as they like: each is shown the
            layer of its slot at every index.
    """

    def __init__(self, order: Sequence[int], kinds: Sequence[int], n_blocks: int, *, looped: bool = False) -> None:
        self._order, self._kinds, self._n_blocks = tuple(order), tuple(kinds), n_blocks
        self._looped = looped

    def lay_out(self, cache: Cache) -> None:
        """Give a new cache its layers.

        Raises:
            ModelError: the cache was filled, or laid out, under another order of blocks.
        """
        # Laid out once: later steps of a generation come with the same cache, filled by this order.
        if self.owns(cache):
            return
        if _OWNERS.get(cache) is not None or any(_is_filled(layer) for layer in cache.layers):
            raise ModelError(
                "This cache was filled under another order of the blocks, so that its layers belong to other slots; "
                "begin with a new cache inside scheduled()."
            )
        cache.layers = self._make_layers(cache)
        _OWNERS[cache] = self

    def owns(self, cache: Cache) -> bool:
        """Return whether a cache was laid out here, and so filled by this order."""
        return _OWNERS.get(cache) is self

    def view(self, cache: Cache, slot: int) -> Cache:
        """Return the cache as the block in ``slot`` must see it; its layers are the cache's own."""
        block = self._order[slot]
        view = copy.copy(cache)
        if self._looped:
            view.layers = [cache.layers[slot]] * len(cache.layers)
            return view
        view.layers = [cache.layers[self._slot_of(index)] for index in range(self._n_blocks)]
        view.layers[block] = cache.layers[slot]
        return view

    def _slot_of(self, block: int) -> int:
        """Return the slot that stands for a block other than the running one.

        Index 0 is what blocks ask for the length of the past, and the first slot always knows it.
        """
        return self._order.index(block) if block and block in self._order else 0

    def _make_layers(self, cache: Cache) -> list[Any]:
        if cache.layer_class_to_replicate is not None:
            return [cache.layer_class_to_replicate() for _ in self._order]
        own_layers = cache.layers
        layers = [copy.deepcopy(own_layers[index]) for index in self._kinds]
        # the library looks for the first layer of a kind when it makes that kind's mask, also if no block wants it
        for index in range(self._n_blocks):
            if all(type(layer) is not type(own_layers[index]) for layer in layers):
                layers.append(copy.deepcopy(own_layers[index]))
        return layers + list(own_layers[self._n_blocks :])


def _is_filled(layer: Any) -> bool:
    states = getattr(layer, "has_previous_state", None) or {}
    length = layer.get_seq_length() if hasattr(layer, "get_seq_length") else 0
    return bool(length) or any(states.values())


_STATES = (*CACHE_NAMES, "state", "mems", "past_buckets_states")
_SWITCHES = {"mems": "use_mems"}
"""Arguments that switch a state off which ``use_cache`` does not."""
_SECOND_STREAM = "output_g"
"""XLNet's stream of queries, which it is given with ``target_mapping``, as ``generate`` does."""


class StandIn(nn.Module):
    """Stands in a model's list for one block, whose attributes and parameters it shows as its own."""

    def __init__(self, block: nn.Module, place: int, chain: Chain) -> None:
        super().__init__()
        self.stands_for = block
        self._place, self._chain = place, chain
        self.training = block.training

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Note the call; the last stand-in of the list answers with what the whole schedule gives."""
        # while the chain runs, a looped model's forward computes what is before a step, in which blocks answer
        if self._chain.running:
            return self.stands_for(*args, **kwargs)
        return self._chain.meet(self._place, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("stands_for"), name)

    def named_modules(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, nn.Module]]:
        """Return those of the block, so that parameters keep their names."""
        return self.stands_for.named_modules(*args, **kwargs)

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Return that of the block, so that weights keep their names."""
        return self.stands_for.state_dict(*args, **kwargs)


class Chain:
    """The blocks in the order of a schedule.

    Args:
        blocks, returns, dtype, loops, streams: of the model's ``Anatomy``.
        arguments: each block is called with what was meant for it ("block"), or with what was meant for the
            block that is at its slot's place in the model ("slot").
    """

    def __init__(
        self,
        schedule: Schedule,
        blocks: Sequence[nn.Module],
        returns: Sequence[int | None],
        arguments: Arguments,
        dtype: torch.dtype | None = None,
        loops: Loops | None = None,
        streams: FoldedStreams | None = None,
    ) -> None:
        self._blocks, self._returns, self._dtype = tuple(blocks), tuple(returns), dtype
        self._loops, self._streams = loops, streams
        self._order = schedule.order
        self._stages = schedule.stages
        self._sources = schedule.order if arguments == "block" else tuple(range(len(schedule)))
        if loops is None:
            self._cache = SlotCache(self._order, self._sources, len(blocks))
        else:
            slots = [loops.block[step] for step in self._order]
            self._cache = SlotCache(slots, slots, len(loops.calls.sources), looped=True)
        self._calls: list[inspect.BoundArguments] = []
        self._ids: Tensor | None = None
        self.running = False
        """Whether the blocks are run at the moment, after the last call of the model's loop."""
        self.refuses_cache = ""
        """Why no cache may be filled or gone on from; empty where both may."""

    def without_wrong_caches(self, args: Sequence[Any], arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of the model's own forward, which makes no cache where caches are not right.

        Raises:
            ModelError: it would fill a cache there, or go on from one.
        """
        if not self.refuses_cache:
            return arguments
        # blocks that share a slot of it are wrong in the first forward already, and nothing could go on from it
        if arguments.get("use_cache") or any(isinstance(value, Cache) for value in (*args, *arguments.values())):
            raise ModelError(f"{self.refuses_cache} Run it with use_cache=False.")
        return {**arguments, "use_cache": False}

    def stand_ins(self) -> nn.ModuleList:
        """Return one for every block, in the model's order; of a looped model one for all runs of a block."""
        blocks = self._blocks if self._loops is None else self._loops.calls.sources
        blocks = blocks if self._streams is None else self._streams.sources
        return nn.ModuleList(StandIn(block, place, self) for place, block in enumerate(blocks))

    @contextmanager
    def in_place(self, anatomy: Anatomy) -> Iterator[nn.Module]:
        """Put stand-ins in the place of the model's lists of blocks; inside, the module whose forward calls them."""
        by_block = {stand_in.stands_for: stand_in for stand_in in self.stand_ins()}
        owners = []
        with ExitStack() as stack:
            for path in anatomy.family.block_lists:
                owner_path, _, name = path.rpartition(".")
                owner = anatomy.model.get_submodule(owner_path)
                blocks = getattr(owner, name)
                stack.callback(setattr, owner, name, blocks)
                # a block may be in its list several times
                setattr(owner, name, nn.ModuleList(by_block.get(block, block) for block in blocks))
                owners.append(owner)
            if self._loops is not None and self._loops.needs_ids:
                watch = anatomy.model.register_forward_pre_hook(self._note_ids, with_kwargs=True)
                stack.callback(watch.remove)
            yield owners[0] if len(owners) == 1 else getattr(anatomy.model, "base_model", anatomy.model)

    def _note_ids(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note the token ids of a forward, from which steps compute what is before them."""
        ids = kwargs.get("input_ids", args[0] if args else None)
        if ids is None:
            raise ModelError(
                "Under a schedule this looped model takes input_ids, from which it computes what stands between its "
                "loops; give them instead of inputs_embeds."
            )
        self._ids = ids

    def meet(self, place: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Answer the model's loop, which calls the block at ``place``.

        Raises:
            ModelError: blocks are called out of order or one by one, or state is kept outside the library's cache.
        """
        if self._loops is not None:
            place = self._step_of(place)
        if place == 0:
            self._calls = []
        if place != len(self._calls):
            raise ModelError(
                f"Block {place} was called by itself inside scheduled(), where only whole forwards of the model "
                "run; survey the model outside of it."
            )
        call = self._bind_call(place, args, kwargs)
        _refuse_own_state(call)
        self._calls.append(call)
        # Not before the last call are the arguments of all blocks known, which the schedule may need earlier.
        if place < len(self._blocks) - 1:
            return self._answer(place, as_returned(_stream_of(call), self._returns[place]))
        self.running = True
        try:
            return self._run_slots(place)
        finally:
            self.running = False
            self._calls = []

    def _bind_call(self, place: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """Return the call of the block, of a folded one where the model's own forward calls the block itself."""
        # By name, since families pass the same argument by place or by keyword, and some in both ways.
        signature = inspect.signature(self._blocks[place].forward)
        if self._streams is None:
            return signature.bind(*args, **kwargs)
        native = inspect.signature(self._streams.sources[place].forward)
        arguments = by_name(native.bind(*args, **kwargs))
        state = self._streams.form.fold(place, arguments, next(iter(native.parameters)))
        return signature.bind(state, **arguments)

    def _answer(self, place: int, output: Any) -> Any:
        """Return what the model's own loop gets, of what a block gives here."""
        return output if self._streams is None else self._streams.form.give_all(place, output)

    def _step_of(self, source: int) -> int:
        """Return the step whose turn it is, if that is a run of this block; a new forward begins again."""
        assert self._loops is not None
        step = len(self._calls)
        if self._loops.block[step] == source:
            return step
        return self._loops.block.index(source)

    def _run_slots(self, place: int) -> Any:
        hidden = _stream_of(self._calls[0])
        if hidden.shape != _stream_of(self._calls[-1]).shape:
            raise ModelError("This model shortens its sequence between blocks, so that they cannot change places.")
        hidden = hidden if self._dtype is None else hidden.to(self._dtype)
        values = [value for call in self._calls for value in by_name(call).values()]
        for cache in {id(value): value for value in values if isinstance(value, Cache)}.values():
            self._cache.lay_out(cache)
        if self._loops is not None:
            hidden = self._loops.fold(hidden)
        out: Any = hidden
        passed: dict[Any, Any] = {}
        slot = 0
        for stage in self._stages:
            outputs = []
            for block in stage:
                args, kwargs = self._bind_arguments(self._calls[self._sources[slot]], hidden, slot)
                if self._streams is not None and self._streams.passes is not None:
                    kwargs[PASSED] = passed
                out = self._blocks[block](*args, **kwargs)
                outputs.append(out[0] if isinstance(out, tuple | list) else out)
                slot += 1
            hidden = merge_contributions(hidden, outputs)
            if len(stage) > 1:
                out = hidden
        length = self._returns[place]
        if self._streams is not None:
            return self._answer(place, as_returned(hidden, length))
        if self._loops is not None:
            return as_returned(self._loops.active(hidden), length)
        if isinstance(out, tuple | list) and len(out) == length:
            return out
        return as_returned(hidden, length)

    def _bind_arguments(
        self, call: inspect.BoundArguments, hidden: Tensor, slot: int
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        def as_seen(value: Any) -> Any:
            return self._cache.view(value, slot) if isinstance(value, Cache) else value

        bound = inspect.BoundArguments(call.signature, dict(call.arguments))
        bound.arguments[next(iter(call.signature.parameters))] = hidden
        named = {name: as_seen(value) for name, value in bound.kwargs.items()}
        if self._loops is not None and self._order[slot] in self._loops.needs_ids:
            named[IDS] = self._ids
        return tuple(map(as_seen, bound.args)), named


def _stream_of(call: inspect.BoundArguments) -> Tensor:
    """Return the residual stream: a block's first argument."""
    stream: Tensor = call.arguments[next(iter(call.signature.parameters))]
    return stream


def _refuse_own_state(call: inspect.BoundArguments) -> None:
    arguments = by_name(call)
    states = [name for name in _STATES if arguments.get(name) is not None and not isinstance(arguments[name], Cache)]
    if states:
        raise ModelError(
            f"This family keeps what it computed of earlier tokens in {states[0]}, by block and not by slot of the "
            f"schedule; run it with {_SWITCHES.get(states[0], 'use_cache')}=False."
        )
    if arguments.get(_SECOND_STREAM) is not None:
        raise ModelError(
            "This family reads its predictions off a second stream where target_mapping is given, as generate does, "
            "and a schedule leads the first stream alone. Export the model under this schedule and generate with that, "
            "or call it without target_mapping."
        )
