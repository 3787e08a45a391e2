"""The stream of a looped model against its own forward, on the very prompts that are measured."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from torch import Tensor, nn

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.gaps import token_gap, tolerance
from bathyscope.model.anatomy.loops import Loops
from bathyscope.model.anatomy.replay import unwrap


def require_own_stream(model: nn.Module, loops: Loops, ids_BT: Tensor, state_BTD: Tensor) -> None:
    """Refuse a replay of these prompts that is not what the model's own forward gives behind its last step.

    What a step depends on was found with other tokens. A gate that none of them opened, or closed, shows here.

    Raises:
        ModelError: the streams differ, at any token of any prompt.
    """
    reached: list[Tensor] = []

    def end(*args: Any, **kwargs: Any) -> Any:
        reached.append(unwrap(loops.steps[-1](*args, **kwargs)))
        raise _LastStep

    with suppress(_LastStep), loops.calls.replaced([*loops.steps[:-1], end]):
        getattr(model, "base_model", model)(input_ids=ids_BT, use_cache=False)
    apart = token_gap(loops.active(state_BTD), reached[0].to(state_BTD.device))
    if not apart <= tolerance(state_BTD.dtype):
        raise ModelError(
            f"{type(model).__name__} cannot be measured on these prompts: behind its last step the replay differs from "
            f"its own forward by {apart:.1e} of the stream's norm. What stands between its loops depends on them in a "
            "way that no check at load has met, such as a gate that is rarely open. Set it to run all loops."
        )


class _LastStep(Exception):  # noqa: N818 — no error: it ends a forward behind the last step
    pass
