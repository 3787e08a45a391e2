"""How much longer the steps of a ``tokenizer.json`` can make a text: each multiplies, and thirty fill the memory.

The library runs these steps as the file lists them. They are added up before it opens the file, since it normalises
tokens that were added to a vocabulary while it does so.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from bathyscope.core.foreign import read_regular
from bathyscope.core.strict import DAMAGED, read_json
from bathyscope.core.text import elided
from bathyscope.errors import ModelError

_MOST_TIMES: Final = 1_000
"""Letters or tokens for each letter of a text, at most; those of published tokenizers are below two hundred."""
_LISTS: Final = ("normalizers", "pretokenizers", "decoders", "processors")
"""Where a sequence of steps lists them."""
_PARTS: Final = (("normalizer", "pre_tokenizer"), ("decoder",), ("post_processor",))
"""What is run one after the other: before a text is cut into tokens, back to a text, and around the tokens."""


def require_little_growth(file: Path, name: str) -> None:
    """Refuse a tokenizer whose steps make a text a thousand times as long.

    Args:
        file: its ``tokenizer.json``.
        name: of the model, for the message.

    Raises:
        ModelError: names the part; also where the file cannot be read.
    """
    try:
        content = read_json(read_regular(file, file.parent))
        if not isinstance(content, Mapping):
            raise TypeError("it is no JSON object")
        growths = {parts: math.prod(map(_growth, map(content.get, parts))) for parts in _PARTS}
    except DAMAGED as error:
        reason = getattr(error, "strerror", None) or error
        raise ModelError(
            f"The tokenizer of {name} cannot be loaded: {file.name} is damaged ({elided(reason, 120)}). Download it "
            "again; prompts of token ids need no tokenizer."
        ) from error
    for parts, growth in growths.items():
        if growth > _MOST_TIMES:
            raise ModelError(
                f"The tokenizer of {name} is refused: the {' and '.join(parts)} of its {file.name} can make a text "
                f"more than {_MOST_TIMES:,} times as long. Download it again, or give token ids as prompts."
            )


def _growth(part: Any) -> float:
    """Return how many letters or tokens the steps of a part can make of one."""
    return math.prod(_GROWTHS.get(str(step.get("type")), _none)(step) for step in _steps(part))


def _steps(part: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the steps of a part, however deep its sequences lie inside of each other."""
    waiting = [part]
    while waiting:
        step = waiting.pop()
        if isinstance(step, Mapping):
            yield step
            waiting += [inner for name in _LISTS for inner in step.get(name) or ()]


def _none(step: Mapping[str, Any]) -> float:
    return 1.0


def _replacing(step: Mapping[str, Any]) -> float:
    pattern, content = step["pattern"], len(step["content"])
    literal = len(pattern.get("String") or "")
    # an expression may match nothing, in front of each letter
    return max(1.0, content / literal) if literal else 1.0 + content


def _mapping(step: Mapping[str, Any]) -> float:
    """Return the longest text that a table of sentencepiece has: its texts, each ended by 0, lie behind its index."""
    table = base64.b64decode(step["precompiled_charsmap"] or "")
    texts = table[4 + int.from_bytes(table[:4], "little") :].split(b"\0")
    return max(1.0, *(float(len(text.decode("utf-8", "replace"))) for text in texts))


def _templating(step: Mapping[str, Any]) -> float:
    """Return how many tokens a template makes of one: it may name the text, and lists of tokens, again and again."""
    sizes = {name: len(token["ids"]) for name, token in step["special_tokens"].items()}
    tokens = 0
    for piece in step["single"]:
        tokens += sizes.get(piece["SpecialToken"]["id"], 1) if "SpecialToken" in piece else 1
    return float(tokens)


_GROWTHS: Final[Mapping[str, Callable[[Mapping[str, Any]], float]]] = {
    "Replace": _replacing,
    "Prepend": lambda step: 1.0 + len(step["prepend"]),
    "Precompiled": _mapping,
    # a letter of four bytes becomes four letters
    "ByteLevel": lambda step: 4.0,
    "Metaspace": lambda step: 2.0,
    "TemplateProcessing": _templating,
}
