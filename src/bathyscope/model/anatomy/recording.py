"""Recording: what every block is called with, without running any block.

The model's own forward runs once with each block replaced by a stub that notes its arguments and hands the
residual stream on unchanged. That gives h_0 and, for every block, exactly the masks, rotary tables and
position arguments the library would have passed, at the cost of an embedding look-up, and it needs none of
the blocks' weights.
"""

import inspect
from collections import UserDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.arguments import (
    Axes,
    Path,
    default_axes,
    fit_rows,
    infer_axes,
    rebuild,
    same_for_all,
    walk,
)
from bathyscope.model.anatomy.calls import by_name, replaced_forwards
from bathyscope.model.anatomy.family import GUIDE
from bathyscope.model.anatomy.loops import IDS, Loops
from bathyscope.model.anatomy.plain import probe_ids
from bathyscope.model.anatomy.streams import PASSED, FoldedStreams

CACHE_NAMES = ("past_key_values", "layer_past", "past_key_value", "cache_params")
MASK_NAMES = ("attention_mask", "causal_mask")
_PROBE_SIZES = (2, 5, 3, 7)


@dataclass
class BlockArguments:
    """One block's recorded keyword arguments, without the residual stream itself.

    Args:
        values: by name.
        cache: name of the argument that takes the library's cache; None = the block takes none.
        mask: name of the argument that takes the attention mask; None = the block takes none.
        axes: what the axes of each tensor mean.
        state: name of the dictionary through which blocks pass tensors to later blocks (Gemma 4's shared keys and
            values).
        stream: name of the argument that takes the residual stream; None = the first.
    """

    values: dict[str, Any]
    cache: str | None
    mask: str | None
    axes: dict[Path, Axes] = field(default_factory=dict)
    state: str | None = None
    stream: str | None = None

    def fit(self, prompts: Tensor | None, rows: int, start: int = 0) -> dict[str, Any]:
        """Return the arguments for ``rows`` sequences that own tokens from ``start`` on (``prompts``: [rows])."""

        def change(path: Path, value: Tensor) -> Tensor:
            return fit_rows(value, self.axes[path], prompts, rows, start)

        return {name: rebuild(value, change, (name,)) for name, value in self.values.items()}


@dataclass
class Recording:
    """h_0, which enters block 0, and every block's arguments for one batch of prompts."""

    resid0_BTD: Tensor
    blocks: list[BlockArguments]


def _first_present(names: Sequence[str], arguments: Mapping[str, Any], signature: inspect.Signature) -> str | None:
    return next((name for name in names if name in arguments or name in signature.parameters), None)


def stub(
    replaced: Callable[..., Any], returns: int | None, sink: list[tuple[Tensor, BlockArguments]]
) -> Callable[..., Any]:
    """Return what takes the place of a block's forward: it notes its arguments in ``sink`` and passes the stream on."""
    signature = inspect.signature(replaced)
    first = next(iter(signature.parameters))

    def forward(*args: Any, **kwargs: Any) -> Any:
        values = by_name(signature.bind(*args, **kwargs))
        # found by its shape, since a block need not take the stream first; several streams have an axis more
        several = isinstance(values.get(first), Tensor) and values[first].ndim == 4
        stream = first if several else next((name for name, value in values.items() if _is_stream(value)), first)
        hidden = values.pop(stream)
        # empty while no block has run: a dictionary that blocks fill for later blocks
        state = next((n for n, v in values.items() if isinstance(v, Mapping | UserDict) and not v), None)
        arguments = BlockArguments(
            values=values,
            cache=_first_present(CACHE_NAMES, values, signature),
            mask=_first_present(MASK_NAMES, values, signature),
            state=state,
            stream=None if stream == first else stream,
        )
        for name in (arguments.cache, state):
            if name is not None:
                values.pop(name, None)
        # a block that saw a live cache would append to it at every replay
        if "use_cache" in signature.parameters:
            values["use_cache"] = False
        sink.append((hidden, arguments))
        return hidden if returns is None else (hidden, *[None] * (returns - 1))

    return forward


def _is_stream(value: Any) -> bool:
    return isinstance(value, Tensor) and value.ndim == 3 and value.is_floating_point()


def reset_rotary(model: nn.Module) -> None:
    """Reset dynamic rotary tables, so that every recording starts from the same state.

    They stay at the longest length that a forward has met, and each length has other frequencies.
    """
    for module in model.modules():
        kinds = getattr(module, "rope_type", None)
        by_prefix = {f"{layer}_": kind for layer, kind in kinds.items()} if isinstance(kinds, dict) else {"": kinds}
        for prefix, kind in by_prefix.items():
            original = getattr(module, f"{prefix}original_inv_freq", None)
            if isinstance(original, Tensor) and "dynamic" in str(kind):
                # a copy, since the library may write into the table in use
                setattr(module, f"{prefix}inv_freq", original.clone())
                setattr(module, f"{prefix}max_seq_len_cached", module.original_max_seq_len)


class Recorder:
    """Record batches of prompts on one model; its arguments are those of its ``Anatomy``.

    Raises:
        ModelError: a block's arguments cannot be read (see ``arguments``).
    """

    def __init__(
        self,
        model: nn.Module,
        blocks: Sequence[nn.Module],
        returns: Sequence[int | None],
        loops: Loops | None = None,
        streams: FoldedStreams | None = None,
    ) -> None:
        self._model = model
        self._blocks = blocks
        self._returns = returns
        self._loops = loops
        self._streams = streams
        self._axes = self._probe()

    def record(self, ids_BT: Tensor) -> Recording:
        """Record h_0 and all block arguments for token ids [batch, tokens], padded on the right."""
        recording = self._raw(ids_BT)
        batch, tokens = ids_BT.shape
        shared_by_id: dict[int, bool] = {}
        for index, arguments in enumerate(recording.blocks):
            for path, value in walk(arguments.values):
                # token ids stay whole, since what lies between two steps of a tail counts positions from the first
                inferred = Axes(batch=True) if path == (IDS,) else self._axes[index].get(path)
                axes = inferred or default_axes(value, batch, tokens)
                if axes is None:
                    raise ModelError(
                        f"Block {index} was given {'.'.join(map(str, path))} of shape {tuple(value.shape)}, "
                        "whose axes are unknown; this family needs its own handling."
                    )
                # blocks are mostly given the same tensors, which are compared once
                if id(value) not in shared_by_id:
                    shared_by_id[id(value)] = same_for_all(value, axes, batch)
                arguments.axes[path] = replace(axes, shared=shared_by_id[id(value)])
        return recording

    def _probe(self) -> list[dict[Path, Axes]]:
        batch, tokens, wide, long = _PROBE_SIZES

        def leaves(rows: int, length: int) -> list[dict[Path, Tensor]]:
            return [dict(walk(block.values)) for block in self._raw(probe_ids(self._model, rows, length)).blocks]

        axes_by_block: list[dict[Path, Axes]] = []
        for small, wider, longer in zip(leaves(batch, tokens), leaves(wide, tokens), leaves(batch, long)):
            both = small.keys() & wider.keys() & longer.keys()
            axes_by_block.append({p: infer_axes(small[p], wider[p], longer[p], _PROBE_SIZES) for p in both})
        return axes_by_block

    @torch.no_grad()
    def _raw(self, ids_BT: Tensor) -> Recording:
        sinks: list[list[tuple[Tensor, BlockArguments]]] = [[] for _ in self._blocks]
        stubs = [stub(block.forward, kind, sink) for block, kind, sink in zip(self._blocks, self._returns, sinks)]
        reset_rotary(self._model)
        with self._replaced(stubs):
            # without the head: its logits would take tokens × vocabulary for nothing
            getattr(self._model, "base_model", self._model)(input_ids=ids_BT, use_cache=False)
        for index, sink in enumerate(sinks):
            if len(sink) != 1:
                raise ModelError(
                    f"Block {index} is called {len(sink)} times in one forward, and once is allowed. Give every run a "
                    f"copy that shares its parameters: {GUIDE}."
                )
        recording = Recording(sinks[0][0][0], [sink[0][1] for sink in sinks])
        if self._loops is not None:
            recording.resid0_BTD = self._loops.fold(recording.resid0_BTD)
            for step in self._loops.needs_ids:
                recording.blocks[step].values[IDS] = ids_BT
        if self._streams is not None and self._streams.passes is not None:
            for arguments in recording.blocks:
                arguments.values.pop(self._streams.passes, None)
                arguments.state = PASSED
        return recording

    def _replaced(self, stubs: Sequence[Callable[..., Any]]) -> AbstractContextManager[None]:
        if self._streams is not None:
            return self._streams.replaced(stubs)
        return replaced_forwards(self._blocks, stubs) if self._loops is None else self._loops.calls.replaced(stubs)
