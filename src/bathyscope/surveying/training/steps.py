"""The surveys of a course as one dataset by step: readings with intervals, trends, and when blocks begin to matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import xarray as xr

from bathyscope.core.arrays import FloatArray
from bathyscope.core.estimates import Estimate
from bathyscope.core.result import LabelledResult, PageResult
from bathyscope.core.tables import TextTable
from bathyscope.core.text import capitalised, counted, signed
from bathyscope.errors import OptionError, StoreError, warn
from bathyscope.labels import Label, Table, interval, labelled
from bathyscope.model.identity import ModelIdentity
from bathyscope.prompts.parts import clusters_in
from bathyscope.runs.by_place import why_no_cost
from bathyscope.runs.folder import folder_path
from bathyscope.runs.opening import open_run
from bathyscope.runs.run import Run
from bathyscope.statistics.bootstrap import mean_intervals
from bathyscope.statistics.difference import Term, contrast, slope_coefficients
from bathyscope.statistics.rare import FEWEST_PROMPTS, outward_mean_intervals
from bathyscope.statistics.sampling import Sampling
from bathyscope.surveying.training.folder import noted_runs, read_about
from bathyscope.surveying.training.gains import (
    GAINS,
    GUESSING,
    gains_of,
    guessing_text,
    later_text,
    record_of_guessing,
    surely_matters,
)
from bathyscope.surveying.training.step_names import is_only_a_step

READINGS: Final = ("half", "tokens_90", "readable", "own", "later")
IDLE: Final = 0.01
"""Nats: a block whose drop costs surely less than this, and surely gains less, is idle."""
_PER_STEPS: Final = 1000
_USUAL: Final = Sampling()
COURSE_FOLDER: Final = "course"
"""Attribute of a course: the name of its folder, which tells it from others of the same model."""
STEP_WEIGHTS: Final = "step_weight_hashes"
"""Attribute of a course: the hash of the weights of each step; ``weight_hash`` is that of the last one."""
STEP_PACKINGS: Final = "step_packings"
"""Attribute of a course: how the weights of each step are stored, such as ``bitsandbytes 8-bit, per channel``."""
_PLAIN: Final = "plain numbers"
STEP_PRECISIONS: Final = "step_precisions"
"""Attribute of a course: the precision of the weights of each step; empty where a run does not tell it."""
STEP_CONFIGURATIONS: Final = "step_config_hashes"
"""Attribute of a course: the hash of the configuration of each step's model; empty where a run does not tell it."""
_OF_RUNS: Final = frozenset({"plot", "verdict", "explore", "among", "headline", "measures", "prompts"})
"""What somebody who knows runs looks for; ``plot`` would be that of the arrays, which draws nothing by itself."""
_FIRST_LEFT_OUT: Final = ("late_blocks_gain", "tokens_90", "readable", "later", "idle_blocks", "own")
"""Columns of the table by step that a narrow terminal leaves out, the first ones first."""
_SOME: Final = "course['half'] or course['added_loss']"
_by_step = partial(Label, "step", source="own")
_by_block = partial(Label, "step block", source="own")
_by_reading = partial(Label, "reading", source="own")
_TABLE: Final[Table] = {
    **{
        name: label
        for reading in READINGS
        for name, label in {
            reading: _by_step(f"the verdict's reading {reading}", "block", "over all prompts"),
            **interval(reading, _by_step, f"the 95 % interval of {reading}", "block", "bootstrap over prompts"),
        }.items()
    },
    "idle_blocks": _by_step(
        "blocks whose drop changes the loss by less than 0.01 nats", "block", "test of equivalence"
    ),
    "loss": _by_step("cross-entropy of the prompts", "nats", "mean over prompts"),
    **interval("loss", _by_step, "the 95 % interval of loss", "nats", "bootstrap over prompts"),
    "added_loss": _by_block("loss added without a block", "nats", "mean over prompts"),
    **interval("added_loss", _by_block, "the 95 % interval of added_loss", "nats", "bootstrap over prompts"),
    "skip_effect": _by_block("effect of skipping a block on the output", "1", "mean over tokens and prompts"),
    **GAINS,
    "matters_from": Label(
        "block",
        "first step since which dropping the block surely adds more than 0.01 nats, and than at a step 0 that guesses",
        "step",
        source="own",
    ),
    "change": _by_reading("reading at the last step less that at the first", "block", "paired by prompt"),
    **interval("change", _by_reading, "the 95 % interval of change", "block", "bootstrap over prompts"),
    "slope": _by_reading(f"trend of the reading over {_PER_STEPS} steps", "block", "least squares over steps"),
    **interval("slope", _by_reading, "the 95 % interval of slope", "block", "bootstrap over prompts"),
}


class NotOfCourseError(OptionError, AttributeError):
    """What runs have is looked for in a course; whoever asks whether it is there hears that it is not."""


class Course(LabelledResult, PageResult):
    """Depth by step of one training; ``bathyscope.report`` draws it."""

    kind = "course"

    @property
    def heading(self) -> str:
        """The heading of its section on a page."""
        attrs = self.data.attrs
        # two trainings of a model have one name, and a folder each
        folder = str(attrs.get(COURSE_FOLDER, ""))
        return f"Depth while it trained: {attrs['model']}{f' ({folder})' if folder not in ('', attrs['model']) else ''}"

    def __getattr__(self, name: str) -> Any:
        if name in _OF_RUNS:
            raise NotOfCourseError(
                f"A course has no {name}, which is of a run; it has what several runs read, by step. Draw it with "
                f"course.picture() or report(course, FILE), read it as {_SOME}, or open a run of its "
                "folder: bathyscope.open('…/step-00000000')."
            )
        return super().__getattr__(name)

    @property
    def models(self) -> tuple[ModelIdentity, ...]:
        """The model at every step, as far as the course tells it."""
        attrs = self.data.attrs
        hashes = attrs.get(STEP_WEIGHTS, ("",))
        by_step: dict[str, Sequence[str]] = {
            "weight_hash": hashes,
            # courses of earlier versions tell those of the last step alone
            "precision": attrs.get(STEP_PRECISIONS) or [attrs.get("precision", "")] * len(hashes),
            "config_hash": attrs.get(STEP_CONFIGURATIONS) or [attrs.get("config_hash", "")] * len(hashes),
        }
        return tuple(
            ModelIdentity.of_record({**attrs, **dict(zip(by_step, values))})
            for values in zip(*by_step.values(), strict=False)
        )


def open_course(folder: str | Path) -> Course:
    """Return the course in a folder: one labelled dataset with a ``step`` dimension.

    Args:
        folder: what a ``DepthCallback``, ``bathyscope.watch`` or ``bathyscope.course`` wrote.

    Returns:
        By ``step``: the verdict's readings and the loss with intervals, and the idle blocks (NaN below 24 different
        prompts). By step and ``block``: the added loss without the block, its interval, and the effect of skipping it;
        ``added_loss_gain`` is the added loss less that at the first step, paired by prompt; ``late_blocks_loss`` and
        ``late_blocks_gain`` are sums over the later half of the blocks, with intervals. By block: ``matters_from``, the
        first step behind which dropping it surely adds more than 0.01 nats at every step (NaN without one), and, where
        the course begins at step 0 with a model that predicts no better than equal guesses, surely more than there. By
        ``reading``: its ``change`` from first step to last and its ``slope`` over 1,000 steps, paired by prompt.

    Raises:
        StoreError: no finished survey, surveys of different prompts, or one of other weights than its step was surveyed
            with. Steps whose models have another number of blocks than the first are left out with a warning, and so
            are surveys that the course has not made.

    Example:
        >>> bathyscope.open("runs/course").readable.dims  # doctest: +SKIP
        ('step',)
    """
    place = folder_path(folder)
    about = read_about(place) or {}  # refuses a damaged record, which no later survey could be added to
    runs = {step: open_run(run) for step, run in noted_runs(place).items()}
    if not runs:
        raise StoreError(f"There is no finished survey in {str(folder)!r}; give the folder of a course.")
    runs = _of_one_depth(runs)
    _require_same_prompts(runs)
    n_blocks = next(iter(runs.values())).n_blocks
    rows = [_row(run) for run in runs.values()]
    values: dict[str, Any] = {
        name: np.stack([row[name] for row in rows]) for name in _TABLE if all(name in row for row in rows)
    }
    coords: dict[str, Any] = {"step": list(runs), "block": np.arange(n_blocks)}
    guessing = record_of_guessing(values, next(iter(runs)), about.get("model", {}).get("vocabulary"))
    if "added_loss" in values:
        values |= _gains(list(runs.values()))
        ends = values["added_loss_low"], values["added_loss_gain_low"]
        matters_SL = surely_matters(*ends, IDLE, bool(guessing.get(GUESSING)))
        values["matters_from"] = _first_steps(matters_SL, list(runs))
    if "readable" in values:
        values |= _trends(list(runs.values()), list(runs))
        coords["reading"] = list(READINGS)
    models = [run.identity.of_model for run in runs.values()]
    data = labelled(_TABLE, values, coords).assign_attrs(
        {
            **models[-1].record(),
            "model": _name_of(runs),
            "prompts": next(iter(runs.values())).identity.dataset,
            "n_blocks": n_blocks,
            COURSE_FOLDER: place.name,
            **guessing,
            STEP_WEIGHTS: [str(model.weights) for model in models],
            STEP_PRECISIONS: [model.precision or "" for model in models],
            STEP_PACKINGS: [run.identity.unpacked_from or _PLAIN for run in runs.values()],
            STEP_CONFIGURATIONS: [model.configuration or "" for model in models],
        }
    )
    return Course(data, _conclude(data, n_blocks), _table_by_step, figure="course", lay_out=_lay_out)


def _of_one_depth(runs: Mapping[int, Run]) -> dict[int, Run]:
    """Return the steps whose models have as many blocks as the first; the others are warned of."""
    n_blocks = next(iter(runs.values())).n_blocks
    same_depth = {step: run for step, run in runs.items() if run.n_blocks == n_blocks}
    others = [str(step) for step in runs if step not in same_depth]
    if others:
        steps = _first_and_last(others) if len(others) > 3 else f"step{'s' * (len(others) > 1)} {', '.join(others)}"
        warn(
            f"The course leaves out {steps}, where the model has another number of blocks than the {n_blocks} of the "
            "first step. Open the runs of these one by one."
        )
    return same_depth


def _require_same_prompts(runs: Mapping[int, Run]) -> None:
    """Refuse steps whose readings would differ without any training.

    Raises:
        StoreError: two steps were surveyed on different prompts.
    """
    first, *others = runs
    for step in others:
        if runs[step].prompts.hash != runs[first].prompts.hash:
            raise StoreError(
                f"The steps of this course were surveyed on different prompts (step {step} on others than step "
                f"{first}). Survey each set of prompts in a folder of its own."
            )


def _name_of(runs: Mapping[int, Run]) -> str:
    """Return the name of the training: that of its model, without the folders that only tell the step."""
    path = Path(str(list(runs.values())[-1].identity.model))
    while is_only_a_step(path.name) and path.parent.name:
        path = path.parent
    return path.name


def _row(run: Run) -> dict[str, Any]:
    """Return the values of the table for one run, as far as its measures tell them."""
    row: dict[str, Any] = {}
    # the seed of the run, so that its own page has the same intervals
    usual = Sampling(seed=run.identity.seed)
    if "lens" in run:
        for name, reading in _readings_of(run).items():
            row |= {name: reading.value, f"{name}_low": reading.low, f"{name}_high": reading.high}
    if "drop" in run:
        loss = run["drop"]["baseline_loss"]
        [loss_ends] = mean_intervals(loss.values[:, None], _draw_copies_as_one(run["drop"], usual))
        row |= {"loss": float(loss.mean()), "loss_low": loss_ends.low, "loss_high": loss_ends.high}
    if not why_no_cost(run):
        added_PL, sampling = _added_losses(run["drop"], usual)
        ends = np.array(mean_intervals(added_PL, sampling))
        row |= {"added_loss": np.nanmean(added_PL, axis=0)}
        row |= {"added_loss_low": ends[:, 0], "added_loss_high": ends[:, 1]}
        row["idle_blocks"] = count_idle_blocks(run)
    if "skip" in run and "output_all" in run["skip"]:
        effect = run["skip"]["output_all"].sel(part="block", reduction="mean")
        row["skip_effect"] = effect.mean("prompt").transpose("skipped").values
    return row


def _gains(runs: Sequence[Run]) -> dict[str, FloatArray]:
    """Return what blocks have come to cost since the first step; the seed is that of the first run, as for its page."""
    added_by_step = [_added_losses(run["drop"])[0] for run in runs]
    sampling = _added_losses(runs[0]["drop"], Sampling(seed=runs[0].identity.seed))[1]
    return gains_of(added_by_step, sampling)


def _readings_of(run: Run) -> dict[str, Any]:
    return {name: getattr(run.verdict, name) for name in READINGS}


def _first_steps(matters_SL: np.ndarray, steps: Sequence[int]) -> np.ndarray:
    """Return for each block the first step since which it matters at every step, [L]; NaN without one."""
    # A step counts where all steps behind it matter too: the running "and" from the last step backwards.
    from_here_on_SL = np.logical_and.accumulate(matters_SL[::-1], axis=0)[::-1]
    first = from_here_on_SL.argmax(0)
    return np.where(from_here_on_SL.any(0), np.array(steps, dtype=float)[first], np.nan)


def _trends(runs: Sequence[Run], steps: Sequence[int]) -> dict[str, np.ndarray]:
    """Return change and slope of every reading with their intervals, [readings]; NaN with a single step."""
    columns: dict[str, list[float]] = {
        f"{name}{end}": [] for name in ("change", "slope") for end in ("", "_low", "_high")
    }
    by_run = [_readings_of(run) for run in runs]
    for name in READINGS:
        readings = [of_run[name].statistic for of_run in by_run]
        coefficients = {"change": np.zeros(len(steps)), "slope": np.full(len(steps), np.nan)}
        if len(steps) > 1:
            coefficients["change"][[0, -1]] = -1.0, 1.0
            coefficients["slope"] = slope_coefficients(steps) * _PER_STEPS
        for kind, values in coefficients.items():
            ends = [np.nan] * 3
            if len(steps) > 1:
                result = contrast([[Term(reading, float(c)) for reading, c in zip(readings, values)]])
                ends = [result.estimate, result.ci_low, result.ci_high]
            for end, value in zip(("", "_low", "_high"), ends):
                columns[kind + end].append(value)
    return {name: np.array(values) for name, values in columns.items()}


def _conclude(data: xr.Dataset, n_blocks: int) -> str:
    """Return from where to where the readings went, in at most three sentences."""
    first, last = (int(data["step"][place]) for place in (0, -1))
    if first == last:
        return _describe_step(data, n_blocks) + _no_interval_text(data) + _idle_text(data)
    text = f"{data.sizes['step']} steps were surveyed, {first} to {last}{_tell_precisions(data)}{_tell_packings(data)}."
    text += _tell_configurations(data) + _nothing_told(data)
    if "readable" in data:
        name, subject = _head_of(data)
        ends = [f"{float(data[name][place]):.1f}" for place in (0, -1)]
        blocks = counted(n_blocks, "block")
        text += f" {subject} from {ends[0]} of {blocks} on at step {first}, and from {ends[1]} at {last}"
        change = Estimate.of(data.sel(reading=name), "change")
        text += f" (change {change.write_in_brackets(signed)})" if change.has_interval else ""
        text += f"{guessing_text(data)}."
    costs = [later_text(data)]
    if "idle_blocks" in data and data["idle_blocks"].notnull().all():
        counts = [int(data["idle_blocks"][place]) for place in (0, -1)]
        costs.append(f"blocks shown to be idle: {counts[0]} at step {first}, {counts[1]} at {last}")
    text += "".join(f" {capitalised(clause)}." for clause in ["; ".join(filter(None, costs))] if clause)
    return text + _no_interval_text(data) + _idle_text(data)


def _tell_precisions(data: xr.Dataset) -> str:
    """Return which steps have weights of which precision, where that is not one for all; else an empty text."""
    steps_by_precision = _steps_by(data, STEP_PRECISIONS)
    if len(steps_by_precision) < 2:
        return ""
    listed = "; ".join(f"{precision} at {_first_and_last(steps)}" for precision, steps in steps_by_precision.items())
    return f", in several precisions ({listed}), so that rounding is part of what changed (load all in one dtype)"


def _tell_packings(data: xr.Dataset) -> str:
    """Return which steps have weights of how many bits, where some were rounded otherwise; else an empty text."""
    steps_by_packing = _steps_by(data, STEP_PACKINGS)
    if len(steps_by_packing) < 2:
        return ""
    listed = "; ".join(f"{packing} at {_first_and_last(steps)}" for packing, steps in steps_by_packing.items())
    return f", with weights stored in several ways ({listed}), so that rounding is part of what changed"


def _tell_configurations(data: xr.Dataset) -> str:
    """Return which steps were surveyed under other settings than the first that tells its own; else an empty text."""
    own_steps, *others = _steps_by(data, STEP_CONFIGURATIONS).values() or [[]]
    if not others:
        return ""
    steps = sorted((step for group in others for step in group), key=int)
    where = _first_and_last(steps) if len(steps) > 3 else f"step{'s' * (len(steps) > 1)} {_first_and_last(steps)}"
    return f" Settings are part of what changed: the configuration at {where} is not that at step {own_steps[0]}."


def _steps_by(data: xr.Dataset, attribute: str) -> dict[str, list[str]]:
    """Return the steps by what an attribute tells of each; those of which it tells nothing are left out."""
    steps_by_value: dict[str, list[str]] = {}
    for step, value in zip(data["step"].values.tolist(), data.attrs.get(attribute, ())):
        if value:
            steps_by_value.setdefault(value, []).append(str(step))
    return steps_by_value


def _first_and_last(steps: Sequence[str]) -> str:
    return ", ".join(steps) if len(steps) < 4 else f"{len(steps)} steps from {steps[0]} to {steps[-1]}"


def _head_of(data: xr.Dataset) -> tuple[str, str]:
    """Return the reading that heads a course, and its subject: a mean over tokens where a run stores no more."""
    if np.isnan(data["half"].values).any():
        return "readable", "On average a token keeps its final prediction"
    return "half", "Half of the tokens keep their final prediction"


def _nothing_told(data: xr.Dataset) -> str:
    """Return what a course lacks whose measures tell neither a depth nor a cost; empty for others."""
    if data.data_vars:
        return ""
    return " Its measures tell no depth by step; survey the steps with lens, skip or drop, or open its runs one by one."


def _no_interval_text(data: xr.Dataset) -> str:
    """Return what stays open where prompts are too few for an interval; empty where there is one."""
    ends = [data[f"{name}_low"] for name in ("readable", "added_loss") if f"{name}_low" in data]
    if not ends or any(end.notnull().any() for end in ends):
        return ""
    open_questions = []
    if "readable" in data and data.sizes["step"] > 1:
        open_questions.append("whether depth changed")
    if "added_loss" in data:
        open_questions.append("which blocks are idle or matter")
    reason = "There is no interval, which needs two different prompts"
    return f" {reason}: {' and '.join(open_questions)} is open." if open_questions else f" {reason}."


def _idle_text(data: xr.Dataset) -> str:
    """Return what it takes to tell idle blocks where intervals of costs exist and prompts are too few for that."""
    is_known = "idle_blocks" not in data or data["idle_blocks"].notnull().any()
    if is_known or data["added_loss_low"].isnull().all():
        return ""
    return (
        f" Which blocks are idle is open: few prompts miss rare costs, and {FEWEST_PROMPTS} different ones are needed."
    )


def _describe_step(data: xr.Dataset, n_blocks: int) -> str:
    """Return the readings of the only step."""
    text = f"One step was surveyed, {int(data['step'][0])}.{_nothing_told(data)}"
    if "readable" in data:
        name, subject = _head_of(data)
        text += f" {subject} from {float(data[name][0]):.1f} of {counted(n_blocks, 'block')} on."
    if "idle_blocks" in data and data["idle_blocks"].notnull().all():
        text += f" Blocks shown to be idle: {int(data['idle_blocks'][0])}."
    return text


def _table_by_step(data: xr.Dataset) -> pd.DataFrame:
    """Return a row for every step; what is by block stays in the arrays."""
    by_step = [str(name) for name in data.data_vars if data[name].dims == ("step",)]
    return data[["step", *by_step]].to_dataframe().reset_index()


def _step_table(data: xr.Dataset) -> TextTable:
    """Return the table by step for people: a row a step, every interval in the cell of its estimate."""
    names = [name for name in map(str, _table_by_step(data).columns) if not name.endswith(("_low", "_high"))]
    by_step = [data.isel(step=place) for place in range(data.sizes["step"])]
    rows = [
        [Estimate.of(at_step, name) if f"{name}_low" in data else at_step[name].item() for name in names]
        for at_step in by_step
    ]
    return TextTable(
        [name.replace("_", " ") for name in names],
        rows,
        optional=[name.replace("_", " ") for name in _FIRST_LEFT_OUT if name in names],
    )


def _lay_out(data: xr.Dataset) -> list[TextTable]:
    """Return the table by step, how far the readings changed, and from when on each block matters."""
    tables = [_step_table(data)]
    if "change" in data:
        forms = {"last step less first": "+.2f", f"per {_PER_STEPS:,} steps": "+.2f"}
        rows = [
            [reading, *(Estimate.of(data.sel(reading=reading), name) for name in ("change", "slope"))]
            for reading in data["reading"].values.tolist()
        ]
        tables.append(TextTable(["reading, in blocks", *forms], rows, forms=forms))
    if "matters_from" in data:
        # where no step has an interval nothing was shown, not even that a block never matters
        unknown = data["added_loss_low"].isnull().all("step").values
        steps = [
            str(int(step)) if step == step else "unknown" if is_unknown else "not shown"
            for step, is_unknown in zip(data["matters_from"].values, unknown)
        ]
        tables.append(TextTable(["block", *map(str, range(len(steps)))], [["matters from step", *steps]]))
    return tables


def depths_of(run: Run) -> dict[str, float]:
    """Return what a training logs of a run: the verdict's readings in blocks, and how many blocks are idle."""
    values: dict[str, float] = {}
    if "lens" in run:
        values |= {f"depth/{name}": reading.value for name, reading in _readings_of(run).items()}
    if not why_no_cost(run):
        values["depth/idle_blocks"] = count_idle_blocks(run)
    return {name: value for name, value in values.items() if not np.isnan(value)}


def count_idle_blocks(run: Run) -> float:
    """Return how many blocks are shown to be idle; NaN where prompts are too few to show a rare cost."""
    added_PL, sampling = _added_losses(run["drop"])
    has_value = ~np.isnan(added_PL).all(1)
    n_different = has_value.sum() if sampling.cluster is None else np.unique(sampling.cluster[has_value]).size
    is_enough = n_different >= FEWEST_PROMPTS
    return float(idle_blocks(run["drop"], run.identity.seed).sum()) if is_enough else np.nan


def idle_blocks(drop: xr.Dataset, seed: int = 0, bound: float = IDLE) -> np.ndarray:
    """Return for each block whether its drop surely changes the loss by less than ``bound`` nats, [L].

    The interval over prompts must lie within ±bound: a test of equivalence, not the lack of a difference. It reaches to
    where one expensive prompt that was not among them would take it.
    """
    added_PL, sampling = _added_losses(drop, Sampling(level=0.9, seed=seed))
    return np.array([-bound < ends.low and ends.high < bound for ends in outward_mean_intervals(added_PL, sampling)])


def _added_losses(drop: xr.Dataset, sampling: Sampling = _USUAL) -> tuple[FloatArray, Sampling]:
    """Return what each prompt loses without each block, [P, L], and a sampling that draws copies of a prompt as one."""
    added_PL = (drop["loss"] - drop["baseline_loss"]).transpose("prompt", "dropped").values
    return added_PL, _draw_copies_as_one(drop, sampling)


def _draw_copies_as_one(drop: xr.Dataset, sampling: Sampling) -> Sampling:
    return replace(sampling, cluster=clusters_in(drop, None))
