"""A survey of a model of any size, on tensors that have shapes and no values: what it takes, not what it gives."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import torch
from support.live_bytes import LiveBytes
from torch import Tensor
from torch.utils._pytree import tree_leaves

from bathyscope.model.anatomy.readout import Readout
from bathyscope.surveying.asking import Survey
from bathyscope.surveying.computing import Computation
from bathyscope.surveying.outlining import outline
from bathyscope.wavefront.batch import Batch

_ATEN = torch.ops.aten
_META = torch.device("meta")


def peak_bytes(folder: str, tokens: int, measures: str, call_tokens: int) -> int:
    """Bytes beside the weights of all tensors that live at once, while one prompt's wave passes and is read out.

    Args:
        folder: of the configuration of a Llama.
        call_tokens: in a call of a block.
    """
    model = outline(folder, None, None)
    hf: Any = model.hf
    readout = Readout(hf.model.norm, hf.lm_head, None)
    anatomy = replace(model.anatomy, returns=(None,) * model.n_blocks, readout=readout)
    plan = Survey(measures, call_tokens=call_tokens).plan(replace(model, anatomy=anatomy), [[0] * tokens])
    with _Valueless([*hf.parameters(), *hf.buffers()]) as live, _fused_attention():
        batch = Batch.of([prompt.ids for prompt in plan.prompts], _META)
        probes = [measure.probe(plan.facts, batch, [0]) for measure in plan.measures]
        Computation(plan).begin(plan.measures).run(batch, probes)
    return live.peak


class _Valueless(LiveBytes):
    """Answers what is asked of values: yes, one, and that nothing is equal."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
        if any(one.device == _META for one in tensors):
            if function is _ATEN._local_scalar_dense.default:
                return torch.ones((), dtype=args[0].dtype).item()
            if function is _ATEN.equal.default:
                return False
            if function is _ATEN.copy_.default and args[0].device != _META:
                return args[0]
            if function is _ATEN._to_copy.default and (kwargs or {}).get("device", _META) != _META:
                return torch.ones(args[0].shape, dtype=(kwargs or {}).get("dtype") or args[0].dtype)
        return super().__torch_dispatch__(function, types, args, kwargs)


@contextmanager
def _fused_attention() -> Iterator[None]:
    """Attention makes its result and no weights, as an accelerator's kernel does."""
    own = torch.nn.functional.scaled_dot_product_attention

    def attend(query: Tensor, key: Tensor, value: Tensor, *given: Any, **named: Any) -> Tensor:
        if query.device != _META:
            return own(query, key, value, *given, **named)
        return query.new_empty(*query.shape[:-1], value.shape[-1])

    with mock.patch.object(torch.nn.functional, "scaled_dot_product_attention", attend):
        yield
