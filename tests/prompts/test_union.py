"""Several sources in one survey."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import waves

from bathyscope import Prompt, PromptSet, survey
from bathyscope.prompts.source import label_of, needs_tokenizer, resolve
from bathyscope.prompts.spec import parse


def test_sources_in_a_list(write_jsonl: Callable[..., str]) -> None:
    path = write_jsonl({"text": "a b"}, name="a+b @c.jsonl")
    given = ["first", Prompt(text="second"), {"source": "addition:2"}, Path(path), "last", parse("sums:1")]
    union = resolve(given, seed=3)
    assert union.dataset == "given + addition:2 + a+b @c.jsonl + given + sums:1" == label_of(given)
    assert [(part.dataset, len(part)) for part in union.parts] == [
        ("given", 2),
        ("addition:2", 2),
        ("a+b @c.jsonl", 1),
        ("given", 1),
        ("sums:1", 1),
    ]
    assert [prompt.text for prompt in union.prompts[:2]] == ["first", "second"]
    assert union.prompts[2:4] == resolve("addition:2", seed=3).prompts
    assert union.prompts[4:6] == (Prompt(text="a b"), Prompt(text="last"))
    assert resolve([{"source": "addition:2"}], seed=3) == resolve("addition:2", seed=3)
    assert resolve([PromptSet((Prompt(text="x"),), "mine"), [1, 2]]).dataset == "mine + given"


@pytest.mark.parametrize(
    ("source", "needed", "label"),
    [
        ([[1, 2], Prompt(ids=[3, 4])], False, "given"),
        (Prompt(ids=[3, 4]), False, "given"),
        (PromptSet((Prompt(ids=[1, 2]),), "mine"), False, "mine"),
        ([PromptSet((Prompt(ids=[1, 2]),), "mine"), [3, 4]], False, "mine + given"),
        ([PromptSet((Prompt(text="a"),), "mine"), [3, 4]], True, "mine + given"),
        ([[1, 2], {"source": "addition:3"}], True, "given + addition:3"),
        ([[1, 2], Path("a/b.txt")], True, "given + b.txt"),
        (["a text"], True, "given"),
        ("dir/mine.jsonl:3", True, "mine.jsonl:3"),
    ],
)
def test_what_needs_a_tokenizer(source: Any, needed: bool, label: str) -> None:
    assert (needs_tokenizer(source), label_of(source)) == (needed, label)


def test_a_text_that_names_a_source_is_measured_as_it_stands_and_said_so() -> None:
    message = r"The text 'problems:2' in the list of prompts is measured as it stands\. .*\{\"source\": 'problems:2'\}"
    with pytest.warns(UserWarning, match=message):
        assert resolve(["problems:2"]).prompts == (Prompt(text="problems:2"),)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve(["Who wrote Imagine?", "problems: two", "gsm9k:2", "see notes.md"])


def test_every_prompt_of_a_run_knows_its_data_set_and_labels() -> None:
    hops = PromptSet(tuple(Prompt(ids=[7, 8, 9, n], labels={"hops": n}) for n in (2, 3)), "chains", is_data_set=True)
    run = survey(waves.loaded("llama"), [hops, [11, 12, 13]], ["lens"], batch_tokens=4, progress=False)
    assert run.manifest["identity"]["dataset"] == "chains + given"
    assert run["lens"]["dataset"].values.tolist() == ["chains", "chains", "given"]
    assert run["lens"]["prompt_id"].values.tolist() == ["0", "1", "2"]
    assert run["lens"]["hops"].values.tolist()[:2] == [2.0, 3.0]
    assert run["lens"]["hops"].isnull().values.tolist() == [False, False, True]
    by_hops = run["lens"].kl_lens_final.groupby("hops").mean()
    assert by_hops["hops"].values.tolist() == [2.0, 3.0]
