"""Survey until sure: batches, why it ends, and the run that is left against the one that is asked for at once."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import waves, zoo

import bathyscope
from bathyscope.cli.summary import headline_lines
from bathyscope.errors import OptionError, PromptError
from bathyscope.pages.head.answer import answer
from bathyscope.runs.readings import DepthReading
from bathyscope.surveying import until
from bathyscope.surveying.until import Ending, Goal, seconds_of

MEASURES = ["lens", "skip"]


def ids(count: int = 24) -> list[list[int]]:
    return zoo.prompts(zoo.build("llama"), tuple(8 + n % 5 for n in range(count)))


def surveyed(out: Path | None, prompts: Any = None, **options: Any) -> bathyscope.Run:
    given = ids() if prompts is None else prompts
    return bathyscope.survey(waves.loaded("llama"), given, MEASURES, out=out, progress=False, **options)


def reading(value: float, low: float, high: float) -> SimpleNamespace:
    return SimpleNamespace(value=value, low=low, high=high)


def test_batches_grow_by_half_and_end_with_all() -> None:
    assert list(Goal(1).batches(40)) == [10, 15, 22, 33, 40]
    assert list(Goal(1).batches(7)) == [7]
    assert list(Goal(1).batches(40, done=15)) == [15, 22, 33, 40]
    assert list(Goal(1).batches(40, done=18)) == [18, 22, 33, 40]
    assert list(Goal(1).batches(40, done=40)) == [40]


@pytest.mark.parametrize(
    ("own", "is_reached"),
    [
        (reading(3, 2.6, 3.4), True),
        (reading(3, 2.6, 3.6), False),
        (reading(3, 2.4, 3.4), False),
        (reading(np.nan, np.nan, np.nan), False),
    ],
)
def test_both_ends_of_both_intervals_count(own: Any, is_reached: bool) -> None:
    verdict: Any = SimpleNamespace(half=reading(5, 4.6, 5.2), readable=reading(4, 3.5, 4.5), own=own)
    assert Goal(0.5).is_reached(verdict) is is_reached


def test_one_narrow_interval_is_not_enough_but_of_all_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    by_prompt = 3 + rng.normal(size=40)
    verdict: Any = SimpleNamespace(**{name: DepthReading(name, by_prompt, 8) for name in ("half", "readable", "own")})
    looked: list[int] = []

    def is_reached(goal: Goal, readings: Any, count: int | None = None) -> bool:
        looked.append(len(until._first_of(readings.own, count).by_prompt))
        return looked[-1] in narrow

    monkeypatch.setattr(Goal, "is_reached", is_reached)
    narrow = {40}
    assert not Goal(1).is_sure(verdict, 40, 100)
    assert looked == [40, 33]
    assert Goal(1).is_sure(verdict, 40, 40)
    narrow = {33, 40}
    assert Goal(1).is_sure(verdict, 40, 100)
    narrow = {33}
    assert not Goal(1).is_sure(verdict, 40, 40)


def test_it_ends_with_the_second_batch_that_is_enough(tmp_path: Path) -> None:
    """The width that fifteen and 22 prompts give and ten do not."""
    widths = []
    for count in (10, 15, 22):
        verdict = surveyed(None, ids()[:count]).verdict
        widths.append(max(max(r.high - r.value, r.value - r.low) for r in (verdict.readable, verdict.own)))
    assert widths[0] > widths[1] > widths[2]
    run = surveyed(tmp_path / "run", until=(widths[0] + widths[1]) / 2)
    assert len(run.prompts) == 22
    assert run.stopped.startswith("With 22 of 24 prompts all readings are known within ±")
    assert run.record()["until"]["reached"] is True
    assert bathyscope.open(tmp_path / "run").stopped == run.stopped
    again = surveyed(tmp_path / "run", until=(widths[0] + widths[1]) / 2)
    assert (len(again.prompts), again.stopped) == (22, run.stopped)
    further = surveyed(tmp_path / "run", until=(widths[1] + widths[2]) / 2)
    assert len(further.prompts) == 24
    assert further.record()["until"]["width"] == (widths[1] + widths[2]) / 2
    assert surveyed(None).stopped == ""


def test_the_run_is_the_one_that_the_same_prompts_give_at_once(tmp_path: Path) -> None:
    run = surveyed(tmp_path / "run", until=0.01, control="untrained:1")
    known = max(max(r.high - r.value, r.value - r.low) for r in (run.verdict.readable, run.verdict.own))
    sentence = re.compile(
        r"±0\.01 blocks was not reached: with all 24 prompts all readings are known within ±(\d\.\d\d) blocks\."
    )
    shown = sentence.fullmatch(run.stopped)
    assert shown is not None
    assert known <= float(shown[1]) <= known + 0.01
    at_once = surveyed(tmp_path / "at_once", control="untrained:1")
    for found, expected in ((run, at_once), (run.controls["untrained-0"], at_once.controls["untrained-0"])):
        for measure in expected.measures:
            for name, values in expected[measure].data_vars.items():
                np.testing.assert_array_equal(found[measure][name], values, f"{measure}.{name}")


def test_the_budget_ends_it_between_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 40))
    monkeypatch.setattr(until, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    run = surveyed(tmp_path / "run", until=0.01, budget="1min")
    assert len(run.prompts) == 15
    assert run.stopped.startswith(
        "±0.01 blocks was not reached: the budget of 60 s ended at 15 of 24 prompts, where all readings are known "
    )
    # whoever opens the run, or reads its page or record, is told the same
    opened = bathyscope.open(tmp_path / "run")
    assert opened.stopped == run.stopped
    assert opened.record()["until"]["reached"] is False
    assert opened.record()["until"] == run.record()["until"]
    assert run.stopped in headline_lines(opened)
    assert run.stopped in answer(opened).trust


@pytest.mark.parametrize(("budget", "seconds"), [(90, 90), ("90", 90), ("1.5 min", 90), ("2h", 7200), ("30s", 30)])
def test_budgets(budget: Any, seconds: float) -> None:
    assert seconds_of(budget) == seconds


@pytest.mark.parametrize("budget", ["0", 0, "-1", "ten", "10 days", ""])
def test_other_budgets_are_refused(budget: Any) -> None:
    with pytest.raises(OptionError, match=r"is no time. Give seconds, or a text such as 90s, 10min or 2h."):
        seconds_of(budget)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"until": 0.5}, r"until=0.5 lets a run in a folder grow; give out="),
        ({"budget": 5}, r"budget=5 is for a survey until it is sure; give until=0.5 \(--until 0.5\)"),
        ({"until": 0}, r"until=0.0 is out of range; allowed: 0.01 or more"),
        (
            {"until": 0.5, "out": "r", "part": "1/2"},
            r"until=0.5 and part='1/2' .* since this needs a whole run; join",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    out = tmp_path / options.pop("out") if "out" in options else None
    with pytest.raises(OptionError, match=message):
        surveyed(out, **options)


def test_measures_without_the_readings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        OptionError, match=r"until needs the measures lens and skip; not asked for: skip. Add what is missing"
    ):
        bathyscope.survey(waves.loaded("llama"), ids(), ["lens"], out=tmp_path / "r", until=0.5, progress=False)


def test_prompts_that_repeat_others_cannot_be_counted(tmp_path: Path) -> None:
    """Twenty copies of one prompt have an interval of no width, and tell what one tells."""
    with pytest.raises(
        PromptError, match=r"^19 of 20 prompts have the tokens of others, which tell until nothing more"
    ):
        bathyscope.survey(
            waves.loaded("llama"), [ids()[0]] * 20, ["lens", "skip"], tmp_path / "r", until=0.5, progress=False
        )
    assert not list(tmp_path.glob("r/shard-*"))


def test_prompts_are_taken_in_order(tmp_path: Path) -> None:
    run = surveyed(tmp_path / "run", until=0.01)
    assert [list(prompt.ids) for prompt in run.prompts] == ids()


@settings(deadline=None, max_examples=100)
@given(
    width=st.floats(0.01, 5),
    known=st.one_of(st.just(math.nan), st.floats(0.0, 9)),
    prompts=st.integers(1, 50),
    more=st.integers(0, 50),
    budget=st.sampled_from([None, 60.0]),
    confirmed=st.booleans(),
)
def test_the_sentence_says_whether_the_width_was_reached(
    width: float, known: float, prompts: int, more: int, budget: float | None, confirmed: bool
) -> None:
    # a single narrow batch is not enough, unless it is of all prompts
    reached = known <= width and (confirmed or not more)
    text = Ending(width, known, prompts, prompts + more, reached, None if reached else budget).text
    assert ("was not reached" in text) is not reached
    assert f"±{width:g} blocks" in text
    if reached:
        assert text.startswith(f"With {prompts} of {prompts + more} prompts")
        return
    assert ("no intervals" in text) == math.isnan(known)
    assert ("the budget of 60 s ended" in text) == (budget is not None)
    assert ("with two batches in a row" in text) == ("may be luck" in text) == (known <= width)
    if not math.isnan(known):
        shown = re.search(r"known within ±([\d.]+) blocks", text)
        assert shown is not None
        assert known <= float(shown[1]) + 1e-9
        assert (float(shown[1]) <= width + 1e-9) == (known <= width + 1e-9) or abs(known - width) < 1e-8


@pytest.mark.filterwarnings("ignore:Of all prompts together")
@pytest.mark.parametrize("part", [{"prompts": "0-1"}, {"blocks": "0-1"}, {"variables": "prediction_depth"}])
def test_a_part_says_nothing_of_the_whole(part: dict[str, str]) -> None:
    run = bathyscope.survey(waves.loaded("llama"), zoo.prompts(zoo.build("llama"), (9,) * 8), ["lens"], progress=False)
    run.manifest["record"]["notes"]["until"] = {"text": "With 8 of 8 prompts all readings are known."}
    assert run.stopped
    assert run.record()["until"]
    some = run.select(**part)
    assert some.stopped == ""
    assert some.record()["until"] is None


def test_a_second_look_that_is_missing_is_named() -> None:
    assert Ending(2.0, 0.0613, 10, 40, False, 0.1).text == (
        "±2 blocks was not reached with two batches in a row: the budget of 0.1 s ended at 10 of 40 prompts, where all "
        "readings are known within ±0.07 blocks; one narrow interval may be luck."
    )


@settings(deadline=None, max_examples=50)
@given(budget=st.floats(1e-3, 1e6))
def test_a_budget_is_written_as_it_was_given(budget: float) -> None:
    shown = re.search(r"the budget of (\S+) s ended", Ending(0.5, 1.0, 10, 40, False, budget).text)
    assert shown is not None
    assert float(shown[1]) == pytest.approx(budget, rel=0.006)
