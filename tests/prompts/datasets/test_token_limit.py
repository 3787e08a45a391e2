from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from bathyscope.errors import ModelError, PromptError
from bathyscope.prompts.datasets import dataset
from bathyscope.prompts.datasets.dataset import TokenLimit

LIMIT = TokenLimit(3, "somebody/model")


class Words:
    """A tokenizer of one token a word, times ``each``."""

    def __init__(self, each: int = 1) -> None:
        self.each = each

    def __call__(self, text: str, *, verbose: bool) -> dict[str, list[int]]:
        return {"input_ids": [0] * self.each * len(text.split())}


@pytest.fixture
def papers(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], list[str]]:
    """Lets the papers' tokenizer be this one, or none; gives the names that are asked for."""

    def install(tokenizer: Any) -> list[str]:
        asked: list[str] = []

        def load(name: str) -> Any:
            asked.append(name)
            if tokenizer is None:
                raise ModelError("no network")
            return tokenizer

        monkeypatch.setattr(dataset, "load_tokenizer", load)
        return asked

    return install


def test_the_papers_tokenizer_counts_where_it_can_be_had(papers: Callable[[Any], list[str]]) -> None:
    asked = papers(Words())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fits = LIMIT.fits("set", None, Words(each=9))  # type: ignore[arg-type]
    assert [fits("a b c"), fits("a b c d")] == [True, False]
    assert asked == ["somebody/model"]


def test_the_models_own_counts_where_it_cannot(papers: Callable[[Any], list[str]]) -> None:
    papers(None)
    message = (
        r"set: prompts of at most 3 tokens are taken, and the papers counted with somebody/model, which cannot be "
        r"loaded here\. Counted with the model's own tokenizer instead, .*max_tokens=3 asks for that without"
    )
    with pytest.warns(UserWarning, match=message):
        fits = LIMIT.fits("set", None, Words(each=2))  # type: ignore[arg-type]
    assert [fits("a"), fits("a b")] == [True, False]
    with pytest.raises(
        PromptError, match="set: its prompts are limited in tokens, and there is neither somebody/model"
    ):
        LIMIT.fits("set", None, None)


def test_another_limit_is_counted_in_the_models_own_tokens(papers: Callable[[Any], list[str]]) -> None:
    asked = papers(Words())
    fits = LIMIT.fits("set", 4, Words(each=2))  # type: ignore[arg-type]
    assert [fits("a b"), fits("a b c")] == [True, False]
    assert asked == []
    with pytest.raises(PromptError, match="give a model with a tokenizer"):
        LIMIT.fits("set", 4, None)
