"""The model that a plan is of, and the prompts that chose it: asked wherever it is written, repaired or run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from bathyscope.errors import ModelError
from bathyscope.model import AnyModel, Model, load, loaded
from bathyscope.model.identity import ModelIdentity, compare_models, identity_of
from bathyscope.schedule import Schedule, Scheduling

if TYPE_CHECKING:
    import xarray as xr


CHOSEN_BY: Final = "chosen_by"
"""Attribute of a plan: hashes of the prompts that chose, with spaces between them; earlier versions tell none."""


class Choice(Protocol):
    """What is read of a plan."""

    @property
    def data(self) -> xr.Dataset:
        """Its numbers; the attributes name the model and its hashes."""

    @property
    def model(self) -> Any:
        """What was pruned; None where the plan was read from a folder."""

    @property
    def place(self) -> str:
        """Where the model is."""

    @property
    def left_out(self) -> str:
        """The blocks or parts."""

    @property
    def leaves_blocks(self) -> bool:
        """Whether whole blocks are left out."""

    @property
    def proved(self) -> bool:
        """Whether the choice holds on the test prompts."""

    @property
    def evidence(self) -> str:
        """Markdown for the model card."""

    def as_schedule(self) -> Schedule:
        """Return the order of the blocks that stay."""


def in_its_precision(plan: Choice, model: AnyModel) -> Model:
    """Return the model loaded; one that is given by name in the precision in which the plan was made."""
    if isinstance(model, str | Path) and "precision" in plan.data.attrs:
        return load(model, dtype=str(plan.data.attrs["precision"]))
    return loaded(model)


def chosen_by(plan: Choice) -> frozenset[str]:
    """Return the ``token_hashes`` of the prompts that chose a plan; empty where it does not tell them."""
    return frozenset(str(plan.data.attrs.get(CHOSEN_BY, "")).split())


def require_model_of(schedule: object, model: Model) -> None:
    """Refuse to run a plan on another model than it was made of; any other schedule is of no model.

    Raises:
        ModelError: as ``require_same_model``.
    """
    if _is_choice(schedule):
        require_same_model(cast(Choice, schedule), model)


def loaded_for(schedule: object, model: AnyModel) -> Model:
    """Return the model loaded to run a schedule; one that is given by name in the precision of a plan."""
    return in_its_precision(cast(Choice, schedule), model) if _is_choice(schedule) else loaded(model)


def _is_choice(schedule: object) -> bool:
    return isinstance(schedule, Scheduling) and hasattr(schedule, "data")


def require_same_model(plan: Choice, model: AnyModel) -> Model | None:
    """Return the model that the plan was made of; None for plans of older versions.

    Raises:
        ModelError: other weights, configuration or adapters, or another precision, of which its costs say nothing.
    """
    stored = ModelIdentity.of_record(plan.data.attrs)
    if stored.weights is None:
        return None
    now = in_its_precision(plan, model)
    agreement = compare_models(stored, identity_of(now), "the plan", "this model")
    if not agreement.differences:
        return now
    if "precision" in agreement.differences:
        precision = stored.precision
        raise ModelError(
            f"{now.name} is loaded in {str(now.dtype).removeprefix('torch.')}, and {plan.left_out} was chosen in "
            f"{precision}, so that its costs say nothing of it; load it with dtype={precision!r} (--dtype {precision})."
        )
    what = "weights" if "weights" in agreement.differences else "settings"
    raise ModelError(
        f"{now.name} has other {what} now than when {plan.left_out} was chosen, so that its costs say nothing of "
        f"them ({agreement.text}); prune it again, or export it without them: bathyscope.export(MODEL, "
        f"{plan.left_out!r}, FOLDER)."
    )
