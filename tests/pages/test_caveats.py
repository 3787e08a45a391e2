"""What a reader must know to read a depth right stands with it everywhere: options, copies of prompts, no control."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from support import waves

import bathyscope
from bathyscope import Prompt
from bathyscope.pages.head.numbers import read_profile
from bathyscope.pages.head.sentences import basis

MEASURES = ["residual", "lens", "skip", "effective_depth"]
IDS = np.random.default_rng(0).integers(2, 60, (5, 14)).tolist()
PROMPTS = [Prompt(ids=ids, answer_tokens=3) for ids in IDS]
NO_CONTROL = "no control: an untrained model has depths too"
OPTION = "not the standard definition: lens.positions=answer"
COPIES = "4 of 5 prompts are copies of others, which intervals take as one with them"
ONE_COPY = "1 of 6 prompts is a copy of another, which intervals take as one with it"

SHARED = [Prompt(ids=[*IDS[0], *prompt.ids[:4]], answer_tokens=3) for prompt in PROMPTS]
BEGINNINGS = "78 % of the tokens stand in beginnings that prompts share"


def surveyed(prompts: list[Prompt], **options: Any) -> bathyscope.Run:
    return bathyscope.survey(waves.loaded("llama"), prompts, MEASURES, progress=False, **options)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("prompts", "options", "expected"),
    [
        (PROMPTS, {}, (NO_CONTROL,)),
        (PROMPTS, {"control": "untrained:2"}, ()),
        (PROMPTS, {"lens": {"positions": "answer"}}, (NO_CONTROL, OPTION)),
        ([PROMPTS[0]] * 5, {}, (NO_CONTROL, COPIES)),
        (SHARED, {}, (NO_CONTROL, BEGINNINGS)),
        (SHARED, {"lens": {"positions": "answer"}}, (NO_CONTROL, OPTION)),
        ([*PROMPTS, PROMPTS[2]], {"control": "untrained:2"}, (ONE_COPY,)),
        ([PROMPTS[0]] * 5, {"lens": {"positions": "answer"}}, (NO_CONTROL, OPTION, COPIES)),
    ],
)
def test_caveats_stand_in_every_text_of_a_run(
    prompts: list[Prompt], options: dict[str, Any], expected: tuple[str, ...]
) -> None:
    run = surveyed(prompts, **options)
    assert run.verdict.caveats == expected
    card = bathyscope.card(run)
    for text in (run.verdict.text.lower(), basis(read_profile(run)).lower(), card.lower()):
        for caveat in (NO_CONTROL, OPTION, COPIES, ONE_COPY, BEGINNINGS):
            assert (caveat.lower() in text.replace("\\", "")) == (caveat in expected), text
    record = json.loads(card.partition("```json\n")[2].partition("```")[0])
    assert record["bathyscope"]["caveats"] == list(expected)
    assert ("(lens.positions=answer)" in bathyscope.badge(run)) == (OPTION in expected)


@pytest.mark.filterwarnings("ignore")
def test_copies_are_told_where_runs_are_compared() -> None:
    one, other = surveyed(PROMPTS), surveyed([PROMPTS[0]] * 5)
    told = bathyscope.compare([one, other]).notes
    assert [note for note in told if note.endswith(f": {COPIES}")]
    assert not [note for note in bathyscope.compare([one, surveyed(PROMPTS[:4])]).notes if "cop" in note]


def test_copies_that_share_a_label_are_told_too() -> None:
    prompts = [Prompt(ids=ids, labels={"document": number}) for number, ids in enumerate(IDS) for _ in range(2)]
    with pytest.warns(UserWarning, match="5 of 10 prompts have the tokens of others"):
        run = surveyed(prompts)
    assert [caveat for caveat in run.verdict.caveats if "5 of 10 prompts are copies" in caveat]
    assert run.verdict_by("document").caveats == run.verdict.caveats


def test_diff_warns_of_copies() -> None:
    with pytest.warns(UserWarning, match="2 of 3 prompts have the tokens of others"):
        bathyscope.diff(waves.loaded("llama"), waves.loaded("llama"), [IDS[0]] * 3, resamples=20)
