"""Problems of tasks as the experiments ask for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bathyscope.extend.prompts import Problem
from bathyscope.prompts.generators import DEFAULT_SPLIT, TASK_PREFIX
from bathyscope.prompts.tasks import Split


def task_text(name: str, options: Mapping[str, Any], count: int, split: Split = DEFAULT_SPLIT) -> str:
    """The source of a task with options as values, such as those of a recipe."""
    written = [f"{key}={_typed(value)}" for key, value in options.items()]
    return f"{TASK_PREFIX}{name}:{count}?{'&'.join([f'split={split}', *written])}"


def _typed(value: Any) -> str:
    """The text that a source of prompts reads as this value."""
    if not isinstance(value, list | tuple):
        return str(value)
    return ("-" if all(isinstance(one, int) for one in value) else ",").join(map(str, value))


def first_of_each(problems: Sequence[Problem]) -> list[bool]:
    """Which problems ask what none before them asks: the same question again says nothing new about a model."""
    places = {problem.question: place for place, problem in reversed(list(enumerate(problems)))}
    return [places[problem.question] == place for place, problem in enumerate(problems)]
