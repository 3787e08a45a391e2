"""``grid``: many surveys from one file, every model on every prompt set with every variant of the options."""

import inspect
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import pandas as pd
import xarray as xr

from bathyscope.core.bundles import names_in
from bathyscope.core.calls import checked
from bathyscope.core.common_options import FOLDER_OF_RUNS
from bathyscope.core.paths import require_writable
from bathyscope.core.recipes import overlay, read_recipe, require_no_code
from bathyscope.core.result import TabledResult
from bathyscope.errors import OptionError, describe_value, did_you_mean
from bathyscope.measures.registry import MEASURES
from bathyscope.model import Model, load
from bathyscope.model.options import require_one_process
from bathyscope.options import items_of
from bathyscope.prompts.source import label_of
from bathyscope.runs.folder import folder_path, refuse_holder, require_own_folder
from bathyscope.runs.run import Run
from bathyscope.surveying.asking import Survey
from bathyscope.surveying.engines import survey
from bathyscope.surveying.options import BUNDLES

State = Literal["waiting", "running", "done", "failed"]

_AXES: Final = {"models": "model", "prompts": "prompts", "options": ""}
"""Lists of a grid, and the argument that an entry stands for which is no mapping; an option is always a mapping."""
_OF_A_CALL: Final = ("out", "progress", "command", "loading", "part", "tokenizer", "family")
"""Arguments of ``load`` and ``survey`` that a grid sets itself, or that a file cannot hold."""
_LOADING: Final = frozenset(inspect.signature(load).parameters) - {"model", *_OF_A_CALL}
_SURVEYING: Final = frozenset([*inspect.signature(survey).parameters, *names_in(BUNDLES)]) - {
    *("options", "model"),
    *_OF_A_CALL,
}
_EXAMPLE: Final = "models: [gpt2, Qwen/Qwen2.5-0.5B], prompts: [gsm8k:10]"


@dataclass(frozen=True)
class GridCell:
    """One survey of a grid.

    Args:
        name: its folder's in the grid's: model, prompts, and the option's name where there is one.
        arguments: of ``load`` and ``survey`` together.
        folder: of its run.
        error: why it has failed.
        run: the finished run.
    """

    name: str
    arguments: Mapping[str, Any]
    folder: Path
    state: State = "waiting"
    error: Exception | None = None
    run: Run | None = None

    @property
    def said(self) -> str:
        """The verdict of a finished run, or what went wrong."""
        if self.error is not None:
            return str(self.error) or type(self.error).__name__
        return "" if self.run is None else self.run.headline()


@dataclass(frozen=True, repr=False)
class Grid(TabledResult):
    """The state of every survey of a grid, in the order of the file."""

    cells: tuple[GridCell, ...]

    def __repr__(self) -> str:
        states = Counter(cell.state for cell in self.cells)
        counts = ", ".join(f"{number} {state}" for state, number in states.items())
        return f"<Grid of {len(self.cells)} survey{'s' * (len(self.cells) != 1)}: {counts}>"

    @property
    def failed(self) -> tuple[GridCell, ...]:
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

    @property
    def table(self) -> pd.DataFrame:
        """One row a survey: ``cell``, ``state``, ``prompts`` (their number, once known), ``folder`` and ``said``."""
        rows = [
            (
                cell.name,
                cell.state,
                None if cell.run is None else cell.run.identity.prompts,
                str(cell.folder),
                cell.said,
            )
            for cell in self.cells
        ]
        columns = ["cell", "state", "prompts", "folder", "said"]
        return pd.DataFrame(rows, columns=columns).astype({"prompts": "Int64"})


@checked
def grid(
    recipe: str | Path | Mapping[str, Any],
    out: Annotated[str | Path, FOLDER_OF_RUNS],
    *,
    progress: bool = True,
    each: Callable[[Grid], None] | None = None,
    allow_code: bool = False,
) -> Grid:
    """Survey every model on every prompt set with every variant of the options.

    A survey that fails does not stop the others. When the same grid is requested again, its runs are resumed, or opened
    where they are finished. A model is loaded once for all surveys that load it in the same way.

    Args:
        recipe: YAML file, or what it holds: lists ``models``, ``prompts`` and, if wanted, ``options`` (a text is the
            list of the names in it, with commas between them); an entry is a name or a mapping of arguments of
            ``load`` and ``survey`` (``name``: what it is called). Arguments next to the lists hold for all; an entry
            of options overrides the others.
        progress: show a progress bar for each survey on standard error when it takes long.
        each: called with the grid whenever a survey begins or ends.
        allow_code: run code that the file names: ``trust_remote_code``, and measures from files or modules. A mapping
            is the caller's own, and may name any.

    Raises:
        OptionError: unreadable, no models or prompts, an unknown argument, measure or option, two surveys of one name,
            a file that names code; before anything is computed.

    Example:
        >>> recipe = {"models": ["model", "shallow"], "prompts": ["prompts.jsonl"], "measures": "drop"}
        >>> outcome = bathyscope.grid(recipe, "runs/grid", progress=False)
        >>> outcome.table.state.tolist(), outcome.failed
        (['done', 'done'], ())
    """
    if not isinstance(recipe, str | Path | Mapping):
        raise OptionError(
            f"recipe={describe_value(recipe)} is no grid; give a YAML file, or a dict of what it holds ({_EXAMPLE})."
        )
    if each is not None and not callable(each):
        raise OptionError(f"each={describe_value(each)} cannot be called; give a function that takes the grid.")
    folder = folder_path(out, "out")
    refuse_holder(folder, "runs")
    require_writable(folder, holds="runs")
    outcome = Grid(tuple(_cells(recipe, folder, allow_code)))
    models = _LastModel()
    for place, cell in enumerate(outcome.cells):
        outcome = _with(outcome, place, replace(cell, state="running"), each)
        how = {name: value for name, value in cell.arguments.items() if name in {"model", *_LOADING}}
        try:
            if cell.arguments.get("engine") is not None:
                run = _surveyed(cell, str(how.pop("model")), progress, loading=how)
            else:
                run = _surveyed(cell, models.load(how), progress)
        # one survey's mistake, whatever it is, does not end the others
        except Exception as error:
            _let_go(error)
            ended = replace(cell, state="failed", error=error)
        else:
            ended = replace(cell, state="done", run=run)
        outcome = _with(outcome, place, ended, each)
    return outcome


def _let_go(error: BaseException | None) -> None:
    """Free what was at work when an error came; where it came from can still be told."""
    while error is not None:
        # frames hold the tensors of a survey that ran out of memory, which the next one needs
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _with(outcome: Grid, place: int, cell: GridCell, each: Callable[[Grid], None] | None) -> Grid:
    """Return the grid with a survey in its new state, and tell the caller."""
    outcome = Grid((*outcome.cells[:place], cell, *outcome.cells[place + 1 :]))
    if each is not None:
        each(outcome)
    return outcome


class _LastModel:
    """The model that was loaded last, for all surveys that load it in the same way."""

    def __init__(self) -> None:
        self._arguments: Mapping[str, Any] | None = None
        self._model: Model | None = None
        self._error: Exception | None = None

    def load(self, arguments: Mapping[str, Any]) -> Model:
        """Return the model, or raise again what loading it raised, which may have taken as long as loading."""
        if arguments != self._arguments:
            # let go of one model before the next is loaded
            self._model, self._error, self._arguments = None, None, arguments
            try:
                self._model = load(**arguments)
            except Exception as error:
                self._error = error
        if self._error is not None:
            raise self._error
        assert self._model is not None
        return self._model


def _surveyed(cell: GridCell, model: Model | str, progress: bool, **further: Any) -> Run:
    arguments = {name: value for name, value in cell.arguments.items() if name not in {"model", *_LOADING}}
    return survey(model, **arguments, out=cell.folder, progress=progress, **further)


def _cells(recipe: str | Path | Mapping[str, Any], out: Path, allow_code: bool) -> Iterator[GridCell]:
    """Yield every survey, each checked as far as possible without its model."""
    content = dict(recipe) if isinstance(recipe, Mapping) else read_recipe(recipe)
    if not isinstance(recipe, Mapping):
        require_no_code(content, recipe, allow_code)
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
        require_own_folder(cell.folder, "the surveys of a grid are folders of its own")
        yield cell


def _entries(axis: str, listed: Any) -> list[Mapping[str, Any]]:
    if listed is None and axis == "options":
        return []
    listed = items_of(listed) if isinstance(listed, str) else listed
    if not isinstance(listed, Sequence) or not listed:
        raise OptionError(
            f"{axis}={describe_value(listed)} is no list of a grid; write at least one entry, such as {_EXAMPLE}."
        )
    entries = [entry if isinstance(entry, Mapping) else {_AXES[axis]: entry} for entry in listed]
    for entry in entries:
        if "" in entry or (axis != "options" and _AXES[axis] not in entry):
            entry_text = repr(entry.get("", dict(entry)))
            needed = (
                "arguments of survey, such as {name: late, seed: 1}" if axis == "options" else f"{_AXES[axis]}: ..."
            )
            raise OptionError(f"{axis}: the entry {entry_text} lacks what it is an entry of; write {needed}.")
        if axis == "models" and not isinstance(entry["model"], str | Path):
            raise OptionError(
                f"models: {describe_value(entry['model'])} is no name. Give names on the hub or folders, which the "
                "grid loads one after the other."
            )
    return entries


def _cell(entries: Sequence[Mapping[str, Any]], common: Mapping[str, Any], out: Path) -> GridCell:
    model, prompts, option = entries
    arguments: dict[str, Any] = dict(common)
    for entry in entries:
        arguments = overlay(arguments, {key: value for key, value in entry.items() if key != "name"})
    called = [
        str(model.get("name") or Path(str(model["model"])).name),
        str(prompts.get("name") or label_of(prompts["prompts"])),
        *([str(option["name"])] if option.get("name") else []),
    ]
    name = re.sub(r"[^\w.-]+", "-", "-".join(called)).strip("-.")
    _require_known(name, arguments)
    return GridCell(name, arguments, out / name)


def _require_known(name: str, arguments: Mapping[str, Any]) -> None:
    require_one_process(arguments, "grid")
    argument_names = {"model", *_LOADING, *_SURVEYING}
    options = {key: value for key, value in arguments.items() if key not in argument_names}
    allowed = set(MEASURES)
    try:
        allowed |= Survey(arguments.get("measures"), preset=arguments.get("preset"), options=options).declared.keys()
    except OptionError as error:
        if options.keys() <= allowed:
            raise OptionError(f"{name}: {error}") from error
    for key in options:
        if key not in allowed:
            hint = did_you_mean(key, [*argument_names, *allowed])
            raise OptionError(f"{name}: {key!r} is no argument of load or survey, and no measure.{hint}")
