from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

from bathyscope.errors import PromptError
from bathyscope.prompts.prompt import Prompt, PromptSet
from bathyscope.prompts.prompt_rows import prompt_lines, read_prompts
from bathyscope.prompts.source import resolve
from bathyscope.prompts.spec import parse

Write = Callable[..., str]


def test_every_field(write_jsonl: Write) -> None:
    path = write_jsonl(
        {"text": "1 + 1 = 2", "answer": "2", "id": "sum", "labels": {"level": 3}, "hops": 2, "by": "deep"},
        {"ids": [4, 5, 6], "answer_tokens": 1, "id": 17},
        {"text": "plain"},
    )
    assert read_prompts(path) == (
        Prompt(text="1 + 1 = 2", answer="2", id="sum", labels={"level": 3, "hops": 2, "by": "deep"}),
        Prompt(ids=(4, 5, 6), answer_tokens=1, id="17"),
        Prompt(text="plain"),
    )
    assert [prompt.id for prompt in read_prompts(path, count=2)] == ["sum", "17"]


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    prompts = (
        Prompt(text="1 + 1 = 2\n“two”\u2028", answer="2", id="sum", labels={"level": 3, "solved_by": "only deep"}),
        Prompt(text="plain"),
        Prompt(
            ids=(4, 5, 6), answer_tokens=1, labels=MappingProxyType({"hops": np.int64(2), "share": np.float32(0.5)})
        ),
    )
    path = tmp_path / "written.jsonl"
    path.write_text(prompt_lines(prompts), encoding="utf-8")
    assert read_prompts(str(path)) == prompts
    assert prompt_lines(prompts[1:2]) == '{"text": "plain"}\n'


def test_too_few(write_jsonl: Write) -> None:
    with pytest.raises(PromptError, match=r"holds 1 prompts, 3 asked for; ask for at most 1"):
        read_prompts(write_jsonl({"text": "a"}), count=3)
    with pytest.raises(PromptError, match=r"holds no prompts; write one a line: \{\"text\""):
        read_prompts(write_jsonl())


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"txt": "a"}, "exactly one of text=, ids= and messages=; neither given"),
        ({"text": "a", "ids": [1, 2]}, "both given"),
        ({"text": 5}, "text= must be a string, not 5"),
        ({"text": "5", "answer": 5}, "answer= must be a string, not 5"),
        ({"ids": [1, 2.5]}, r"ids= must be whole numbers; token 1 is 2\.5"),
        ({"ids": "12"}, "ids= must be a list of whole numbers, not '12'"),
        ({"ids": [1, True]}, "ids= must be whole numbers; token 1 is True"),
        ({"ids": [1, 2], "answer_tokens": "1"}, "answer_tokens='1' must be a whole number"),
        ({"ids": [1, 2], "answer_tokens": 2}, "answer_tokens=2 does not fit"),
        ({"text": "a", "labels": [1]}, r"labels must be an object such as .*not \[1\]"),
        ({"text": "a", "labels": {"hops": 1}, "hops": 2}, "'hops' stands both inside and outside labels"),
    ],
)
def test_bad_rows_are_named(write_jsonl: Write, row: dict[str, object], message: str) -> None:
    with pytest.raises(PromptError, match=rf"rows\.jsonl, prompt 2: .*{message}"):
        read_prompts(write_jsonl({"text": "fine"}, row))


def test_misspelt_fields_are_told(write_jsonl: Write) -> None:
    path = write_jsonl({"text": "1 + 1 = 2", "anwser": "2", "digits": 1}, {"text": "2 + 1 = 3", "anwser": "3"})
    said = r"rows\.jsonl: 'anwser' is no field of a prompt and is taken for a label\. Did you mean 'answer'\?$"
    with pytest.warns(UserWarning, match=said) as caught:
        prompts = read_prompts(path)
    assert len(caught) == 1
    assert prompts[0].labels == {"anwser": "2", "digits": 1}
    with pytest.raises(PromptError, match=r"prompt 1: .*neither given\. Did you mean 'text' by 'Text'\?"):
        read_prompts(write_jsonl({"Text": "a"}))


def test_half_characters_are_refused_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "half.jsonl"
    path.write_text('{"text": "fine"}\n{"text": "a \\ud83e duck"}\n', encoding="utf-8")
    with pytest.raises(PromptError, match=r"half\.jsonl, prompt 2: text= holds the lone surrogate .* at character 2"):
        read_prompts(str(path))


@pytest.mark.parametrize(
    ("row", "renamed"),
    [
        ({"prompt": "Why?"}, "Rename 'prompt' to 'text', or name the columns of the file (FILE?text=prompt)."),
        (
            {"Question": "Why?", "answer": "so"},
            "Rename 'Question' to 'text', or name the columns of the file (FILE?text=Question&answer=answer).",
        ),
        (
            {"input": "Why?", "output": "so"},
            "Rename 'input' to 'text' and 'output' to 'answer', or name the columns of the file "
            "(FILE?text=input&answer=output).",
        ),
        ({"input_ids": [1, 2]}, "Rename 'input_ids' to 'ids'."),
        ({"weather": "fine"}, "Fields of this line: 'weather'."),
    ],
)
def test_what_is_called_otherwise_elsewhere_is_to_be_renamed(
    write_jsonl: Callable[..., str], row: dict[str, object], renamed: str
) -> None:
    with pytest.raises(PromptError) as caught:
        read_prompts(write_jsonl(row))
    assert str(caught.value).endswith(f"neither given. {renamed}")
    if "FILE?" in renamed:
        options = renamed.partition("FILE")[2].rstrip(").")
        (prompt,) = resolve(write_jsonl(row) + options).prompts
        answer = row.get("answer", row.get("output"))
        assert (prompt.text, prompt.answer) == ("Why?" if answer is None else f"Why? {answer}", answer)


@pytest.mark.parametrize("value", [{"a": 1}, [1], None, float("nan")])
def test_a_label_of_another_kind_is_refused(write_jsonl: Callable[..., str], value: object) -> None:
    row = {"text": "words", "labels": {"level": value}}
    with pytest.raises(PromptError, match=r"prompt 1: the label 'level' (must be a text or a number|is NaN)"):
        read_prompts(write_jsonl(row))


@pytest.mark.parametrize(("value", "told"), [({"a": 1}, True), ([1], True), (None, False), (float("nan"), False)])
def test_a_further_field_that_is_no_label_is_left_aside_and_said(
    write_jsonl: Callable[..., str], value: object, told: bool, recwarn: pytest.WarningsRecorder
) -> None:
    read = read_prompts(write_jsonl({"text": "words", "level": value, "n": 2}, {"text": "more words", "level": 3}))
    assert [dict(prompt.labels) for prompt in read] == [{"n": 2}, {"level": 3}]
    messages = [str(warning.message) for warning in recwarn]
    assert len(messages) == told
    assert not told or "'level' holds lists or objects, which cannot be labels, and are left aside." in messages[0]


def test_labels_without_a_value_are_not_written() -> None:
    prompts = [Prompt("a", labels={"level": float("nan")}), Prompt("b", labels={"level": 2.0, "other": float("nan")})]
    assert prompt_lines(prompts) == '{"text": "a"}\n{"text": "b", "labels": {"level": 2.0}}\n'


@pytest.mark.parametrize("row", [{"text": " "}, {"text": "a b", "answer": ""}])
def test_a_prompt_without_words_is_named_by_its_file(write_jsonl: Callable[..., str], row: dict[str, str]) -> None:
    path = write_jsonl({"text": "fine"}, row)
    with pytest.raises(PromptError, match=r"\.jsonl, prompt 2: .* is empty; give"):
        read_prompts(path)


def test_names_that_no_run_can_keep_are_refused() -> None:
    for text in ("caf\udce9.jsonl", "caf\udce9.txt", "texts\udce9/", "gsm8k:4@caf\udce9.jsonl"):
        with pytest.raises(PromptError, match=r"the name is no UTF-8 text.* Rename the file\."):
            parse(text)
    for dataset, message in (("\ud800", "lone surrogate"), (5, "must be a text that names the prompts, not 5")):
        with pytest.raises(PromptError, match=rf"dataset= .*{message}"):
            PromptSet((Prompt("x"),), dataset)  # type: ignore[arg-type]
