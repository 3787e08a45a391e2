"""A tokenizer that splits some words: wholes are one token, the others a beginning, pieces and an end."""

from __future__ import annotations

from itertools import product

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

CONTEXT = "one by one by one by one by one by one by one by one by one"
BEGINNINGS = ("ka", "ke", "ki")
MIDDLES = ("##la", "##le", "##li")
ENDS = ("##ta", "##te", "##ti")
WHOLES = tuple(first + second for first, second in product("bdfghm", ("ass", "ell", "inn", "orr")))
VOCABULARY = {
    token: number for number, token in enumerate(("<unk>", "<s>", "one", "by", *WHOLES, *BEGINNINGS, *MIDDLES, *ENDS))
}


def piece_tokenizer(*, bos: bool = False) -> PreTrainedTokenizerFast:
    """``kalaleta`` is ka, ##la, ##le, ##ta; ``bass`` is one token.

    Args:
        bos: put <s> in front of every text.
    """
    backend = Tokenizer(models.WordPiece(VOCABULARY, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.decoder = decoders.WordPiece()
    if bos:
        backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", bos_token="<s>" if bos else None)


def split_words(pieces: int) -> list[str]:
    """All words of so many tokens."""
    parts = (BEGINNINGS, *[MIDDLES] * (pieces - 2), ENDS)
    return ["".join(chosen).replace("#", "") for chosen in product(*parts)]


def marked() -> list[int]:
    """Ids of beginnings and middles: the earlier tokens of every word that is split."""
    return [VOCABULARY[token] for token in (*BEGINNINGS, *MIDDLES)]
