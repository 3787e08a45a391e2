"""Checks that the options of several experiments need."""

from __future__ import annotations

from bathyscope_lab.recipe import Recipe

from bathyscope.errors import OptionError


def require_one_at_least(options: object, *names: str) -> None:
    """Refuses counts below 1.

    Raises:
        OptionError: names the option, what was given and what is allowed.
    """
    for name in names:
        if getattr(options, name) < 1:
            raise OptionError(f"{name}={getattr(options, name)} is out of range; give at least 1.")


def require_each_at_least(options: object, name: str, lowest: int) -> None:
    """Refuses numbers below ``lowest`` in an option that has several.

    Raises:
        OptionError: names the option, the first such number and what is allowed.
    """
    for one in getattr(options, name):
        if one < lowest:
            raise OptionError(f"{name}: {one} is out of range; give whole numbers of at least {lowest}.")


def require_each_once(options: object, *names: str) -> None:
    """Refuses an option that has one value twice: each is a model of its own.

    Raises:
        OptionError: names the option and the first such value.
    """
    for name in names:
        values = list(getattr(options, name))
        twice = next((one for number, one in enumerate(values) if one in values[:number]), None)
        if twice is not None:
            raise OptionError(f"{name} names {twice} twice; name each once.")


def require_no_written_steps(recipe: Recipe) -> None:
    """Refuses a recipe whose models write steps before the answer, since experiments ask for the answer at once.

    Raises:
        OptionError: names the recipe and says how to change it.
    """
    if recipe.steps:
        raise OptionError(
            f"The recipe {recipe.name!r} trains on written steps (steps: true), but this experiment asks for the "
            "answer right after the question, without them; train without them too: --set steps=false. "
            "Models that write their steps are read by studies.problem_depth.written."
        )
