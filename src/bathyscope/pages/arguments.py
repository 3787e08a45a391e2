"""Checks of what Python callers hand to the report: one sentence for what is of another type."""

from collections.abc import Iterable, Iterator, Sequence

from bathyscope.errors import OptionError
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.names import run_names
from bathyscope.runs.run import Run
from bathyscope.surgery.plan import Plan
from bathyscope.surgery.repaired import Repaired


def runs_of(given: object) -> list[Run]:
    """The runs given, one or several.

    Raises:
        OptionError: something else.
    """
    if isinstance(given, Run):
        return [given]
    several = list(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else [given]
    runs = [run for run in several if isinstance(run, Run)]
    for run in several:
        if not isinstance(run, Run):
            inside = f" in a {type(given).__name__}" if run is not given else ""
            raise OptionError(
                f"A report is drawn from runs, and {typed(run)}{inside} was given; give what bathyscope.survey or "
                "bathyscope.open returns, or a list of such."
            )
    return runs


def parted(given: object) -> tuple[list[Run], list[Plan | Repaired]]:
    """Return the runs given, and what ``prune`` and ``repair`` gave.

    Raises:
        OptionError: something else.
    """
    if isinstance(given, Iterator):
        given = list(given)
    several = given if isinstance(given, list | tuple) else [given]
    acts = [item for item in several if isinstance(item, Plan | Repaired)]
    return runs_of([item for item in several if not isinstance(item, Plan | Repaired)] if acts else given), acts


def named(runs: Sequence[Run], names: Sequence[str] | str | None) -> list[str]:
    """What the runs are called: the names given, or what tells them apart.

    Raises:
        OptionError: not as many names as runs, or one given twice.
    """
    if names is None:
        return run_names(runs)
    given = [names] if isinstance(names, str) else list(names)
    if len(given) != len(runs) or len(set(given)) < len(given) or not all(isinstance(one, str) for one in given):
        one = "one name; what prune chose has none" if len(runs) == 1 else ""
        wanted = one or f"{len(runs)} different names, one a run"
        raise OptionError(f"names={given} is not allowed; give {wanted}.")
    return given


def check_options(options: object) -> None:
    """Raises OptionError where these are no FigureOptions."""
    if not isinstance(options, FigureOptions | None):
        raise OptionError(
            f"A report's options is bathyscope.pages.FigureOptions(...), or None; {typed(options)} was given."
        )


def typed(value: object) -> str:
    """An argument and its type, for a refusal."""
    return f"{value!r:.60} of type {type(value).__name__}"
