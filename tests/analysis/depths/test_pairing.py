"""Which prompts of two runs are the same, and when it is better not to believe names."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.compared import a_run

from bathyscope.analysis.depths.pairing import Match, PromptTokens, match
from bathyscope.analysis.depths.side import sides_of
from bathyscope.errors import OptionError
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import PromptRecord, Prompts, prompts_hash

TOKENS = [50, 60, 70, 40]
SOURCES = ["mine.jsonl", "given"]


def matched(first: dict[str, Any], second: dict[str, Any], paired: bool | None = None) -> Match:
    plain = {"prompts": 4, "n_tokens": TOKENS, "model": "own/one"}
    return match(*sides_of([a_run(**{**plain, **first}), a_run(**{**plain, "model": "own/two", **second})]), paired)


def test_equal_token_ids_are_paired_whatever_the_names() -> None:
    found = matched({"dataset": "a.jsonl"}, {"dataset": "b.jsonl", "tokenizer_hash": "u" * 64})
    assert found.first.size
    assert found.first.tolist() == found.second.tolist() == [0, 1, 2, 3]
    assert found.note == ""


def test_other_tokenizers_are_paired_by_id_with_a_warning() -> None:
    found = matched(
        {"ids": ["a", "b", "c", "d"]},
        {"ids": ["d", "b", "a", "e"], "tokenizer_hash": "u" * 64, "prompt_hash": "2"},
    )
    assert found.first.tolist() == [0, 1, 3]
    assert found.second.tolist() == [2, 1, 0]
    assert "one and two have different tokenizers and are paired by prompt id" in found.note
    assert "cannot be checked, say paired=False (--unpaired) where they are not" in found.note
    assert "share 3 prompts; 1 and 1 of their own are left out" in found.note


def test_ten_and_four_prompts_of_the_same_data_share_four() -> None:
    found = matched(
        {"dataset": "gsm8k:4"}, {"dataset": "gsm8k:6", "prompts": 6, "n_tokens": [*TOKENS, 9, 8], "seed": 1}
    )
    assert found.first.tolist() == found.second.tolist() == [0, 1, 2, 3]
    both = "one on gsm8k:4 and two on gsm8k:6"
    # an earlier version's run stores no tokens, so that names are all there is
    unchecked = "do not both store their tokens and are paired by prompt id; that their texts are the same cannot be ch"
    assert found.note.startswith(f"{both} {unchecked}")
    assert found.note.endswith(f"{both} share 4 prompts; 0 and 2 of their own are left out")
    tokens = {str(number): ((number, 7), None) for number in range(6)}
    fewer, more = dict(list(tokens.items())[:4]), tokens
    found = match(*sides_of([with_tokens(fewer, "own/one"), with_tokens(more, "own/two")]), None)
    assert found.first.tolist() == found.second.tolist() == [0, 1, 2, 3]
    assert found.note == "one and two share 4 prompts; 0 and 2 of their own are left out"


def test_other_data_are_two_samples_without_a_word() -> None:
    found = matched({"dataset": "gsm8k:4"}, {"dataset": "hellaswag:4", "prompt_hash": "2"})
    assert not found.first.size
    assert found.note == ""
    assert not matched({}, {}, paired=False).first.size


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ({}, {"prompt_hash": "2"}, "but the prompts differ (another seed, split, file, label or chat template?)"),
        (
            {},
            {"prompt_hash": "2", "prompts": 5, "n_tokens": [50, 61, 70, 40, 30]},
            "but prompt '1' has 60 and 61 tokens under the same tokenizer",
        ),
        (
            {"dataset": "given"},
            {"dataset": "given", "prompt_hash": "2", "prompts": 5, "n_tokens": [*TOKENS, 1]},
            "different lists of prompts, whose ids mean nothing outside of them",
        ),
        (
            {"dataset": "books.txt:4"},
            {"dataset": "books.txt:4", "prompt_hash": "2", "tokenizer_hash": "u" * 64},
            "windows of tokens, which hold different text under different tokenizers",
        ),
        (
            {"dataset": "sums:4"},
            {"dataset": "sums:4", "prompt_hash": "2", "tokenizer_hash": "u" * 64, "seed": 7},
            "with the seeds 0 and 7, so the problems differ",
        ),
    ],
)
def test_names_that_agree_are_not_believed_against_the_evidence(
    first: dict[str, Any], second: dict[str, Any], why: str
) -> None:
    # the made-up run's own seed is that of its curves; the identity's is set apart
    sides = sides_of([with_seed(first, "own/one"), with_seed(second, "own/two")])
    found = match(*sides, None)
    assert not found.first.size
    assert re.search(re.escape(why), found.note)
    insisted = match(*sides, True)
    assert insisted.first.size
    assert "paired by prompt id because paired=True (--paired) says so" in insisted.note


def with_seed(changes: dict[str, Any], model: str):
    changes = dict(changes)
    seed = changes.pop("seed", 0)
    run = a_run(**{"prompts": 4, "n_tokens": TOKENS, "model": model, **changes})
    run.manifest["identity"]["seed"] = seed
    return run


def test_pieces_of_characters_are_the_same_text_under_any_tokenizer() -> None:
    same = {"dataset": "books.txt:4?chars=1000"}
    assert matched(same, {**same, "prompt_hash": "2", "tokenizer_hash": "u" * 64}).first.size


def test_insisting_on_pairs_where_there_are_none_is_refused() -> None:
    with pytest.raises(OptionError, match=r"paired=True \(--paired\), but one and two have no prompt id in common"):
        matched({}, {"ids": list("wxyz"), "prompt_hash": "2"}, paired=True)


def with_texts(texts: list[str], tokenizer: str, model: str, specials: tuple[int, ...] | None = None) -> Any:
    """A run that keeps its prompts' texts, a token for each letter pair, as another tokenizer cuts them.

    Args:
        specials: places of special tokens in every prompt; None = an earlier version's run, which does not tell.
    """
    size = len(tokenizer)
    items = tuple(TokenizedPrompt(str(n), tuple(range(len(text))), None, {}, "gsm8k:2") for n, text in enumerate(texts))
    pieces = tuple(tuple(text[i : i + size] for i in range(0, len(text), size)) for text in texts)
    run = a_run(
        prompts=2, n_tokens=[9, 9], dataset="gsm8k:2", model=model, tokenizer_hash=tokenizer, prompt_hash=tokenizer
    )
    places = None if specials is None else (specials,) * len(texts)
    prompts = Prompts(items, "gsm8k:2", record=PromptRecord(tokenizer, tokenizer, pieces, places))
    run.__dict__["prompts"] = prompts
    return run


def test_texts_of_two_tokenizers_are_compared() -> None:
    same = ["<s>a b c d", "<s>e f g h"], ["a b  c d", "e f g h"]
    found = match(*sides_of([with_texts(same[0], "tt", "own/one"), with_texts(same[1], "uuu", "own/two")]), None)
    assert found.first.tolist() == [0, 1]
    assert found.note == ""
    other = with_texts(["a b c d", "e f g x"], "uuu", "own/two")
    found = match(*sides_of([with_texts(same[0], "tt", "own/one"), other]), None)
    assert not found.first.size
    assert found.note.startswith("one and two name the same data, but the text of prompt '1' differs; they are comp")


def test_two_readings_of_one_source_are_named() -> None:
    """A chat template around one of two equal sources is why their prompts differ, so it is said."""
    plain, chat = with_texts(["a b", "e f"], "tt", "own/one"), with_texts(["<a b>", "<e f>"], "uuu", "own/two")
    reading = {"add_special_tokens": False, "chat": {"thinking": True}}
    chat.__dict__["prompts"] = replace(chat.prompts, reading=reading)
    found = match(*sides_of([plain, chat]), None)
    assert not found.first.size
    ways = "(one as it stands, two --chat.thinking true --no-add-special-tokens)"
    assert f"the text of prompt '0' differs, since it was read in two ways {ways}; they are" in found.note
    plain.__dict__["prompts"] = replace(plain.prompts, reading=reading)
    assert "two ways" not in match(*sides_of([plain, chat]), None).note


def test_a_text_that_ends_like_another_is_another_text() -> None:
    whole = with_texts(["^^a b c d", "^^e f g h"], "tt", "own/one", specials=(0,))
    same = with_texts(["a b c d", "e f g h"], "uuu", "own/two", specials=())
    assert match(*sides_of([whole, same]), None).first.tolist() == [0, 1]
    ends_alike = with_texts(["c d", "g h"], "uuu", "own/two", specials=())
    unpaired = match(*sides_of([whole, ends_alike]), None)
    assert not unpaired.first.size
    assert "the text of prompt '0' differs" in unpaired.note


def with_tokens(
    tokens: dict[str, PromptTokens], model: str, tokenizer: str | None = "t", data: str = "mine.jsonl"
) -> Any:
    """A run that stores its prompts' tokens, as every survey does, and no text."""
    items = tuple(TokenizedPrompt(name, ids, answer, {}, data) for name, (ids, answer) in tokens.items())
    run = a_run(
        prompts=len(items),
        ids=list(tokens),
        n_tokens=[len(item) for item in items],
        dataset=data,
        model=model,
        tokenizer_hash=tokenizer,
        prompt_hash=prompts_hash(items),
    )
    run.__dict__["prompts"] = Prompts(items, data, record=PromptRecord(prompts_hash(items), tokenizer, None))
    return run


TOKEN_LISTS = st.tuples(
    st.lists(st.integers(0, 2), min_size=2, max_size=3).map(tuple), st.sampled_from([None, None, 1])
)
PROMPT_SETS = st.dictionaries(st.sampled_from("abcde"), TOKEN_LISTS, min_size=1, max_size=5)
TOKENIZERS = st.sampled_from([("t", "t"), (None, None), (None, "t"), ("t", None)])


@settings(deadline=None, max_examples=150)
@given(first=PROMPT_SETS, second=PROMPT_SETS, copies=st.booleans(), names=TOKENIZERS, data=st.sampled_from(SOURCES))
def test_prompts_are_paired_exactly_where_their_tokens_are_equal(
    first: dict[str, PromptTokens],
    second: dict[str, PromptTokens],
    copies: bool,
    names: tuple[str | None, str | None],
    data: str,
) -> None:
    """Whatever their numbers, lengths and order: tokens mean the same under one tokenizer, and as ids under every.

    Ids of listed prompts are places in a list, and their tokens alone say which are the same.
    """
    if copies:
        second |= {name: tokens for name, tokens in first.items() if name in second}
    sides = sides_of([with_tokens(first, "own/one", names[0], data), with_tokens(second, "own/two", names[1], data)])
    found = match(*sides, None)
    shared = [name for name in first if name in second]
    are_equal = bool(shared) and all(first[name] == second[name] for name in shared)
    both = [prompt for prompt in first.values() if prompt in second.values()]
    are_each_once = all(len(set(prompts.values())) == len(prompts) for prompts in (first, second))
    if data == SOURCES[1] and are_each_once and len(both) == min(len(first), len(second)):
        assert [list(first.values())[place] for place in found.first] == both
        assert [list(second.values())[place] for place in found.second] == both
        differ = [name for name, prompt in first.items() if prompt in both and second.get(name) != prompt]
        assert ("under other ids" in found.note) == bool(differ)
        return
    assert [list(first)[place] for place in found.first] == (shared if are_equal else [])
    assert [list(second)[place] for place in found.second] == (shared if are_equal else [])
    assert ("two samples" in found.note) == (bool(shared) and not are_equal)
    assert "cannot be checked" not in found.note


@settings(deadline=None, max_examples=100)
@given(first=PROMPT_SETS, second=PROMPT_SETS, names=st.sampled_from([("t", "t"), (None, "t"), ("t", "u")]))
def test_insisting_on_other_prompts_of_the_same_name_is_warned_of(
    first: dict[str, PromptTokens], second: dict[str, PromptTokens], names: tuple[str | None, str | None]
) -> None:
    shared = [name for name in first if name in second]
    assume(shared)
    sides = sides_of([with_tokens(first, "own/one", names[0]), with_tokens(second, "own/two", names[1])])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        insisted = match(*sides, True)
    unlike = sum(first[name] != second[name] for name in shared) if names != ("t", "u") else 0
    sentence = f"{unlike} of {len(shared)} pairs of one and two are different prompts of one name: "
    assert len(insisted.first) == len(shared)
    assert [sentence in str(warning.message) for warning in caught] == [True] * bool(unlike)
    assert ("different prompts" in insisted.note) == bool(unlike)


@pytest.mark.parametrize(
    ("tokens", "why"),
    [
        ((1, 2, 4), "but the tokens of prompt 'a' differ from token 2 on; they are compared as two samples"),
        ((1, 2), "but prompt 'a' has 3 and 2 tokens under the same tokenizer; they are"),
    ],
)
def test_it_is_said_where_prompts_differ(tokens: tuple[int, ...], why: str) -> None:
    first, second = {"a": ((1, 2, 3), None), "b": ((5, 6), None)}, {"a": (tokens, None)}
    assert why in match(*sides_of([with_tokens(first, "own/one"), with_tokens(second, "own/two")]), None).note
    answered = {"a": ((1, 2, 3), 1)}
    found = match(*sides_of([with_tokens(first, "own/one"), with_tokens(answered, "own/two")]), None)
    assert "but the answer of prompt 'a' differs (none and 1 tokens)" in found.note


def test_lists_whose_texts_nobody_stores_are_not_taken_for_one_list() -> None:
    tokens = {"0": ((1, 2, 3), None)}, {"0": ((4, 5), None)}
    sides = sides_of([with_tokens(t, f"own/{n}", n, "given") for t, n in zip(tokens, ("tt", "uu"))])
    found = match(*sides, None)
    assert not found.first.size
    assert (
        "given lists of prompts, whose texts are not stored in both to be compared; they are compared as" in found.note
    )
