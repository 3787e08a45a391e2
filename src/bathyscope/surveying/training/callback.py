"""The callback for transformers' Trainer: depths in the training's own log, so in whatever it reports to."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from bathyscope.core.common_options import ChatForm
from bathyscope.core.text import elided
from bathyscope.errors import warn
from bathyscope.prompts.in_memory import Source
from bathyscope.prompts.prompts import Prompts
from bathyscope.surveying.training.pictures import log_profile
from bathyscope.surveying.training.trainer_options import trainer_options
from bathyscope.surveying.training.twin import random_states_kept
from bathyscope.surveying.training.watch import MEASURES, Watch


class DepthCallback(TrainerCallback):
    """Surveys the model every this many steps of a Trainer, and logs the depths with everything else.

    The numbers are the verdict's readings (``depth/half``, ``depth/tokens_90``, ``depth/readable``, ``depth/own`` and
    ``depth/later``, in blocks), ``depth/idle_blocks`` and ``depth/seconds``. Weights, optimiser, random states and the
    loss are what they are without it.

    Args:
        every: steps between two surveys; the model is surveyed before the first step too.
        prompts, out, measures, max_share, seed, add_special_tokens, chat, progress: of ``bathyscope.watch``.
        tokenizer: of the model; None = the Trainer's.
        picture: send the depth profile of each step to W&B, TensorBoard, MLflow and Trackio too, where the Trainer
            reports to them and lens and drop are measured.

    Raises:
        OptionError, PromptError, ModelError, StoreError: as ``bathyscope.watch``, before the first step.

    Example:
        >>> trainer.add_callback(DepthCallback("gsm8k:8", every=500, out="runs/course"))  # doctest: +SKIP
    """

    def __init__(
        self,
        prompts: Source | Prompts,
        every: int = 500,
        out: str | Path = "runs/course",
        *,
        measures: Sequence[str] = MEASURES,
        max_share: float | None = None,
        seed: int = 0,
        add_special_tokens: bool = True,
        chat: ChatForm = False,
        tokenizer: Any = None,
        picture: bool = True,
        progress: bool = True,
    ) -> None:
        self._prompts, self._out, self._tokenizer = prompts, out, tokenizer
        self._sends_picture = picture
        self._options: dict[str, Any] = {
            "every": every,
            "measures": measures,
            "max_share": max_share,
            "seed": seed,
            "add_special_tokens": add_special_tokens,
            "chat": chat,
            "progress": progress,
        }
        self._watch: Watch | None = None
        self._trainer: Trainer | None = None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Look at the model, and survey it before the first step (or where a training goes on)."""
        tokenizer = kwargs.get("processing_class") if self._tokenizer is None else self._tokenizer
        trainer = _trainer_of(state)
        dataset = getattr(trainer, "train_dataset", None)
        with random_states_kept():
            training = trainer_options(args, state, dataset)
        self._watch = Watch(
            kwargs["model"],
            self._prompts,
            self._out,
            tokenizer=tokenizer,
            steps=state.max_steps if state.max_steps > 0 else None,
            training=training,
            step=state.global_step,
            **self._options,
        )
        self._trainer = trainer
        if trainer is None:
            warn("DepthCallback cannot find its Trainer; its numbers are in the folder of the course alone.")
        self._look(state, control)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Survey the model where the step is due."""
        self._look(state, control)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Note the weights of a checkpoint, from which the training may be resumed."""
        if self._watch is not None:
            self._watch.saved(state.global_step)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Write what the surveys took."""
        if self._watch is not None:
            self._watch.end()
        # A finished training is released with its weights, however long the callback lives.
        self._trainer = None

    def _look(self, state: TrainerState, control: TrainerControl) -> None:
        assert self._watch is not None
        values = self._watch(state.global_step)
        if values and self._trainer is not None:
            # the Trainer takes its own log of this step for written once anything is logged
            logs_the_loss = control.should_log
            self._trainer.log(values)
            self._send_picture(self._trainer, state.global_step)
            control.should_log = self._trainer.control.should_log = logs_the_loss

    def _send_picture(self, trainer: Trainer, step: int) -> None:
        assert self._watch is not None
        run = self._watch.run
        if not self._sends_picture or run is None or "lens" not in run or "drop" not in run:
            return
        try:
            with random_states_kept():
                log_profile(trainer, run, step)
        except Exception as error:  # a training of days must not end for a picture
            self._sends_picture = False
            warn(
                f"The profile of step {step} could not be sent to a tracker, and no later one is sent "
                f"({type(error).__name__}: {elided(str(error), 80)}). Numbers are logged as before; picture=False "
                "leaves pictures out."
            )


def _trainer_of(state: TrainerState) -> Trainer | None:
    """Return the Trainer that a state belongs to.

    Callbacks do not learn of it, and what they change of a log comes after the reports of it; its own ``log`` reaches
    all of them. The class is looked up without ``isinstance``, which would run code of objects that stand for others.
    """
    for candidate in gc.get_objects():
        if issubclass(type(candidate), Trainer) and getattr(candidate, "state", None) is state:
            trainer: Trainer = candidate
            return trainer
    return None
