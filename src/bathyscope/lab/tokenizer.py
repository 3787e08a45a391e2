"""Byte-level BPE trained from scratch: digits stand alone, BOS is prepended by the tokenizer itself."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from bathyscope.errors import ModelError

BOS = "<|begin|>"
EOS = "<|end|>"

# A word with the blank before it, one digit, a run of signs, line ends, or blanks. Digits stand alone so that
# a number's tokens are its decimal digits, whatever numbers the corpus held.
PIECES = r" ?\p{L}+(?:'\p{L}+)?|\p{N}| ?[^\s\p{L}\p{N}]+|\s*[\r\n]+|\s+(?!\S)|\s+"


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """A byte-level BPE with exactly ``vocabulary`` pieces where the texts allow it.

    Every byte is a piece, so any text can be encoded and decoding gives it back unchanged.
    """
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
    bos_id, _ = special_ids(tokenizer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B", special_tokens=[(BOS, bos_id)]
    )
    return tokenizer


def special_ids(tokenizer: Tokenizer) -> tuple[int, int]:
    """Ids of BOS and EOS.

    Raises:
        ModelError: the tokenizer has no such pieces, so it was not made by `train_tokenizer`.
    """
    bos_id, eos_id = tokenizer.token_to_id(BOS), tokenizer.token_to_id(EOS)
    if bos_id is None or eos_id is None:
        raise ModelError(
            f"The tokenizer lacks {BOS} or {EOS}; the lab trains with its own tokenizers only: remove "
            "tokenizer.json from the run's folder and train again."
        )
    return bos_id, eos_id
