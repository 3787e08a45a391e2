"""Operands: where prompts that have steps say which tokens their inputs are, and when each is left.

A prompt says it in the label ``operands``: the numbers of the tokens, in the order of the steps, such as ``"3 5 7"``.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from bathyscope.core.arrays import IntArray
from bathyscope.errors import PromptError
from bathyscope.measures.declaration import Declaration
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.statistics.operand_depth import operand_trend, operands_left_at

LABEL = "operands"


def require_operands(measure: str, prompts: Iterable[TokenizedPrompt]) -> None:
    """Raises PromptError where a prompt's label ``operands`` holds no numbers of its tokens."""
    for prompt in prompts:
        label = prompt.labels.get(LABEL, "")
        try:
            fits = all(0 <= token < len(prompt) for token in tokens_of(label))
        except ValueError:
            fits = False
        if not fits:
            raise PromptError(
                f"{measure}: prompt {prompt.id!r} has {LABEL}={label!r}, which names no tokens of its {len(prompt)}; "
                f'give their numbers, from 0 to {len(prompt) - 1}, in the order of its steps, such as "3 5 7".'
            )


def tokens_of(label: Any) -> tuple[int, ...]:
    """The numbers in a label, which may be one number; none where a prompt has no such label.

    Raises:
        ValueError: there is something else in it.
    """
    if isinstance(label, int | float | np.number):
        label = "" if np.isnan(label) else f"{label:g}"
    return tuple(int(part) for part in str(label).replace(",", " ").split())


def operand_summary(
    declared: Declaration, merged: xr.Dataset, effect: xr.DataArray | None, seed: int, cluster: IntArray | None = None
) -> xr.Dataset | None:
    """When the inputs of steps are left; None where no prompt names any.

    Args:
        merged: a measure's results of all prompts, with their labels.
        effect: what replacing a token's stream does, (prompt, boundary, token) in any order.
        cluster: [prompt], prompts of one number count as one; None = each for itself.
    """
    if effect is None or LABEL not in merged.coords:
        return None
    operands: Sequence[tuple[int, ...]] = [tokens_of(label) for label in merged[LABEL].values.tolist()]
    # prompts that are not measured may be longer than those that are
    tokens = effect.sizes["token"]
    operands = [
        tokens_of_prompt if all(token < tokens for token in tokens_of_prompt) else () for tokens_of_prompt in operands
    ]
    left = operands_left_at(effect.transpose("prompt", "boundary", "token").values, operands)
    operand_slope = operand_trend(left, cluster=cluster, seed=seed)
    data = {
        "operand_left": left,
        "operand_slope": operand_slope.slope,
        "operand_slope_low": operand_slope.ci_low,
        "operand_slope_high": operand_slope.ci_high,
    }
    return declared.dataset(data, {"operand": np.arange(left.shape[1])})
