"""Sets of generated problems, with as many of every level as of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from bathyscope.errors import PromptError
from bathyscope.prompts.levels import in_turn, shares
from bathyscope.prompts.problems import MAX_DIGITS, MAX_STEPS, Kind, generate, to_prompt
from bathyscope.prompts.prompt import Prompt


@dataclass(frozen=True)
class Generator:
    """A kind of problem as the user asks for it.

    Args:
        kind: of ``bathyscope.prompts.problems``.
        axes: the labels in which its problems differ in difficulty.
    """

    kind: Kind
    axes: tuple[str, ...]

    @property
    def options(self) -> tuple[str, ...]:
        """What may stand after ``?``."""
        return (*self.axes, "per_level")


GENERATORS: Mapping[str, Generator] = {
    "problems": Generator("word", ("steps",)),
    "sums": Generator("sum", ("steps", "digits")),
    "addition": Generator("addition", ("digits",)),
    "multiplication": Generator("multiplication", ("digits",)),
}
DIGITS = 2
"""Of every operand where the source does not say."""

_HIGHEST = {"steps": MAX_STEPS, "digits": MAX_DIGITS}


def generated_prompts(
    name: str, count: int | None, per_level: int | None, levels: Mapping[str, range], seed: int
) -> tuple[Prompt, ...]:
    """Problems of every level (combination of the axes' values) in turn.

    The problems of a level are the same whichever levels stand beside it.

    Args:
        name: of the generator.
        count: how many altogether; None where ``per_level`` says how many of each level.
        levels: for each axis the values asked for. An axis that is not given has two digits, and a number of
            steps that is drawn for each problem, or goes through all of them with ``per_level``.
        seed: of the problems.

    Raises:
        PromptError: a level out of range, or fewer prompts than levels.
    """
    generator = GENERATORS[name]
    for axis, values in levels.items():
        if values[-1] > _HIGHEST[axis]:
            raise PromptError(f"{name}: {axis}={values[-1]} is out of range; allowed: 1 to {_HIGHEST[axis]}.")
    steps: list[int | None] = [None]
    if "steps" in levels:
        steps = [*levels["steps"]]
    elif per_level is not None and "steps" in generator.axes:
        steps = [*range(1, MAX_STEPS + 1)]
    combinations = list(product(steps, levels.get("digits", [DIGITS])))
    if count is not None and count < len(combinations):
        raise PromptError(
            f"{name}: {count} prompts cannot cover the {len(combinations)} levels that are asked for; give at least "
            f"{len(combinations)}."
        )
    sizes = [per_level or 0] * len(combinations) if count is None else shares(count, len(combinations))
    groups = [
        generate(generator.kind, size, seed, steps=n_steps, digits=digits)
        for size, (n_steps, digits) in zip(sizes, combinations, strict=True)
    ]
    return tuple(to_prompt(problem) for problem in in_turn(groups))
