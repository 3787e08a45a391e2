"""A bar with the time left and the loss, while a model trains."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class TrainingBar(TrainerCallback):
    """Shows on standard error how far a run is.

    Args:
        title: what is trained.
    """

    def __init__(self, title: str) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total} steps"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[loss]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(title, total=None, loss="", start=False)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Shows the bar, at the step a resumed run begins with."""
        self._bar.update(self._task, total=state.max_steps, completed=state.global_step)
        self._bar.start_task(self._task)
        self._bar.start()

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Moves on by a step."""
        self._bar.update(self._task, completed=state.global_step, loss=f"loss {(logs or {})['loss']:.3f}")

    def close(self) -> None:
        """Takes the bar away, also after an error."""
        self._bar.stop()
