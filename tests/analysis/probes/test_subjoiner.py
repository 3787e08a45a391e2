"""Sub-joiner heads: one built for it is found on held-out words, one that merely looks back is not."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support import zoo
from support.built_heads import build_marked, build_previous, even_gpt2
from support.piece_tokenizer import CONTEXT, VOCABULARY, WHOLES, marked, piece_tokenizer, split_words

from bathyscope.analysis.probes.subjoiner import subjoiner
from bathyscope.analysis.probes.words import place_words, read_words
from bathyscope.errors import ModelError, OptionError, PromptError
from bathyscope.model import Model, load

WORDS = [*split_words(4), *split_words(3), *WHOLES]
QUICK: dict[str, Any] = {"context": CONTEXT, "resamples": 200, "progress": False}
WINDOW = 16


@cache
def built() -> Model:
    """Block 1, head 2 attends to beginnings and middles of words; block 0, head 3 to the token before."""
    model = even_gpt2(24)
    build_marked(model, 1, 2, marked())
    build_previous(model, 0, 3)
    return load(model, tokenizer=piece_tokenizer())


@cache
def random_llama(bos: bool = False) -> Model:
    return load(zoo.entry("llama").build(), tokenizer=piece_tokenizer(bos=bos))


@cache
def of_built(**changes: Any) -> xr.Dataset:
    return subjoiner(built(), WORDS, **{**QUICK, **changes})


def test_the_built_head_is_found_on_held_out_words() -> None:
    found = of_built()
    assert (found.top_block[0], found.top_head[0]) == (1, 2)
    # all of its attention is on the three earlier tokens of a word, and evenly on 16 tokens where there are none
    assert float(found.top_score[0]) == pytest.approx(1 - 3 / WINDOW, abs=0.02)
    assert float(found.top_split[0]) == pytest.approx(1, abs=0.02)
    assert float(found.top_whole[0]) == pytest.approx(3 / WINDOW, abs=0.02)
    assert found.ci_low[0] <= found.top_score[0] <= found.ci_high[0]
    assert found.ci_low[0] > 0.75


def test_heads_that_look_back_a_fixed_way_score_nothing() -> None:
    found = of_built()
    assert found.attention[:, 0, 3].values == pytest.approx(np.ones(found.sizes["word"]), abs=1e-3)
    others = found.score.values.copy()
    others[1, 2] = 0
    assert np.abs(others).max() < 1e-3


@pytest.mark.parametrize("pieces", [3, 4])
def test_scores_follow_from_the_words_of_one_half(pieces: int) -> None:
    found = subjoiner(random_llama(), WORDS, pieces=pieces, **QUICK)
    split, held_out = found["split"].values, found["held_out"].values
    for name, half in (("score", held_out), ("ranking_score", ~held_out)):
        difference = found.attention[half & split].mean("word") - found.attention[half & ~split].mean("word")
        np.testing.assert_allclose(found[name], difference)
    order = np.argsort(-found.ranking_score.values.ravel())[:10]
    assert (4 * found.top_block.values + found.top_head.values).tolist() == order.tolist()
    np.testing.assert_allclose(found.top_score, found.score.values.ravel()[order])
    np.testing.assert_allclose(found.top_split - found.top_whole, found.top_score)
    assert (found.ci_low < found.top_score).all()
    assert (found.ci_high > found.top_score).all()
    assert set(found["text"].values[split]) <= set(split_words(pieces))
    assert set(found["text"].values[~split]) <= set(WHOLES)
    for kind in (split, ~split):
        assert abs(int((kind & held_out).sum()) - int((kind & ~held_out).sum())) <= 1
    assert len(set(found["text"].values)) == found.sizes["word"]


@pytest.mark.parametrize("bos", [False, True])
def test_attention_is_that_of_the_model_on_the_last_tokens(bos: bool) -> None:
    found = subjoiner(random_llama(bos), WORDS, **QUICK)
    model = zoo.build("llama", attn="eager")
    ids = piece_tokenizer()
    for number in (0, 5, -1):
        text = found["text"].values[number]
        tokens = ids(f"{CONTEXT} {text}")["input_ids"][-WINDOW:]
        tokens = [VOCABULARY["<s>"]] * bos + tokens
        with torch.no_grad():
            weights = model(torch.tensor([tokens]), output_attentions=True).attentions
        expected = [w[0, :, -1, -4:-1].sum(-1).numpy() for w in weights]
        np.testing.assert_allclose(found.attention[number], expected, atol=2e-6)


def test_the_seed_decides() -> None:
    one, again = (subjoiner(random_llama(), WORDS, count=10, **QUICK) for _ in range(2))
    other = subjoiner(random_llama(), WORDS, count=10, seed=1, **QUICK)
    xr.testing.assert_identical(one.data, again.data)
    assert one.sizes["word"] == 20
    assert set(one["text"].values) != set(other["text"].values)


def test_blocks_without_attention_have_no_scores() -> None:
    model = load(zoo.entry("jamba").build(), tokenizer=piece_tokenizer())
    found = subjoiner(model, WORDS, top=40, **QUICK)
    assert np.isnan(found.score).all("head").values.tolist() == [True, False, True, False, True]
    assert found.sizes["rank"] == 8
    assert "held-out words. The order, of all 8 heads that there are (top=40), is that of the other half" in found.text
    assert set(found.top_block.values) == {1, 3}


def test_words_are_read_from_a_list_or_a_text(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("The cat's well-known cat — and 3 cats_no, the\nÜbermut.", encoding="utf-8")
    expected = ["The", "cat's", "well-known", "cat", "and", "cats", "no", "the", "Übermut"]
    assert read_words(text, None) == read_words(str(text), None) == expected
    assert read_words(text, 9) == ["The", "cat's"]
    assert read_words(["b-2", "a", "b-2"], None) == ["b-2", "a"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "list of words is empty"),
        (["a b"], "'a b' is no word; give texts without white space"),
        ([""], "'' is no word"),
        ("missing.txt", "missing.txt does not exist"),
    ],
)
def test_what_is_no_word_is_refused(words: Any, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        subjoiner(built(), words, **QUICK)


def test_a_text_without_words_is_refused(tmp_path: Path) -> None:
    (tmp_path / "numbers.txt").write_text("1 2 3", encoding="utf-8")
    with pytest.raises(PromptError, match=r"numbers\.txt holds no words; give a text, or a file with a word on every"):
        subjoiner(built(), tmp_path / "numbers.txt", **QUICK)


@pytest.mark.parametrize(
    ("words", "pieces", "message"),
    [
        (
            WORDS,
            7,
            r"0 of the 132 words are split into 7 tokens, and at least 8 are needed\. Words by their number of ",
        ),
        (WORDS, 7, r"number of tokens: 24 of 1, 27 of 3, 81 of 4\. Give more words, or another number of pieces"),
        (split_words(4), 4, r"0 of the 81 words are split into 1 token, and at least 8"),
        ([*split_words(4)[:7], *WHOLES], 4, r"7 of the 31 words are split into 4 tokens"),
    ],
)
def test_too_few_words_are_refused_with_what_there_is(words: list[str], pieces: int, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        subjoiner(built(), words, pieces=pieces, **QUICK)


class Gluing:
    """Takes the word into the context's last token where it begins with k."""

    def __call__(self, text: str | list[str], **_: Any) -> dict[str, Any]:
        if isinstance(text, list):
            return {"input_ids": [self(one)["input_ids"] for one in text]}
        ids = [len(word) for word in text.split()]
        return {"input_ids": [*ids[:-2], 99] if text.split()[-1].startswith("k") else ids}


def test_words_that_run_into_the_context_are_left_out() -> None:
    options: dict[str, Any] = {"context": "a b c", "window": 3, "count": 9, "seed": 0}
    tokenizer: Any = Gluing()
    placed = place_words(["kit", "sit", "hit"], tokenizer, (1,), least=2, **options)
    assert placed == {1: {"hit": (1, 1, 3), "sit": (1, 1, 3)}}
    with pytest.raises(PromptError, match="tokens: 2 of 1, 1 whose tokens run into the context's"):
        place_words(["kit", "sit", "hit"], tokenizer, (1,), least=3, **options)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pieces": 1}, r"pieces=1 is out of range; allowed: 2 or more"),
        ({"count": 7}, r"count=7 is out of range; allowed: 8 or more"),
        ({"top": 0}, r"top=0 is out of range; allowed: 1 or more"),
        ({"window": 4}, r"window=4 is not allowed; give a whole number, more than the 4 pieces"),
        ({"seed": -1}, r"seed=-1 is out of range; allowed: 0 to 4294967295"),
        ({"characters": -5}, r"characters=-5 is out of range; allowed: 1 or more"),
        ({"level": 2.0}, r"level=2\.0 is out of range; allowed: 0\.01 to 0\.9999"),
        ({"context": "one by"}, r"context='one by' has 2 tokens, too few for a window of 16; give a longer one\.$"),
        ({"context": f"{CONTEXT} {CONTEXT}", "window": 30}, r"window=30 gives prompts of 30 tokens, and .* takes 24"),
    ],
)
def test_options_out_of_range_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        subjoiner(built(), WORDS, **{**QUICK, **changes})


def test_a_model_without_tokenizer_or_attention_is_refused() -> None:
    with pytest.raises(ModelError, match="Words are text, and this model has no tokenizer"):
        subjoiner(zoo.build("llama"), WORDS, **QUICK)
    with pytest.raises(ModelError, match=r"No block of this mamba .* shows attention weights"):
        subjoiner(load(zoo.entry("mamba").build(), tokenizer=piece_tokenizer()), WORDS, **QUICK)


@pytest.mark.shared
def test_a_trained_model_has_such_heads_in_its_first_blocks(shared: Callable[[str], Path]) -> None:
    model = str(shared("checkpoints/stories260K"))
    found = subjoiner(model, shared("data/text/tinystories_slice.txt"), resamples=200, progress=False)
    assert found.top_block[0] == 0
    assert found.ci_low[0] > 0.5
