"""Many surveys from one file: every model on every prompt set with every variant of the options."""

import inspect
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Final, Literal

import pandas as pd
import xarray as xr

from bathyscope.core.recipes import overlay, read_recipe
from bathyscope.core.result import rows_of
from bathyscope.errors import OptionError, did_you_mean
from bathyscope.measures.registry import MEASURES
from bathyscope.model import Model, load
from bathyscope.prompts.source import label_of
from bathyscope.runs.folder import folder_path
from bathyscope.runs.run import Run
from bathyscope.surveying.asking import Survey
from bathyscope.surveying.engines import survey

State = Literal["waiting", "running", "done", "failed"]

_AXES: Final = {"models": "model", "prompts": "prompts", "options": ""}
"""Lists of a grid, and what an entry that is no mapping gives; an option is always a mapping."""
_OF_A_CALL: Final = ("out", "progress", "command", "loading", "part", "tokenizer", "family")
"""Arguments of ``load`` and ``survey`` that a grid gives itself, or that a file cannot hold."""
_LOADING: Final = frozenset(inspect.signature(load).parameters) - {"model", *_OF_A_CALL}
_SURVEYING: Final = frozenset(inspect.signature(survey).parameters) - {"options", "model", *_OF_A_CALL}
_EXAMPLE: Final = "models: [gpt2, Qwen/Qwen2.5-0.5B], prompts: [gsm8k:10]"


@dataclass(frozen=True)
class Cell:
    """One survey of a grid.

    Args:
        name: its folder's in the grid's: model, prompts, and the option's name where there is one.
        asked: arguments of ``load`` and ``survey`` together.
        folder: of its run.
        error: why it has failed.
        run: what it gave.
    """

    name: str
    asked: Mapping[str, Any]
    folder: Path
    state: State = "waiting"
    error: Exception | None = None
    run: Run | None = None

    @property
    def said(self) -> str:
        """The verdict of a finished run, or what is wrong."""
        if self.error is not None:
            return str(self.error) or type(self.error).__name__
        return "" if self.run is None else self.run.headline()


@dataclass(frozen=True, repr=False)
class Grid:
    """What became of every survey of a grid, in the order of the file."""

    cells: tuple[Cell, ...]

    def __repr__(self) -> str:
        states = Counter(cell.state for cell in self.cells)
        said = ", ".join(f"{number} {state}" for state, number in states.items())
        return f"<Grid of {len(self.cells)} survey{'s' * (len(self.cells) != 1)}: {said}>"

    @property
    def failed(self) -> tuple[Cell, ...]:
        """Surveys that could not be carried out."""
        return tuple(cell for cell in self.cells if cell.state == "failed")

    @property
    def runs(self) -> dict[str, Run]:
        """Finished runs by name."""
        return {cell.name: cell.run for cell in self.cells if cell.run is not None}

    @property
    def data(self) -> xr.Dataset:
        """The table as arrays over surveys."""
        return xr.Dataset.from_dataframe(self.table)

    @property
    def text(self) -> str:
        """How many surveys are done, and how many failed."""
        done = sum(cell.state == "done" for cell in self.cells)
        failed = f"; {len(self.failed)} failed" if self.failed else ""
        return f"{done} of {len(self.cells)} surveys done{failed}."

    def to_dataframe(self) -> pd.DataFrame:
        """Return the table."""
        return self.table

    def record(self) -> list[dict[str, Any]]:
        """Return the rows of the table."""
        return rows_of(self.table)

    @property
    def table(self) -> pd.DataFrame:
        """One row a survey: ``cell``, ``state``, ``prompts`` (their number, once known), ``folder`` and ``said``."""
        rows = [
            (one.name, one.state, None if one.run is None else one.run.identity.prompts, str(one.folder), one.said)
            for one in self.cells
        ]
        columns = ["cell", "state", "prompts", "folder", "said"]
        return pd.DataFrame(rows, columns=columns).astype({"prompts": "Int64"})


def grid(
    recipe: str | Path | Mapping[str, Any],
    out: str | Path,
    *,
    progress: bool = True,
    each: Callable[[Grid], None] | None = None,
) -> Grid:
    """Surveys every model on every prompt set with every variant of the options.

    A survey that fails does not stop the others. What is there already is resumed, or opened where it is finished, when
    the same grid is asked for again. A model is loaded once for all surveys that ask for it in the same way.

    Args:
        recipe: YAML file, or what it holds: lists ``models``, ``prompts`` and, if wanted, ``options``; an entry is a
            name or a mapping of arguments of ``load`` and ``survey`` (``name``: what it is called). Whatever stands
            beside the lists holds for all; an entry of options has its say last.
        out: folder of the runs, one folder each.
        progress: show a progress bar for each survey on standard error when it takes long.
        each: told of the grid whenever a survey begins or ends.

    Raises:
        OptionError: unreadable, no models or prompts, an unknown argument, measure or option, two surveys of one name;
            before anything is computed.

    Example:
        >>> recipe = {"models": ["model", "shallow"], "prompts": ["prompts.jsonl"], "measures": "drop"}
        >>> found = bathyscope.grid(recipe, "runs/grid", progress=False)
        >>> found.table.state.tolist(), found.failed
        (['done', 'done'], ())
    """
    found = Grid(tuple(_cells(recipe, folder_path(out, "out"))))
    held: tuple[Mapping[str, Any], Model | Exception] | None = None
    for place, cell in enumerate(found.cells):
        found = _with(found, place, replace(cell, state="running"), each)
        how = {name: value for name, value in cell.asked.items() if name in {"model", *_LOADING}}
        try:
            if cell.asked.get("engine") is not None:
                run = _surveyed(cell, str(how.pop("model")), progress, loading=how)
            else:
                if held is None or held[0] != how:
                    held = None  # let go of one model before the next is loaded
                    held = (how, _loaded(how))
                if isinstance(held[1], Exception):
                    raise held[1]
                run = _surveyed(cell, held[1], progress)
        # one survey's mistake, whatever it is, does not end the others
        except Exception as error:
            _let_go(error)
            ended = replace(cell, state="failed", error=error)
        else:
            ended = replace(cell, state="done", run=run)
        found = _with(found, place, ended, each)
    return found


def _let_go(error: BaseException | None) -> None:
    """What was at work when an error came is held by it no longer; where it came from can still be told."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _with(found: Grid, place: int, cell: Cell, each: Callable[[Grid], None] | None) -> Grid:
    found = Grid((*found.cells[:place], cell, *found.cells[place + 1 :]))
    if each is not None:
        each(found)
    return found


def _loaded(how: Mapping[str, Any]) -> Model | Exception:
    """The model, or why there is none: every survey that asks for it says so."""
    try:
        return load(**how)
    except Exception as error:
        return error


def _surveyed(cell: Cell, model: Model | str, progress: bool, **further: Any) -> Run:
    asked = {name: value for name, value in cell.asked.items() if name not in {"model", *_LOADING}}
    return survey(model, **asked, out=cell.folder, progress=progress, **further)


def _cells(recipe: str | Path | Mapping[str, Any], out: Path) -> Iterator[Cell]:
    """Every survey, each looked at as far as can be without its model."""
    content = dict(recipe) if isinstance(recipe, Mapping) else read_recipe(recipe)
    axes = {axis: _entries(axis, content.pop(axis, None)) for axis in _AXES}
    names: set[str] = set()
    for entries in product(axes["models"], axes["prompts"], axes["options"] or [{}]):
        cell = _cell(entries, content, out)
        if cell.name in names:
            raise OptionError(
                f"Two surveys of the grid are called {cell.name!r}; give one of their models, prompts or options "
                "another name (name: ...)."
            )
        names.add(cell.name)
        yield cell


def _entries(axis: str, given: Any) -> list[Mapping[str, Any]]:
    if given is None and axis == "options":
        return []
    if not isinstance(given, Sequence) or isinstance(given, str) or not given:
        raise OptionError(f"{axis}={given!r} is no list of a grid; write at least one entry, such as {_EXAMPLE}.")
    entries = [one if isinstance(one, Mapping) else {_AXES[axis]: one} for one in given]
    for one in entries:
        if "" in one or (axis != "options" and _AXES[axis] not in one):
            said = one.get("", dict(one))
            needed = (
                "arguments of survey, such as {name: late, seed: 1}" if axis == "options" else f"{_AXES[axis]}: ..."
            )
            raise OptionError(f"{axis}: the entry {said!r} lacks what it is an entry of; write {needed}.")
    return entries


def _cell(entries: Sequence[Mapping[str, Any]], common: Mapping[str, Any], out: Path) -> Cell:
    model, prompts, option = entries
    asked: dict[str, Any] = dict(common)
    for entry in entries:
        asked = overlay(asked, {key: value for key, value in entry.items() if key != "name"})
    called = [
        str(model.get("name") or Path(str(model["model"])).name),
        str(prompts.get("name") or label_of(prompts["prompts"])),
        *([str(option["name"])] if option.get("name") else []),
    ]
    name = re.sub(r"[^\w.-]+", "-", "-".join(called)).strip("-.")
    _require_known(name, asked)
    return Cell(name, asked, out / name)


def _require_known(name: str, asked: Mapping[str, Any]) -> None:
    known = {"model", *_LOADING, *_SURVEYING}
    options = {key: value for key, value in asked.items() if key not in known}
    allowed = set(MEASURES)
    try:
        allowed |= Survey(asked.get("measures"), preset=asked.get("preset"), options=options).declared.keys()
    except OptionError as error:
        if options.keys() <= allowed:
            raise OptionError(f"{name}: {error}") from error
    for key in options:
        if key not in allowed:
            hint = did_you_mean(key, [*known, *allowed])
            raise OptionError(f"{name}: {key!r} is no argument of load or survey, and no measure.{hint}")
