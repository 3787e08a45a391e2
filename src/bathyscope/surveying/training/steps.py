"""The surveys of a course as one dataset by step: readings with intervals, trends, and when blocks begin to matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from bathyscope.core.arrays import FloatArray
from bathyscope.core.result import LabelledResult, PageResult
from bathyscope.core.text import written_out
from bathyscope.errors import OptionError, StoreError, warn
from bathyscope.labels import labelled
from bathyscope.model.identity import ModelIdentity
from bathyscope.runs.by_place import cost_of_leaving_out, why_no_cost
from bathyscope.runs.folder import folder_path
from bathyscope.runs.opening import open_run
from bathyscope.runs.run import Run
from bathyscope.statistics.bootstrap import mean_intervals
from bathyscope.statistics.difference import Term, contrast, slope_coefficients
from bathyscope.statistics.sampling import Sampling
from bathyscope.surveying.training.concluding import conclude, first_and_last
from bathyscope.surveying.training.course_labels import (
    COURSE_FOLDER,
    PER_STEPS,
    READINGS,
    STEP_CONFIGURATIONS,
    STEP_PACKINGS,
    STEP_PRECISIONS,
    STEP_WEIGHTS,
    TABLE,
)
from bathyscope.surveying.training.course_tables import lay_out, table_by_step
from bathyscope.surveying.training.folder import noted_runs, read_about
from bathyscope.surveying.training.gains import (
    GUESSING,
    gains_of,
    record_of_guessing,
    surely_matters,
)
from bathyscope.surveying.training.idle_blocks import IDLE, added_losses, count_idle_blocks, draw_copies_as_one
from bathyscope.surveying.training.step_names import is_only_a_step

_PLAIN: Final = "plain numbers"
_OF_RUNS: Final = frozenset({"plot", "verdict", "explore", "among", "headline", "measures", "prompts"})
"""What somebody who knows runs looks for; ``plot`` would be that of the arrays, which draws nothing by itself."""
_SURELY_ADDED: Final = "surely added"
"""Of a run: the lower end of what leaving each block out adds to the loss."""
_SOME: Final = "course['half'] or course['added_loss']"


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
        name: np.stack([row[name] for row in rows]) for name in TABLE if all(name in row for row in rows)
    }
    coords: dict[str, Any] = {"step": list(runs), "block": np.arange(n_blocks)}
    guessing = record_of_guessing(values, next(iter(runs)), about.get("model", {}).get("vocabulary"))
    if "added_loss" in values:
        values |= _gains(list(runs.values()))
        added_low_SL = np.stack([row[_SURELY_ADDED] for row in rows])
        matters_SL = surely_matters(added_low_SL, values["added_loss_gain_low"], IDLE, bool(guessing.get(GUESSING)))
        values["matters_from"] = _first_steps(matters_SL, list(runs))
    if "readable" in values:
        values |= _trends(list(runs.values()), list(runs))
        coords["reading"] = list(READINGS)
    models = [run.identity.of_model for run in runs.values()]
    _warn_of_equal_weights({step: run.identity.weight_hash for step, run in runs.items()})
    data = labelled(TABLE, values, coords).assign_attrs(
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
    return Course(data, conclude(data, n_blocks), table_by_step, figure="course", lay_out=lay_out)


def _of_one_depth(runs: Mapping[int, Run]) -> dict[int, Run]:
    """Return the steps whose models have as many blocks as the first; the others are warned of."""
    n_blocks = next(iter(runs.values())).n_blocks
    same_depth = {step: run for step, run in runs.items() if run.n_blocks == n_blocks}
    others = [str(step) for step in runs if step not in same_depth]
    if others:
        steps = first_and_last(others) if len(others) > 3 else f"step{'s' * (len(others) > 1)} {', '.join(others)}"
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


def _warn_of_equal_weights(weights_by_step: Mapping[int, str]) -> None:
    """Warn of steps with equal weights: a copied checkpoint reads as a training that stood still."""
    steps_by_weights: dict[str, list[str]] = {}
    for step, weights in weights_by_step.items():
        if weights:
            steps_by_weights.setdefault(weights, []).append(str(step))
    copies = [steps for steps in steps_by_weights.values() if len(steps) > 1]
    if copies:
        listed = written_out([f"steps {written_out(steps)}" for steps in copies])
        warn(
            f"Equal weights at {listed}, as of one checkpoint that was copied: a gain of 0 between them says nothing "
            "of training. Leave the copy out, or give the right checkpoint in another folder (out=…, --out …)."
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
        [loss_ends] = mean_intervals(loss.values[:, None], draw_copies_as_one(run["drop"], usual))
        row |= {"loss": float(loss.mean()), "loss_low": loss_ends.low, "loss_high": loss_ends.high}
    if costs := cost_of_leaving_out(run):
        ends = np.array(costs.intervals)
        row |= {"added_loss": costs.mean, "added_loss_low": ends[:, 0], "added_loss_high": ends[:, 1]}
        # few prompts understate a cost, so that its lower end holds where it has no interval
        row[_SURELY_ADDED] = np.array(mean_intervals(*added_losses(run["drop"], usual)))[:, 0]
        row["idle_blocks"] = count_idle_blocks(run)
    if "skip" in run and "output_all" in run["skip"]:
        effect = run["skip"]["output_all"].sel(part="block", reduction="mean")
        row["skip_effect"] = effect.mean("prompt").transpose("skipped").values
    return row


def _gains(runs: Sequence[Run]) -> dict[str, FloatArray]:
    """Return what blocks have come to cost since the first step; the seed is that of the first run, as for its page."""
    added_by_step = [added_losses(run["drop"])[0] for run in runs]
    sampling = added_losses(runs[0]["drop"], Sampling(seed=runs[0].identity.seed))[1]
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
            coefficients["slope"] = slope_coefficients(steps) * PER_STEPS
        for kind, values in coefficients.items():
            ends = [np.nan] * 3
            if len(steps) > 1:
                result = contrast([[Term(reading, float(c)) for reading, c in zip(readings, values)]])
                ends = [result.estimate, result.ci_low, result.ci_high]
            for end, value in zip(("", "_low", "_high"), ends):
                columns[kind + end].append(value)
    return {name: np.array(values) for name, values in columns.items()}


def depths_of(run: Run) -> dict[str, float]:
    """Return what a training logs of a run: the verdict's readings in blocks, and how many blocks are idle."""
    values: dict[str, float] = {}
    if "lens" in run:
        values |= {f"depth/{name}": reading.value for name, reading in _readings_of(run).items()}
    if not why_no_cost(run):
        values["depth/idle_blocks"] = count_idle_blocks(run)
    return {name: value for name, value in values.items() if not np.isnan(value)}
