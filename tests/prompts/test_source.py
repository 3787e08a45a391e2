from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest
import torch
from transformers import PreTrainedTokenizerFast

import bathyscope
from bathyscope.errors import PromptError
from bathyscope.prompts.in_memory import sources
from bathyscope.prompts.problems import generate, to_prompt
from bathyscope.prompts.prompt import Prompt, PromptSet
from bathyscope.prompts.source import needs_tokenizer, require_there, resolve
from bathyscope.prompts.spec import parse

MODEL = "no/such-model"
VERBS: dict[str, Callable[[Any], Any]] = {
    "survey": lambda texts: bathyscope.survey(MODEL, texts, ["lens"]),
    "prune": lambda texts: bathyscope.prune(MODEL, texts, ["x"], drop=1),
    "prune test": lambda texts: bathyscope.prune(MODEL, ["x"], texts, drop=1),
    "prune domains": lambda texts: bathyscope.prune(
        MODEL, {"one": ["x", "y"], "two": ["z"]}, {"one": ["v"], "two": texts}, drop=1
    ),
    "repair": lambda texts: bathyscope.repair(MODEL, "drop:1", ["x"], test=texts),
    "diff": lambda texts: bathyscope.diff(MODEL, MODEL, texts),
    "fit_lens": lambda texts: bathyscope.fit_lens(MODEL, texts),
    "cka": lambda texts: bathyscope.cka(MODEL, MODEL, texts),
    "maps": lambda texts: bathyscope.maps(MODEL, MODEL, texts),
    "exit_advice": lambda texts: bathyscope.exit_advice(MODEL, texts),
    "exit_advice verify": lambda texts: bathyscope.exit_advice(MODEL, ["x"], verify=texts),
    "solved": lambda texts: bathyscope.solved(MODEL, texts),
    "solved_by": lambda texts: bathyscope.solved_by(MODEL, MODEL, texts),
    "repeat_scan": lambda texts: bathyscope.repeat_scan(MODEL, texts),
}
ROWS = [{"question": f"{n} + 1?", "answer": f"Add one.\n#### {n + 1}"} for n in range(3)]


def test_data_set_from_a_local_file(write_jsonl: Callable[..., str]) -> None:
    path = write_jsonl(*ROWS, name="a:b@c.jsonl")
    prompts = resolve(f"gsm8k:2@{path}")
    assert prompts.dataset == "gsm8k:2"
    assert [prompt.answer for prompt in prompts.prompts] == ["1", "2"]
    assert len(resolve(f"gsm8k@{path}")) == 3


def test_generated_problems() -> None:
    words = resolve("problems:3", seed=7)
    assert words == PromptSet(tuple(to_prompt(problem) for problem in generate("word", 3, 7)), "problems:3", True)
    assert words != resolve("problems:3", seed=8)
    sums = resolve("sums:2?steps=1&digits=3", seed=7)
    assert sums.prompts == tuple(to_prompt(problem) for problem in generate("sum", 2, 7, steps=1, digits=3))
    assert sums.dataset == "sums:2?steps=1&digits=3"


def test_prompt_file(write_jsonl: Callable[..., str]) -> None:
    path = write_jsonl({"text": "a b"}, {"text": "c d"})
    assert resolve(path) == PromptSet((Prompt(text="a b"), Prompt(text="c d")), "rows.jsonl")
    assert resolve(f"{path}:1") == PromptSet((Prompt(text="a b"),), "rows.jsonl:1")
    assert resolve(Path(path)) == resolve(path)


def test_corpus(tmp_path: Path, with_bos: PreTrainedTokenizerFast) -> None:
    path = tmp_path / "stories.txt"
    path.write_text("The ducks lay 16 eggs per day. " * 20)
    prompts = resolve(f"{path}:3", tokenizer=with_bos, window=10)
    assert prompts.dataset == "stories.txt:3"
    assert [len(prompt.ids or ()) for prompt in prompts.prompts] == [10, 10, 10]
    own = resolve(f"{path}:3?window=7", tokenizer=with_bos, window=10)
    assert [len(prompt.ids or ()) for prompt in own.prompts] == [7, 7, 7]
    limited = resolve(f"{path}?tokens=29", tokenizer=with_bos, window=10)
    assert [prompt.ids for prompt in limited.prompts] == [prompt.ids for prompt in prompts.prompts[:2]]
    pieces = resolve(f"{path}?chars=31&limit=62", tokenizer=with_bos, window=10)
    assert [with_bos.decode(prompt.ids) for prompt in pieces.prompts] == ["<s>The ducks lay 16 eggs per day. "] * 2


def test_lists() -> None:
    given = [
        "some text",
        Prompt(text="a = b", answer="b"),
        [1, 2, 3],
        (4, 5),
        np.array([6, 7]),
        torch.tensor([8, 9]),
    ]
    prompts = resolve(given)
    assert prompts.dataset == "given"
    assert prompts.prompts == (
        Prompt(text="some text"),
        Prompt(text="a = b", answer="b"),
        Prompt(ids=(1, 2, 3)),
        Prompt(ids=(4, 5)),
        Prompt(ids=(6, 7)),
        Prompt(ids=(8, 9)),
    )
    assert resolve(("a", "b")).prompts == (Prompt(text="a"), Prompt(text="b"))
    assert resolve(torch.tensor([[1, 2], [3, 4]])).prompts == (Prompt(ids=(1, 2)), Prompt(ids=(3, 4)))
    assert resolve(Prompt(text="alone")).prompts == (Prompt(text="alone"),)


def test_a_column_is_a_list_of_texts() -> None:
    """As data sets of the hub and tables have them."""
    rows = datasets.Dataset.from_dict({"text": ["one text", "another"], "ids": [[5, 6], [7, 8]]})
    assert resolve(rows["text"]) == resolve(["one text", "another"])
    assert resolve(rows["ids"]) == resolve([[5, 6], [7, 8]])
    assert resolve(pd.Series(["one text", "another"])) == resolve(["one text", "another"])
    assert not needs_tokenizer(rows["ids"])


def test_what_is_resolved_already(write_jsonl: Callable[..., str]) -> None:
    prompts = resolve(["a"])
    assert resolve(prompts) is prompts
    path = write_jsonl(*ROWS)
    assert resolve(parse(f"gsm8k:1@{path}")) == resolve(f"gsm8k:1@{path}")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("gsm8:10", r"Did you mean 'gsm8k'\?"),
        ("Who wrote Imagine?", "give a list of strings"),
        ("nowhere/mine.jsonl", r"mine\.jsonl does not exist \(nor does the folder nowhere\)"),
        ([], "The list of prompts is empty"),
        ([1, 2, 3], r"one prompt, not a list of prompts; write \[\[…\]\]"),
        (
            ["fine", None],
            "Prompt 1 of the list is None; allowed: a text, a Prompt, a dict of its fields, a list of token ids",
        ),
        ([[1, 2.5]], r"Prompt 0 of the list is \[1, 2\.5\]"),
        ([[1, True]], "Prompt 0 of the list"),
        ([np.array([0.5, 1.0])], "Prompt 0 of the list"),
        ([[1, 2], {"source": 5}], r'Prompt 1 of the list is .*; a further source is written \{"source": "gsm8k:10"\}'),
        ([[1, 2], {"sauce": "a"}], r"the list, prompt 1: .*neither given\. Fields of this line: 'sauce'"),
        ([{"source": 3}], "Prompt 0 of the list is {'source': 3}; a further source"),
        ([{"source": "gsm8:10"}], r"Did you mean 'gsm8k'\?"),
        ([{"source": "problems:1"}, Path("mine.md")], r"'mine\.md' is neither a data set nor a prompt file"),
        ({"text": "a"}, "dict given"),
        (b"gsm8k:10", "bytes given"),
        (17, "int given"),
        (None, "NoneType given"),
    ],
)
def test_refused(source: object, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        resolve(source)  # type: ignore[arg-type]


def test_prompts_without_words_are_refused_before_a_model_is_loaded(write_jsonl: Callable[..., str]) -> None:
    empty = write_jsonl({"text": "fine words"}, {"text": " \n", "id": "none"})
    no_answer = Prompt(text="fine words", answer=" ", id="none")
    for source in (["fine words", Prompt(text=" ", id="none")], empty, [{"source": empty}], no_answer):
        named = r"(Prompt 'none'|rows\.jsonl, prompt 2)"
        with pytest.raises(PromptError, match=rf"{named}: (the text|its answer) is empty; give"):
            require_there(source)
    require_there(["fine words", [5, 6]])
    require_there(iter([" "]))


@pytest.mark.parametrize(
    ("source", "message"),
    [(["a", ""], r"Prompt '1': .*empty"), ([], "list of prompts is empty"), ("none.jsonl", r"none\.jsonl")],
)
@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_looks_at_its_prompts_before_it_loads_a_model(
    verb: str, source: object, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PromptError, match=message):
        VERBS[verb](source)


def test_what_holds_prompts_and_is_no_list_of_them_is_named_with_what_helps() -> None:
    turns = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Me."}]
    with pytest.raises(PromptError, match=r"A list of 2 turns of a chat .* give \[Prompt\(messages=\[…\]\)\]"):
        sources(turns)
    with pytest.raises(
        PromptError, match=r"A DatasetDict of the splits 'train', 'test' is given; .* such as data\['train'\]"
    ):
        sources(
            datasets.DatasetDict({name: datasets.Dataset.from_dict({"text": ["a b"]}) for name in ("train", "test")})
        )
    texts = iter(["a b", "c d"])
    assert len(sources(texts)) == 1
    with pytest.raises(PromptError, match=r"The iterator of prompts gives none; .* may have been already"):
        sources(texts)
