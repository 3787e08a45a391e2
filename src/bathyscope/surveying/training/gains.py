"""What blocks have come to cost since the first step of a course, paired by prompt, so that a random model is the null.

Leaving a block of an untrained model out changes the loss of its guesses by some hundredths of a nat, up or down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bathyscope.core.arrays import BoolArray, FloatArray
from bathyscope.core.estimates import Estimate
from bathyscope.labels import Label, Table, interval
from bathyscope.statistics.bootstrap import mean_intervals
from bathyscope.statistics.sampling import Sampling

if TYPE_CHECKING:
    import xarray as xr

GUESSING: Final = "first_step_guesses"
"""Attribute of a course: 1 where step 0 predicts no better than equal guesses do."""
_LEARNED: Final = 0.1
"""Nats below the loss of equal guesses from which a model has learned something."""
_by_step = partial(Label, "step", source="own")
_by_block = partial(Label, "step block", source="own")
GAINS: Final[Table] = {
    "added_loss_gain": _by_block("added_loss less that at the first step", "nats", "paired by prompt"),
    **interval("added_loss_gain", _by_block, "the 95 % interval of added_loss_gain", "nats", "bootstrap over prompts"),
    "late_blocks_loss": _by_step("loss added without a block, summed over the later half of the blocks", "nats"),
    **interval("late_blocks_loss", _by_step, "the 95 % interval of late_blocks_loss", "nats", "bootstrap over prompts"),
    "late_blocks_gain": _by_step("late_blocks_loss less that at the first step", "nats", "paired by prompt"),
    **interval("late_blocks_gain", _by_step, "the 95 % interval of late_blocks_gain", "nats", "bootstrap over prompts"),
}


def gains_of(added_by_step: Sequence[FloatArray], sampling: Sampling) -> dict[str, FloatArray]:
    """Return the variables of ``GAINS``; gains have no interval at the first step, which is compared with itself.

    Args:
        added_by_step: of each step the loss that each prompt gains without each block, [prompts, blocks].
        sampling: of the prompts, which are the same at every step.
    """
    added_SPL = np.stack(added_by_step)
    # the later half of an odd number of blocks is without the one in the middle
    later_SP1 = added_SPL[..., first_of_later(added_SPL.shape[2]) :].sum(2, keepdims=True)
    n_steps = len(added_SPL)
    values = _with_ends("late_blocks_loss", later_SP1, range(n_steps), sampling)
    for name, cost_SPX in (("added_loss_gain", added_SPL), ("late_blocks_gain", later_SP1)):
        values |= _with_ends(name, cost_SPX - cost_SPX[0], range(1, n_steps), sampling)
    return {name: value[:, 0] if name.startswith("late_blocks") else value for name, value in values.items()}


def _with_ends(name: str, cost_SPX: FloatArray, steps: range, sampling: Sampling) -> dict[str, FloatArray]:
    """Return the mean over prompts, [steps, X], and the ends of its interval at some of the steps; NaN at others."""
    ends_SX2 = np.full((*cost_SPX[:, 0].shape, 2), np.nan)
    for step in steps:
        ends_SX2[step] = mean_intervals(cost_SPX[step], sampling)
    mean_SX = np.nanmean(cost_SPX, axis=1)
    return {name: mean_SX, f"{name}_low": ends_SX2[..., 0], f"{name}_high": ends_SX2[..., 1]}


def surely_matters(added_low_SL: FloatArray, gain_low_SL: FloatArray, bound: float, guessing: bool) -> BoolArray:
    """Return where a block surely adds more than ``bound`` nats, and more than at a first step that only guesses.

    Args:
        added_low_SL, gain_low_SL: lower ends of the loss that it adds, and of what it adds more than at the first step.
    """
    matters_SL = added_low_SL > bound
    return matters_SL & (gain_low_SL > 0) if guessing else matters_SL


def first_of_later(n_blocks: int) -> int:
    """Return the first block of the later half."""
    return n_blocks - n_blocks // 2


def later_blocks(n_blocks: int) -> str:
    """Return the blocks of the later half as a text, such as ``3 to 5``."""
    begin, end = first_of_later(n_blocks), n_blocks - 1
    return str(end) if begin == end else f"{begin} to {end}"


def is_guessing(first_step: int, loss: float, vocabulary: int | None) -> bool:
    """Return whether a course begins at step 0 with a model that has learned nothing, by its loss on the prompts."""
    return first_step == 0 and vocabulary is not None and loss > math.log(vocabulary) - _LEARNED


def later_text(data: xr.Dataset) -> str:
    """Return what the later half of the blocks costs at the first and the last step; empty where that is unknown."""
    n_blocks = int(data.attrs["n_blocks"])
    if "late_blocks_loss" not in data or n_blocks < 2:
        return ""
    first, last = (Estimate.of(data.isel(step=place), "late_blocks_loss") for place in (0, -1))
    text = f"leaving out the later half ({later_blocks(n_blocks)}), a block at a time, adds in all "
    text += first.write("+.3g", " nats")
    if data.sizes["step"] == 1:
        return text
    gain = Estimate.of(data.isel(step=-1), "late_blocks_gain")
    return f"{text} at the first step, {last:+.3g} at the last (change {gain.write_in_brackets('+.3g')})"


def guessing_text(data: xr.Dataset) -> str:
    """Return how the depth of a course that begins untrained is to be read; empty for others."""
    if not data.attrs.get(GUESSING):
        return ""
    return "; step 0 only guesses, and a fall from there is no loss of depth"


def record_of_guessing(data: dict[str, Any], first_step: int, vocabulary: object) -> dict[str, int]:
    """Return the attribute ``GUESSING`` of a course, from its values and the vocabulary that its folder tells."""
    if "loss" not in data or not isinstance(vocabulary, int):
        return {}
    return {GUESSING: int(is_guessing(first_step, float(data["loss"][0]), vocabulary))}
