"""A token for unknown words that only the serialised tokenizer names, and transformers does not know."""

from __future__ import annotations

from typing import Any

import pytest
from support.equal_functions import tiny
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import bathyscope
from bathyscope.prompts.tokenizer import special_places, unknown_token

WORDS = ("<pad>", "[UNK]", "the", "cat", "sat")
KINDS: dict[str, Any] = {
    "words": lambda: models.WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"),
    "pieces": lambda: models.WordPiece({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"),
    "pairs": lambda: models.BPE({word: n for n, word in enumerate(WORDS)}, [], unk_token="[UNK]"),
    "unigram": lambda: models.Unigram([(word, -float(n)) for n, word in enumerate(WORDS)], unk_id=1),
}


def tokenizer_of(kind: str, **names: str) -> PreTrainedTokenizerFast:
    backend = Tokenizer(KINDS[kind]())
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=backend, **names)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_known_and_stands_for_text(kind: str) -> None:
    tokenizer = tokenizer_of(kind)
    assert tokenizer.unk_token is None
    assert unknown_token(tokenizer) == 1
    assert special_places([2, 1, 3], tokenizer) == ()
    # not where it also ends texts, nor where there is none
    assert unknown_token(tokenizer_of(kind, eos_token="[UNK]")) is None
    assert unknown_token(PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE({"a": 0}, [])))) is None


@pytest.mark.parametrize("kind", ["words", "unigram"])
def test_texts_that_the_tokenizer_does_not_know_are_warned_of(kind: str) -> None:
    model = bathyscope.load(tiny(), tokenizer=tokenizer_of(kind))
    texts = ["zebra yak xylophone the", "quokka ibis cat"]
    with pytest.warns(UserWarning, match="unknown to the tokenizer of") as caught:
        bathyscope.survey(model, texts, "residual", progress=False)
    messages = [str(warning.message) for warning in caught]
    assert any("half of the tokens or more are [UNK], which stands for what the" in message for message in messages)
    assert any("are unknown to the tokenizer of" in message and "('[UNK]')" in message for message in messages)
