"""What ``prune`` gives: candidates with what they cost on prompts that chose none of them, and what follows."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import xarray as xr

from bathyscope.errors import ModelError, OptionError, StoreError
from bathyscope.labels import Label, interval, labelled
from bathyscope.prompts.samples import by_clusters
from bathyscope.runs.folder import Kind, folder_path, read_manifest, verified
from bathyscope.runs.shards import decode, encode_results
from bathyscope.schedule import Schedule
from bathyscope.surgery.card import on_data
from bathyscope.surgery.task_table import HEADINGS as TASK_HEADINGS
from bathyscope.surgery.task_table import task_cells, task_sentences

PRUNING: Final = Kind("pruning", "bathyscope prune", "prune.json", schemas=(1,))
RESULT: Final = "plan.nc"
TASKS: Final = "tasks.nc"
_GROUP: Final = "plan"
CHEAP: Final = ("block influence", "angular distance", "one-shot loss", "last", "random")
"""Candidates that need no search."""
_SOURCE: Final = "prune"
_DATA: Final = ("data", "prompts", "tokens")
_label = partial(Label, "candidate", source=_SOURCE)
_TABLE: Final = {
    "subset": _label("what is left out"),
    "calibration_cost": _label("mean cost on the calibration prompts", "nats"),
    "test_cost": _label("mean cost on the test prompts", "nats", "mean of loss(S) − loss(full)"),
    **interval("test_cost", _label, "the interval of the test cost", "nats"),
    "p_value": _label("p of no difference from the best, corrected for all pairs"),
    "indistinguishable": _label("cannot be told from the best on the test prompts"),
    "test_kl": _label("mean KL on the test prompts", "nats", "mean of KL(full ‖ S)"),
    "test_agreement": _label("top-1 agreement with the full model"),
    "cost": Label("candidate prompt", "cost on each test prompt", "nats", "loss(S) − loss(full)", _SOURCE),
}
COLUMNS: Final = tuple(name for name, label in _TABLE.items() if label.always == ("candidate",))


@dataclass(frozen=True, repr=False)
class Plan:
    """Which blocks can go, and how sure that is.

    Args:
        data: by ``candidate`` what stands in ``table``, and ``cost`` by (candidate, prompt).
        model: what was pruned, for ``export``; None = the model of the name that the plan tells.
        tasks_data: by ``row`` (task, metric) what stands in ``tasks``; None = no task was asked.

    Example:
        >>> plan = bathyscope.prune("model", "prompts.jsonl", "test.jsonl", drop=1, resamples=200)
        >>> plan.left_out == f"drop:{(set(range(4)) - set(plan.schedule)).pop()}"
        True
        >>> plan.table.columns.tolist()[:4]
        ['candidate', 'subset', 'calibration_cost', 'test_cost']
        >>> print(plan.text)
        Of 4 blocks, 1 can go at the least cost: drop:...
        >>> plan.evidence.count("| random |")
        1
        >>> plan.tasks
        Traceback (most recent call last):
        ...
        bathyscope.errors.OptionError: This plan was asked no tasks; give evaluate=['arc_easy'] (--evaluate).
        >>> plan.export("pruned").name
        'pruned'
    """

    data: xr.Dataset
    model: Any = field(default=None, compare=False)
    tasks_data: xr.Dataset | None = None

    def __repr__(self) -> str:
        return f"<Plan for {self.data.attrs['model']}: {self.left_out}>"

    @property
    def left_out(self) -> str:
        """The choice, such as ``drop:2,drop:5``."""
        return str(self.data["subset"].values[0])

    @property
    def schedule(self) -> Schedule:
        """The order of the blocks that stay.

        Raises:
            OptionError: parts of blocks are left out, which no order of blocks can say.
        """
        if "block" not in self.data.attrs["parts"]:
            raise OptionError(
                f"This plan leaves out parts of blocks ({self.left_out}), which no schedule can say; choose among "
                "whole blocks: parts='block'."
            )
        return Schedule.parse(self.left_out, int(self.data.attrs["n_blocks"]))

    @property
    def table(self) -> pd.DataFrame:
        """A row for every candidate: costs in nats, intervals, p against the best, and whether that can be told."""
        frame = self.data[list(COLUMNS)].to_dataframe().reset_index()
        return frame.astype({"indistinguishable": bool})

    @property
    def tasks(self) -> pd.DataFrame:
        """A row for every task and metric: the full and the pruned model, and their paired difference, with intervals.

        Raises:
            OptionError: no task was asked.
        """
        if self.tasks_data is None:
            raise OptionError("This plan was asked no tasks; give evaluate=['arc_easy'] (--evaluate).")
        frame = self.tasks_data.to_dataframe().reset_index(drop=True)
        return frame[["task", "metric", *(name for name in frame.columns if name not in ("task", "metric"))]]

    @property
    def text(self) -> str:
        """What was found, in sentences."""
        return " ".join([*sentences(self.data), *([] if self.tasks_data is None else task_sentences(self.tasks_data))])

    def export(self, folder: str | Path) -> Path:
        """Writes the model without the blocks as a checkpoint for plain transformers (``bathyscope.export``).

        Raises:
            ModelError: the model has other weights now than those that the plan tells of.
            OptionError, ModelError, StoreError: as ``bathyscope.export``.
        """
        from bathyscope.model import alone
        from bathyscope.surgery.export_source import source_of
        from bathyscope.surgery.exporting import write_export

        given = self.model if self.model is not None else self._place()
        with alone(given):
            if "weight_hash" in self.data.attrs:  # not in plans of older versions
                self._require_same_weights(given)
            source = source_of(given)
            if self.model is None:
                source = replace(source, name=str(self.data.attrs["model"]))
            return write_export(source, self.schedule, folder_path(folder, "folder"), evidence=self.evidence)

    def _place(self) -> str:
        """Where the model is: the folder that it was pruned from, wherever one stands now, or its name."""
        known = str(self.data.attrs.get("folder", ""))
        return known if known and Path(known).is_dir() else str(self.data.attrs["model"])

    def _require_same_weights(self, given: Any) -> None:
        """The costs in the card are of the weights beside it."""
        from bathyscope.model import load, loaded

        named = isinstance(given, str | Path)
        now = load(given, dtype=str(self.data.attrs["precision"])) if named else loaded(given)
        if now.weight_hash != self.data.attrs["weight_hash"]:
            raise ModelError(
                f"{now.name} has other weights now than when {self.left_out} was chosen, so that its costs say nothing "
                f"of them; prune it anew, or export it without them: bathyscope.export(MODEL, {self.left_out!r}, "
                "FOLDER)."
            )

    @property
    def evidence(self) -> str:
        """The text, the data and the table as Markdown, for a model card."""
        done = {"calibration": "Chosen", "test": "Judged"}
        data = [on_data(did, *(self.data.attrs[f"{role}_{what}"] for what in _DATA)) for role, did in done.items()]
        lines = [self.text, "", " ".join(data), "", *_markdown(["", *HEADINGS.values()], cells(self.data))]
        if self.tasks_data is not None:
            lines += ["", *_markdown(TASK_HEADINGS, task_cells(self.tasks_data))]
        return "\n".join(lines)


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (headings, ["---"] * len(headings), *rows)]


def with_tasks(plan: Plan, content: bytes) -> Plan:
    """The plan beside what tasks say, from the bytes of their file."""
    return replace(plan, tasks_data=decode(content)[_GROUP])


def records(plan: Plan) -> pd.DataFrame:
    """The table, and below it the choice's tasks, with what belongs to the other left empty."""
    if plan.tasks_data is None:
        return plan.table
    return pd.concat([plan.table, plan.tasks.assign(candidate=str(plan.data["candidate"].values[0]))])


HEADINGS: Final = {
    "subset": "left out",
    "calibration_cost": "calibration",
    "test_cost": "test (interval)",
    "test_kl": "KL",
    "test_agreement": "top-1",
    "p_value": "p",
    "indistinguishable": "as good as the best",
}
"""Columns of the table as it is printed, after the candidate's name; costs in nats per token."""


def cells(data: xr.Dataset) -> list[list[str]]:
    """The printed table, a row for every candidate."""
    rows = []
    for place, name in enumerate(data["candidate"].values.tolist()):
        one = data.isel(candidate=place)
        number = {key: float(one[key]) for key in COLUMNS if key != "subset"}
        interval = f"{number['test_cost']:.4f} ({number['test_cost_low']:.4f} to {number['test_cost_high']:.4f})"
        shown = {
            "subset": str(one["subset"].item()),
            "calibration_cost": f"{number['calibration_cost']:.4f}",
            "test_cost": interval,
            "test_kl": _number(number["test_kl"], 4),
            "test_agreement": _number(number["test_agreement"], 3),
            "p_value": _p(number["p_value"]),
            "indistinguishable": "yes" if number["indistinguishable"] else "no",
        }
        rows.append([name, *(shown[key] for key in HEADINGS)])
    return rows


def sentences(data: xr.Dataset) -> list[str]:
    """The choice with its cost, what cannot be told from the best, and what is worse."""
    attrs, choice = data.attrs, data.isel(candidate=0)
    names = data["candidate"].values.tolist()
    units, gone = int(attrs["n_units"]), int(attrs["size"])
    unit = "block" if "block" in attrs["parts"] else "part"
    prompts = f"{data.sizes['prompt']} test prompts{by_clusters(attrs)}"
    said = [
        f"Of {units} {unit}s, {gone} can go at the least cost: {choice['subset'].item()}. That costs {_cost(choice)} "
        f"nats per token on {prompts} ({float(attrs['level']):.0%} interval), "
        f"{float(choice['calibration_cost']):.4g} on the calibration prompts that chose it; {attrs['how']}."
    ]
    if attrs.get("max_cost"):
        said[0] = said[0].replace("can go at the least cost", f"can go within {float(attrs['max_cost']):g} nats", 1)
    alike = [name for name, one in zip(names, data["indistinguishable"].values) if one]
    best = names[int(np.argmin(data["test_cost"].values))]
    by_name = {name: data.isel(candidate=place) for place, name in enumerate(names)}
    if names[0] not in alike:
        said.append(
            f"On the test prompts {_title(best, False)} is better ({_cost(by_name[best])}; p = "
            f"{_p(float(choice['p_value']))}): what was cheapest on the calibration prompts does not carry over."
        )
    for name in CHEAP:
        if name not in alike or name == names[0]:
            continue
        one = by_name[name]
        if one["subset"].item() == choice["subset"].item():
            said.append(f"{_title(name)} leaves out the same.")
        else:
            said.append(f"{_title(name)} does as well here: {_cost(one)}, p = {_p(float(one['p_value']))}.")
    worse = [name for name in names[1:] if name not in alike]
    if worse:
        listed = ", ".join(f"{name} ({float(by_name[name]['test_cost']):.4g})" for name in worse)
        said.append(f"Worse than the best: {listed}.")
    return said


def result(
    candidates: Sequence[str],
    values: Mapping[str, Any],
    coords: Mapping[str, Any],
    attrs: Mapping[str, str | int | float],
) -> xr.Dataset:
    """A plan's arrays; the first candidate is the choice."""
    return labelled(_TABLE, values, {"candidate": np.array(list(candidates), dtype=object), **coords}).assign_attrs(
        attrs
    )


def encoded(data: xr.Dataset) -> bytes:
    """A plan as the bytes of a netCDF file."""
    return encode_results({_GROUP: data})


def decoded(content: bytes, model: Any = None) -> Plan:
    """The plan in the bytes of such a file."""
    return Plan(decode(content)[_GROUP], model)


def is_plan(folder: str | Path) -> bool:
    """Whether a folder is one that ``bathyscope prune`` wrote."""
    # os.path, not Path, which raises where a text is longer than a file's name may be
    return isinstance(folder, str | Path) and os.path.isfile(os.path.join(os.path.expanduser(folder), PRUNING.manifest))


def open_plan(folder: str | Path) -> Plan:
    """The plan in a folder that ``bathyscope prune --out`` wrote.

    Args:
        folder: what ``prune(out=)`` wrote.

    Raises:
        OptionError: ``folder`` is no path.
        StoreError: there is none, it is not finished, or a file is damaged.

    Example:
        >>> _ = bathyscope.prune("model", "prompts.jsonl", "test.jsonl", drop=1, resamples=200, out="runs/plan")
        >>> bathyscope.open_plan("runs/plan").schedule.n_blocks
        4
    """
    path = folder_path(folder)
    files = read_manifest(path, PRUNING).get("files")
    if not isinstance(files, dict) or RESULT not in files:
        raise StoreError(
            f"The pruning in {str(path)!r} is not finished; give the same command again, and it goes on where it was."
        )
    plan = decoded(verified(path / RESULT, files[RESULT], PRUNING.noun))
    return with_tasks(plan, verified(path / TASKS, files[TASKS], PRUNING.noun)) if TASKS in files else plan


def _cost(one: xr.Dataset) -> str:
    cost, low, high = (float(one[f"test_cost{end}"]) for end in ("", "_low", "_high"))
    return f"{cost:.4g} ({low:.4g} to {high:.4g})"


def _title(name: str, first: bool = True) -> str:
    said = {"last": "dropping the last", "random": "a random subset"}.get(name, name)
    return said[0].upper() + said[1:] if first else said


def _p(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2g}"


def _number(value: float, digits: int) -> str:
    return "–" if np.isnan(value) else f"{value:.{digits}f}"
