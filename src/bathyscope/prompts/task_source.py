"""Problems of the laboratory's tasks as prompts.

::

    source = "task:" NAME [":" COUNT] ["?" OPTIONS]     task:pointer_chasing:200?hops=1-8&split=interpolate

OPTIONS are those of the task, where ``1-8`` is a pair of numbers and ``+,-`` a list, and three of the source: ``split``
(default ``interpolate``), ``written`` (``yes`` = the steps stand between question and answer) and ``count``, which is
another way to write COUNT.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple, cast

from bathyscope.errors import OptionError, PromptError, did_you_mean
from bathyscope.prompts.prompt import Prompt
from bathyscope.prompts.tasks import TASKS, Problem, Split, Task, task

PREFIX = "task:"
DEFAULT_SPLIT: Split = "interpolate"
OWN_OPTIONS = ("count", "split", "written")

_SOURCE = re.compile(r"task:(?P<task>[^:?]*)(?::(?P<count>[^?]*))?(?:\?(?P<options>.*))?", re.DOTALL)

Options = tuple[tuple[str, int | str], ...]


class TaskSource(NamedTuple):
    """A parsed source: ``task:NAME``, how many problems, and the options other than ``count`` as they were typed."""

    name: str
    size: int
    options: Options


def is_task(name: str | None) -> bool:
    """Whether a source's name is that of a task."""
    return name is not None and name.startswith(PREFIX)


def task_text(name: str, options: Mapping[str, Any], count: int, split: Split = DEFAULT_SPLIT) -> str:
    """The source of a task with options as values, such as those of a recipe; ``parse_task`` reads it."""
    written = [f"{key}={_typed(value)}" for key, value in options.items()]
    return f"{PREFIX}{name}:{count}?{'&'.join([f'split={split}', *written])}"


def parse_task(text: str) -> TaskSource:
    """Parse a source that begins with ``task:``.

    Raises:
        PromptError: no such task, or a count or an option that is not allowed.
    """
    source = _SOURCE.fullmatch(text)
    assert source is not None
    name = source["task"]
    if name not in TASKS:
        raise PromptError(
            f"Prompts {text!r}: {name!r} is no task.{did_you_mean(name, TASKS)} Allowed: "
            f"{', '.join(PREFIX + known for known in TASKS)}."
        )
    options = _options(text, name, source["options"])
    counts = [given for given in (source["count"], options.pop("count", None)) if given is not None]
    if len(counts) != 1:
        said = "say how many, and once" if counts else "say how many"
        raise PromptError(f"Prompts {text!r}: {said}, for example {PREFIX}{name}:20.")
    if not re.fullmatch(r"0*[1-9][0-9]*", counts[0]):
        raise PromptError(f"Prompts {text!r}: the count must be a whole number of at least 1, not {counts[0]!r}.")
    parsed = TaskSource(PREFIX + name, int(counts[0]), tuple(options.items()))
    try:
        _task(parsed.name, parsed.options).problem(0, 0, _split(parsed.options))
    except OptionError as error:
        raise PromptError(f"Prompts {text!r}: {error}") from error
    return parsed


def task_prompts(name: str, count: int, options: Options, seed: int) -> tuple[Prompt, ...]:
    """The first problems of a task's split; levels take turns.

    The label ``k`` is called ``steps`` here, since results have a dimension of that name.

    Args:
        name: ``task:`` and the task's name.
        count: how many.
        options: as ``parse_task`` gives them.
        seed: of the problems.
    """
    made, split, written = _task(name, options), _split(options), dict(options).get("written") == "yes"
    return tuple(_prompt(made.problem(index, seed, split), written) for index in range(count))


def _prompt(problem: Problem, written: bool) -> Prompt:
    labels = {"steps" if label == "k" else label: value for label, value in problem.labels.items()}
    example = problem.example(written)
    return Prompt(text=example.text, answer=example.answer, labels=labels)


def _options(text: str, name: str, given: str | None) -> dict[str, str]:
    allowed = (*OWN_OPTIONS, *(field.name for field in fields(TASKS[name].options_type)))
    found: dict[str, str] = {}
    for part in [] if given is None else given.split("&"):
        key, _, value = part.partition("=")
        if key not in allowed:
            listed = ", ".join(f"{option}=" for option in allowed)
            raise PromptError(
                f"Prompts {text!r}: unknown option {key!r}.{did_you_mean(key, allowed)} Options of {PREFIX}{name}: "
                f"{listed}."
            )
        if key in found:
            raise PromptError(f"Prompts {text!r}: option {key!r} is given twice; give it once.")
        if not value:
            raise PromptError(f"Prompts {text!r}: {key}= has no value; write {key}=VALUE.")
        if key == "written" and value not in ("yes", "no"):
            raise PromptError(f"Prompts {text!r}: written= is yes or no, not {value!r}.")
        found[key] = value
    return found


def _split(options: Options) -> Split:
    """The split that is asked for; the task refuses what is none."""
    return cast(Split, dict(options).get("split", DEFAULT_SPLIT))


def _task(name: str, options: Options) -> Task:
    own = {key: _value(str(value)) for key, value in options if key not in OWN_OPTIONS}
    return task(name.removeprefix(PREFIX), **own)


def _typed(value: Any) -> str:
    """The text that ``_value`` reads as this value."""
    if not isinstance(value, list | tuple):
        return str(value)
    return ("-" if all(isinstance(one, int) for one in value) else ",").join(map(str, value))


def _value(text: str) -> int | str | tuple[int, int] | tuple[str, ...]:
    """A number, a pair of numbers, a list or a text."""
    if text.isdecimal():
        return int(text)
    if pair := re.fullmatch(r"(\d+)-(\d+)", text):
        return int(pair[1]), int(pair[2])
    return tuple(text.split(",")) if "," in text else text
