"""What ``repair`` gives: the rungs of its ladder, which of them was chosen, and whether other prompts prove it.

The choice is the rung that costs least on calibration prompts that no map and no training saw; doing nothing is one of
the rungs. It is proved where the test prompts show that it costs less than doing nothing. Only then is it written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from math import isnan, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import xarray as xr

from bathyscope.core.estimates import Estimate
from bathyscope.core.foreign import read_regular
from bathyscope.core.result import PageResult
from bathyscope.core.strict import DAMAGED, read_json
from bathyscope.core.tables import TextTable, markdown_of
from bathyscope.core.text import elided, level_text, literal_markdown, without_folders
from bathyscope.errors import OptionError, RepairError, StoreError
from bathyscope.labels import Label, interval, labelled
from bathyscope.model.identity import ModelIdentity
from bathyscope.runs.folder import MOST_DEEP, folder_path, reason
from bathyscope.schedule import Schedule, Scheduling
from bathyscope.surgery.checkpoint.card import on_data
from bathyscope.surgery.checkpoint.json_record import Act, record_of
from bathyscope.surgery.checkpoint.target_folder import taken_error

if TYPE_CHECKING:
    import pandas as pd

NONE: Final = "none"
HEAL: Final = "heal"
REPAIR: Final = "repair.json"
"""The file of an exported repair that holds its record."""
_FORMS: Final = {
    "calibration": ".4f",
    "cost on test prompts, nats a token": ".4f",
    "gain over none": "+.4f",
    "recovered": ".0%",
}
"""Heading of the table → how its numbers are written."""


@dataclass(frozen=True)
class Rung:
    """One rung of the ladder, measured on the test prompts.

    Args:
        name: "none", "scale", "linear" or "heal".
        cost: mean over prompts of a token's loss above the whole model's, in nats, with the ends of its interval.
        recovered: share of the cost without repair that is recovered, with the ends of its interval. NaN where dropping
            costs nothing on these prompts; the ends alone where that cannot be told from nothing.
        why_not: why this rung could not be had; empty where it was. All numbers are NaN then.
        calibration_cost: the same cost on calibration prompts that neither maps nor training saw.
        gain: cost without repair less this cost, on the same test prompts, with the ends of its paired interval.
    """

    name: str
    cost: float = nan
    cost_low: float = nan
    cost_high: float = nan
    recovered: float = nan
    recovered_low: float = nan
    recovered_high: float = nan
    why_not: str = ""
    calibration_cost: float = nan
    gain: float = nan
    gain_low: float = nan
    gain_high: float = nan

    def interval_text(self, name: str, form: str) -> str:
        """Return ``cost``, ``gain``, ``recovered`` or ``loss`` with its interval, as text; "–" for what is missing.

        The ``loss`` is what is gained, with the other sign.
        """
        number = "gain" if name == "loss" else name
        estimate = Estimate.of(vars(self), number)
        if name == "loss":
            # subtracted from 0, since −0 would be printed with its sign
            estimate = Estimate(0.0 - estimate.value, 0.0 - estimate.high, 0.0 - estimate.low)
        return estimate.write(form)

    def cells(self) -> list[str | float | Estimate | None]:
        """Return the rung as a row of its table; None for what cannot be."""
        cost, gain, recovered = (Estimate.of(vars(self), name) for name in ("cost", "gain", "recovered"))
        if self.name == NONE:
            return [self.name, self.calibration_cost, cost, None, None]
        return [self.name, self.calibration_cost, cost, gain, "nothing; worse" if self.recovered < 0 else recovered]


_SOURCE: Final = "repair"


def _label(name: str, formula: str = "") -> Label:
    return Label("rung", name, "nats", formula, _SOURCE)


_TABLE: Final = {
    "calibration_cost": _label("mean cost on calibration prompts that were kept aside"),
    "cost": _label("mean cost on the test prompts", "mean of loss(repaired) − loss(whole)"),
    **interval("cost", _label, "its interval"),
    "gain": _label("cost without repair less this cost", "mean of loss(none) − loss(repaired)"),
    **interval("gain", _label, "its paired interval"),
    "recovered": Label("rung", "share of the cost without repair that is recovered", source=_SOURCE),
}


@dataclass(frozen=True)
class Provenance:
    """What a repair was made of and measured on.

    Args:
        model: name, hashes, precision and number of blocks.
        data: role → name, hash, prompts and tokens.
        settings: of the ladder and of its intervals.
        units: what intervals resample, such as "prompts".
    """

    model: Mapping[str, Any]
    data: Mapping[str, Mapping[str, Any]]
    settings: Mapping[str, Any]
    units: str


@dataclass(frozen=True, repr=False)
class Repaired(PageResult):
    """A scheduled model whose remaining weights were changed to make up for what was dropped.

    Args:
        schedule: the blocks that stay.
        rungs: the ladder, up to the last one asked for.
        about: model, prompts and settings.
        model: the whole model; None where it was read from a folder.
        hf: the chosen copy, a transformers model; None where it was read from a folder.

    Example:
        >>> fixed = bathyscope.repair("model", "drop:1", "prompts.jsonl", test="test.jsonl", how="scale", resamples=100)
        >>> fixed.chosen in ("none", "scale"), fixed.proved in (True, False)
        (True, True)
        >>> fixed.record()["kind"], fixed.data.sizes["rung"], len(fixed.table), len(fixed.to_dataframe())
        ('repair', 2, 2, 2)
        >>> fixed.text.startswith(("Proved on", "Not proved on", "No repair helps"))
        True
        >>> fixed.best.name == fixed.chosen, fixed.evidence.startswith(fixed.text)
        (True, True)
        >>> fixed.heading, fixed.models[0].name, fixed.tables()[0].headings[0]
        ('Repaired: model with drop:1', 'model', 'repair')
        >>> if fixed.proved:
        ...     fixed.require_proved()
        ...     _ = fixed.export("fixed")
    """

    schedule: Schedule
    rungs: tuple[Rung, ...]
    about: Provenance
    model: Any = field(default=None, repr=False, compare=False)
    hf: Any = field(default=None, repr=False, compare=False)
    _changes: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    kind = "repair"

    @property
    def _outline(self) -> str:
        name = self.about.model.get("name", "a model")
        return f" of {name}, {self.schedule}: {self.chosen}, {'proved' if self.proved else 'not proved'}"

    @property
    def heading(self) -> str:
        """The heading of its section on a page."""
        return f"Repaired: {without_folders(str(self.about.model.get('name', 'a model')))} with {self.schedule}"

    @property
    def models(self) -> tuple[ModelIdentity, ...]:
        """The model that was repaired, as far as its record tells it."""
        return (ModelIdentity.of_record(self.about.model),)

    def tables(self) -> list[TextTable]:
        """Return a row for every rung, and below them why some could not be had."""
        reasons = [f"{rung.name}: {rung.why_not}" for rung in self.rungs if rung.why_not]
        rows = [rung.cells() for rung in self.rungs]
        return [TextTable(("repair", *_FORMS), rows, caption=reasons, forms=_FORMS)]

    @property
    def chosen(self) -> str:
        """The rung that costs least on the calibration prompts that were kept aside; the first of equal ones."""
        measured = [rung for rung in self.rungs if not rung.why_not and not isnan(rung.calibration_cost)]
        return min(measured, key=lambda rung: rung.calibration_cost).name if measured else NONE

    @property
    def best(self) -> Rung:
        """The chosen rung."""
        return next(rung for rung in self.rungs if rung.name == self.chosen)

    @property
    def proved(self) -> bool:
        """Whether the test prompts show that the chosen rung costs less than no repair."""
        return self.chosen != NONE and self.best.gain_low > 0

    @property
    def table(self) -> list[dict[str, Any]]:
        """The rungs as records."""
        return [vars(rung) for rung in self.rungs]

    @property
    def data(self) -> xr.Dataset:
        """The numbers by ``rung``."""
        values = {name: [getattr(rung, name) for rung in self.rungs] for name in _TABLE}
        attrs = {"schedule": str(self.schedule), "chosen": self.chosen, "proved": int(self.proved)}
        return labelled(_TABLE, values, {"rung": [rung.name for rung in self.rungs]}).assign_attrs(attrs)

    def to_dataframe(self) -> pd.DataFrame:
        """Return a row for every rung."""
        import pandas as pd

        return pd.DataFrame(self.table)

    @property
    def text(self) -> str:
        """Whether a repair is proved, what it gains, and what was measured."""
        prompts = f"{self.about.data['test']['prompts']} test prompts" if "test" in self.about.data else "test prompts"
        nothing = next(rung for rung in self.rungs if rung.name == NONE)
        costs = ", ".join(f"{rung.name} {rung.calibration_cost:.4g}" for rung in self.rungs if not rung.why_not)
        level = f"{level_text(float(self.about.settings.get('level', 0.95)))} interval"
        if self.chosen == NONE:
            return (
                f"No repair helps: on the calibration prompts kept aside nothing costs less than no repair ({costs} "
                f"nats per token). {self.schedule} costs {nothing.interval_text('cost', '.4g')} on {prompts} "
                f"({level})."
            )
        name, than = ("loss", "more") if self.best.gain < 0 else ("gain", "less")
        gain = f"{self.best.interval_text(name, '.4g')} nats per token {than} than no repair ({level})"
        if not self.proved:
            return (
                f"Not proved on {prompts}: {self.chosen}, the best on the calibration prompts kept aside ({costs}), "
                f"costs {gain}."
            )
        return (
            f"Proved on {prompts}: {self.chosen} costs {gain}. {self.schedule} costs "
            f"{nothing.interval_text('cost', '.4g')} without repair, and "
            f"{self.best.interval_text('cost', '.4g')} with it."
        )

    def record(self) -> dict[str, Any]:
        """Return everything as one JSON record: the head that all acting commands share, and the rungs."""
        act = Act(
            kind="repair",
            conclusion=self.text,
            proved=self.proved,
            model=self.about.model,
            schedule=str(self.schedule),
            data=self.about.data,
            settings={**self.about.settings, "chosen": self.chosen, "units": self.about.units},
        )
        return record_of(act, rungs=self.table)

    @property
    def evidence(self) -> str:
        """Prompts, text and table as Markdown, for a model card."""
        acts = {"calibration": "Repaired", "test": "Measured"}
        sentences = [on_data(act, self.about.data[role]) for role, act in acts.items()]
        level = float(self.about.settings["level"])
        units, chosen = map(literal_markdown, (self.about.units, self.chosen))
        sentences.append(f"In brackets: {100 * level:g} % intervals over {units}. The weights are those of {chosen}.")
        return "\n".join([literal_markdown(self.text), "", " ".join(sentences), *markdown_of(self.tables())])

    def require_proved(self) -> None:
        """Refuse a repair that is not shown to be better than no repair.

        Raises:
            RepairError: with what was found.
        """
        if not self.proved:
            raise RepairError(
                f"{self.text} Nothing was written. Give more calibration or test prompts or another repair (how=), or "
                "export the model without repair.",
                self,
            )

    def export(self, folder: str | Path) -> Path:
        """Write the chosen copy as a plain checkpoint, with the ladder in its card and in ``repair.json``.

        Raises:
            RepairError: no repair is proved to help.
            ModelError, StoreError: as ``bathyscope.export``.
        """
        from bathyscope.surgery.checkpoint.folder import write_export
        from bathyscope.surgery.checkpoint.source import source_of

        self.require_proved()
        path = folder_path(folder, "folder")
        if self.model is None:
            raise StoreError("This repair was read from a folder, which holds the weights; copy that folder instead.")
        return write_export(
            source_of(self.model),
            self.schedule,
            path,
            changes=self._changes,
            evidence=self.evidence,
            files={REPAIR: json.dumps(self.record(), indent=2, allow_nan=False) + "\n"},
        )


def is_repaired(folder: object) -> bool:
    """Return whether a folder is one that ``bathyscope repair --out`` wrote."""
    # os.path, not Path, which raises where a text is longer than a file's name may be
    return isinstance(folder, str | Path) and os.path.isfile(os.path.join(os.path.expanduser(folder), REPAIR))


def require_same_repair(folder: Path, schedule: str | Scheduling) -> None:
    """Refuse a folder with another export than the repair of this schedule, before the ladder computes anything.

    Args:
        folder: holds an export.
        schedule: which blocks are dropped, as text or as a plan.

    Raises:
        StoreError: with what the folder holds.
    """
    stored = open_repaired(folder).schedule if is_repaired(folder) else None
    if stored is None:
        raise taken_error(folder, "an export that is no repair")
    try:
        requested = Schedule.parse(schedule, stored.n_blocks) if isinstance(schedule, str) else schedule.as_schedule()
    except OptionError:  # of a model of other blocks
        requested = None
    if requested != stored:
        raise taken_error(folder, f"the repair of {stored}, not of {schedule}")


def open_repaired(folder: str | Path) -> Repaired:
    """Return what was measured of the repair in a folder that ``bathyscope repair --out`` wrote.

    Args:
        folder: what ``Repaired.export`` wrote; the weights in it are those of the chosen rung.

    Raises:
        OptionError: ``folder`` is no path.
        StoreError: no repair, or its record cannot be read.

    Example:
        >>> bathyscope.open("repaired").chosen  # doctest: +SKIP
        'linear'
    """
    path = folder_path(folder) / REPAIR
    try:
        record = read_json(read_regular(path, path.parent), MOST_DEEP)
        rows: list[dict[str, Any]] = [
            {name: nan if value is None else value for name, value in row.items()} for row in record["rungs"]
        ]
        rungs = tuple(Rung(**row) for row in rows)
        for rung in rungs:
            _require_kinds(rung)
        if NONE not in [rung.name for rung in rungs]:
            raise ValueError("it has nothing to compare a repair with")
        settings = dict(record["settings"])
        about = Provenance(record["model"], record["data"], settings, str(settings.pop("units")))
        settings.pop("chosen")
        repaired = Repaired(Schedule.parse(record["schedule"], int(record["model"]["n_blocks"])), rungs, about)
        # everything that is said of a repair is read once; half a character could not be printed
        text = json.dumps([repaired.record(), repr(repaired), repaired.text, repaired.evidence], ensure_ascii=False)
        text.encode()
    except DAMAGED as error:
        raise StoreError(
            f"There is no repair in {str(folder)!r}: {REPAIR} cannot be read ({reason(error)}). Give the folder that "
            "bathyscope repair wrote (its --out ...)."
        ) from error
    return repaired


def _require_kinds(rung: Rung) -> None:
    """Refuse a rung whose names are no texts, or whose costs are no numbers.

    Raises:
        TypeError: names the entry.
    """
    for entry in fields(rung):
        value = getattr(rung, entry.name)
        kinds = str if entry.type in (str, "str") else (int, float)
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise TypeError(f"its {entry.name} is {elided(repr(value), 40)}")
