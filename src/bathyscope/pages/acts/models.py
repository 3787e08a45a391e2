"""Which results on one page are of one model, and what tells them apart where they are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bathyscope.core.result import PageResult
from bathyscope.core.text import without_folders
from bathyscope.model.identity import ModelIdentity, compare_models
from bathyscope.runs.run import Run
from bathyscope.surveying.training.steps import COURSE_FOLDER


@dataclass(frozen=True)
class _Measured:
    """One result on a page.

    Args:
        kind: such as "the plan".
        models: those that it is of; a course has one for each step, a difference two.
        folder: what tells a course from others of one model; empty for other results.
    """

    kind: str
    models: tuple[ModelIdentity, ...]
    folder: str = ""

    @property
    def text(self) -> str:
        names = dict.fromkeys(without_folders(model.name) for model in self.models)
        is_named = self.folder and self.folder not in names
        return f"{self.kind} of {' and '.join(names)}{f' ({self.folder})' if is_named else ''}"


def tell_apart(runs: Sequence[Run], acts: Sequence[PageResult]) -> list[str]:
    """Return a sentence for every result that is not shown to be of the model of the first; empty where all are.

    Runs alone are compared by their names. A difference of precision alone is no other model, but is told too.
    """
    if not acts:
        return []
    first, *others = [
        *(_Measured(f"the {act.kind}", act.models, str(act.data.attrs.get(COURSE_FOLDER, ""))) for act in acts),
        *(_Measured("the run", (run.identity.of_model,)) for run in runs),
    ]
    return [sentence for other in others if (sentence := _contradiction(first, other))]


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
