"""Generated prompts by the names under which sources ask for them: arithmetic problems, and the tasks.

All of them are problems with one right answer, and follow the survey's seed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from typing import TypeAlias, cast

from bathyscope.core.strict import whole_number_in
from bathyscope.errors import OptionError, PromptError
from bathyscope.prompts.levels import as_range, in_turn, shares
from bathyscope.prompts.problems import MAX_DIGITS, MAX_STEPS, Kind, generate, to_prompt
from bathyscope.prompts.prompt import Prompt
from bathyscope.prompts.tasks import TASKS, Split, task

Options = Mapping[str, int | str]

TASK_PREFIX = "task:"
DEFAULT_SPLIT: Split = "interpolate"
TASK_OPTIONS = ("count", "split", "written")
"""What every task takes in addition to its own options: ``count`` is another way to write COUNT."""


@dataclass(frozen=True)
class ArithmeticGenerator:
    """Arithmetic problems of ``bathyscope.prompts.problems``, which differ in difficulty by the labels ``axes``.

    The problems of a level (combination of the axes' values) are the same whichever other levels are chosen. An axis
    that is not given has two digits, and a number of steps that is drawn for each problem, or goes through all of them
    with ``per_level``.
    """

    name: str
    kind: Kind
    axes: tuple[str, ...]

    @property
    def options(self) -> tuple[str, ...]:
        """What may be after ``?``."""
        return (*self.axes, "per_level")

    def check(self, options: Options) -> None:
        """Refuses options before anything is loaded."""
        for axis in self.axes:
            if axis in options and as_range(options[axis])[-1] > (most := _HIGHEST[axis]):
                raise PromptError(
                    f"{self.name}: {axis}={as_range(options[axis])[-1]} is out of range; allowed: 1 to {most}."
                )

    def prompts(self, count: int | None, options: Options, seed: int) -> tuple[Prompt, ...]:
        """Prompts in turn of their levels; ``count`` is None where an option says how many of each."""
        self.check(options)
        per_level = cast(int | None, options.get("per_level"))
        levels = {axis: as_range(options[axis]) for axis in self.axes if axis in options}
        steps: Sequence[int | None] = levels.get("steps", [None])
        if "steps" not in levels and per_level is not None and "steps" in self.axes:
            steps = range(1, MAX_STEPS + 1)
        # Each combination of steps and digits is a level with a generator of its own, so that choosing further levels
        # changes no problem of these.
        combinations = list(product(steps, levels.get("digits", [2])))
        if count is not None and count < len(combinations):
            raise PromptError(
                f"{self.name}: {count} prompts cannot cover the {len(combinations)} levels that are asked for; give at "
                f"least {len(combinations)}."
            )
        sizes = [per_level or 0] * len(combinations) if count is None else shares(count, len(combinations))
        groups = [
            generate(self.kind, size, seed, steps=n_steps, digits=digits)
            for size, (n_steps, digits) in zip(sizes, combinations, strict=True)
        ]
        return tuple(to_prompt(problem) for problem in in_turn(groups))


_HIGHEST = {"steps": MAX_STEPS, "digits": MAX_DIGITS}


@dataclass(frozen=True)
class OfTask:
    """The first problems of a split of a task; its levels take turns.

    The label ``k`` is called ``steps`` here, since results have a dimension of that name.
    """

    task: str

    @property
    def options(self) -> tuple[str, ...]:
        return (*TASK_OPTIONS, *(field.name for field in fields(TASKS[self.task].options_type)))

    def check(self, options: Options) -> None:
        # The task itself knows what it takes: a first problem shows also that the split is not empty.
        self.prompts(1, options, 0)

    def prompts(self, count: int | None, options: Options, seed: int) -> tuple[Prompt, ...]:
        split = cast(Split, options.get("split", DEFAULT_SPLIT))
        written = options.get("written", "no")
        if written not in ("yes", "no"):
            raise PromptError(f"written= is yes or no, not {written!r}.")
        prompts = []
        try:
            task_options = {key: _value(str(value)) for key, value in options.items() if key not in TASK_OPTIONS}
            generator = task(self.task, **task_options)
            for index in range(count or 0):
                problem = generator.problem(index, seed, split)
                example = problem.example(written == "yes")
                labels = {"steps" if label == "k" else label: value for label, value in problem.labels.items()}
                prompts.append(Prompt(text=example.text, answer=example.answer, labels=labels))
        except OptionError as error:
            raise PromptError(str(error)) from error
        return tuple(prompts)


Generator: TypeAlias = ArithmeticGenerator | OfTask
"""What makes prompts without reading anything; both are asked in the same way."""
GENERATORS: Mapping[str, Generator] = {
    "problems": ArithmeticGenerator("problems", "word", ("steps",)),
    "sums": ArithmeticGenerator("sums", "sum", ("steps", "digits")),
    "addition": ArithmeticGenerator("addition", "addition", ("digits",)),
    "multiplication": ArithmeticGenerator("multiplication", "multiplication", ("digits",)),
    **{f"{TASK_PREFIX}{name}": OfTask(name) for name in TASKS},
}


def _value(text: str) -> int | str | tuple[int, int] | tuple[str, ...]:
    """A number, a pair of numbers, a list or a text."""
    first, _, last = text.partition("-")
    numbers = whole_number_in(first), whole_number_in(last)
    if numbers[0] is not None and first == text:
        return numbers[0]
    if numbers[0] is not None and numbers[1] is not None:
        return numbers[0], numbers[1]
    return tuple(text.split(",")) if "," in text else text
