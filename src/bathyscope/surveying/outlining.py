"""A model without weights, from its configuration alone: what a survey can be planned with."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from bathyscope.errors import ModelError
from bathyscope.model import Model, as_dtype, load_config
from bathyscope.model.anatomy.anatomy import Anatomy, config_of
from bathyscope.model.anatomy.calls import called
from bathyscope.model.anatomy.family import Family
from bathyscope.model.anatomy.gaps import tolerance
from bathyscope.model.anatomy.loops import CallOrder, Dependence, Loops, make_loops
from bathyscope.model.anatomy.measured_gaps import Checks
from bathyscope.model.anatomy.readout import Readout
from bathyscope.model.anatomy.registry import family_for
from bathyscope.model.anatomy.sites import submodule
from bathyscope.model.anatomy.streams import FoldedStreams, find_streams, first_state
from bathyscope.model.configuration import gguf_config
from bathyscope.model.gguf import is_gguf, open_gguf
from bathyscope.model.outlines import build_outline
from bathyscope.model.packed.registry import packing_of
from bathyscope.model.placement import blocks_of


def outline(name: str, dtype: str | torch.dtype | None, revision: str | None, trust_remote_code: bool = False) -> Model:
    """Return a model without weights that a survey can be planned with; its checks are taken to hold."""
    gguf = open_gguf(name) if is_gguf(name) else None
    config = load_config(name, revision, trust_remote_code) if gguf is None else gguf_config(name, gguf)
    text = config.get_text_config()
    declared = getattr(text, "dtype", None) or getattr(config, "dtype", None)
    # weights in few bits are unpacked to float32, whatever they had been before
    if packing_of(config) is not None:
        declared = None
    weight_dtype = as_dtype(dtype or declared or torch.float32)
    hf = build_outline(name, config, weight_dtype, trust_remote_code)
    family = family_for(config.model_type) or family_for(text.model_type)
    refusal = "" if family is None else family.refusal(text)
    if family is not None and refusal:
        raise ModelError(f"{family.name} models cannot be measured: {refusal}")
    anatomy = _anatomy(name, hf, family)
    limit = tolerance(weight_dtype)
    checks = Checks(0.0, 0.0, (0.0,) * anatomy.n_blocks, {1: 0.0}, limit)
    return Model(name, revision, anatomy, checks, weight_hash="", trust_remote_code=trust_remote_code, gguf=gguf)


def _anatomy(name: str, hf: nn.Module, family: Family | None) -> Anatomy:
    """Find blocks and head without numbers, which a model without weights cannot give."""
    text = config_of(hf)
    lists: Any = [submodule(hf, path) for path in blocks_of(hf).split(" + ")]
    idle = family.idle if family is not None else None
    running = (block for listed in lists for block in listed if idle is None or submodule(block, idle) is None)
    blocks = tuple(dict.fromkeys(running))
    head: Any = hf.get_output_embeddings()  # type: ignore[operator]
    embedding: Any = hf.get_input_embeddings()  # type: ignore[operator]
    if head is None:
        raise ModelError(
            f"{name}: its head cannot be found without its weights; bathyscope check loads it and searches."
        )
    unknown = Family(f"{text.model_type} (unknown)", (text.model_type,))
    width = int(getattr(text, "hidden_size", None) or embedding.weight.shape[-1])
    loops = _outline_loops(hf, blocks, width)
    streams = None
    if loops is None:
        width, streams = _outline_streams(hf, family or unknown, blocks, width)
    steps = blocks if loops is None else loops.steps
    return Anatomy(
        family=family or unknown,
        model=hf,
        blocks=steps if streams is None else streams.blocks,
        # without its norm, whose kind is found by trying it on numbers
        readout=Readout(None, head, submodule(hf, family.projection) if family and family.projection else None),
        width=width,
        vocabulary=int(head.weight.shape[0]),
        parallel=False,
        returns=(),
        dtype=next(p.dtype for p in hf.parameters() if p.is_floating_point()),
        loops=loops,
        streams=streams,
    )


def _outline_streams(
    hf: nn.Module, family: Family, blocks: tuple[nn.Module, ...], width: int
) -> tuple[int, FoldedStreams | None]:
    """Return the width of a state, and the folded blocks of a model with several streams.

    Both come from the shape of what the first block is given; a model that cannot come so far without numbers counts
    as one stream of this width.
    """
    # code of whatever family
    with suppress(Exception), _NumbersAreZero():
        state = first_state(hf, family, blocks[0])
        streams = find_streams(hf, family, blocks, [state] * len(blocks))
        return int(state.shape[-1]) * (1 if streams is None else streams.form.count), streams
    return width, None


class _NumbersAreZero(TorchDispatchMode):
    """Let code that looks at single numbers of tensors without any, such as whether a mask is empty, see 0."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._local_scalar_dense.default and args[0].is_meta:
            return 0
        return func(*args, **(kwargs or {}))


def _outline_loops(hf: nn.Module, blocks: Sequence[nn.Module], width: int) -> Loops | None:
    """Return the steps of a model that runs blocks several times, from a forward of shapes alone; None for others.

    Which steps need what earlier ones gave is not known without numbers, so that states count as one stream.
    """
    order: list[int] = []
    ids = torch.zeros(1, 2, dtype=torch.long, device="meta")
    modules = [(str(index), block) for index, block in enumerate(blocks)]
    # code of whatever family, which may look at numbers that are not there
    with suppress(Exception), torch.no_grad(), called(modules, lambda call: order.append(int(call.path))):
        hf(input_ids=ids, use_cache=False)
    steps_in_all = getattr(config_of(hf), "num_hidden_layers", 0)
    if len(order) < len(blocks) and steps_in_all > len(blocks) and steps_in_all % len(blocks) == 0:
        # some configurations count runs (HRM); in which order they come does not change what they cost
        order = [*range(len(blocks))] * (steps_in_all // len(blocks))
    if len(order) <= len(blocks):
        return None
    steps = range(len(order))
    dependence = Dependence((True,) * len(order), tuple(frozenset({step - 1} if step else ()) for step in steps))
    return make_loops(hf, CallOrder(tuple(blocks), tuple(order)), (None,) * len(order), width, dependence)
