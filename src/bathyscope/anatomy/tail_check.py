"""May a row that begins late borrow the keys and values of the tokens before it? Tried on every block."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from bathyscope.anatomy.anatomy import Anatomy
from bathyscope.anatomy.cache import CaptureCache
from bathyscope.anatomy.gaps import token_gap
from bathyscope.anatomy.replay import Replay, State, tail_cache
from bathyscope.anatomy.steps import Steps
from bathyscope.errors import is_out_of_memory


def tail_gaps(anatomy: Anatomy, replay: Replay, boundaries: Sequence[Tensor]) -> Steps[tuple[dict[int, float], str]]:
    """Rows that leave the baseline at t = 1, middle and T−1, in full against tails on the baseline's keys and values.

    From t on, a row has the stream of the other sequence of the batch. Every block, the first included, is given the
    full row's exact stream, so that each kind of block shows its own gap.

    Args:
        boundaries: the plain stream; may grow, as long as it is a block ahead.

    Returns:
        By first own token the largest gap of any block, NaN where a tail cannot be run; and why it cannot.
    """
    tokens = replay.tokens
    starts = sorted({1, tokens // 2, tokens - 1})
    every = torch.arange(replay.batch, device=boundaries[0].device)
    rows = {t: torch.cat([boundaries[0][:, :t], boundaries[0].flip(0)[:, t:]], dim=1) for t in starts}
    row_states: dict[int, State] = {t: {} for t in starts}
    tail_states: dict[int, State] = {t: {} for t in starts}
    donor_state: State = {}
    gaps = dict.fromkeys(starts, 0.0)
    yield
    for index, block in enumerate(anatomy.blocks):
        captured = CaptureCache()
        donor = _attempt(partial(replay.run, block, index, boundaries[index], every, cache=captured, state=donor_state))
        if isinstance(donor, str):
            return dict.fromkeys(starts, float("nan")), f"block {index} gives no keys and values to share: {donor}"
        attends = replay.attends(index, captured)
        for t in starts:
            own = rows[t][:, t:].contiguous()
            rows[t] = replay.run(block, index, rows[t], every, state=row_states[t])
            lend = partial(replay.run, cache=tail_cache(captured, slice(None), t), start=t, attends=attends)
            tail = _attempt(partial(lend, block, index, own, every, state=tail_states[t]))
            if isinstance(tail, str):
                return dict.fromkeys(starts, float("nan")), f"block {index} cannot run a tail: {tail}"
            gaps[t] = max(gaps[t], token_gap(tail, rows[t][:, t:]))
        yield
    return gaps, ""


def _attempt(run: Callable[[], Tensor]) -> Tensor | str:
    # Whatever a family raises when it is lent keys and values it does not know how to use is the answer to the
    # question this check asks; the run then computes full rows and says so.
    try:
        return run()
    except (RuntimeError, TypeError, AttributeError, ValueError, IndexError, KeyError) as error:
        if is_out_of_memory(error):
            raise
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
