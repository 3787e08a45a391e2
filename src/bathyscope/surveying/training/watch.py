"""Watching a training: a survey of the model as it is, every so many steps, one run a step in one folder.

Everything that can be wrong is refused before the first step. From then on a survey never stops a training: each
that fails is a warning with its step, and the training goes on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from bathyscope.core.paths import require_writable
from bathyscope.core.progress import write_line
from bathyscope.core.text import counted, duration
from bathyscope.errors import BathyscopeError, OptionError, StoreError, warn
from bathyscope.model import Model, load
from bathyscope.model.identity import compare_models, identity_of
from bathyscope.options import Range, items_of
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.source import Source, require_there
from bathyscope.runs.folder import folder_path
from bathyscope.runs.run import Run, open_run
from bathyscope.surveying.asking import Survey
from bathyscope.surveying.cost import cost_of_plan
from bathyscope.surveying.engines import survey
from bathyscope.surveying.plan import SurveyPlan
from bathyscope.surveying.rates import measure_rates, nominal_rates
from bathyscope.surveying.training.budget import SurveyBudget
from bathyscope.surveying.training.folder import (
    claim_course,
    description,
    finished_model,
    finished_runs,
    run_folder,
)
from bathyscope.surveying.training.steps import depths_of
from bathyscope.surveying.training.twin import random_states_kept, twin_of, unwrapped, warn_of_what_stays

MEASURES: Final = ("lens", "skip", "drop")
STEPS: Final = "steps"
"""Option of a training: how many steps it takes in all."""
_WORTH_TIMING: Final = 2.0
"""Seconds of a survey by nominal rates from which the machine's own rates are measured, which takes a second or two."""


class Watch:
    """Surveys a model under training at the steps that are due.

    Args:
        model: the model; wrapped in data parallelism, compiled or with adapters if it must be.
        prompts: as for ``survey``; read once, so that every step sees the same tokens.
        out: folder of the course, a run for each step in it.
        every: steps between two surveys.
        measures: as for ``survey``; lens, skip and drop are what the numbers below are of.
        max_share: share of all the time that surveys may take, such as 0.05; one with which they would take more is
            left out. None = every survey that is due is made.
        steps: of the whole training, where they are known: so many surveys are due.
        seed: as for ``survey``.
        tokenizer: of the model, where its folder has none.
        training: what tells this training from others of the same model, such as ``{"learning_rate": 3e-4}``; it is
            stored with the course, and one that tells otherwise is refused.
        step: where the training stands; None = unknown until the first call.
        progress: write what a survey is expected to take, and in the end what all of them took.

    Raises:
        OptionError, PromptError: what is asked for cannot be done.
        ModelError: weights that are scattered over processes, or a model that cannot be measured.
        StoreError: the folder holds the course of another training, or of one that cannot be told from this one.

    Example:
        >>> watch = bathyscope.watch(model.hf, [[5, 9, 7, 30], [8, 6, 4]], out="runs/watched", every=2)
        >>> sorted(watch(2))[:2]
        ['depth/idle_blocks', 'depth/own']
    """

    def __init__(
        self,
        model: nn.Module,
        prompts: Source | Prompts,
        out: str | Path,
        *,
        every: int = 500,
        measures: Sequence[str] = MEASURES,
        max_share: float | None = None,
        steps: int | None = None,
        seed: int = 0,
        tokenizer: Any = None,
        training: Mapping[str, Any] | None = None,
        step: int | None = None,
        progress: bool = True,
    ) -> None:
        Range(1).check(every, "every")
        _require_share(max_share)
        self.folder = folder_path(out, "out")
        self.every, self._measures, self._max_share, self._seed = every, items_of(measures), max_share, seed
        self._model, self._tokenizer, self._progress, self._steps = model, tokenizer, progress, steps
        self.failed = 0
        self._has_thinned = self._is_foreign = False
        self._earlier: dict[int, Path] = {}
        self._is_known, self._start = True, step
        self.surveys, self.left_out, self.seconds = 0, 0, 0.0
        """Surveys so far, those that were left out because they would have taken too long, and the former's time."""
        inner = unwrapped(model)
        if is_first_process():
            warn_of_what_stays(inner)
            require_writable(self.folder, holds="a course")
            if not isinstance(prompts, Prompts):
                require_there(prompts)
            with random_states_kept():
                plan = Survey(self._measures, seed=seed).plan(self._twin(), prompts)
                self._earlier = finished_runs(self.folder)
                options = _options_of(training, step, plan.model)
                is_told = claim_course(self.folder, description(plan), options)
                # a training that is told to be the course's own, or that begins it, may add steps
                self._is_known = not self._earlier or (training is not None and is_told)
                if step is not None:
                    self._begin_at(step)
                    self._require_own(step, plan.model)
                self._prompts = plan.prompts
                self.estimate = _seconds_of(plan)
            self._tell(
                f"Depth is surveyed every {every} steps on {len(plan.prompts)} prompts, by an estimate in about "
                f"{duration(self.estimate)} each; what the first one takes is said when it is done."
            )
        self._budget: SurveyBudget | None = None
        self._began = time.monotonic()

    def __call__(self, step: int) -> dict[str, float]:
        """Survey the model where the step is due; return the numbers to log, empty where it is not."""
        if self._start is None:
            self._begin_at(step)
        if step % self.every or not is_first_process() or self._is_foreign:
            return {}
        # what is surveyed already costs nothing, and shows whether this is the same training
        if step not in self._earlier and self._is_too_costly(step):
            return {}
        is_stored = finished_model(self.folder, step) is not None
        began = time.monotonic()
        values: dict[str, float] | None = None
        try:
            with random_states_kept():
                values = depths_of(self._survey(step))
        except Exception as error:  # a training of days must not end for a measurement
            reason = str(error) if isinstance(error, BathyscopeError) else f"{type(error).__name__}: {error}"
            self.failed += 1
            warn(f"The survey at step {step} failed, and the training goes on: {reason}")
        finally:
            seconds = time.monotonic() - began
            self.seconds += seconds
        if values is None:
            return {}
        self.surveys += 1
        if not is_stored:  # which tells nothing of what a survey takes
            self._note_seconds(step, seconds)
        return {**values, "depth/seconds": seconds}

    @property
    def text(self) -> str:
        """What the surveys took, as a share of all the time since the watch began."""
        passed = max(time.monotonic() - self._began, 1e-9)
        failed = f"; {self.failed} failed" if self.failed else ""
        left_out = ""
        if self.left_out and self._max_share is not None:
            left_out = f"; {self.left_out} due ones were left out, to stay within {self._max_share:.3g} of it"
        return (
            f"{counted(self.surveys, 'survey')} of depth took {duration(self.seconds)}, {self.seconds / passed:.1%} of "
            f"the time{failed}{left_out}."
        )

    def end(self) -> None:
        """Write what the surveys took."""
        if is_first_process():
            self._tell(self.text)

    def _twin(self) -> Model:
        return load(twin_of(self._model), tokenizer=self._tokenizer)

    def _survey(self, step: int) -> Run:
        model = self._twin()
        self._require_own(step, model)
        out = run_folder(self.folder, step)
        if finished_model(self.folder, step) is not None:
            return open_run(out)
        return survey(model, self._prompts, self._measures, out=out, seed=self._seed, progress=False)

    def _begin_at(self, step: int) -> None:
        """Take in where the training begins; one that begins behind the last step is taken to go on from it."""
        self._start = step
        self._is_known = self._is_known or step > max(self._earlier, default=-1)

    def _require_own(self, step: int, model: Model) -> None:
        """Refuse a step of another training than the course's, with everything that follows it.

        A training is the course's own where it is told to be, where it begins the course, or once it has had the same
        weights at the course's last step.

        Raises:
            StoreError: other weights or settings at a step that is there; or nothing shows that it is the same one.
        """
        advice = "Give another folder (out=…) for this training"
        stored, last = finished_model(self.folder, step), max(self._earlier, default=-1)
        if stored is not None:
            agreement = compare_models(stored, identity_of(model), "the course", "this training")
            if agreement.differences:
                self._is_foreign = True
                what = "weights" if "weights" in agreement.differences else "settings"
                raise StoreError(
                    f"step {step} in {str(self.folder)!r} was surveyed with other {what}, by another training or "
                    f"before this one went back, and stays as it is ({agreement.text}). {advice}, or resume that one."
                )
            self._is_known = self._is_known or step == last
        elif not self._is_known:
            self._is_foreign = True
            raise StoreError(
                f"{str(self.folder)!r} holds a course up to step {last}, and nothing shows that this training is the "
                f"same at step {step}. {advice}, or resume that one at step {last}, or tell it by training={{…}}."
            )

    def _note_seconds(self, step: int, seconds: float) -> None:
        """Take what a survey took for what the next one will; of the first one, say what all of them will take."""
        is_first = self._budget is None
        self._budget = SurveyBudget(seconds, self._max_share)
        if is_first:
            due = None if self._steps is None else len(range(step, self._steps + 1, self.every))
            self._tell(f"The survey at step {step} took {duration(seconds)}. {self._budget.describe(due, self.every)}")

    def _is_too_costly(self, step: int) -> bool:
        """Say whether surveys would take more than their share of the time with the next one."""
        passed = time.monotonic() - self._began
        if self._budget is None or self._budget.allows(self.seconds, passed):
            return False
        self.left_out += 1
        if not self._has_thinned:
            self._has_thinned = True
            warn(
                f"The survey at step {step} is left out: with {duration(self._budget.seconds)} more, surveys would "
                f"take over {self._max_share:.3g} of the {duration(passed)} so far. Give fewer prompts, a larger "
                f"every= or "
                "max_share=, or leave max_share out."
            )
        return True

    def _tell(self, line: str) -> None:
        if self._progress:
            write_line(line, {"what": "depth"})


def watch(model: nn.Module, prompts: Source | Prompts, out: str | Path, **options: Any) -> Watch:
    """Return what surveys a model at the steps of a training loop: ``watch(step)`` gives the numbers to log.

    Args:
        model: the model under training.
        prompts: as for ``survey``.
        out: folder of the course.
        **options: ``every``, ``measures``, ``max_share``, ``steps``, ``seed``, ``tokenizer``, ``training``, ``step``
            and ``progress`` of ``Watch``.

    Raises:
        OptionError, PromptError, ModelError, StoreError: as ``Watch``.

    Example:
        >>> watch = bathyscope.watch(model.hf, [[5, 9, 7, 30]], out="runs/course", every=100)
        >>> watch(1)
        {}
    """
    return Watch(model, prompts, out, **options)


def _require_share(max_share: float | None) -> None:
    """Refuse what is no share, such as a number of per cent."""
    if max_share is not None and not 0 < max_share <= 1:
        raise OptionError(
            f"max_share={max_share:g} is out of range: it is a share of the time, above 0 and at most 1 (0.05 is 5 %). "
            "Leave it out to make every survey that is due."
        )


def is_first_process() -> bool:
    """Return whether this process is the one of several that surveys."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return not distributed or torch.distributed.get_rank() == 0


def _options_of(training: Mapping[str, Any] | None, step: int | None, model: Model) -> dict[str, Any]:
    """Return what tells a training: its options, and the weights and settings that it begins with at step 0."""
    options = dict(training or {})
    if step == 0:
        options |= {"first_weights": model.weight_hash, "first_settings": identity_of(model).configuration}
    elif step is not None:
        # a training that is resumed may be made longer
        options.pop(STEPS, None)
    return options


def _seconds_of(plan: SurveyPlan) -> float:
    """Return what a survey is expected to take; the machine is timed where that may be worth knowing."""
    device = plan.model.device
    seconds = cost_of_plan(plan, nominal_rates(device), 1, device).seconds
    if seconds < _WORTH_TIMING:
        return seconds
    mean_length = round(sum(plan.prompts.lengths) / len(plan.prompts))
    return cost_of_plan(plan, measure_rates(plan.model, mean_length, device), 1, device).seconds
