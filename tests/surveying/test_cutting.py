"""How prompts are cut into shards of so many seconds, with rates that are made up: no test waits for a clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import waves, zoo
from support.interrupting import interrupted_after

import bathyscope
from bathyscope.runs.manifest import load_manifest
from bathyscope.surveying import asking, cutting
from bathyscope.surveying.cutting import SHARD_SECONDS, EarlierCut, Pace, cut_prompts
from bathyscope.surveying.rates import Rates, nominal_rates
from bathyscope.surveying.work import PromptWork

CPU = torch.device("cpu")
VOCABULARY = 1000


def work(seconds: float, tokens: int = 100) -> PromptWork:
    """A prompt of so many seconds on a machine of 10 GFLOP/s."""
    return PromptWork(tokens, 1.0, 0.0, seconds * 1e10, 0.0, 0.0)


def machine(flops: float) -> Rates:
    return Rates(matrix=flops, compared=1e9, device="cpu")


def lengths(shards: cutting.Shards) -> list[int]:
    return [last - first for first, last in shards.edges]


def test_a_shard_takes_the_seconds_that_it_may_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "_STRETCH_FLOPS", {False: 1.0, True: 1.0})
    prompts = [work(40, 10) for _ in range(12)]
    fast, slow = (cut_prompts(prompts, 1, CPU, 10**6, measure=lambda f=f: machine(f)) for f in (4e10, 1e10))
    # ten and forty seconds a prompt
    assert lengths(fast) == [7, 5]
    assert lengths(slow) == [1] * 12
    assert fast.pace == Pace(4e10, 1e9, 1e9)
    # tokens still count
    assert lengths(cut_prompts(prompts, 1, CPU, 30, measure=lambda: machine(1e15))) == [3, 3, 3, 3]


def test_readouts_take_seconds_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "_STRETCH_FLOPS", {False: 0.0, True: 0.0})
    reading = [PromptWork(10, 1.0, 0.0, 1e10, 2e5, 1e5)] * 4
    rates = Rates(matrix=1e10, compared=1e7, device="cpu", in_all_ways=5e6)
    # 1 + 1000 · (2e5 / 1e7 + 1e5 / 5e6) = 41 seconds each
    assert Pace.of(rates).seconds(reading[0], VOCABULARY) == pytest.approx(41)
    assert lengths(cut_prompts(reading, VOCABULARY, CPU, 10**6, measure=lambda: rates)) == [1, 1, 1, 1]
    assert lengths(cut_prompts(reading, VOCABULARY // 2, CPU, 10**6, measure=lambda: rates)) == [3, 1]


@given(
    seconds=st.lists(st.floats(0.1, 300), min_size=1, max_size=30),
    tokens=st.integers(50, 3000),
    flops=st.floats(1e8, 1e12),
)
def test_every_prompt_is_in_one_shard_of_whole_stretches_that_do_not_depend_on_the_machine(
    seconds: list[float], tokens: int, flops: float
) -> None:
    prompts = [work(one) for one in seconds]
    found = cut_prompts(prompts, VOCABULARY, CPU, tokens, measure=lambda: machine(flops))
    assert [n for first, last in found.edges for n in range(first, last)] == list(range(len(prompts)))
    elsewhere = cut_prompts(prompts, VOCABULARY, CPU, tokens, measure=lambda: machine(10 * flops))
    assert found.stretches == elsewhere.stretches
    assert found.pace is not None
    for first, last in found.edges:
        inside = found.within(first, last)
        assert [n for own in inside for n in own] == list(range(first, last))
        assert all((own.start, own.stop) in found.stretches for own in inside)
        predicted = sum(found.pace.seconds(one, VOCABULARY) for one in prompts[first:last])
        assert predicted <= SHARD_SECONDS * (1 + 1e-9) or len(inside) == 1


@given(
    seconds=st.lists(st.floats(0.1, 200), min_size=2, max_size=30),
    count=st.integers(1, 29),
    tokens=st.integers(100, 2000),
)
def test_a_run_that_grows_is_cut_as_if_all_had_been_asked_for_at_once(
    seconds: list[float], count: int, tokens: int
) -> None:
    prompts = [work(one) for one in seconds]
    count = min(count, len(prompts))
    pace = Pace.of(machine(1.1e10))
    begun = EarlierCut(tokens, ((0, 0),), pace)
    smaller = cut_prompts(prompts[:count], VOCABULARY, CPU, tokens, before=begun)
    kept = EarlierCut(tokens, smaller.edges, pace)
    grown = cut_prompts(
        prompts, VOCABULARY, CPU, tokens, before=kept, measure=lambda: pytest.fail("the machine was measured")
    )
    assert grown == cut_prompts(prompts, VOCABULARY, CPU, tokens, before=begun)
    assert cut_prompts(prompts[:count], VOCABULARY, CPU, tokens, before=kept) == smaller


def test_nothing_is_measured_where_a_survey_is_short_or_cut_by_tokens() -> None:
    def never() -> Rates:
        pytest.fail("the machine was measured")

    short = cut_prompts([work(1)] * 5, VOCABULARY, CPU, 200, measure=never)
    assert short.pace == Pace.of(nominal_rates(CPU))
    long = [work(1e5)] * 5
    by_tokens = cut_prompts(long, VOCABULARY, CPU, 200, by_time=False, measure=never)
    assert (lengths(by_tokens), by_tokens.pace) == ([2, 2, 1], None)
    old = EarlierCut(200, ((0, 2), (2, 4), (4, 5)), None)
    continued = cut_prompts(long, VOCABULARY, CPU, 200, before=old, measure=never)
    assert (continued.edges, continued.pace) == (old.edges, None)


LENGTHS = (20, 9, 21, 26, 9, 15)


@pytest.fixture
def _heavy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny model's prompts are heavy enough to be cut: each is a stretch of about half a minute."""
    monkeypatch.setattr(cutting, "_STRETCH_FLOPS", {False: 1.0, True: 1.0})
    monkeypatch.setattr(cutting, "SHARD_SECONDS", 1e-3)
    monkeypatch.setattr(cutting, "nominal_rates", lambda _: machine(3e9))


def surveyed(out: Path | None, count: int = len(LENGTHS), **options: Any) -> bathyscope.Run:
    ids = zoo.prompts(zoo.build("llama"), LENGTHS)[:count]
    return bathyscope.survey(waves.loaded("llama"), ids, ["drop"], out, progress=False, **options)


def rates_of(monkeypatch: pytest.MonkeyPatch, flops: float) -> list[float]:
    """Machines of this rate from now on; how often they were measured is counted."""
    measured: list[float] = []

    def measure(*_: object) -> Rates:
        measured.append(flops)
        return Rates(matrix=flops, compared=1e12, device="cpu")

    monkeypatch.setattr(asking, "measure_rates", measure)
    return measured


@pytest.mark.usefixtures("_heavy")
def test_a_run_goes_on_elsewhere_with_its_own_shards_and_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = rates_of(monkeypatch, 1e11)
    whole = surveyed(tmp_path / "whole")
    assert here == [1e11]
    plan = whole.identity.plan
    assert 1 < len(plan) < len(LENGTHS)
    assert whole.manifest["identity"]["pace"] == {"blocks": 1e11, "compared": 1e12, "in_all_ways": 1e12}

    with interrupted_after(plan[0][1]):
        surveyed(tmp_path / "run")
    there = rates_of(monkeypatch, 1e9)
    resumed = surveyed(tmp_path / "run")
    assert there == []
    assert resumed.identity == whole.identity
    hashes = [[entry["sha256"] for entry in one.manifest["record"]["shards"]] for one in (resumed, whole)]
    assert hashes[0] == hashes[1]

    slow = surveyed(tmp_path / "slow")
    assert len(slow.identity.plan) == len(LENGTHS), "another machine's shards, where a run is begun there"
    for name in ("loss", "kl"):
        assert slow["drop"][name].values.tobytes() == whole["drop"][name].values.tobytes(), "and the same numbers"


@pytest.mark.usefixtures("_heavy")
def test_a_run_grows_elsewhere_as_it_would_have_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates_of(monkeypatch, 1e11)
    whole = surveyed(tmp_path / "whole")
    surveyed(tmp_path / "run", 4)
    there = rates_of(monkeypatch, 1e9)
    grown = surveyed(tmp_path / "run", grow=True)
    assert (there, grown.identity) == ([], whole.identity)
    hashes = [[entry["sha256"] for entry in one.manifest["record"]["shards"]] for one in (grown, whole)]
    assert hashes[0] == hashes[1]


@pytest.mark.usefixtures("_heavy")
def test_parts_are_cut_alike_on_all_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "model"
    zoo.build("llama").save_pretrained(model)
    ids = zoo.prompts(zoo.build("llama"), LENGTHS)
    for number, flops in ((1, 1e11), (2, 1e9)):
        measured = rates_of(monkeypatch, flops)
        out = tmp_path / str(number)
        bathyscope.survey(str(model), ids, ["drop"], out, part=f"{number}/2", progress=False)
        assert measured == []
    assert load_manifest(tmp_path / "1").identity == load_manifest(tmp_path / "2").identity
    joined = bathyscope.join([tmp_path / "1", tmp_path / "2"], tmp_path / "joined")
    assert len(joined.identity.plan) > 1


@pytest.mark.usefixtures("_heavy")
def test_controls_have_the_shards_of_their_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = rates_of(monkeypatch, 1e11)
    run = surveyed(tmp_path / "run", control="shuffled_blocks")
    (control,) = run.controls.values()
    assert control.identity.plan == run.identity.plan
    assert measured == [1e11]


@pytest.mark.usefixtures("_heavy")
def test_what_is_asked_for_in_tokens_is_cut_by_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = rates_of(monkeypatch, 1e9)
    run = surveyed(tmp_path / "run", batch_tokens=52)
    assert run.identity.plan == ((0, 3), (3, 6))
    assert (run.identity.pace, measured) == (None, [])
    assert surveyed(tmp_path / "run").identity.plan == run.identity.plan
