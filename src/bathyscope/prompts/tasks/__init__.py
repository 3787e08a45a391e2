"""Tasks that need depth: problems with one right answer, a bound on sequential steps, and controls against shortcuts.

``task("pointer_chasing", hops=(1, 8)).problem(0, seed=0, split="train")`` is a ``Problem``; ``vocabulary`` makes
tokenizers in which every word of a task is one token.
"""

from collections.abc import Mapping
from typing import Any

from bathyscope.errors import OptionError, did_you_mean
from bathyscope.options import coerce
from bathyscope.prompts.tasks.arithmetic import Arithmetic
from bathyscope.prompts.tasks.drawing import Task
from bathyscope.prompts.tasks.nested_arithmetic import NestedArithmetic
from bathyscope.prompts.tasks.permutations import Permutations
from bathyscope.prompts.tasks.pointer_chasing import PointerChasing
from bathyscope.prompts.tasks.problem import SPLITS, Example, Problem, Split

__all__ = ["SPLITS", "TASKS", "Example", "Problem", "Split", "Task", "task"]

TASKS: Mapping[str, type[Task[Any]]] = {
    kind.name: kind for kind in (Arithmetic, NestedArithmetic, Permutations, PointerChasing)
}


def task(name: str, **options: Any) -> Task[Any]:
    """A task by its name, such as ``task("pointer_chasing", nodes=16, hops=(1, 8))``.

    Args:
        name: of a task.
        options: of its own.

    Raises:
        OptionError: no such task (with a near miss), an unknown option, or a value that is not allowed.

    Example:
        >>> from bathyscope.extend.prompts import task
        >>> task("permutations", factors=(1, 4), beyond=(5, 5)).problem(0, seed=0, split="train").labels["split"]
        'train'
    """
    if name not in TASKS:
        raise OptionError(f"{name!r} is no task.{did_you_mean(str(name), TASKS)} Allowed: {', '.join(TASKS)}.")
    return TASKS[name](coerce(TASKS[name].options_type, options, name))
