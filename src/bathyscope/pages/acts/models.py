"""Which results on one page are of one model, and what tells them apart where they are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bathyscope.analysis.between.parting import Difference
from bathyscope.core.text import without_folders
from bathyscope.model.identity import ModelIdentity, compare_models
from bathyscope.pages.figures.arguments import Act
from bathyscope.runs.run import Run
from bathyscope.surgery.plan.plan import Plan
from bathyscope.surgery.repairing.repaired import Repaired
from bathyscope.surveying.training.steps import STEP_WEIGHTS


@dataclass(frozen=True)
class _Measured:
    """One result on a page.

    Args:
        kind: such as "the plan".
        models: those that it is of; a course has one for each step, a difference two.
    """

    kind: str
    models: tuple[ModelIdentity, ...]

    @property
    def text(self) -> str:
        names = dict.fromkeys(without_folders(model.name) for model in self.models)
        return f"{self.kind} of {' and '.join(names)}"


def tell_apart(runs: Sequence[Run], acts: Sequence[Act]) -> list[str]:
    """Return a sentence for every result that is not shown to be of the model of the first; empty where all are.

    Runs alone are compared by their names. A difference of precision alone is no other model, but is told too.
    """
    if not acts:
        return []
    first, *others = [*map(_measured, acts), *(_Measured("the run", (run.identity.of_model,)) for run in runs)]
    return [sentence for other in others if (sentence := _contradiction(first, other))]


def act_models(act: Act) -> tuple[ModelIdentity, ...]:
    """Return the models that a result is of, as far as it tells them."""
    if isinstance(act, Repaired):
        return (ModelIdentity.of_record(act.about.model),)
    attrs = act.data.attrs
    if isinstance(act, Plan):
        return (ModelIdentity.of_record(attrs),)
    if isinstance(act, Difference):
        other = {name.removeprefix("other_"): value for name, value in attrs.items() if name.startswith("other_")}
        return ModelIdentity.of_record(attrs), ModelIdentity.of_record({**other, "model": attrs["other"]})
    return tuple(ModelIdentity.of_record({**attrs, "weight_hash": sha256}) for sha256 in attrs.get(STEP_WEIGHTS, ("",)))


def _measured(act: Act) -> _Measured:
    kind = {Plan: "plan", Repaired: "repair", Difference: "difference"}.get(type(act), "course")
    return _Measured(f"the {kind}", act_models(act))


def _contradiction(first: _Measured, other: _Measured) -> str:
    """Say that two results are of two models, or that it is unknown; empty where some models of both agree."""
    best = ""
    for model in first.models:
        for another in other.models:
            agreement = compare_models(model, another, first.kind, other.kind)
            reason = agreement.text
            # without hashes a name is all there is
            if not reason and "weights" in agreement.unknown and model.name != another.name:
                reason = "one of them does not tell its weights, and their names differ"
            if not reason:
                return ""
            best = best or reason
    return f"{first.text} and {other.text} are not shown to be of one model ({best})"
