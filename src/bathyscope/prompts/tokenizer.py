"""A checkpoint's own tokenizer, whatever class transformers would pick for its type; its hash, and tokens as text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bathyscope.core.foreign import read_regular
from bathyscope.core.gguf_headers import quick_headers
from bathyscope.core.network import cache_alone_without_network
from bathyscope.core.strict import DAMAGED, read_json
from bathyscope.core.text import elided
from bathyscope.errors import ModelError, PromptError, warn
from bathyscope.prompts.tokenizer_growth import require_little_growth

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_Answer = TypeVar("_Answer")
_LONGEST_REASON: Final = 200
_PANIC: Final = "PanicException"
"""Of the library's own language, which Python's code cannot import."""
VOCABULARY_FILES = (
    *("tokenizer.json", "tokenizer.model", "tekken.json", "tiktoken.model", "spiece.model"),
    *("sentencepiece.bpe.model", "vocab.json", "vocab.txt"),
)
"""Files that hold a vocabulary; a folder with none of them has no tokenizer."""
_SETTINGS: Final = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "config.json")
"""Files of JSON that are read next to a vocabulary."""

PROBE = (
    "Once upon a time there weren't 1,234 e-mails  in the café's inbox.\n\n\tdef f(x):\n        return x**2"
    "\r\n“Quoted” — naïve ＡＢＣ ½ e\u0301 I'LL we'd 12:30pm $5.00 3.14159 a_b/c?d=e#g \u00a0 日本語 русский "
    "हिन्दी 🦆👩\u200d🚀   \n end "
)
"""What pre-tokenizers and normalisers differ on: digits, contractions, runs of space, scripts, code."""


def ask(call: Callable[..., _Answer], *arguments: Any, **options: Any) -> _Answer:
    """Call a tokenizer, or one of its methods.

    Raises:
        PromptError: it refuses. The library raises plain Exceptions; expressions of a ``tokenizer.json`` that look
            through a text too often end in an exception that no ``except Exception`` catches.
    """
    try:
        return call(*arguments, **options)
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
            raise
        reason = elided(error, _LONGEST_REASON)
        raise PromptError(f"its tokenizer refuses the text ({reason}); give another text, or token ids.") from error


def load_tokenizer(
    source: str | Path, *, revision: str | None = None, trust_remote_code: bool = False
) -> PreTrainedTokenizerBase | None:
    """The tokenizer of a local folder or a model on the hub.

    For some model types transformers picks a tokenizer class that rebuilds the text splitting and ignores the
    checkpoint's ``tokenizer.json``, which silently changes token ids. Both are loaded here and compared on
    ``PROBE``; where they differ, the checkpoint's own file is used and a warning says so.

    None where a local folder holds no vocabulary at all: such a model can be measured on token ids only. A
    ModelError where there is no such model, the hub cannot be reached, or the tokenizer's files cannot be used.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    folder = Path(source)
    if str(source).startswith((".", "/", "~")) and not folder.exists():
        raise ModelError(f"{source} does not exist; give a folder with the model's files, or a name on the hub.")
    if folder.is_dir() and not any((folder / name).exists() for name in VOCABULARY_FILES):
        return None
    try:
        with nullcontext() if folder.is_dir() else cache_alone_without_network():
            file = _own_file(source, revision)
            if file is not None:
                require_little_growth(file, str(source))
            picked = AutoTokenizer.from_pretrained(source, revision=revision, trust_remote_code=trust_remote_code)
            own_tokenizer = picked
            if file is not None:
                own_tokenizer = PreTrainedTokenizerFast.from_pretrained(source, revision=revision or "main")
    except ModelError:
        raise
    # transformers raises whatever its parsers raise; all mean that there is no usable tokenizer.
    except Exception as error:
        _require_settings(folder)
        reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
        if isinstance(error, LookupError | AttributeError | TypeError):
            # the library's own code has failed on an entry, and says nothing of which file
            reason = (
                f"tokenizer.json or tokenizer_config.json lacks an entry, or has one that transformers cannot use "
                f"({type(error).__name__}: {reason}); compare both with the original's"
            )
        raise ModelError(
            f"The tokenizer of {source} cannot be loaded: {reason}. Give a folder with the model's files, or "
            "a name on the hub; prompts of token ids need no tokenizer."
        ) from error
    # What transformers picks by the model's type may cut text in another way than the checkpoint was trained with.
    chosen = picked
    if _probed(picked, source) != _probed(own_tokenizer, source):
        warn(
            f"For this model type transformers picks {type(picked).__name__}, which cuts text differently from "
            f"{source}'s own tokenizer.json; the checkpoint's own is used.",
        )
        chosen = own_tokenizer
    if not _probed(chosen, source, add_special_tokens=False):
        raise ModelError(
            f"The tokenizer of {source} turns text into no tokens: its vocabulary is missing. Add the "
            "model's tokenizer.json, or give token ids as prompts."
        )
    return chosen


def _require_settings(folder: Path) -> None:
    """Refuse settings next to a tokenizer that are no JSON, of which the library does not say which file it read.

    Raises:
        ModelError: names the file.
    """
    for file in (folder / name for name in _SETTINGS if (folder / name).is_file()):
        try:
            read_json(read_regular(file, folder))
        except DAMAGED as error:
            reason = getattr(error, "strerror", None) or error
            raise ModelError(
                f"The tokenizer of {folder} cannot be loaded: {file.name} is damaged ({elided(reason, 120)}). Restore "
                "it, or download it again; prompts of token ids need no tokenizer."
            ) from error


def load_gguf_tokenizer(file: Path) -> PreTrainedTokenizerBase:
    """Return the tokenizer that transformers builds from a GGUF file's vocabulary and merges.

    Raises:
        ModelError: it cannot be built, or turns text into no tokens.
    """
    from transformers import AutoTokenizer

    try:
        with quick_headers():
            tokenizer = AutoTokenizer.from_pretrained(str(file.parent), gguf_file=file.name)
    except Exception as error:  # transformers raises whatever its parsers raise
        reason = str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__
        raise ModelError(
            f"The tokenizer of {file} cannot be built: {reason}. Give another one (load(..., tokenizer=...)), or token "
            "ids as prompts."
        ) from error
    if not _probed(tokenizer, file, add_special_tokens=False):
        raise ModelError(
            f"The tokenizer of {file} turns text into no tokens. Give another one (load(..., tokenizer=...)), or token "
            "ids as prompts."
        )
    return tokenizer


def _probed(tokenizer: PreTrainedTokenizerBase, source: str | Path, **options: bool) -> list[int]:
    """Return the tokens of ``PROBE``.

    Raises:
        ModelError: the tokenizer refuses it.
    """
    try:
        return list(ask(tokenizer, PROBE, verbose=False, **options)["input_ids"])
    except PromptError as error:
        raise ModelError(
            f"The tokenizer of {source} cannot be used: {error.__cause__}. Download it again; prompts of token ids "
            "need no tokenizer."
        ) from error


def _own_file(source: str | Path, revision: str | None) -> Path | None:
    """Return the ``tokenizer.json`` of a checkpoint; None where it has none."""
    from transformers.utils import cached_file

    if Path(source).is_dir():
        file = Path(source) / "tokenizer.json"
        return file if file.is_file() else None
    try:
        cached = cached_file(source, "tokenizer.json", revision=revision)
        return None if cached is None else Path(cached)
    except OSError:  # its tokenizer, if it has one, is in other files
        return None


def tokenizer_hash(tokenizer: PreTrainedTokenizerBase) -> str:
    """SHA-256 (hexadecimal) of what decides token ids: vocabulary, splitting, special tokens.

    Settings of padding and cutting are left out: they are never used here, and calling a tokenizer changes
    them. A tokenizer without a serialised backend is known by its class and vocabulary.
    """
    if tokenizer.is_fast:
        state = json.loads(tokenizer.backend_tokenizer.to_str())
        # Calling a tokenizer with padding changes these, and no token id: the hash must stay.
        state.pop("padding", None)
        state.pop("truncation", None)
    else:
        state = {"class": type(tokenizer).__name__, "vocabulary": tokenizer.get_vocab()}
    special = {key: str(value) for key, value in tokenizer.special_tokens_map.items()}
    text = json.dumps([state, special], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def unknown_token(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """Return the token for unknown words; None without one, and where it also begins or ends texts, as in GPT-2."""
    names = ("unk", "bos", "eos", "cls", "sep", "pad")
    # a tokenizer that is none of transformers may lack them
    unknown, *ends = (getattr(tokenizer, f"{name}_token_id", None) for name in names)
    if unknown is None:
        unknown = _unknown_of_backend(tokenizer)
    return None if unknown in ends else unknown


@lru_cache(maxsize=2)
def _unknown_of_backend(tokenizer: PreTrainedTokenizerBase) -> int | None:
    """Return the token that the model of a serialised tokenizer writes for unknown words, whatever transformers knows.

    A ``tokenizer.json`` may name it where no configuration of the tokenizer does.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return None
    # words, pieces and pairs have its text, and Unigram its number, which only the serialised form tells
    text = getattr(backend.model, "unk_token", None)
    number: int | None = None
    if text is not None:
        number = backend.token_to_id(text)
    elif type(backend.model).__name__ == "Unigram":
        number = json.loads(backend.to_str())["model"].get("unk_id")
    return number


def special_places(ids: Sequence[int], tokenizer: PreTrainedTokenizerBase | None) -> tuple[int, ...]:
    """Return the places of tokens that mark where texts and turns begin and end, and are no text themselves.

    The token for unknown words stands for text, unless it also begins or ends texts, as in GPT-2.
    """
    if tokenizer is None:
        return ()
    # Tokens of turns (<|im_start|>) may be listed among the added tokens alone.
    added = {token_id for token_id, token in tokenizer.added_tokens_decoder.items() if token.special}
    marks = (added | set(tokenizer.all_special_ids)) - {unknown_token(tokenizer)}
    return tuple(place for place, token_id in enumerate(ids) if token_id in marks)


_CONTEXT: Final = 64
"""Tokens decoded along with one, so that the time grows with a text's length and not with its square."""


def pieces(ids: Sequence[int], tokenizer: PreTrainedTokenizerBase | None) -> list[str]:
    """Each token as what it adds to the text before it; its number where there is no tokenizer.

    Decoded alone, many tokens would lose their leading space.
    """
    if tokenizer is None:
        return [str(token) for token in ids]
    texts = []
    for first in range(0, len(ids), _CONTEXT):
        start = max(0, first - _CONTEXT)
        before = str(ask(tokenizer.decode, list(ids[start:first]))) if first else ""
        for end in range(first + 1, min(first + _CONTEXT, len(ids)) + 1):
            text = str(ask(tokenizer.decode, list(ids[start:end])))
            # A token that ends half a character changes what was decoded before it; it is then decoded alone.
            alone = not text.startswith(before)
            texts.append(str(ask(tokenizer.decode, [ids[end - 1]])) if alone else text[len(before) :])
            before = text
    return texts
