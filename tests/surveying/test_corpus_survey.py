"""A survey of a corpus: windows that do not suit the model, and a text that changes while its survey is interrupted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from support import zoo
from support.interrupting import interrupted_after
from support.word_tokenizer import word_tokenizer

import bathyscope
from bathyscope import PromptError, StoreError
from bathyscope.wavefront.engine import Wavefront

WORDS = [f"w{number}" for number in range(100)]

Survey = Callable[..., bathyscope.Run]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    file = tmp_path / "words.txt"
    file.write_text(" ".join(WORDS * 4))
    return file


@pytest.fixture
def surveyed(corpus: Path) -> Survey:
    """A survey of the corpus, cut as the options say, two windows of 16 tokens to a shard."""
    model = bathyscope.load(zoo.build("llama"), tokenizer=word_tokenizer(WORDS))

    def survey(options: str, **given: Any) -> bathyscope.Run:
        return bathyscope.survey(model, f"{corpus}?{options}", ["lens"], batch_tokens=32, progress=False, **given)

    return survey


def test_a_tokenizer_without_bos_puts_nothing_before_the_windows(surveyed: Survey) -> None:
    lens = surveyed("window=16&tokens=96")["lens"]
    assert lens.n_tokens.values.tolist() == [16] * 6


def test_windows_longer_than_the_models_context(surveyed: Survey, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Wavefront, "run_convoy", lambda *_, **__: pytest.fail("a block ran"))
        with pytest.raises(PromptError, match="it has 300 tokens, more than the 256 the model can take"):
            surveyed("window=300")
    with pytest.warns(UserWarning, match="1 of 1 prompts are longer than the 256 tokens of context"):
        run = surveyed("window=300", beyond_context=True)
    assert run["lens"].n_tokens.values.tolist() == [300]


def test_a_corpus_that_has_changed_is_not_gone_on_with(
    surveyed: Survey, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, out, cut = corpus.read_text(), tmp_path / "run", "window=16&tokens=128"
    whole = surveyed(cut)
    with interrupted_after(2):
        surveyed(cut, out=out)
    kept = {path.name: path.read_bytes() for path in out.glob("shard-*.nc")}
    assert sorted(kept) == ["shard-00000.nc", "shard-00001.nc"]

    # another word in a window that was not yet measured
    corpus.write_text(" ".join([*WORDS, "w7", *WORDS[1:], *WORDS * 2]))
    with monkeypatch.context() as patch:
        patch.setattr(Wavefront, "run_convoy", lambda *_, **__: pytest.fail("a block ran"))
        with pytest.raises(
            StoreError, match=r"belongs to another configuration:\n  prompt_hash: run has .*, asked for"
        ):
            surveyed(cut, out=out)
    assert {path.name: path.read_bytes() for path in out.glob("shard-*.nc")} == kept

    corpus.write_text(text + " w1")  # what no window holds makes no difference
    xr.testing.assert_identical(surveyed(cut, out=out)["lens"], whole["lens"])
