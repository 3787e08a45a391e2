"""Choosing on what the full model writes: texts, costs and departures against single forwards, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import naive, waves, zoo
from transformers import GenerationConfig

import bathyscope
from bathyscope import OptionError, PromptError
from bathyscope.errors import StoreError
from bathyscope.surgery.plan.departure import WritingDeparture
from bathyscope.surgery.plan.opening import open_plan
from bathyscope.surgery.plan.plan import Plan
from bathyscope.surgery.trial.written import written_calibration
from bathyscope.wavefront.engine import Wavefront

NEW = 6
COUNT = 3
LENGTHS = (7, 9, 6, 8, 7, 9)
FAMILIES = ("llama", "gpt2", "gemma2")


def questions(name: str) -> list[list[int]]:
    return zoo.prompts(zoo.build(name), LENGTHS, 4)


def pruned(name: str, calibration: Any = f"written:{COUNT}?tokens={NEW}", **options: Any) -> Plan:
    given = {"drop": 1, "random": 2, "resamples": 100, "progress": False, **options}
    return bathyscope.prune(waves.loaded(name), calibration, given.pop("test", questions(name)), **given)


def greedy(name: str, ids: list[int], order: list[int], ends: frozenset[int]) -> list[int]:
    """What is written after ``ids`` by one forward for each token, through blocks in this order."""
    hf = zoo.build(name)
    text: list[int] = []
    while len(text) < NEW and (not text or text[-1] not in ends):
        logits, _ = naive.run_schedule(hf, naive.blocks_of(hf), [*ids, *text], order)
        text.append(int(logits[-1].argmax()))
    return text


@pytest.mark.parametrize("name", FAMILIES)
def test_costs_and_departures_are_of_what_the_full_model_writes(name: str) -> None:
    hf = waves.loaded(name).hf
    blocks = list(range(len(naive.blocks_of(hf))))
    settings = hf.generation_config
    free = [greedy(name, ids, blocks, frozenset()) for ids in questions(name)]
    # a token at which some texts end, and others do not
    ends = frozenset(token for token in free[0] if 0 < sum(token in text for text in free) < len(free)) or {free[0][-1]}
    hf.generation_config = GenerationConfig(eos_token_id=sorted(ends))
    try:
        plan = pruned(name)
    finally:
        hf.generation_config = settings
    judging = [ids for place, ids in enumerate(questions(name)) if place not in (0, 2, 4)]
    full = [greedy(name, ids, blocks, frozenset(ends)) for ids in judging]
    order = list(plan.schedule)
    costs = []
    for ids, text in zip(judging, full):
        losses = [
            naive.loss(naive.run_schedule(hf, naive.blocks_of(hf), [*ids, *text], order)[0], [*ids, *text])
            for order in (order, blocks)
        ]
        costs.append(float(np.mean((np.asarray(losses[0]) - np.asarray(losses[1]))[-len(text) :])))
    np.testing.assert_allclose(plan.data["cost"].values[0], costs, atol=1e-5)
    departure = plan.departure
    assert departure is not None
    again = [greedy(name, ids, order, frozenset(ends)) for ids in judging]
    assert departure == WritingDeparture.of(NEW, frozenset(ends), list(zip(full, again)))
    assert plan.data.attrs["over"] == "answer"
    assert plan.record()["written"]["agreed"] == list(departure.agreed)
    assert departure.text in plan.text
    assert any("writes" in table.title for table in plan.tables())


texts = st.lists(st.integers(0, 3), min_size=1, max_size=5)


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=6))
def test_a_departure_is_the_first_other_token(pairs: list[tuple[list[int], list[int]]]) -> None:
    """Texts end with 0 or at the limit, so that a shorter one than the other has ended."""
    full, again = (
        [[*text[: text.index(0) + 1]] if 0 in text else (text * 5)[:5] for text in side] for side in zip(*pairs)
    )
    found = WritingDeparture.of(5, frozenset({0}), list(zip(full, again)))
    for place, (one, other) in enumerate(zip(full, again)):
        agreed = found.agreed[place]
        assert one[:agreed] == other[:agreed]
        assert one == other or one[agreed] != other[agreed]
    assert found.same == sum(one == other for one, other in zip(full, again))
    assert found.no_longer_end == sum(one[-1] == 0 and other[-1] != 0 for one, other in zip(full, again))
    assert WritingDeparture.from_record(json.loads(json.dumps(found.record()))) == found
    same = found.same == len(full)
    assert found.text.startswith(
        "Writing by itself, the model without them " + ("writes the same" if same else "departs in")
    )


@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        ([0, 0], "writes the same 2 texts, token for token."),
        ([0, 3], "writes the same 2 texts, token for token; the limit of 2 tokens cut off 1 of them."),
    ],
)
def test_texts_that_the_limit_cut_off_are_the_same_up_to_it_alone(ends: list[int], sentence: str) -> None:
    texts = [([1, end], [1, end]) for end in ends]
    assert WritingDeparture.of(2, frozenset({0}), texts).text.endswith(sentence)


def test_a_stored_plan_says_it_again_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    plan = pruned("llama", out=tmp_path / "plan")
    again = open_plan(tmp_path / "plan")
    assert (again.departure, again.text) == (plan.departure, plan.text)
    assert pruned("llama", out=tmp_path / "plan").departure == plan.departure
    with pytest.raises(StoreError, match=r"test_hash|calibration_hash"):
        pruned("llama", f"written:{COUNT}?tokens={NEW + 1}", out=tmp_path / "plan")
    record = plan.departure.record() if plan.departure else {}
    for wrong in ({"agreed": [1]}, {"lengths": ["1"] * 3}, {"full_ended": [1] * 3}):
        with pytest.raises((TypeError, ValueError)):
            WritingDeparture.from_record({**record, **wrong})


@pytest.mark.parametrize(
    ("calibration", "options", "error", "words"),
    [
        (
            "written:x",
            {},
            OptionError,
            r"calibration='written:x' is not how many prompts choose, .* such as written:40",
        ),
        ("written:0?tokens=4", {}, OptionError, "allowed: 1 or more of both"),
        ("written:3?tokens=0", {}, OptionError, "allowed: 1 or more of both"),
        ("written:3?length=4", {}, OptionError, "allowed: 1 or more of both"),
        ("written:5?tokens=4", {}, PromptError, "there are 6 different ones. Give at least 7"),
        ("written:3?tokens=4", {"read_tokens": 4}, OptionError, "read_tokens=4 and calibration='written:…' do not go"),
        ("written:3?tokens=4", {"parts": "mlp"}, OptionError, "departs is known of whole blocks"),
        ("written:3?tokens=4", {"test": {"a": [[1, 2]], "b": [[2, 3]]}}, OptionError, "Name no domains"),
        ("written:3?tokens=99999", {}, PromptError, "would have 99999 more"),
    ],
)
def test_what_does_not_go_together_is_refused_before_any_block_runs(
    calibration: str, options: dict[str, Any], error: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waves.loaded("llama")
    monkeypatch.setattr(Wavefront, "run_convoy", lambda *_, **__: pytest.fail("a block ran"))
    with pytest.raises(error, match=words):
        pruned("llama", calibration, **options)


def test_a_file_of_such_a_name_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("written:3.jsonl").write_text("{}", encoding="utf-8")
    assert written_calibration("written:3.jsonl") is None
    assert written_calibration(["written:3"]) is None
    assert str(written_calibration("written:3")) == "written:3?tokens=512"
