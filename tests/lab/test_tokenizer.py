from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE

from bathyscope.errors import ModelError
from bathyscope.lab.tokenizer import BOS, EOS, special_ids, train_tokenizer
from bathyscope.prompts.problems import generate

TOKENIZER = train_tokenizer([problem.question for problem in generate("word", 200, seed=1)], 500)


def test_vocabulary_is_as_large_as_asked() -> None:
    assert TOKENIZER.get_vocab_size() == 500


@given(st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text_survives_a_round_trip(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text).ids) == text


def test_bos_comes_first_and_only_where_special_tokens_are_wanted() -> None:
    bos_id, eos_id = special_ids(TOKENIZER)
    assert TOKENIZER.id_to_token(bos_id) == BOS
    assert TOKENIZER.id_to_token(eos_id) == EOS
    with_special = TOKENIZER.encode("two cups").ids
    assert with_special == [bos_id, *TOKENIZER.encode("two cups", add_special_tokens=False).ids]
    assert with_special.count(bos_id) == 1


def test_every_digit_is_a_token_even_in_numbers_seen_in_training() -> None:
    tokenizer = train_tokenizer(["The year 1865 was 1865, and 1865 it was."] * 50, 400)
    tokens = tokenizer.encode("in 1865", add_special_tokens=False).tokens
    assert tokens[-4:] == ["1", "8", "6", "5"]


def test_words_keep_the_blank_before_them_and_lines_end_in_one_piece() -> None:
    tokenizer = train_tokenizer(["the cup\n\nthe cup don't"] * 50, 300)
    assert tokenizer.encode("the cup\n\nthe don't", add_special_tokens=False).tokens == [
        "the",
        "Ġcup",
        "ĊĊ",
        "the",
        "Ġdon't",
    ]


def test_a_foreign_tokenizer_is_refused() -> None:
    with pytest.raises(ModelError, match=r"lacks <\|begin\|> or <\|end\|>; the lab trains with its own"):
        special_ids(Tokenizer(BPE()))
