"""Watching a training: a survey of the model as it is, every so many steps, one run a step in one folder.

Everything that can be wrong is refused before the first step. From then on a survey never stops a training: each
that fails is a warning with its step, and the training goes on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from bathyscope.core.progress import write_line
from bathyscope.core.text import duration
from bathyscope.errors import BathyscopeError, StoreError, warn
from bathyscope.model import Model, load
from bathyscope.options import Range
from bathyscope.prompts.prompts import Prompts
from bathyscope.prompts.source import Source, require_there
from bathyscope.runs.folder import folder_path
from bathyscope.runs.run import Run
from bathyscope.surveying.asking import Survey
from bathyscope.surveying.cost import cost_of_plan
from bathyscope.surveying.engines import survey
from bathyscope.surveying.plan import SurveyPlan
from bathyscope.surveying.rates import measure_rates, nominal_rates
from bathyscope.surveying.training.folder import claim_course, description, finished_weights, run_folder
from bathyscope.surveying.training.steps import depths_of
from bathyscope.surveying.training.twin import random_states_kept, twin_of, unwrapped

MEASURES: Final = ("lens", "skip", "drop")
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
        max_share: share of the training time since the last survey that one may take (1 = as long again); where it
            would take more, it is left out until enough time has passed.
        seed: as for ``survey``.
        tokenizer: of the model, where its folder has none.
        progress: write what a survey is expected to take, and in the end what all of them took.

    Raises:
        OptionError, PromptError: what is asked for cannot be done.
        ModelError: weights that are scattered over processes, or a model that cannot be measured.
        StoreError: the folder holds the course of another training.

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
        max_share: float = 0.05,
        seed: int = 0,
        tokenizer: Any = None,
        progress: bool = True,
    ) -> None:
        Range(1).check(every, "every")
        Range(0.0001).check(max_share, "max_share")
        self.folder = folder_path(out, "out")
        self.every, self._measures, self._max_share, self._seed = every, list(measures), max_share, seed
        self._model, self._tokenizer, self._progress = model, tokenizer, progress
        self.failed = 0
        self._has_thinned = False
        self.surveys, self.left_out, self.seconds = 0, 0, 0.0
        """Surveys so far, those that were left out because they would have taken too long, and the former's time."""
        unwrapped(model)
        if is_first_process():
            if not isinstance(prompts, Prompts):
                require_there(prompts)
            with random_states_kept():
                plan = Survey(self._measures, seed=seed).plan(self._twin(), prompts)
                claim_course(self.folder, description(plan))
                self._prompts = plan.prompts
                self.estimate = _seconds_of(plan)
            self._tell(
                f"Depth is surveyed every {every} steps on {len(plan.prompts)} prompts: about "
                f"{duration(self.estimate)} each, and no more than {max_share:.0%} of the time of training."
            )
        self._survey_seconds = 0.0
        self._began = self._surveyed_at = time.monotonic()

    def __call__(self, step: int) -> dict[str, float]:
        """Survey the model where the step is due; return the numbers to log, empty where it is not."""
        if step % self.every or not is_first_process() or self._is_too_costly():
            return {}
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
            self._surveyed_at = time.monotonic()
            self._survey_seconds = self._surveyed_at - began
            self.seconds += self._survey_seconds
        if values is None:
            return {}
        self.surveys += 1
        return {**values, "depth/seconds": self._survey_seconds}

    @property
    def text(self) -> str:
        """What the surveys took, as a share of all the time since the watch began."""
        passed = max(time.monotonic() - self._began, 1e-9)
        failed = f"; {self.failed} failed" if self.failed else ""
        left_out = f"; {self.left_out} were left out, which would have taken more" if self.left_out else ""
        return (
            f"{self.surveys} surveys of depth took {duration(self.seconds)}, {self.seconds / passed:.1%} of the time"
            f"{failed}{left_out}."
        )

    def end(self) -> None:
        """Write what the surveys took."""
        if is_first_process():
            self._tell(self.text)

    def _twin(self) -> Model:
        return load(twin_of(self._model), tokenizer=self._tokenizer)

    def _survey(self, step: int) -> Run:
        model = self._twin()
        stored = finished_weights(self.folder, step)
        if stored is not None and stored != model.weight_hash:
            raise StoreError(
                f"step {step} in {str(self.folder)!r} was surveyed with other weights, by another training or before "
                "this one went back, and stays as it is. Give another folder (out=…) for this training."
            )
        out = run_folder(self.folder, step)
        return survey(model, self._prompts, self._measures, out=out, seed=self._seed, progress=False)

    def _is_too_costly(self) -> bool:
        """Say whether the next survey would take more than its share of the time since the last one."""
        trained = time.monotonic() - self._surveyed_at
        too_costly = self._survey_seconds > self._max_share * trained
        self.left_out += too_costly
        if too_costly and not self._has_thinned:
            self._has_thinned = True
            warn(
                f"A survey takes {self._survey_seconds:.3g} s, more than {self._max_share:.0%} of the {trained:.3g} s "
                "of training since the last one, and is left out until it is not. Give fewer prompts, a larger every=, "
                "or another max_share=."
            )
        return too_costly

    def _tell(self, line: str) -> None:
        if self._progress:
            write_line(line, {"what": "depth"})


def watch(model: nn.Module, prompts: Source | Prompts, out: str | Path, **options: Any) -> Watch:
    """Return what surveys a model at the steps of a training loop: ``watch(step)`` gives the numbers to log.

    Args:
        model: the model under training.
        prompts: as for ``survey``.
        out: folder of the course.
        **options: ``every``, ``measures``, ``max_share``, ``seed``, ``tokenizer`` and ``progress`` of ``Watch``.

    Raises:
        OptionError, PromptError, ModelError, StoreError: as ``Watch``.

    Example:
        >>> watch = bathyscope.watch(model.hf, [[5, 9, 7, 30]], out="runs/course", every=100)
        >>> watch(1)
        {}
    """
    return Watch(model, prompts, out, **options)


def is_first_process() -> bool:
    """Return whether this process is the one of several that surveys."""
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return not distributed or torch.distributed.get_rank() == 0


def _seconds_of(plan: SurveyPlan) -> float:
    """Return what a survey is expected to take; the machine is timed where that may be worth knowing."""
    device = plan.model.device
    seconds = cost_of_plan(plan, nominal_rates(device), 1, device).seconds
    if seconds < _WORTH_TIMING:
        return seconds
    mean_length = round(sum(plan.prompts.lengths) / len(plan.prompts))
    return cost_of_plan(plan, measure_rates(plan.model, mean_length, device), 1, device).seconds
