from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from bathyscope.errors import PromptError
from bathyscope.prompts.prompt import Prompt, PromptSet


@pytest.mark.parametrize(
    "ids",
    [
        [3, 4],
        range(3, 5),
        np.array([3, 4]),
        np.array([3, 4], dtype=np.uint16),
        torch.tensor([3, 4]),
        [np.int64(3), torch.tensor(4)],
    ],
)
def test_whole_numbers_of_every_kind_are_token_ids(ids: Any) -> None:
    prompt = Prompt(ids=ids, answer_tokens=np.int32(1))  # type: ignore[arg-type]
    assert prompt == Prompt(ids=(3, 4), answer_tokens=1)
    assert prompt.ids is not None
    assert {type(token) for token in (*prompt.ids, prompt.answer_tokens)} == {int}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ids": [5, 1.7]}, "ids= must be whole numbers; token 1 is 1.7."),
        ({"ids": [5, 2.0]}, "token 1 is 2.0"),
        ({"ids": [True, 5]}, "token 0 is True"),
        ({"ids": np.array([True, False])}, "token 0 is True"),
        ({"ids": torch.tensor([1.5, 2.0])}, "token 0 is 1.5"),
        ({"ids": [np.float32(1.5)]}, "token 0 is np.float32(1.5)"),
        ({"ids": [torch.tensor(True)]}, "token 0 is tensor(True)"),
        ({"ids": "12"}, "ids= must be a list of whole numbers, not '12'"),
        ({"ids": [[1, 2]]}, "token 0 is [1, 2]"),
        ({"ids": torch.tensor([[1, 2]])}, "token 0 is [1, 2]"),
        ({"ids": 5}, "ids= must be a list of whole numbers, not 5"),
        ({"ids": "5 6 7"}, "ids= must be a list of whole numbers, not '5 6 7'"),
        ({"ids": torch.tensor(5)}, "ids= must be a list of whole numbers, not an object of type Tensor"),
        ({"ids": [1, 2, 3], "answer_tokens": 1.5}, "answer_tokens=1.5 must be a whole number"),
        ({"ids": [1, 2, 3], "answer_tokens": True}, "answer_tokens=True must be a whole number"),
        ({"ids": [1, 2], "answer_tokens": 0}, "answer_tokens=0 does not fit a prompt of 2 tokens; allowed: 1 to 1"),
        ({"ids": [1, 2], "answer_tokens": 2}, "answer_tokens=2 does not fit"),
        ({"ids": [1, 2], "answer_tokens": 9}, "answer_tokens=9 does not fit"),
        ({"ids": [1, 2], "answer": "a"}, "answer= goes with text="),
        ({"text": "a", "answer_tokens": 1}, "answer_tokens= goes with ids="),
        ({}, "exactly one of text=, ids= and messages=; neither given"),
        ({"text": "a", "ids": [1]}, "both given"),
        ({"text": 5}, "text= must be a string, not 5"),
        ({"text": "2 + 2 =", "answer": 4}, "answer= must be a string, not 4"),
        ({"text": "a", "id": 3}, "id= must be a string, not 3"),
        ({"text": "a", "id": ""}, "id= is empty; give the prompt a name, or leave it out for its number in the set"),
        (
            {"text": "a\ud800b"},
            "text= holds the lone surrogate '\\ud800' at character 1, which is no text; take it out",
        ),
        ({"text": "a b", "answer": "\udfff"}, "answer= holds the lone surrogate '\\udfff' at character 0"),
        ({"text": "a", "id": "\ud83e"}, "id= holds the lone surrogate '\\ud83e'"),
        ({"text": "a", "labels": {"kind": "\ud800"}}, "the label 'kind' holds the lone surrogate '\\ud800'"),
        ({"text": "a", "labels": {"\ud800": 1}}, "the name of a label holds the lone surrogate '\\ud800'"),
        ({"text": "a", "labels": ["level"]}, "labels= must be a dict such as {\"level\": 3}, not ['level']"),
    ],
)
def test_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(PromptError, match=re.escape(message)):
        Prompt(**arguments)


def test_a_union_keeps_order_names_and_parts() -> None:
    one, two = (PromptSet((Prompt(text=text),), text, is_data_set=True) for text in "ab")
    three = PromptSet((Prompt(text="c"), Prompt(text="d")), "given")
    union = PromptSet.union([one, three])
    assert (union.dataset, union.is_data_set, len(union)) == ("a + given", False, 3)
    nested = PromptSet.union([two, union])
    assert nested.parts == (two, one, three)
    assert [prompt.text for prompt in nested.prompts] == ["b", "a", "c", "d"]
    assert PromptSet.union([one, two]).is_data_set
    assert PromptSet.union([three]) is three
    with pytest.raises(
        PromptError, match=r"prompts= must be those of parts=, in order; make unions with PromptSet\.un"
    ):
        PromptSet(one.prompts, "a", parts=(two,))


@pytest.mark.parametrize("ids", [b"x", bytearray(b"abc"), "", {}, {5: 6}, set(), {5, 6}], ids=repr)
def test_token_ids_are_no_bytes_texts_or_collections_without_an_order(ids: Any) -> None:
    with pytest.raises(PromptError, match="ids= must be a list of whole numbers, not"):
        Prompt(ids=ids)
