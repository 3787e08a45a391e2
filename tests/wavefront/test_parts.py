"""Contributions of rows: what is tapped, what is shown, and what is left untouched. Values: test_swap_cosine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from support import waves, zoo
from support.rounding import assert_same_but_rounding

from bathyscope.schedule import Schedule
from bathyscope.wavefront import slots
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.calls import CallPolicy
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.observer import Probe
from bathyscope.wavefront.probe import RowPartsView
from bathyscope.wavefront.rows import ScheduleRow, SkipRow

SWAP = ScheduleRow(Schedule.standard(5).swap(2))
LENGTHS = (9, 12)


class Parts(Probe):
    """Keeps every view of contributions."""

    def __init__(self, *requests: Any, steps: Mapping[ScheduleRow, tuple[int, ...]]) -> None:
        super().__init__(requests, part_steps=steps)
        self.views: list[RowPartsView] = []

    def row_parts(self, view: RowPartsView) -> None:
        self.views.append(view)


def shown(*probes: Probe, policy: CallPolicy | None = None) -> None:
    model = waves.loaded("llama")
    wave = Wavefront(model.anatomy, tails=True)
    wave.policy = policy or wave.policy
    wave.run(Batch.of(zoo.prompts(model.hf, LENGTHS)), probes)


@pytest.mark.parametrize("others", [(), (SkipRow(2, 0),), (SkipRow(0), SkipRow(1))])
def test_steps_are_shown_as_they_run_with_the_control_in_step(others: tuple[SkipRow, ...]) -> None:
    """Block 2 passes with the control alone; block 3 in the row's step 2; then block 2 catches up."""
    probe = Parts(SWAP, *others, steps={SWAP: (2, 3)})
    shown(probe)
    assert [view.block for view in probe.views] == [2, 3, 2]
    assert [[step for _, step in view.rows] for view in probe.views] == [[], [2], [3]]
    assert [bool(view.control) for view in probe.views] == [True, True, False]
    for view in probe.views:
        assert {part: value.shape[1:] for part, value in view.parts.items()} == dict.fromkeys(
            ("attention", "mlp"), (2, 12, 64)
        )
        assert all(row < len(view.parts["mlp"]) for row in view.rows.values())


@pytest.mark.parametrize("own_control", [False, True])
def test_rows_of_several_calls(own_control: bool) -> None:
    """One row a call: the control is in the first, or rides in all; the row in question is in another."""
    whole, cut = (Parts(SWAP, SkipRow(0), SkipRow(1), steps={SWAP: (2,)}) for _ in range(2))
    shown(whole)
    shown(cut, policy=CallPolicy(1, own_control))
    values = []
    for probe in (whole, cut):
        (found,) = ((view, row) for view in probe.views for row in view.rows.values())
        assert sum(bool(view.control) for view in probe.views) == (len(probe.views) if own_control else 1)
        values.append(found[0].parts["attention"][found[1]])
    assert_same_but_rounding(*values, zoo.build("llama"))
    assert len(cut.views) > len(whole.views)


def test_nothing_else_is_tapped(monkeypatch: pytest.MonkeyPatch) -> None:
    tapped, seen = slots.tapped, []

    def counting(block: Any, sites: Mapping[str, Any]) -> Any:
        seen.append(sorted(sites))
        return tapped(block, sites)

    monkeypatch.setattr(slots, "tapped", counting)
    shown(Probe([SWAP, SkipRow(1), SkipRow(3, 0)]))
    assert seen
    assert not any(seen)
    seen.clear()
    shown(Probe([SkipRow(1)]), Parts(SWAP, steps={SWAP: (3,)}))
    # block 2, as it passes and as it catches up
    assert [sites for sites in seen if sites] == [["attention", "mlp"]] * 2


def test_a_row_may_stop_early() -> None:
    early, whole = ScheduleRow(SWAP.schedule, stop=4), SWAP

    class Final(Probe):
        def finish(self, final: Any) -> None:
            self.states = final.full

    probes = [Final([early]), Final([early, whole]), Final([whole])]
    for probe in probes:
        shown(probe)
    assert torch.allclose(probes[0].states[early], probes[1].states[early], atol=1e-6)
    assert torch.allclose(probes[2].states[whole], probes[1].states[whole], atol=1e-6)
    assert not torch.allclose(probes[1].states[whole], probes[1].states[early], atol=1e-2)


def test_steps_before_the_schedule_departs_are_the_controls() -> None:
    with pytest.raises(ValueError, match="step 1 belongs to the part of the schedule that is the control's"):
        shown(Parts(SWAP, steps={SWAP: (1,)}))
