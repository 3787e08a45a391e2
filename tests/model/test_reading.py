"""Prompts as token ids of a model: one call that every part uses."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.word_tokenizer import word_tokenizer
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

import bathyscope.prompts
from bathyscope.errors import PromptError
from bathyscope.model.reading import tokenized
from bathyscope.prompts.padding import NO_EDGES, EdgeTokens
from bathyscope.prompts.prompt import Prompt, TokenizedPrompt
from bathyscope.prompts.prompts import Prompts, prompts_hash
from bathyscope.prompts.tokenizer import tokenizer_hash

SETTINGS = SimpleNamespace(pad_token_id=None, bos_token_id=0, eos_token_id=[1])


@dataclass
class StandIn:
    """What is asked of a model."""

    tokenizer: Any
    name: str = "stand-in"
    max_tokens: int | None = 64
    has_position_table: bool = False
    vocabulary: int = 400
    predictable: int = 400
    edges: EdgeTokens = field(default_factory=lambda: EdgeTokens.of(SETTINGS))
    hf: Any = field(default_factory=lambda: SimpleNamespace(config=SETTINGS))


QUESTIONS = [
    Prompt(text="What is five plus seven? twelve", answer="twelve", id="sum", labels={"level": 2}),
    Prompt(text="The ducks lay 16 eggs per day."),
]


def test_token_ids_names_answers_labels_and_hash(with_bos: PreTrainedTokenizerFast) -> None:
    read = bathyscope.model.tokenized(StandIn(with_bos), QUESTIONS)
    assert isinstance(read, Prompts)
    assert (read.names, read.dataset, len(read)) == (["sum", "1"], "given", 2)
    assert [list(prompt.ids) for prompt in read] == [with_bos(prompt.text)["input_ids"] for prompt in QUESTIONS]
    assert read.lengths == [len(prompt.ids) for prompt in read]
    assert (read.labels, read.label("level")) == (("level",), [2, None])
    assert read.hash == prompts_hash(read.items)
    assert read.tokenizer_hash == tokenizer_hash(with_bos)
    assert "".join(read.pieces(0)) == "<s>What is five plus seven? twelve"
    assert (read.answer(0), read.answer(1)) == (" twelve", None)


def test_the_tokenizer_is_asked_for_only_where_there_is_text() -> None:
    class Without(StandIn):
        @property
        def tokenizer(self) -> Any:  # type: ignore[override]
            pytest.fail("the tokenizer was asked for")

        @tokenizer.setter
        def tokenizer(self, value: Any) -> None:
            pass

    read = tokenized(Without(None), [[5, 6, 7], Prompt(ids=[8, 9], answer_tokens=1)])
    assert read.tokenizer_hash is None
    assert (read.pieces(0), read.answer(1)) == (("5", "6", "7"), "9")


def test_prompts_once_read_keep_their_ids_for_every_model_with_the_same_tokenizer(
    with_bos: PreTrainedTokenizerFast, plain: PreTrainedTokenizerFast
) -> None:
    given = [*QUESTIONS, {"source": "problems:3"}]
    read = tokenized(StandIn(with_bos, max_tokens=None), given, seed=3)
    again = tokenized(StandIn(with_bos, name="another", max_tokens=None), read)
    assert (again, again.hash, again.tokenizer_hash) == (read, read.hash, read.tokenizer_hash)
    assert [prompt.dataset for prompt in again] == ["given"] * 2 + ["problems:3"] * 3
    with pytest.raises(PromptError, match="were read with another tokenizer than that of other, to which their token"):
        tokenized(StandIn(plain, name="other", max_tokens=None), read)


def test_prompts_beyond_the_context(with_bos: PreTrainedTokenizerFast) -> None:
    short = StandIn(with_bos, max_tokens=4)
    with pytest.raises(PromptError, match="more than the 4 the model can take"):
        tokenized(short, QUESTIONS)
    with pytest.warns(UserWarning, match="2 of 2 prompts are longer than the 4 tokens of context that stand-in decla"):
        assert tokenized(short, QUESTIONS, beyond_context=True).lengths[1] > 4
    with pytest.raises(PromptError, match="more than the 4 the model can take"):
        tokenized(StandIn(with_bos, max_tokens=4, has_position_table=True), QUESTIONS, beyond_context=True)


def test_pieces_of_a_long_text_are_those_of_the_whole(with_bos: PreTrainedTokenizerFast) -> None:
    text = "Naïve café owners don't sell tea;\n\nthey sell   coffee – 日本 lots of it. 🦆 " * 12
    ids = list(with_bos(text)["input_ids"])
    read = tokenized(StandIn(with_bos, max_tokens=None), [text])
    whole, before = [], ""
    for end in range(1, len(ids) + 1):
        now = with_bos.decode(ids[:end])
        whole.append(now[len(before) :] if now.startswith(before) else with_bos.decode([ids[end - 1]]))
        before = now
    assert len(ids) > 300
    assert list(read.pieces(0)) == whole


def test_many_unknown_tokens_are_a_warning() -> None:
    """Of 100 words, two unknown ones are few and three are many; a token that also ends texts is no unknown one."""
    words = [f"w{number}" for number in range(20)]
    tokenizer = word_tokenizer(words)
    tokenizer.unk_token = "w0"

    def read(unknown: int) -> list[str]:
        text = " ".join(["w0"] * unknown + ["w1"] * (100 - unknown))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tokenized(StandIn(tokenizer, "small", max_tokens=None), [text], add_special_tokens=False)
        return [str(warning.message) for warning in caught]

    assert read(2) == []
    assert read(3) == [
        "3 of 100 tokens (3%) are unknown to the tokenizer of small ('w0'). Give text in its vocabulary; of a "
        "generated task, compare its options with those that the model was trained on."
    ]
    tokenizer.eos_token = "w0"
    assert read(50) == []


def test_padded_ids_are_refused_by_what_the_configuration_says() -> None:
    padded = [[5, 6, 7, 8, 9], [5, 6, 1, 1, 1]]
    with pytest.raises(PromptError, match=r"1 of 2 prompts end in token id 1, up to 3 times: padding"):
        tokenized(StandIn(None), padded)
    read = tokenized(StandIn(None), {"input_ids": padded, "attention_mask": [[1] * 5, [1, 1, 1, 0, 0]]})
    assert [prompt.ids for prompt in read] == [(5, 6, 7, 8, 9), (5, 6, 1)]
    # what a run measured is measured again as it is
    again = tokenized(StandIn(None), Prompts((TokenizedPrompt("0", (5, 6, 1, 1, 1)),), "given"))
    assert again[0].ids == (5, 6, 1, 1, 1)


NAMES = ("pad_token_id", "bos_token_id", "eos_token_id")


def padded_batches(tokenizer: PreTrainedTokenizerFast) -> list[list[int]]:
    """Two batches of two lengths, one after the other."""
    batches = [["The ducks lay 16 eggs per day.", "What", "Five"], ["What is five plus seven? twelve, or not", "The"]]
    return [row for batch in batches for row in tokenizer(batch, padding=True)["input_ids"]]


def test_what_pads_is_known_by_the_files_of_a_model(
    altered: Callable[..., Path], backend: Callable[..., Tokenizer]
) -> None:
    """Neither its configuration nor its settings of generation name what pads."""
    folder = altered(config=lambda written: written.update(dict.fromkeys(NAMES)))
    (folder / "generation_config.json").unlink(missing_ok=True)
    marks = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend(bos=False), **marks)
    rows = padded_batches(tokenizer)
    model = bathyscope.load(folder)
    assert model.edges == NO_EDGES
    tokenizer.save_pretrained(folder)
    model = bathyscope.load(folder)
    for given in (rows, [[9, 8, 7, 6], [5, 6, *[tokenizer.pad_token_id] * 2]]):
        with pytest.raises(PromptError, match=r"prompts end in token id 1, up to \d+ times: padding, which"):
            tokenized(model, given)
    assert "tokenizer" not in vars(model)
    # a model in memory that came from there, and a control of it
    in_memory = bathyscope.load(AutoModelForCausalLM.from_pretrained(folder))
    assert in_memory.edges == replace(model, name="of it", origin=model).edges == EdgeTokens.of(tokenizer)
    # another tokenizer takes the place of that of the files
    other = PreTrainedTokenizerFast(tokenizer_object=backend(bos=False), pad_token="<s>")
    assert replace(model, given_tokenizer=other).edges == EdgeTokens.of(other)
