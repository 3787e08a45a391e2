"""What measures are told about a model: the text of single tokens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support import waves
from transformers import AutoTokenizer

from bathyscope.measures.base import ModelFacts
from bathyscope.model import bundled

TEXT = "The spouse of Imagine's singer is 28"


def known(folder: Path) -> tuple[ModelFacts, list[int]]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = waves.loaded("llama")
    return ModelFacts(model.anatomy, model.checks, tokenizer), tokenizer(TEXT)["input_ids"]


def test_pieces_make_up_the_text() -> None:
    facts, ids = known(bundled.model_path())
    pieces = facts.pieces(ids)
    assert len(pieces) == len(ids)
    assert "".join(pieces[1:]) == TEXT
    assert pieces[0] == facts.pieces(ids[:1])[0] != ""


def test_a_space_that_a_tokenizer_drops_from_single_tokens_is_kept(shared: Callable[[str], Path]) -> None:
    facts, ids = known(shared("checkpoints/stories260K"))
    pieces = facts.pieces(ids)
    assert "".join(pieces[1:]).strip() == TEXT
    assert " The" in pieces
    assert "" not in pieces


def test_without_a_tokenizer_a_piece_is_its_number() -> None:
    model = waves.loaded("llama")
    assert ModelFacts(model.anatomy, model.checks).pieces([7, 30]) == ["7", "30"]


@pytest.mark.parametrize("ids", [[], [5]])
def test_one_piece_a_token(ids: list[int]) -> None:
    facts, _ = known(bundled.model_path())
    assert len(facts.pieces(ids)) == len(ids)
