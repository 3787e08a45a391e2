"""Checks of arguments of Python callers: one sentence for an argument of the wrong type."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

from bathyscope.core.result import PageResult
from bathyscope.errors import OptionError, describe_type
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.names import run_names
from bathyscope.runs.opening import open_run
from bathyscope.runs.run import Run


def read_runs(argument: object) -> list[Run]:
    """Return the runs that a caller gave, one or several; a path is the folder of a run, which is opened.

    Raises:
        OptionError: something else, or nothing.
        StoreError: a folder that holds no run.
    """
    is_one = isinstance(argument, Run | str | bytes | Path) or not isinstance(argument, Iterable)
    several = [argument] if is_one else list(cast(Iterable[object], argument))
    if not several:
        raise OptionError("No run given. Give what bathyscope.survey or bathyscope.open returns, or a list of it.")
    runs = []
    for run in several:
        if isinstance(run, str | Path):
            run = open_run(run)
        if not isinstance(run, Run):
            inside = f" in a {type(argument).__name__}" if run is not argument else ""
            raise OptionError(
                f"Expected runs, not {describe_type(run)}{inside}. Give what bathyscope.survey or bathyscope.open "
                "returns, the folder of a run, or a list of these."
            )
        runs.append(run)
    return runs


def read_one_run(argument: object, verb: str) -> Run:
    """Return the run that a caller gave to a verb that takes one.

    Raises:
        OptionError: several, or something else.
        StoreError: a folder that holds no run.
    """
    runs = read_runs(argument)
    if len(runs) != 1:
        raise OptionError(f"{verb} takes one run, not {len(runs)}. Call it once for each run.")
    return runs[0]


def split_acts(argument: object) -> tuple[list[Run], list[PageResult]]:
    """Split what a caller gave into runs and other results.

    Raises:
        OptionError: something else, or nothing.
    """
    if isinstance(argument, Iterator):
        # Runs and plans are picked in two passes; the first would exhaust an iterator.
        argument = list(argument)
    several = argument if isinstance(argument, list | tuple) else [argument]
    if not several:
        raise OptionError("A report needs at least one run, plan or repair; give a list such as [run].")
    acts = [item for item in several if isinstance(item, PageResult)]
    if len(acts) == len(several):
        return [], acts
    runs = read_runs([item for item in several if not isinstance(item, PageResult)] if acts else argument)
    # two objects may be one folder, opened twice or by a link
    places = [id(run) if run.path is None else run.path.resolve() for run in runs]
    if len(set(places)) < len(places):
        raise OptionError("The same run was given twice; a page shows each run once, so give each once.")
    return runs, acts


def name_runs(runs: Sequence[Run], names: Sequence[str] | str | None) -> list[str]:
    """Return the names of runs: those chosen by the caller, or what tells the runs apart.

    Raises:
        OptionError: another number of names than of runs, or a repeated name.
    """
    if names is None:
        return run_names(runs)
    chosen = [names] if isinstance(names, str) else list(names)
    if len(chosen) != len(runs) or len(set(chosen)) < len(chosen) or not all(isinstance(name, str) for name in chosen):
        count = "one name" if len(runs) == 1 else f"{len(runs)} different names"
        raise OptionError(
            f"names={chosen} is not allowed. Give {count}, one for each run; plans and repairs take none."
        )
    return chosen


def check_options(options: object) -> None:
    """Refuse anything but FigureOptions or None."""
    if not isinstance(options, FigureOptions | None):
        raise OptionError(f"options must be bathyscope.pages.FigureOptions(...) or None, not {describe_type(options)}.")
