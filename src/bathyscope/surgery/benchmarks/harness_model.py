"""``--model bathyscope`` of lm-evaluation-harness: a model under a schedule, in the harness's own command and calls.

The harness reads no entry points: a model that it does not hold itself is known where it was registered in the same
process. Importing this file registers it, and ``bathyscope-lm-eval`` is the harness's own command with this import.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any, Final

from lm_eval.api.registry import register_model

from bathyscope.errors import BathyscopeError, OptionError, PromptError, did_you_mean
from bathyscope.model import load
from bathyscope.schedule import Schedule
from bathyscope.surgery.benchmarks.harness import LoadedLM
from bathyscope.surgery.options import Arguments
from bathyscope.surgery.plan.opening import is_plan, open_plan
from bathyscope.surgery.scheduled.running import require_runnable, scheduled
from bathyscope.surgery.trial.trial import model_record

NAME: Final = "bathyscope"
"""What ``--model`` calls it."""
_OF_HARNESS: Final = frozenset({"max_batch_size", "trust_remote_code"})
"""What the harness passes to every model, and this one has no use for where it is empty or off."""
_ALLOWED: Final = ("pretrained", "schedule", "arguments", "dtype", "device", "revision", "batch_size")


@register_model(NAME)
class ScheduledLM(LoadedLM):
    """A model under a schedule.

    Args:
        pretrained: name on the hub, or a folder; or the folder of a plan, which names the model and the schedule.
        schedule: such as ``drop:5`` or ``repeat:4+3``; the normal order of blocks where none is given.
        arguments: of a schedule, as for ``bathyscope.evaluate``.
        dtype, device, revision: as for ``bathyscope.load``.
        batch_size: requests in one forward, and answers that are written at once.

    Raises:
        OptionError: another argument, or a value that is not allowed.
        ModelError, PromptError: as ``bathyscope.evaluate``.
    """

    def __init__(
        self,
        pretrained: str,
        schedule: str = "standard",
        arguments: Arguments = "block",
        dtype: str | None = None,
        device: str | None = None,
        revision: str | None = None,
        batch_size: int | str = 1,
        **others: Any,
    ) -> None:
        _require_known(others)
        place = str(pretrained)
        if is_plan(place):
            plan = open_plan(place)
            if schedule != "standard":
                raise OptionError(f"schedule={schedule!r} and a plan, which holds its own, do not go together.")
            place, schedule = plan.place, plan.left_out
            plan.as_schedule()
        loading: dict[str, Any] = {"dtype": dtype, "device": device, "revision": revision}
        model = load(place, **{name: value for name, value in loading.items() if value is not None})
        if model.tokenizer is None:
            raise PromptError(f"{place} holds no tokenizer, and tasks are texts; put its files there (tokenizer.json).")
        size = _read_size(batch_size)
        super().__init__(model, size, lambda _: None, size)
        self._record = {**model_record(model), "schedule": schedule, "arguments": arguments}
        # Once for the life of the process: whatever is asked is asked under this schedule.
        self._lasting = ExitStack()
        if schedule != "standard":
            require_runnable(model, Schedule.parse(schedule, model.n_blocks), arguments)
            self._lasting.enter_context(scheduled(model, schedule, arguments))

    def get_model_info(self) -> dict[str, Any]:
        """Return what results say of the model: its hashes, its dtype and the schedule."""
        return dict(self._record)

    def close(self) -> None:
        """Put the model back into its own order of blocks."""
        self._lasting.close()


def _require_known(others: dict[str, Any]) -> None:
    used = {name: value for name, value in others.items() if name not in _OF_HARNESS or value}
    for name, value in used.items():
        raise OptionError(
            f"model_args: {name}={value!r} is unknown.{did_you_mean(name, _ALLOWED)} Allowed: {', '.join(_ALLOWED)}."
        )


def _read_size(batch_size: int | str) -> int:
    try:
        size = int(batch_size)
    except ValueError:
        size = 0
    if size < 1:
        raise OptionError(f"batch_size={batch_size!r} is not allowed; give a number of 1 or more (--batch_size 8).")
    return size


def main() -> None:
    """Run the harness's own command, which knows this model."""
    from lm_eval.__main__ import cli_evaluate

    try:
        cli_evaluate()
    except BathyscopeError as error:
        sys.exit(f"error: {error}")
