"""What a course holds by step, and by what names: its variables with their labels, and its attributes."""

from __future__ import annotations

from functools import partial
from typing import Final

from bathyscope.labels import Label, Table, interval
from bathyscope.surveying.training.gains import GAINS

READINGS: Final = ("half", "tokens_90", "readable", "own", "later")
COURSE_FOLDER: Final = "course"
"""Attribute of a course: the name of its folder, which tells it from others of the same model."""
STEP_WEIGHTS: Final = "step_weight_hashes"
"""Attribute of a course: the hash of the weights of each step; ``weight_hash`` is that of the last one."""
STEP_PACKINGS: Final = "step_packings"
"""Attribute of a course: how the weights of each step are stored, such as ``bitsandbytes 8-bit, per channel``."""
STEP_PRECISIONS: Final = "step_precisions"
"""Attribute of a course: the precision of the weights of each step; empty where a run does not tell it."""
STEP_CONFIGURATIONS: Final = "step_config_hashes"
"""Attribute of a course: the hash of the configuration of each step's model; empty where a run does not tell it."""
PER_STEPS: Final = 1000
"""Steps of training that a slope is over."""
_by_step = partial(Label, "step", source="own")
_by_block = partial(Label, "step block", source="own")
_by_reading = partial(Label, "reading", source="own")
TABLE: Final[Table] = {
    **{
        name: label
        for reading in READINGS
        for name, label in {
            reading: _by_step(f"the verdict's reading {reading}", "block", "over all prompts"),
            **interval(reading, _by_step, f"the 95 % interval of {reading}", "block", "bootstrap over prompts"),
        }.items()
    },
    "idle_blocks": _by_step(
        "blocks whose drop changes the loss by less than 0.01 nats", "block", "test of equivalence"
    ),
    "loss": _by_step("cross-entropy of the prompts", "nats", "mean over prompts"),
    **interval("loss", _by_step, "the 95 % interval of loss", "nats", "bootstrap over prompts"),
    "added_loss": _by_block("loss added without a block", "nats", "mean over prompts"),
    **interval("added_loss", _by_block, "the 95 % interval of added_loss", "nats", "bootstrap over prompts"),
    "skip_effect": _by_block("effect of skipping a block on the output", "1", "mean over tokens and prompts"),
    **GAINS,
    "matters_from": Label(
        "block",
        "first step since which dropping the block surely adds more than 0.01 nats, and than at a step 0 that guesses",
        "step",
        source="own",
    ),
    "change": _by_reading("reading at the last step less that at the first", "block", "paired by prompt"),
    **interval("change", _by_reading, "the 95 % interval of change", "block", "bootstrap over prompts"),
    "slope": _by_reading(f"trend of the reading over {PER_STEPS} steps", "block", "least squares over steps"),
    **interval("slope", _by_reading, "the 95 % interval of slope", "block", "bootstrap over prompts"),
}
