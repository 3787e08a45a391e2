"""Problems of tasks as the experiments ask for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bathyscope.extend.prompts import Problem

LIKE_TRAINING: Final = "interpolate"
"""The split of a task whose problems are held out, but like those of the training."""


def task_text(name: str, options: Mapping[str, Any], count: int, split: str = LIKE_TRAINING) -> str:
    """The source of a task with options as values, such as those of a recipe."""
    written = [f"{key}={_typed(value)}" for key, value in options.items()]
    return f"task:{name}:{count}?{'&'.join([f'split={split}', *written])}"


def _typed(value: Any) -> str:
    """The text that a source of prompts reads as this value."""
    if not isinstance(value, list | tuple):
        return str(value)
    return ("-" if all(isinstance(one, int) for one in value) else ",").join(map(str, value))


def first_of_each(problems: Sequence[Problem]) -> list[bool]:
    """Which problems ask what none before them asks: the same question again says nothing new about a model."""
    places = {problem.question: place for place, problem in reversed(list(enumerate(problems)))}
    return [places[problem.question] == place for place, problem in enumerate(problems)]
