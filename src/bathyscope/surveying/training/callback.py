"""The callback for transformers' Trainer: depths in the training's own log, so in whatever it reports to."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from bathyscope.errors import warn
from bathyscope.prompts.source import Source
from bathyscope.surveying.training.watch import MEASURES, Watch


class DepthCallback(TrainerCallback):
    """Surveys the model every so many steps of a Trainer, and logs the depths with everything else.

    The numbers are ``depth/readable``, ``depth/own``, ``depth/later`` (blocks), ``depth/idle_blocks`` and
    ``depth/seconds``. Weights, optimiser, random states and the loss are what they are without it.

    Args:
        prompts: as for ``survey``.
        every: steps between two surveys; the model is surveyed before the first step too.
        out: folder of the course.
        measures, max_share, seed: of ``bathyscope.watch``.

    Example:
        >>> trainer.add_callback(DepthCallback("gsm8k:8", every=500, out="runs/course"))  # doctest: +SKIP
    """

    def __init__(
        self,
        prompts: Source,
        every: int = 500,
        out: str | Path = "runs/course",
        *,
        measures: Sequence[str] = MEASURES,
        max_share: float = 0.05,
        seed: int = 0,
    ) -> None:
        self._prompts, self._out = prompts, out
        self._options: dict[str, Any] = {"every": every, "measures": measures, "max_share": max_share, "seed": seed}
        self._watch: Watch | None = None
        self._trainer: Trainer | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Look at the model, and survey it before the first step (or where a training goes on)."""
        tokenizer = kwargs.get("processing_class")
        self._watch = Watch(kwargs["model"], self._prompts, self._out, tokenizer=tokenizer, **self._options)
        self._trainer = _trainer_of(self)
        if self._trainer is None:
            warn("DepthCallback does not find its Trainer, and its numbers stand in the folder of the course alone.")
        self._look(state, control)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Survey the model where the step is due."""
        self._look(state, control)

    def _look(self, state: TrainerState, control: TrainerControl) -> None:
        assert self._watch is not None
        values = self._watch(state.global_step)
        if values and self._trainer is not None:
            # the Trainer takes its own log of this step for written once anything is logged
            logs_the_loss = control.should_log
            self._trainer.log(values)
            control.should_log = self._trainer.control.should_log = logs_the_loss


def _trainer_of(callback: DepthCallback) -> Trainer | None:
    """Return the Trainer that a callback was added to.

    Callbacks are not told of it, and what they change of a log comes after the reports of it; its own ``log`` reaches
    all of them.
    """
    for trainer in gc.get_objects():
        if isinstance(trainer, Trainer) and callback in getattr(trainer.callback_handler, "callbacks", ()):
            return trainer
    return None
