"""Two ways to one result: the declared readout and the model's own, tails and full rows. The checks compare them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bathyscope.errors import is_out_of_memory
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.cache import CaptureCache
from bathyscope.model.anatomy.gaps import gap, token_gap
from bathyscope.model.anatomy.own_path import OwnPath
from bathyscope.model.anatomy.plain import logits_of
from bathyscope.model.anatomy.precision import widened
from bathyscope.model.anatomy.replay import Replay, State
from bathyscope.model.anatomy.steps import Steps


@torch.no_grad()
def readout_gap(anatomy: Anatomy, ids_BT: Tensor, final_BTD: Tensor, behind: Iterable[nn.Module]) -> float:
    """Compare the declared readout of h_L with the logits that the model itself makes of it.

    Both are computed in float32, whatever the weights are stored in. In bfloat16 a softcap that nobody declared can be
    smaller than the rounding of the logits, and yet move a loss by a tenth of a nat. What is behind the last block is
    therefore widened for as long as it is compared.

    Args:
        behind: the modules that run after the last block.
    """
    readout = anatomy.readout
    path = [module for module in (*behind, readout.norm, readout.projection, readout.head) if module is not None]
    resid_BTD = widened(anatomy.active(final_BTD))

    inputs = {"input_ids": ids_BT}
    if isinstance(readout.norm, OwnPath) and readout.norm.reads_embedded:
        # widened too: such a forward gives the head what it has normed in the dtype of what it was embedded in
        inputs = {"inputs_embeds": readout.norm.embedded(resid_BTD)}

    def hand_on(length: int | None) -> Any:
        return lambda *_, **__: resid_BTD if length is None else (resid_BTD, *[None] * (length - 1))

    with _widened(path), anatomy.replaced([hand_on(length) for length in anatomy.returns]):
        model_logits = logits_of(anatomy.model(**inputs, use_cache=False))
        declared_logits = readout(resid_BTD)
        # token by token: what mixed tokens would pass on the whole batch
        single = readout(resid_BTD[0, :1])
    return max(gap(declared_logits, model_logits), gap(single, model_logits[0, :1]))


@contextmanager
def _widened(modules: Iterable[nn.Module]) -> Iterator[None]:
    """Hold parameters narrower than float32 in float32 inside; modules that share them keep their own."""
    narrow = {
        (owner, name): parameter
        for module in modules
        for owner in module.modules()
        for name, parameter in owner._parameters.items()
        if parameter is not None and parameter.is_floating_point() and parameter.element_size() == 2
    }
    try:
        for (owner, name), parameter in narrow.items():
            # in the place of the parameter and not cast in place: a tied embedding is the same tensor
            owner._parameters[name] = nn.Parameter(parameter.float(), requires_grad=False)
        yield
    finally:
        for (owner, name), parameter in narrow.items():
            owner._parameters[name] = parameter


def tail_gaps(anatomy: Anatomy, replay: Replay, boundaries: Sequence[Tensor]) -> Steps[tuple[dict[int, float], str]]:
    """Compare full rows that leave the baseline at t = 1, middle and T−1 with tails on its keys and values.

    From t on, a row has the stream of the other sequence of the batch. Every block, the first included, is given the
    full row's exact stream, so that each kind of block shows its own gap.

    Args:
        boundaries: the plain stream; may grow, as long as it is a block ahead.

    Returns:
        By first own token the largest gap of any block, NaN where a tail cannot be run; and why it cannot.
    """
    tokens = replay.tokens
    starts = sorted({1, tokens // 2, tokens - 1})
    rows = {t: torch.cat([boundaries[0][:, :t], boundaries[0].flip(0)[:, t:]], dim=1) for t in starts}
    row_states: dict[int, State] = {t: {} for t in starts}
    tail_states: dict[int, State] = {t: {} for t in starts}
    donor_state: State = {}
    gaps = dict.fromkeys(starts, 0.0)
    yield
    for index, block in enumerate(anatomy.blocks):
        captured = CaptureCache()
        donor = _attempt(partial(replay.run, block, index, boundaries[index], cache=captured, state=donor_state))
        if isinstance(donor, str):
            return dict.fromkeys(starts, float("nan")), f"block {index} gives no keys and values to share: {donor}"
        attends = replay.attends(index, captured)
        for t in starts:
            tail_NTD = rows[t][:, t:].contiguous()
            rows[t] = replay.run(block, index, rows[t], state=row_states[t])
            lent_keys = CaptureCache(captured.keys, captured.values, t)
            lend = partial(replay.run, cache=lent_keys, start=t, attends=attends)
            tail = _attempt(partial(lend, block, index, tail_NTD, state=tail_states[t]))
            if isinstance(tail, str):
                return dict.fromkeys(starts, float("nan")), f"block {index} cannot run a tail: {tail}"
            gaps[t] = max(gaps[t], token_gap(tail, rows[t][:, t:]))
        yield
    return gaps, ""


def _attempt(run: Callable[[], Tensor]) -> Tensor | str:
    """Run a block, or say why it cannot be run with lent keys and values."""
    try:
        return run()
    # whatever a family raises is the answer to the question: the run then computes full rows and says so
    except (RuntimeError, TypeError, AttributeError, ValueError, IndexError, KeyError) as error:
        if is_out_of_memory(error):
            raise
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
