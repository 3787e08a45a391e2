"""What shows that a training is the course's, in generated pairs of trainings on one folder."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bathyscope.errors import StoreError
from bathyscope.model.identity import ModelIdentity
from bathyscope.surveying.training import evidence as evidences
from bathyscope.surveying.training.evidence import Evidence

LAST = 9


@dataclass
class Loop:
    """A training that is surveyed every so many steps; up to the step where it parts, its weights are everyone's."""

    name: str
    every: int
    begin: int
    parts_at: int
    saves: frozenset[int]
    added: list[int] = field(default_factory=list)
    evidence: Evidence | None = None
    step: int = -1

    def model_at(self, step: int) -> ModelIdentity:
        return ModelIdentity("a model", f"{step} of {self.name if step > self.parts_at else 'both'}")

    def advance(self, course: dict[int, ModelIdentity]) -> None:
        """Take one step, as ``Watch`` does."""
        if self.evidence is None:
            self.evidence, self.step = Evidence(Path(), {}), self.begin
            with suppress(StoreError):
                self.evidence.require_at_begin(self.step, self.model_at(self.step))
        step, model, is_due = self.step, self.model_at(self.step), self.step % self.every == 0
        self.step += 1
        if self.evidence.is_foreign or self.evidence.is_awaited_at(step):
            return
        if is_due or self.evidence.is_told_by(step):
            with suppress(StoreError):
                self.evidence.compare(step, model)
                if is_due and step not in course:
                    self.evidence.require(step)
                    course[step] = model
                    self.evidence.add(step)
                    self.added.append(step)
        if step in self.saves:
            self.evidence.note(step, lambda: model)


LOOPS = st.tuples(st.integers(1, 4), st.integers(0, 6), st.frozensets(st.integers(0, 6), max_size=2))


def run_loops(first: Loop, second: Loop, order: list[bool], until: int) -> dict[int, ModelIdentity]:
    """The course that two loops make: by turns as far as an order goes, then the first one, then the second."""
    course: dict[int, ModelIdentity] = {}
    noted: dict[int, ModelIdentity] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidences, "finished_runs", lambda folder: dict(course))
        patch.setattr(evidences, "finished_model", lambda folder, step: course.get(step))
        patch.setattr(evidences, "noted_checkpoint", lambda folder, step: noted.get(step))
        patch.setattr(evidences, "note_checkpoint", lambda folder, step, model: noted.update({step: model}))
        patch.setattr(evidences, "add_options", lambda folder, options: None)
        patch.setattr(evidences, "identity_of", lambda model: model)
        for is_first in order:
            (first if is_first else second).advance(course)
        while first.step < until:
            first.advance(course)
        while second.step <= LAST:
            second.advance(course)
    return course


@given(
    first=LOOPS,
    second=LOOPS,
    parts_at=st.integers(-1, 8),
    order=st.lists(st.booleans(), max_size=8),
    until=st.integers(1, 8),
)
def test_every_step_of_a_course_is_of_one_training(
    first: tuple[int, int, frozenset[int]],
    second: tuple[int, int, frozenset[int]],
    parts_at: int,
    order: list[bool],
    until: int,
) -> None:
    """Whatever the intervals, wherever each begins, wherever they part, one after the other or both at once."""
    loops = [Loop(name, *of_loop[:2], parts_at, of_loop[2]) for name, of_loop in (("A", first), ("B", second))]
    course = run_loops(*loops, order, until)
    assert any(all(model == loop.model_at(step) for step, model in course.items()) for loop in loops)


@given(first=LOOPS, every=st.integers(1, 4), begin=st.integers(0, 6), until=st.integers(1, 8))
def test_the_same_training_goes_on_behind_the_last_step(
    first: tuple[int, int, frozenset[int]], every: int, begin: int, until: int
) -> None:
    """From any step up to the last one, or from a checkpoint that was noted, with any interval."""
    killed, resumed = Loop("A", first[0], 0, LAST, first[2]), Loop("B", every, begin, LAST, frozenset())
    course = run_loops(killed, resumed, [], until)
    last = max(killed.added)
    expected = [step for step in range(begin, LAST + 1) if step % every == 0 and step > last]
    can_be_shown = begin <= last or (begin in first[2] and begin < until)
    assert resumed.added == (expected if can_be_shown else [])
    assert set(course) == {*killed.added, *resumed.added}
