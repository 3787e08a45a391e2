"""Small made-up tokenizers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

SENTENCES = [
    "The final answer is 28. The ducks lay 16 eggs per day, and she sells the eggs at the market.",
    "What is five plus seven? Five plus seven is twelve, and twelve is the answer.",
    "Naïve café owners don't sell tea;\n\nthey sell   coffee – lots of it.",
]


@pytest.fixture(scope="session")
def backend() -> Callable[..., Tokenizer]:
    """A byte-level BPE of 400 pieces, trained on a few sentences, with or without BOS and EOS around text."""

    def build(*, bos: bool = False, eos: bool = False, special: tuple[str, ...] = ("<s>", "</s>")) -> Tokenizer:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=list(special),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        tokenizer.train_from_iterator(SENTENCES, trainer)
        if bos or eos:
            tokenizer.post_processor = processors.TemplateProcessing(
                single=f"{'<s> ' if bos else ''}$A{' </s>' if eos else ''}",
                special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")],
            )
        return tokenizer

    return build


@pytest.fixture(scope="session")
def plain(backend: Callable[..., Tokenizer]) -> PreTrainedTokenizerFast:
    """No special tokens at all."""
    return PreTrainedTokenizerFast(tokenizer_object=backend(special=()))


@pytest.fixture(scope="session")
def with_bos(backend: Callable[..., Tokenizer]) -> PreTrainedTokenizerFast:
    """Puts BOS before text."""
    return PreTrainedTokenizerFast(tokenizer_object=backend(bos=True), bos_token="<s>", eos_token="</s>")


@pytest.fixture(scope="session")
def with_eos(backend: Callable[..., Tokenizer]) -> PreTrainedTokenizerFast:
    """Puts BOS before text and EOS after it."""
    return PreTrainedTokenizerFast(tokenizer_object=backend(bos=True, eos=True), bos_token="<s>", eos_token="</s>")
