"""What shows that a training is the one of the course in a folder: equal weights at the last step that the course has.

Options that agree, and equal weights before the first update, are those of many trainings. So a training adds steps to
a course that it did not begin only once it has had the same weights at the last step there, or at a checkpoint behind
it that the course has noted. Until then it adds nothing, and so mixes nothing in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from bathyscope.errors import StoreError
from bathyscope.model import Model
from bathyscope.model.identity import compare_models, identity_of
from bathyscope.surveying.training.folder import (
    add_options,
    finished_model,
    finished_runs,
    note_checkpoint,
    noted_checkpoint,
)

_ADVICE: Final = "Give another folder (out=…) for this training"


class Evidence:
    """Compares a training with the course in a folder, step by step.

    Args:
        folder: that of the course.
        options: what tells the training; the course is given those that it lacks once both are shown to be one.

    Attributes:
        is_foreign: whether the training is shown to be another one, or can no longer be shown to be the same.
    """

    def __init__(self, folder: Path, options: Mapping[str, Any]) -> None:
        self._folder, self._options = folder, options
        self._stored = set(finished_runs(folder))
        self._shared: set[int] = set()
        self._is_waiting = self.is_foreign = False

    def has(self, step: int) -> bool:
        """Return whether the course has a survey of a step."""
        return step in self._stored

    def is_told_by(self, step: int) -> bool:
        """Return whether the course has a step that has not been compared, due or not."""
        return step in self._stored and step not in self._shared

    def is_awaited_at(self, step: int) -> bool:
        """Return whether a step is left out without another word, because the last one is still to be compared."""
        return self._is_waiting and step not in self._stored

    def compare(self, step: int, model: Model) -> None:
        """Compare the weights and settings of a step with those that the course has of it, if any.

        Raises:
            StoreError: others, by another training.
        """
        is_surveyed = finished_model(self._folder, step) is not None
        stored = finished_model(self._folder, step) or noted_checkpoint(self._folder, step)
        if stored is None:
            return
        agreement = compare_models(stored, identity_of(model), "the course", "this training")
        if agreement.differences:
            self.is_foreign = True
            what = "weights" if "weights" in agreement.differences else "settings"
            verb = "surveyed" if is_surveyed else "saved"
            raise StoreError(
                f"step {step} in {str(self._folder)!r} was {verb} with other {what}, by another training or before "
                f"this one went back, and stays as it is ({agreement.text}). {_ADVICE}, or resume that one."
            )
        steps = finished_runs(self._folder)
        if "weights" not in agreement.unknown and step >= max(steps, default=-1):
            self._shared |= {*steps, step}
            self._is_waiting = False
            add_options(self._folder, self._options)

    def require_at_begin(self, step: int, model: Model) -> None:
        """Refuse a training that begins behind the last step, and is not shown to come from there.

        Raises:
            StoreError: as ``compare`` and ``require``; before the last step it may still be shown.
        """
        self.compare(step, model)
        if step > max(self._stored, default=-1):
            self.require(step)

    def require(self, step: int) -> None:
        """Refuse to add a step before the training is shown to be that of all steps that are there.

        Raises:
            StoreError: nothing shows it; behind the last step nothing will any more.
        """
        self._stored |= finished_runs(self._folder).keys()
        last = max(self._stored - self._shared, default=None)
        if last is None:
            return
        self.is_foreign, self._is_waiting = step > last, step < last
        course = (
            f"{str(self._folder)!r} holds a course up to step {last}, and nothing shows that this training is the same"
        )
        if step < last:
            raise StoreError(
                f"{course} before its weights are equal there; no step is added until then. {_ADVICE} if it is another."
            )
        raise StoreError(f"{course} at step {step}. {_ADVICE}, or resume that one at step {last}.")

    def add(self, step: int) -> None:
        """Take a step that this training has added."""
        self._shared.add(step)

    def note(self, step: int, model: Callable[[], Model]) -> None:
        """Note the weights of a checkpoint, from which the training may go on; of a foreign one nothing is noted."""
        steps = finished_runs(self._folder).keys()
        if not self.is_foreign and steps <= self._shared and step not in steps:
            note_checkpoint(self._folder, step, identity_of(model()))
