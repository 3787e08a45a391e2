"""Tokenizers of whole words, for planting truths about single tokens."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast


def word_tokenizer(words: Sequence[str]) -> PreTrainedTokenizerFast:
    """Token 0 is <unk>, then ``a``, then the words as written; texts are cut at spaces, which no token holds."""
    vocabulary = {word: number for number, word in enumerate(["<unk>", "a", *words])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")
