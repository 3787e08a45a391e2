"""A tokenizer of single letters that covers a whole vocabulary, so that any tokens are a text and back."""

from __future__ import annotations

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

SPECIAL = ("<pad>", "<s>", "</s>", "<stop>")


def letters(vocabulary: int) -> list[str]:
    """What every token is written as; the first four are special."""
    return [*SPECIAL, *(chr(0x100 + number) for number in range(vocabulary - len(SPECIAL)))]


def letter_tokenizer(vocabulary: int, *, eos: bool = True) -> PreTrainedTokenizerFast:
    """Tokens 0 to 3 are padding, a beginning, an end and a special token that a task may stop at."""
    known = {letter: number for number, letter in enumerate(letters(vocabulary))}
    backend = Tokenizer(models.WordLevel(known, unk_token="<pad>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    backend.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>" if eos else None,
        additional_special_tokens=["<stop>"],
    )
