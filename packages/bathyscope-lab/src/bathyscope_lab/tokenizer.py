"""Tokenizers made from scratch for free text: byte-level BPE in which digits stand alone, or single characters."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from bathyscope.errors import ModelError, OptionError
from bathyscope.prompts.tasks.vocabulary import BOS, EOS

# A word with the blank before it, one digit, a run of signs, line ends, or blanks. Digits stand alone so that
# a number's tokens are its decimal digits, whatever numbers the corpus held.
PIECES = r" ?\p{L}+(?:'\p{L}+)?|\p{N}| ?[^\s\p{L}\p{N}]+|\s*[\r\n]+|\s+(?!\S)|\s+"

SMALLEST_BPE = len(pre_tokenizers.ByteLevel.alphabet()) + 2
"""Every byte, the begin and the end."""


def train_bpe(texts: Iterable[str], vocabulary: int) -> PreTrainedTokenizerBase:
    """A byte-level BPE with exactly ``vocabulary`` pieces.

    Every byte is a piece, so any text can be encoded and decoding gives it back unchanged.

    Raises:
        OptionError: the texts do not hold so many pieces, or the bytes alone are more.
    """
    if vocabulary < SMALLEST_BPE:
        raise OptionError(f"tokenizer: vocabulary={vocabulary} is not allowed; bytes alone take {SMALLEST_BPE}.")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[BOS, EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer=trainer)
    if tokenizer.get_vocab_size() != vocabulary:
        raise OptionError(
            f"The text gave {tokenizer.get_vocab_size()} pieces, not tokenizer.vocabulary={vocabulary}; give it more "
            "text or lower the vocabulary."
        )
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B", special_tokens=[(BOS, tokenizer.token_to_id(BOS))]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=BOS, eos_token=EOS, pad_token=EOS)


def character_tokenizer() -> PreTrainedTokenizerBase:
    """A token for each byte of UTF-8, so one for each character of plain English and arithmetic."""
    return train_bpe([], SMALLEST_BPE)


def special_ids(tokenizer: PreTrainedTokenizerBase) -> tuple[int, int]:
    """Ids of the token that opens a row and of the one that ends a text.

    A tokenizer without a begin token opens rows with its end token, as its models were trained.

    Raises:
        ModelError: it has no end token.
    """
    end = tokenizer.eos_token_id
    if not isinstance(end, int):
        raise ModelError("The tokenizer has no end token (eos_token), which training needs; give it one and save it.")
    begin = tokenizer.bos_token_id
    return (begin if isinstance(begin, int) else end), end
