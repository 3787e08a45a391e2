from __future__ import annotations

import pytest
from bathyscope_lab.tokenizer import character_tokenizer, special_ids, train_bpe
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

from bathyscope.errors import ModelError, OptionError
from bathyscope.prompts.problems import generate
from bathyscope.prompts.tasks.vocabulary import BOS, EOS

TOKENIZER = train_bpe([problem.question for problem in generate("word", 200, seed=1)], 500)


def test_vocabulary_is_as_large_as_asked() -> None:
    assert len(TOKENIZER) == 500


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text_survives_a_round_trip(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text, add_special_tokens=False)) == text


def test_bos_comes_first_and_only_where_special_tokens_are_wanted() -> None:
    bos_id, eos_id = special_ids(TOKENIZER)
    assert TOKENIZER.convert_ids_to_tokens(bos_id) == BOS
    assert TOKENIZER.convert_ids_to_tokens(eos_id) == EOS
    with_special = TOKENIZER.encode("two cups")
    assert with_special == [bos_id, *TOKENIZER.encode("two cups", add_special_tokens=False)]
    assert with_special.count(bos_id) == 1


def test_every_digit_is_a_token_even_in_numbers_seen_in_training() -> None:
    tokenizer = train_bpe(["The year 1865 was 1865, and 1865 it was."] * 50, 272)
    tokens = tokenizer.tokenize("in 1865")
    assert tokens[-4:] == ["1", "8", "6", "5"]


def test_words_keep_the_blank_before_them_and_lines_end_in_one_piece() -> None:
    tokenizer = train_bpe(["the cup\n\nthe cup don't"] * 50, 269)
    assert tokenizer.tokenize("the cup\n\nthe don't") == [
        "the",
        "Ġcup",
        "ĊĊ",
        "the",
        "Ġdon't",
    ]


def test_a_vocabulary_that_the_text_cannot_fill_is_refused() -> None:
    with pytest.raises(OptionError, match=r"pieces, not tokenizer\.vocabulary=40000; give it more text"):
        train_bpe(["a few words"], 40_000)
    with pytest.raises(OptionError, match=r"vocabulary=200 is not allowed; bytes alone take 258"):
        train_bpe(["a few words"], 200)


def test_a_character_is_a_token() -> None:
    tokenizer = character_tokenizer()
    assert len(tokenizer) == 258
    assert len(tokenizer.encode("What is -12 + 3?", add_special_tokens=False)) == len("What is -12 + 3?")
    assert tokenizer.decode(tokenizer.encode("naïve ½", add_special_tokens=False)) == "naïve ½"


def test_a_tokenizer_without_an_end_is_refused() -> None:
    with pytest.raises(ModelError, match="no end token"):
        special_ids(PreTrainedTokenizerFast(tokenizer_object=Tokenizer(BPE())))


def test_rows_open_with_the_end_where_there_is_no_begin() -> None:
    tokenizer = train_bpe(["abc"], 258)
    tokenizer.bos_token = None
    assert special_ids(tokenizer) == (1, 1)
