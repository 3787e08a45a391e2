"""Tokenizers that make a text a thousand times as long, or refuse it in a way of their own, are one error of ours."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import stand_ins
from tokenizers import Tokenizer

import bathyscope
from bathyscope.cli import main
from bathyscope.errors import ModelError, PromptError
from bathyscope.prompts.tokenizer import ask, load_tokenizer
from bathyscope.prompts.tokenizer_growth import require_little_growth

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return stand_ins.checkpoint(tmp_path / "theirs")


def changed(checkpoint: Path, **parts: object) -> Path:
    """Another file in the checkpoint's folder, with other parts."""
    file = checkpoint / "tokenizer.json"
    content = json.loads(file.read_text())
    assert parts.keys() <= content.keys() | {"added_tokens"}
    file.write_text(json.dumps(content | parts))
    return checkpoint


def replacing(pattern: str, content: str, kind: str = "String") -> dict[str, Any]:
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}


def normalizers(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(steps)}


def table(*texts: str) -> dict[str, Any]:
    content = (4).to_bytes(4, "little") + bytes(4) + b"".join(text.encode() + b"\0" for text in texts)
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(content).decode()}


def template(ids: int, pieces: int) -> dict[str, Any]:
    special = {"id": "<unk>", "ids": [3] * ids, "tokens": ["<unk>"] * ids}
    single = [{"SpecialToken": {"id": "<unk>", "type_id": 0}}] * pieces + [{"Sequence": {"id": "A", "type_id": 0}}]
    pair = [{"Sequence": {"id": side, "type_id": 0}} for side in "AB"]
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": {"<unk>": special}}


DOUBLING = replacing("o", "oo")
GROWING: dict[str, dict[str, object]] = {
    "doubled ten times": {"normalizer": normalizers(*[DOUBLING] * 10)},
    "deep inside": {"normalizer": normalizers(normalizers(*[DOUBLING] * 5), normalizers(*[DOUBLING] * 5))},
    "by an expression": {"normalizer": replacing("[a-z]", "x" * 1000, "Regex")},
    "in front": {"normalizer": {"type": "Prepend", "prepend": "x" * 1000}},
    "by a table": {"normalizer": table("a", "b" * 1001)},
    "by both": {"normalizer": normalizers(*[DOUBLING] * 9), "pre_tokenizer": {"type": "ByteLevel"}},
    "by bytes of bytes": {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}] * 5}},
    "back to text": {"decoder": {"type": "Sequence", "decoders": [DOUBLING] * 10}},
    "by a template": {"post_processor": template(ids=40, pieces=40)},
}


@pytest.mark.parametrize("growing", GROWING)
def test_a_tokenizer_that_makes_a_text_long_is_refused(growing: str, checkpoint: Path) -> None:
    folder = changed(checkpoint, **GROWING[growing])
    part = " and ".join(name for name in ("normalizer", "pre_tokenizer") if name in GROWING[growing]) or growing
    with pytest.raises(ModelError, match=r"is refused: .* can make a text more than 1,000 times as long") as refusal:
        load_tokenizer(folder)
    assert part in str(refusal.value) or part == growing


def test_it_is_refused_before_the_library_opens_it(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library normalises the tokens that are added to a vocabulary while it opens the file."""
    added = {"id": 40, "content": "o" * 10, "single_word": False, "lstrip": False, "rstrip": False}
    folder = changed(
        checkpoint,
        normalizer=normalizers(*[DOUBLING] * 40),
        added_tokens=[added | {"normalized": True, "special": False}],
    )

    def opened(*_: object, **__: object) -> None:
        raise AssertionError("the library opens it")

    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", opened)
    with pytest.raises(ModelError, match="can make a text more than 1,000 times as long"):
        load_tokenizer(folder)


HONEST: dict[str, dict[str, object]] = {
    "nothing": {"normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None},
    "llama": {"normalizer": normalizers({"type": "Prepend", "prepend": "▁"}, replacing(" ", "▁"))},
    "sentencepiece": {
        "normalizer": normalizers(table("x", "ﷺ" * 18), replacing(" {2,}", "▁", "Regex")),
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
    },
    "a template": {"post_processor": template(ids=2, pieces=2)},
}


@pytest.mark.parametrize("honest", HONEST)
def test_what_published_tokenizers_do_is_taken(honest: str, checkpoint: Path) -> None:
    folder = changed(checkpoint, **HONEST[honest])
    require_little_growth(folder / "tokenizer.json", "theirs")
    if "table" not in honest and honest != "sentencepiece":
        own = Tokenizer.from_file(str(folder / "tokenizer.json"))
        loaded = load_tokenizer(folder)
        assert loaded is not None
        assert loaded("the old house")["input_ids"] == own.encode("the old house").ids


DAMAGED = [
    "[]",
    "{",
    '{"normalizer": {"type": "Replace"}}',
    '{"normalizer": {"type": "Precompiled"}}',
    '{"decoder": 3}',
]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_tokenizer_is_refused(content: str, checkpoint: Path) -> None:
    (checkpoint / "tokenizer.json").write_text(content)
    with pytest.raises(ModelError, match=r"The tokenizer of .* cannot be loaded"):
        load_tokenizer(checkpoint)


# The library's engine of expressions gives up on these, by an exception that "except Exception" does not catch.
TIRING = {
    "type": "Split",
    "pattern": {"Regex": "^(([a-z ])+.)+[A-Z]([a-z])+$"},
    "behavior": "Isolated",
    "invert": False,
}


def test_an_expression_that_the_library_gives_up_on_is_one_error(
    checkpoint: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = changed(checkpoint, pre_tokenizer=TIRING)
    (tmp_path / "p.jsonl").write_text('{"text": "the old house stood at the edge of the village"}\n')
    code = main(["survey", str(folder), "--prompts", str(tmp_path / "p.jsonl")])
    printed = capfd.readouterr().err
    assert code == PromptError.exit_code
    assert "Prompt '0': its tokenizer refuses the text (" in " ".join(printed.split())
    assert "Traceback" not in printed


def test_a_tokenizer_that_takes_no_text_is_refused_when_it_is_loaded(checkpoint: Path) -> None:
    content = json.loads((checkpoint / "tokenizer.json").read_text())
    content["model"]["unk_token"] = "none"
    (checkpoint / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ModelError, match=r"The tokenizer of .* cannot be used: WordLevel error: Missing"):
        load_tokenizer(checkpoint)


class PanicException(BaseException):
    """As the library's own, whose class cannot be imported, is called."""


@pytest.mark.parametrize("error", [PanicException("it gave up"), Exception("it gave up"), ValueError("it gave up")])
def test_whatever_a_tokenizer_raises_is_an_error_of_the_prompt(error: BaseException) -> None:
    def refuse(text: str) -> None:
        raise error

    with pytest.raises(PromptError, match=r"its tokenizer refuses the text \(it gave up\); give another text"):
        ask(refuse, "a")


def test_whoever_interrupts_a_tokenizer_is_heard() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(interrupt)


def test_a_corpus_and_words_are_refused_by_the_same_error(checkpoint: Path, tmp_path: Path) -> None:
    """A vocabulary without a token for unknown words."""
    content = json.loads((checkpoint / "tokenizer.json").read_text())
    content["model"]["unk_token"] = "none"
    content["model"]["vocab"] |= {word: number for number, word in enumerate("abc", 50)}
    (checkpoint / "tokenizer.json").write_text(json.dumps(content))
    tokenizer = Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    with pytest.raises(Exception, match="Missing"):
        tokenizer.encode("zzz")
    from transformers import PreTrainedTokenizerFast

    model = bathyscope.load(checkpoint, tokenizer=PreTrainedTokenizerFast(tokenizer_object=tokenizer))
    (tmp_path / "corpus.txt").write_text("zzz " * 400)
    with pytest.raises(PromptError, match="its tokenizer refuses the text"):
        bathyscope.survey(model, f"{tmp_path / 'corpus.txt'}:2?window=16", ["lens"], progress=False)
    with pytest.raises(PromptError, match="its tokenizer refuses the text"):
        bathyscope.probe("subjoiner", model, ["zzz"] * 40, window=8, progress=False)
