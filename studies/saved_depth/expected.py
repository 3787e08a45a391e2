"""What was fixed before any depth here was measured: conditions, seeds, steps, claims, bounds and the rule of decision.

Known before, from pilots of another seed (100), of which accuracy and losses alone were looked at. Permutations: of 1
to 4 factors after 200 steps 1.00 of the answers are right with written steps and 0.45 at once, of 1 to 3 factors at
once 0.57 after 300 steps, and of 1 and 2 factors 0.61 alone and 0.69 with texts as three quarters of the loss, whose
loss was then 3.9 nats a token (5.2 by frequencies of tokens). Nested arithmetic at once: 0.29 modulo 3 after 300 steps
(chance is 0.33), and losses at chance modulo 2 with five operands after 70 and for sums alone after 155, so that it is
not expected to be learned at once here; it is trained all the same, since it is part of the question. Numbers of steps
and factors follow from that and from the time of one core. From ``docs/experiments/number_of_steps.md``: two blocks
that write solve what twelve that answer at once do not, and a written state is read at 0.4 boundaries of 2.

The primary reading is the prediction depth of the answer: the first boundary from which the likeliest token of the
lens is the model's own prediction and stays it, where the answer is predicted. Settle depth and the depth score by
effect on the output are printed next to it and not judged.

Differences are paired: one problem in two models of the same seed, over the problems that both solve. Models that
write are given the true steps. Where a model of either condition solves less than ``LEAST_SOLVED`` of the problems, or
both together fewer than ``LEAST_PROBLEMS``, nothing is decided: what is solved may then be luck. The mean of a seed is
one value; the interval is Student's over three seeds, 95 %. Sign flips of three seeds cannot reach p below 0.25, so
that no test rests on them. The bound of equivalence is half a block of six: below it the two conditions would be put
on the same block.

*Shallower* needs the whole interval below 0, *by more than the bound* the whole interval below −0.5, *less than the
bound apart* the whole interval within ±0.5; else nothing is decided. No seeds are added afterwards.

Nulls. With written steps the prompt is longer and ends otherwise, so that a model without any training may differ too:
three untrained models of the shape are read on both prompts, and a difference is put down to training where Welch's
interval of trained less untrained leaves out 0. Mixtures read the very same prompts alone and mixed, so that untrained
models differ by 0 exactly; what chance does there is how far two seeds of one condition lie apart, which is printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

BLOCKS: Final = 6
CONTEXT: Final = 64
SHAPE: Final[Mapping[str, Any]] = {
    "type": "llama",
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_hidden_layers": BLOCKS,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": CONTEXT,
}
SEEDS: Final = (0, 1, 2)
CONTROLS: Final = 3
TASKS: Final[Mapping[str, Mapping[str, Any]]] = {
    "permutations": {"factors": [1, 2], "beyond": [3, 3], "elements": "generators", "answer": "image"},
    "nested_arithmetic": {"leaves": 4, "depth": [2, 2], "beyond": [3, 3], "modulus": 3},
}
STEPS: Final = {"permutations": 400, "nested_arithmetic": 300, "mixture": 400}
MIXED_TASK: Final = "permutations"
BATCH: Final = 64
"""Problems of a step, in every training."""
TEXT_ROWS: Final = 8
"""Windows of text of a step, in both mixtures."""
TEXT_SHARES: Final = {"alone": 0.0, "half-texts": 0.5, "most-texts": 0.75}
"""Mixture → share of the texts in the loss."""
PROBLEMS: Final = 96
LEAST_PROBLEMS: Final = 20
LEAST_SOLVED: Final = 0.6
BOUND: Final = 0.5
READINGS: Final = {
    "prediction": "prediction depth",
    "settle": "settle depth",
    "effect": "depth score by effect on the output",
}
PRIMARY: Final = "prediction"


@dataclass(frozen=True)
class Claim:
    """A difference of depth that is judged: one condition less another, expected below 0.

    Args:
        key: its name.
        text: what is expected, as a sentence.
        subject: the difference in a few words.
        first: name of a condition.
        second: name of the condition that is subtracted.
        same_prompts: both read the very same prompts, so that untrained models cannot differ.
        levels: of the task, by which the difference is printed too.
    """

    key: str
    text: str
    subject: str
    first: str
    second: str
    same_prompts: bool = False
    levels: tuple[int, ...] = ()


CLAIMS: Final = (
    Claim(
        "writing_permutations",
        "After written steps the answer of `permutations` is shallower than at once, by more than half a block.",
        "permutations, written − at once",
        "permutations-written",
        "permutations-at-once",
        levels=(1, 2),
    ),
    Claim(
        "writing_arithmetic",
        "The same of `nested_arithmetic`.",
        "arithmetic, written − at once",
        "nested_arithmetic-written",
        "nested_arithmetic-at-once",
    ),
    Claim(
        "half_texts",
        "With texts as half of the loss the answer of `permutations` is shallower than when it is learned alone.",
        "permutations, half texts − alone",
        "permutations-half-texts",
        "permutations-alone",
        same_prompts=True,
        levels=(1, 2),
    ),
    Claim(
        "most_texts",
        "The same with texts as three quarters of the loss.",
        "permutations, three quarters texts − alone",
        "permutations-most-texts",
        "permutations-alone",
        same_prompts=True,
        levels=(1, 2),
    ),
)
"""In the order of the page."""
