"""Watching a training: a survey of the model as it is, every this many steps, one run a step in one folder.

Everything that can be wrong is refused before the first step. From then on a survey never stops a training: each
that fails is a warning with its step, and the training goes on.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from bathyscope.core.calls import bind_arguments, checked_arguments
from bathyscope.core.common_options import ChatForm
from bathyscope.core.paths import require_writable
from bathyscope.core.progress import write_line
from bathyscope.core.repeated import leaving_out, noting
from bathyscope.core.text import counted, duration
from bathyscope.errors import BathyscopeError, OptionError, warn
from bathyscope.model import Model, load
from bathyscope.model.identity import identity_of
from bathyscope.model.shards import is_fully_sharded
from bathyscope.options import items_of
from bathyscope.prompts.in_memory import Source
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.source import require_there
from bathyscope.runs.folder import folder_path
from bathyscope.runs.opening import open_run
from bathyscope.runs.run import Run
from bathyscope.surveying.asking import Survey
from bathyscope.surveying.cost import cost_of_plan
from bathyscope.surveying.engines import survey
from bathyscope.surveying.plan import SurveyPlan
from bathyscope.surveying.rates import measure_rates, nominal_rates
from bathyscope.surveying.training.budget import SurveyBudget
from bathyscope.surveying.training.evidence import Evidence
from bathyscope.surveying.training.folder import (
    claim_course,
    description,
    finished_model,
    note_step,
    run_folder,
    shape_of,
    shape_text,
)
from bathyscope.surveying.training.gathering import Gathering
from bathyscope.surveying.training.options import STEPS, plain_options, require_share, whole
from bathyscope.surveying.training.steps import depths_of
from bathyscope.surveying.training.twin import random_states_kept, twin_of, unwrapped, warn_of_what_stays

MEASURES: Final = ("lens", "skip", "drop")
_USUAL_EVERY: Final = 500
_WORTH_TIMING: Final = 2.0
"""Seconds of a survey by nominal rates from which the machine's own rates are measured, which takes a second or two."""


class _MisfitError(Exception):
    """The model has another shape than the course is of."""


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
        steps: how many the whole training has, where that is known, to say how many surveys are due.
        seed, add_special_tokens, chat: as for ``survey``.
        tokenizer: of the model, where its folder has none.
        training: what tells this training from others of the same model, such as ``{"learning_rate": 3e-4}``: numbers,
            texts and truth values, or lists and dicts of them. It is stored with the course, and one that tells
            otherwise is refused.
        step: where the training stands; None = unknown until the first call.
        progress: write what a survey is expected to take, and in the end what all of them took.

    Raises:
        OptionError, PromptError: what is asked for cannot be done.
        ModelError: weights that are scattered otherwise than by ``fully_shard``, or a model that cannot be measured.
        StoreError: the folder holds the course of another training, or of one that cannot be told from this one.

    Example:
        >>> watch = bathyscope.watch(model.hf, [[5, 9, 7, 30], [8, 6, 4]], out="runs/watched", every=2)
        >>> "depth/own" in watch(2)
        True
    """

    def __init__(
        self,
        model: nn.Module,
        prompts: Source | Prompts,
        out: str | Path,
        *,
        every: int = _USUAL_EVERY,
        measures: Sequence[str] = MEASURES,
        max_share: float | None = None,
        steps: int | None = None,
        seed: int = 0,
        add_special_tokens: bool = True,
        chat: ChatForm = False,
        tokenizer: Any = None,
        training: Mapping[str, Any] | None = None,
        step: int | None = None,
        progress: bool = True,
    ) -> None:
        self.every = whole("every", every, 1)
        require_share(max_share)
        step = None if step is None else whole("step", step)
        self.folder = folder_path(out, "out")
        self._measures, self._max_share, self._seed = items_of(measures, "measures"), max_share, seed
        self._model, self._tokenizer, self._progress = model, tokenizer, progress
        self._steps = None if steps is None else whole("steps", steps)
        self.run: Run | None = None
        """The survey of the last step that was due, such as for ``watch.run.plot("profile")``."""
        self.failed = 0
        self.misfits = 0
        """Steps that were left out because the model had another shape than at the first."""
        self._has_thinned = False
        self._latest, self._has_turned_back = -1, False
        self._whole: Mapping[int, Tensor] = {}
        """Gathered weights, while the model is looked at."""
        options = plain_options(training)
        self.surveys, self.left_out, self.seconds = 0, 0, 0.0
        """Surveys so far, those that were left out because they would have taken too long, and the former's time."""
        inner = unwrapped(model)
        self._gathering = Gathering() if is_fully_sharded(inner) else None
        request = Survey(self._measures, seed=seed, add_special_tokens=add_special_tokens, chat=chat)
        with self._gathered() as is_here:
            fault: Exception | None = None
            if is_here:
                try:
                    self._begin(inner, request, prompts, options, step)
                except Exception as error:
                    fault = error
            # what the first process refuses, all of them refuse
            fault = fault if self._gathering is None else self._gathering.agreed(fault)
        if fault is not None:
            raise fault
        self._budget: SurveyBudget | None = None
        self._began = time.monotonic()

    def _begin(
        self,
        model: nn.Module,
        request: Survey,
        prompts: Source | Prompts,
        options: Mapping[str, Any],
        step: int | None,
    ) -> None:
        """Check everything that can be wrong, in the process that surveys, and say what is due."""
        warn_of_what_stays(model)
        require_writable(self.folder, holds="a course")
        if not isinstance(prompts, Prompts):
            require_there(prompts)
        with random_states_kept():
            with noting() as self._remarks:
                plan = request.plan(self._twin(), prompts)
            options = _options_of(options, step, plan.model)
            self._shape = shape_of(plan.model)
            claim_course(self.folder, description(plan), options)
            self._evidence = Evidence(self.folder, options)
            if step is not None:
                self._evidence.require_at_begin(step, plan.model)
            self._prompts = plan.prompts
            self.estimate = _seconds_of(plan)
        self._tell(
            f"Depth is surveyed {SurveyBudget.rhythm(self.every)} on {counted(len(plan.prompts), 'prompt')}, by an "
            f"estimate in about {duration(self.estimate)} each; what the first one takes is said when it is done."
        )

    def __call__(self, step: int) -> dict[str, float]:
        """Survey the model where the step is due; return the numbers to log, empty where it is not.

        Args:
            step: a whole number, 0 before the first update.

        Raises:
            OptionError: no whole number, or one below 0.
        """
        step = whole("step", step)
        is_wanted = is_first_process() and self._wants(step)
        if self._gathering is not None:
            is_wanted = self._gathering.agreed(is_wanted)
        if not is_wanted:
            return {}
        with self._gathered() as is_here:
            return self._look(step) if is_here else {}

    def _wants(self, step: int) -> bool:
        """Return whether the model is looked at in a step, in the process that surveys."""
        is_due = step % self.every == 0
        if self._evidence.is_foreign or self._evidence.is_awaited_at(step):
            return False
        # what is surveyed already costs nothing, and shows whether this is the same training
        if not (is_due or self._evidence.is_told_by(step)):
            return False
        return not (is_due and not self._evidence.has(step) and self._is_too_costly(step))

    @contextmanager
    def _gathered(self) -> Iterator[bool]:
        """Have whole weights at hand in the process that surveys, and say whether it is this one; the others wait."""
        is_here = is_first_process()
        if self._gathering is None:
            yield is_here
            return
        self._whole = self._gathering.whole(unwrapped(self._model))
        try:
            yield is_here
        finally:
            self._whole = {}
            self._gathering.wait()

    def _look(self, step: int) -> dict[str, float]:
        """Survey the model, or compare it with what the course has of the step; return the numbers to log."""
        is_due = step % self.every == 0
        is_stored = finished_model(self.folder, step) is not None
        began = time.monotonic()
        values: dict[str, float] | None = None
        try:
            with random_states_kept():
                if is_due:
                    self.run = self._survey(step)
                    values = depths_of(self.run)
                else:
                    self._evidence.compare(step, self._twin())
        except _MisfitError as error:
            if not self.misfits:
                warn(
                    f"Step {step} is left out of the course, as every step like it will be: {error}. Watch this model "
                    "in a folder of its own (out=…)."
                )
            self.misfits += 1
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
        if self.misfits:
            left_out += f"; {self.misfits} due ones were left out, where the model had another shape than at the first"
        return (
            f"{counted(self.surveys, 'survey')} of depth took {duration(self.seconds)}, {self.seconds / passed:.1%} of "
            f"the time{failed}{left_out}."
        )

    def end(self) -> None:
        """Write what the surveys took."""
        if is_first_process():
            self._tell(self.text)

    def _twin(self) -> Model:
        return load(twin_of(self._model, self._whole), tokenizer=self._tokenizer)

    def saved(self, step: int) -> None:
        """Note the weights of a checkpoint, so that a training that is resumed there goes on with the course.

        Not needed at steps that are surveyed. ``DepthCallback`` calls it itself.

        Args:
            step: that of the checkpoint, whose weights the model has now.

        Raises:
            OptionError: no whole number, or one below 0.

        Example:
            >>> watch = bathyscope.watch(model.hf, [[5, 9, 7, 30]], out="runs/saved", every=100)
            >>> watch.saved(50)
        """
        step = whole("step", step)
        is_wanted = is_first_process() and not self._evidence.is_foreign
        if self._gathering is not None:
            is_wanted = self._gathering.agreed(is_wanted)
        if not is_wanted:
            return
        with self._gathered() as is_here:
            if not is_here:
                return
            try:
                with random_states_kept():
                    self._evidence.note(step, self._twin)
            except Exception as error:  # as for a survey
                warn(
                    f"The checkpoint of step {step} is not noted in {str(self.folder)!r}, and the training goes on: "
                    f"{error}"
                )

    def _survey(self, step: int) -> Run:
        model = self._twin()
        if differs := shape_text(model, self._shape):
            raise _MisfitError(differs)
        self._evidence.compare(step, model)
        out = run_folder(self.folder, step)
        if finished_model(self.folder, step) is not None:
            # a process that was ended in between has not noted it
            note_step(self.folder, step)
            return open_run(out)
        self._evidence.require(step)
        self._warn_of_turning_back(step)
        # every step reads the same prompts
        with leaving_out(self._remarks):
            run = survey(model, self._prompts, self._measures, out=out, seed=self._seed, progress=False)
        note_step(self.folder, step)
        self._evidence.add(step)
        self._latest = max(self._latest, step)
        return run

    def _warn_of_turning_back(self, step: int) -> None:
        """Say that the course will show a survey before others that were made earlier; once is enough."""
        if step < self._latest and not self._has_turned_back:
            self._has_turned_back = True
            warn(
                f"Step {step} is surveyed after step {self._latest}, and stands before it in the course, as if it had "
                "been trained less. Count the steps on, or watch what was trained otherwise in a folder of its own "
                "(out=…)."
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
        prompts, out: as for ``Watch``.
        **options: ``every``, ``measures``, ``max_share``, ``steps``, ``seed``, ``tokenizer``, ``training``, ``step``
            and ``progress`` of ``Watch``. How often is ``every``; ``steps`` is how long the whole training is.

    Raises:
        OptionError, PromptError, ModelError, StoreError: as ``Watch``.

    Example:
        >>> watch = bathyscope.watch(model.hf, [[5, 9, 7, 30]], out="runs/course", every=100)
        >>> watch(1)
        {}
    """
    bound = bind_arguments(watch, inspect.signature(Watch), (model, prompts, out), options)
    if "progress" in bound.arguments:
        checked_arguments(Watch.__init__, {"progress": bound.arguments["progress"]})
    _require_some_steps(**{name: bound.arguments.get(name) for name in ("steps", "every")})
    return Watch(*bound.args, **bound.kwargs)


def _require_some_steps(steps: Any, every: Any) -> None:
    """Refuse a length of the training behind whose first step no survey is due: it is mostly meant as ``every``.

    Raises:
        OptionError: with the option that says how often.
    """
    if steps is None:
        return
    length, distance = whole("steps", steps), whole("every", _USUAL_EVERY if every is None else every, 1)
    if 0 < length < distance:
        raise OptionError(
            f"steps={length} is the length of the whole training, and with every={distance} step 0 alone would be "
            f"surveyed. For a survey after each {counted(length, 'step')} give every={length}; or leave steps out."
        )


def is_first_process() -> bool:
    """Return whether this process is the one of several that surveys."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return not distributed or torch.distributed.get_rank() == 0


def _options_of(training: Mapping[str, Any], step: int | None, model: Model) -> dict[str, Any]:
    """Return what tells a training: its options, and the weights and settings that it begins with at step 0."""
    options = dict(training)
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
