"""Prompts in parts by a label, and the labels that make clusters."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from bathyscope.errors import OptionError
from bathyscope.prompts.parts import (
    SCALES,
    clusters,
    clusters_in,
    label_values,
    levels_in_order,
    members_by_value,
    parts,
    rank,
)
from bathyscope.prompts.prompt import TokenizedPrompt


def prompts(*books: Any, dataset: str = "a.txt") -> list[TokenizedPrompt]:
    return [
        TokenizedPrompt(f"p{n}", (1, 2), None, {} if book is None else {"book": book}, dataset)
        for n, book in enumerate(books)
    ]


def test_parts_stand_in_order_of_appearance_and_gaps_belong_to_none() -> None:
    names, member = parts(["b", "a", "", "b", None, math.nan, 2])
    assert names == ["b", "a", 2]
    np.testing.assert_array_equal(member, [0, 1, -1, 0, -1, -1, 2])


def test_numbers_beside_texts_are_texts_as_in_results() -> None:
    assert label_values(prompts(1, "1", 2.5, None), "book") == ["1", "1", "2.5", None]
    assert label_values(prompts(1, 2.5), "book") == [1, 2.5]


def test_the_data_set_is_as_good_as_a_label() -> None:
    given = [one for name in ("a.txt", "b.txt", "c.txt") for one in prompts("x", None, dataset=name)]
    assert clusters(given, "dataset") == ["a.txt"] * 2 + ["b.txt"] * 2 + ["c.txt"] * 2
    assert label_values(given, "book") == ["x", None] * 3


def test_one_text_on_a_page_is_one_cluster() -> None:
    for books in ([1, "1", 2, "2", 3], [1, 1.0, 2, 2.0, 3], [1, 1, 2, 2, 3], ["1", "1", "2", "2", "3"]):
        assert clusters(prompts(*books), "book") == ["1", "1", "2", "2", "3"]
    assert clusters(prompts(True, True, False, 0.5, 0.5), "book") == ["True", "True", "False", "0.5", "0.5"]


@pytest.mark.parametrize(
    ("books", "label", "said"),
    [
        ("aabbc", "bok", "no label 'bok'. Did you mean 'book'? Their labels: dataset, book."),
        (["a", None, "b", "c", "a"], "book", "1 of 5 prompts have no label 'book', the first of them 'p1'"),
        ("aabb", "book", "the 4 prompts lie in 2 clusters (a, b), and 3 at least are needed"),
        ("aaaa", "book", "the 4 prompts lie in 1 cluster (a), and 3 at least are needed"),
        ("abcd", "book", "every prompt has a book of its own, so that there is nothing to draw together. Leave it out"),
    ],
)
def test_labels_that_make_no_clusters(books: Any, label: str, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        clusters(prompts(*books), label)
    assert said in str(caught.value)


def test_results_hold_the_label_by_which_their_prompts_lie_in_clusters() -> None:
    books = xr.Dataset({"kl": ("prompt", [1.0, 2.0, 3.0])}, {"book": ("prompt", ["b", "a", "b"])})
    np.testing.assert_array_equal(clusters_in(books, "book"), [0, 1, 0])
    np.testing.assert_array_equal(clusters_in(books["kl"], "book"), [0, 1, 0])
    assert clusters_in(books, None) is None
    # a result of that name stands in its place, and another beside it
    level = xr.Dataset(coords={"level": ("level", [1, 2]), "prompt_level": ("prompt", [2, 1, 2])})
    np.testing.assert_array_equal(clusters_in(level, "level"), [0, 1, 0])
    with pytest.raises(OptionError, match=r"cluster='page' \(--cluster\): results of prompt do not hold that label"):
        clusters_in(books, "page")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-2000, 2000), min_size=2, max_size=6, unique=True),
    st.sampled_from(["{}", "{:,}", "{}/7", "{}.0"]),
)
def test_numbers_in_texts_stand_in_their_order(numbers: list[int], written: str) -> None:
    texts = [written.format(number) for number in numbers]
    assert levels_in_order(texts)[0] == [written.format(number) for number in sorted(numbers)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([1, 1.0, "1", 2, 2.0, "2", 2.5, "2.5"]), min_size=1, max_size=8))
def test_equal_numbers_are_one_group_however_they_are_written(values: list[Any]) -> None:
    prompts = [TokenizedPrompt(str(n), (1, 2), None, {"level": value}) for n, value in enumerate(values)]
    members = members_by_value(prompts, "level")
    assert len(members) == len({float(value) for value in values})
    assert sum(member.sum() for member in members.values()) == len(values)


@pytest.mark.parametrize("scale", SCALES, ids=lambda scale: scale[0])
def test_words_of_one_scale_stand_in_its_order_whatever_others_say(scale: tuple[str, ...]) -> None:
    # a word of two scales, such as intermediate, has one place that suits both
    assert sorted(sorted(scale), key=rank) == list(scale)
    assert sorted(random.Random(0).sample(scale, len(scale)), key=rank) == list(scale)
