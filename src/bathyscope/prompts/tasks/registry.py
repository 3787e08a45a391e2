"""All tasks by name, made from keyword options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from bathyscope.errors import OptionError, did_you_mean
from bathyscope.options import coerce
from bathyscope.prompts.tasks.arithmetic import Arithmetic, ArithmeticOptions
from bathyscope.prompts.tasks.nested_arithmetic import NestedArithmetic, NestedArithmeticOptions
from bathyscope.prompts.tasks.permutations import Permutations, PermutationsOptions
from bathyscope.prompts.tasks.pointer_chasing import PointerChasing, PointerChasingOptions
from bathyscope.prompts.tasks.problem import Task


class Entry(NamedTuple):
    """A task as it is made: from its options."""

    make: Callable[[Any], Task]
    options_type: type[Any]


TASKS: Mapping[str, Entry] = {
    "arithmetic": Entry(Arithmetic, ArithmeticOptions),
    "nested_arithmetic": Entry(NestedArithmetic, NestedArithmeticOptions),
    "permutations": Entry(Permutations, PermutationsOptions),
    "pointer_chasing": Entry(PointerChasing, PointerChasingOptions),
}


def task(name: str, **options: Any) -> Task:
    """A task by its name, such as ``task("pointer_chasing", nodes=16, hops=(1, 8))``.

    Raises:
        OptionError: no such task (with a near miss), an unknown option, or a value that is not allowed.
    """
    if name not in TASKS:
        raise OptionError(f"{name!r} is no task.{did_you_mean(str(name), TASKS)} Allowed: {', '.join(TASKS)}.")
    entry = TASKS[name]
    return entry.make(coerce(entry.options_type, options, name))
