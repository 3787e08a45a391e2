from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bathyscope.errors import PromptError
from bathyscope.prompts.datasets import REGISTRY
from bathyscope.prompts.datasets.published import mquake as to_prompt
from bathyscope.prompts.source import resolve

TRIPLE = ["Q1", "P1", "Q2"]


def row(number: int, hops: int) -> dict[str, Any]:
    return {"questions": [f"Who is {number}?", "unused"], "answer": f"no. {number}", "orig_triples": [TRIPLE] * hops}


ROWS = [row(number, 2 + number % 3) for number in range(30)]


def test_written_out() -> None:
    prompt = to_prompt({"questions": ["Who leads Paris? ", "other"], "answer": "Anne", "orig_triples": [TRIPLE] * 3})
    assert prompt.text == "Question: Who leads Paris? \nAnswer: Anne"
    assert (prompt.answer, prompt.labels) == (" Anne", {"hops": 3})


def test_lists_as_text_of_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(
        'questions,answer,orig_triples\n"[""Who?""]",Anne,"[[""a"", ""b"", ""c""], [""d"", ""e"", ""f""]]"\n'
    )
    (prompt,) = REGISTRY["mquake"].prompts(path=str(path))
    assert (prompt.text, prompt.labels) == ("Question: Who?\nAnswer: Anne", {"hops": 2})


def test_a_level_is_shuffled_for_itself_and_levels_take_turns(write_jsonl: Callable[..., str]) -> None:
    path = write_jsonl(*ROWS)
    expected = {}
    for hops in (2, 3, 4):
        own = [one for one in ROWS if len(one["orig_triples"]) == hops]
        random.Random(42).shuffle(own)
        expected[hops] = [one["answer"] for one in own]
        found = resolve(f"mquake:6?hops={hops}@{path}", seed=5)
        assert [(prompt.answer or "").strip() for prompt in found.prompts] == expected[hops][:6]
        assert {prompt.labels["hops"] for prompt in found.prompts} == {hops}
    together = resolve(f"mquake?per_level=6@{path}")
    assert [prompt.labels["hops"] for prompt in together.prompts] == [2, 3, 4] * 6
    for number, hops in enumerate((2, 3, 4)):
        assert [(prompt.answer or "").strip() for prompt in together.prompts[number::3]] == expected[hops][:6]
    assert resolve(f"mquake:18@{path}").prompts == together.prompts
    assert resolve(f"mquake:7@{path}").prompts == together.prompts[:7]
    assert len(resolve(f"mquake@{path}")) == 30
    assert [prompt.labels["hops"] for prompt in resolve(f"mquake:4?hops=3-4@{path}").prompts] == [3, 4, 3, 4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (":33", r"mquake: 11 prompts of hops 2 asked for, but .*rows\.jsonl has hops 2 \(10 rows\), 3 \(10 rows\), 4"),
        ("?per_level=11", "mquake: 11 prompts of hops 2 asked for"),
        (":11?hops=3", "mquake: 11 prompts of hops 3 asked for"),
        (":8?hops=4-999999999999", r"mquake: .*rows\.jsonl has no rows of hops 5; it has hops 2 \(10 rows\), 3"),
        (":2?hops=2-4", "mquake: 2 prompts cannot cover the 3 levels that hops=2-4 asks for; give at least 3"),
    ],
)
def test_levels_that_do_not_suffice(write_jsonl: Callable[..., str], options: str, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        resolve(f"mquake{options}@{write_jsonl(*ROWS)}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"questions": []}, "'questions' must be a list of texts with at least one question"),
        ({"questions": [3]}, "'questions' must be a list of texts"),
        ({"questions": [" "]}, "'questions' must be a list of texts"),
        ({"questions": "Who?"}, r"'questions' must be a list, or its JSON text"),
        ({"questions": {"0": "Who?"}}, "'questions' must be a list, not dict"),
        ({"orig_triples": []}, "'orig_triples' is empty, so that the number of hops is not known"),
        ({"orig_triples": 2}, "'orig_triples' must be a list, not int"),
        ({"answer": ""}, "'answer' is empty"),
        ({"answer": None}, "'answer' must hold text, not NoneType"),
    ],
)
def test_rows_that_do_not_fit(write_jsonl: Callable[..., str], change: dict[str, Any], message: str) -> None:
    path = write_jsonl(row(1, 2), {**row(2, 2), **change})
    with pytest.raises(PromptError, match=rf"mquake, row 2 of .*rows\.jsonl: column {message}"):
        REGISTRY["mquake"].prompts(path=path)


@pytest.mark.shared
def test_real_rows(shared: Callable[[str], Path]) -> None:
    path = shared("data/mquake/cf3k_200_per_hop.jsonl")
    prompts = resolve(f"mquake@{path}").prompts
    assert Counter(prompt.labels["hops"] for prompt in prompts) == {2: 200, 3: 200, 4: 200}
    first = json.loads(path.read_text(encoding="utf-8").split("\n", 1)[0])
    question = f"Question: {first['questions'][0]}\nAnswer: {first['answer']}"
    assert question in {prompt.text for prompt in prompts}
