"""Padded token ids: taken by their mask, refused where they are bare, and never seen where there is none."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import BatchEncoding, PreTrainedTokenizerFast

from bathyscope.errors import PromptError
from bathyscope.measures.of.erasure import ErasureOptions
from bathyscope.prompts.padding import EdgeTokens, find_padding, require_unpadded
from bathyscope.prompts.prompt import Prompt, PromptSet
from bathyscope.prompts.source import resolve

PAD, END = 0, 1
PADS = EdgeTokens(frozenset({PAD}), frozenset({END}))
SHARED = EdgeTokens(frozenset({END}), frozenset({END}))
UNKNOWN = EdgeTokens()
KNOWLEDGE = {"a pad of its own": (PADS, PAD), "the end pads": (SHARED, END), "nothing is known": (UNKNOWN, 7)}

words = st.integers(8, 60)
"""Tokens of text; 0, 1 and 7 are none."""
rows_of_text = st.lists(st.lists(words, min_size=2, max_size=12), min_size=2, max_size=6)


def padded(rows: list[list[int]], token: int, side: str) -> list[list[int]]:
    longest = max(map(len, rows))
    fills = [[token] * (longest - len(row)) for row in rows]
    return [fill + row if side == "begin with" else row + fill for row, fill in zip(rows, fills, strict=True)]


@given(rows=rows_of_text, side=st.sampled_from(["begin with", "end in"]), kind=st.sampled_from(sorted(KNOWLEDGE)))
@settings(max_examples=200, deadline=None)
def test_whatever_is_padded_is_seen(rows: list[list[int]], side: Any, kind: str) -> None:
    edges, token = KNOWLEDGE[kind]
    gaps = [max(map(len, rows)) - len(row) for row in rows]
    padding = find_padding(padded(rows, token, side), side, edges)
    # one pad says little, and so do few of an unknown token
    is_evident = max(gaps) >= 3 and 2 * sum(gap > 0 for gap in gaps) >= len(rows)
    if is_evident or (kind == "a pad of its own" and max(gaps) > 1):
        assert padding is not None
        assert (padding.token, padding.side) == (token, side)
        assert (padding.n_prompts, padding.longest) == (sum(gap > 0 for gap in gaps), max(gaps))
        assert padding.is_certain == (kind != "nothing is known")
    elif max(gaps) == 0:
        assert padding is None or padding.token != token


@given(
    rows=st.lists(st.lists(st.integers(2, 60), min_size=2, max_size=12), min_size=1, max_size=6),
    ends=st.booleans(),
    begins=st.booleans(),
    kind=st.sampled_from(["a pad of its own", "the end pads"]),
)
@settings(max_examples=200, deadline=None)
def test_a_single_end_is_no_padding(rows: list[list[int]], ends: bool, begins: bool, kind: str) -> None:
    edges, _ = KNOWLEDGE[kind]
    texts = [[END] * begins + row + [END] * ends for row in rows]
    for side in ("begin with", "end in"):
        padding = find_padding(texts, side, edges)  # type: ignore[arg-type]
        # the text's own tokens are not known to be anything, and at most a warning
        assert padding is None or (padding.token > END and not padding.is_certain)


@given(
    rows=rows_of_text,
    side=st.sampled_from(["begin with", "end in"]),
    made=st.sampled_from([list, np.array, torch.tensor]),
    as_batch=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_what_a_tokenizer_returns_is_taken_by_its_mask(
    rows: list[list[int]], side: str, made: Callable[..., Any], as_batch: bool
) -> None:
    ids = padded(rows, END, side)
    mask = padded([[1] * len(row) for row in rows], 0, side)
    encoding = BatchEncoding({"input_ids": made(ids), "attention_mask": made(mask), "token_type_ids": made(mask)})
    single = [{"input_ids": made(row), "attention_mask": made(line)} for row, line in zip(ids, mask, strict=True)]
    prompts = resolve(encoding if as_batch else single, edges=SHARED).prompts
    assert [list(prompt.ids or ()) for prompt in prompts] == rows


@pytest.mark.parametrize("side", ["left", "right"])
def test_tokenizers_themselves(backend: Callable[..., Tokenizer], side: str) -> None:
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend(bos=True), bos_token="<s>", eos_token="</s>", pad_token="</s>", padding_side=side
    )
    texts = ["The ducks", "The final answer is 28.", "What is five plus seven? Twelve"]
    alone = [tuple(tokenizer(text)["input_ids"]) for text in texts]
    edges = EdgeTokens.of(tokenizer, None)
    for kind in ("pt", "np", None):
        encoding = tokenizer(texts, padding=True, return_tensors=kind)
        assert [prompt.ids for prompt in resolve(encoding, edges=edges).prompts] == alone
        assert [prompt.ids for prompt in resolve([encoding, "x"], edges=edges).prompts[:-1]] == alone
        with pytest.raises(
            PromptError, match=r"2 of 3 prompts (begin with|end in) token id 1, up to \d+ times: padding"
        ):
            resolve(encoding["input_ids"], edges=edges)
        with pytest.warns(UserWarning, match=r"2 of 3 prompts .* token id 1, .* as padding does"):
            resolve(encoding["input_ids"])
    assert [prompt.ids for prompt in resolve([tokenizer(text) for text in texts]).prompts] == alone
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [prompt.ids for prompt in resolve(tokenizer(texts)["input_ids"], edges=edges).prompts] == alone


def test_padded_prompts_of_files_and_sets_are_refused_too(write_jsonl: Callable[..., str]) -> None:
    rows = [[5, 6, 7, 8], [5, 6, 1, 1]]
    path = write_jsonl(*({"ids": row} for row in rows))
    for source in (path, PromptSet(tuple(Prompt(ids=row) for row in rows), "mine"), [Prompt(ids=row) for row in rows]):
        with pytest.raises(PromptError, match="1 of 2 prompts end in token id 1, up to 2 times: padding, which would"):
            resolve(source, edges=SHARED)


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ({"input_ids": [[1, 2, 3]], "attention_mask": [[1, 0, 1]]}, "attention_mask has zeros between ones"),
        ({"input_ids": [[1, 2, 3]], "attention_mask": [[0, 0, 0]]}, "attention_mask leaves out all 3 tokens"),
        (
            {"input_ids": [[1, 2, 3]], "attention_mask": [[1, 1]]},
            "attention_mask must be a 0 or a 1 for each of the 3 token ids",
        ),
        (
            {"input_ids": [[1, 2, 3]], "attention_mask": [[1, 2, 1]]},
            "attention_mask must be a 0 or a 1 for each of the 3 token ids",
        ),
        (
            {"input_ids": [[1, 2], [3, 4]], "attention_mask": [[1, 1]]},
            "attention_mask must have the shape of input_ids",
        ),
        ({"input_ids": ["a text"]}, "input_ids must be a list of token ids or of such lists"),
        ({"input_ids": []}, "input_ids must be a list of token ids or of such lists"),
    ],
)
def test_masks_that_are_none(encoding: dict[str, Any], message: str) -> None:
    with pytest.raises(PromptError, match=f"^{message}"):
        resolve(encoding)
    with pytest.raises(PromptError, match=f"Prompt 1 of the list: {message}"):
        resolve([[1, 2], encoding])


def test_the_reference_of_a_measure_is_taken_by_its_mask_too() -> None:
    encoding = BatchEncoding({"input_ids": [[5, 6, 1], [7, 8, 9]], "attention_mask": [[1, 1, 0], [1, 1, 1]]})
    assert ErasureOptions(reference=encoding).reference == [[5, 6], [7, 8, 9]]
    assert ErasureOptions(reference=[encoding, "a text"]).reference == [[5, 6], [7, 8, 9], "a text"]
    # its keys are no texts
    assert ErasureOptions(reference={"source": "gsm8k:10"}).reference == {"source": "gsm8k:10"}  # type: ignore[arg-type]


def test_edges_are_those_that_are_named() -> None:
    class Named:
        pad_token_id, bos_token_id, eos_token_id = 3, None, [4, 5]

    assert EdgeTokens.of(None, Named) == EdgeTokens(frozenset({3}), frozenset({4, 5}))
    assert EdgeTokens.of(None) == UNKNOWN


def test_prompts_of_one_token_are_nobodys_padding() -> None:
    for edges in (PADS, SHARED, UNKNOWN):
        assert find_padding([[END] * 5, [8, 9, 10, 11, 12]], "end in", edges) is None
        assert find_padding([[PAD] * 9, [PAD] * 9], "begin with", edges) is None


@given(
    rows=st.lists(st.lists(words, min_size=2, max_size=12), min_size=1, max_size=4),
    count=st.integers(2, 6),
    side=st.sampled_from(["begin with", "end in"]),
    kind=st.sampled_from(["a pad of its own", "the end pads"]),
)
@settings(max_examples=100, deadline=None)
def test_ends_that_every_text_has_alike_are_padding_only_where_they_are_known_to_pad(
    rows: list[list[int]], count: int, side: Any, kind: str
) -> None:
    """A single prompt is every text: it may begin with several BOS of its own, which nobody cuts or refuses."""
    edges, _ = KNOWLEDGE[kind]
    fill = [END] * count
    padding = find_padding([fill + row if side == "begin with" else row + fill for row in rows], side, edges)
    assert padding is not None
    assert padding.token == END
    if kind == "a pad of its own":
        assert not padding.is_certain
    elif len({len(row) for row in rows}) == 1 and count >= 3:
        assert padding.is_certain


def test_a_prompt_that_begins_with_several_bos_is_measured_with_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"1 of 1 prompts begin with token id 1, up to 4 times, as padding does, and"):
        require_unpadded([Prompt(ids=[1, 1, 1, 1, 9, 8, 7])], PADS)


@given(
    batches=st.lists(rows_of_text, min_size=1, max_size=3),
    side=st.sampled_from(["begin with", "end in"]),
    kind=st.sampled_from(sorted(KNOWLEDGE)),
    order=st.randoms(use_true_random=False),
)
@settings(max_examples=150, deadline=None)
def test_several_batches_are_seen_as_one_is(batches: list[list[list[int]]], side: Any, kind: str, order: Any) -> None:
    """Each is padded to a length of its own, in whatever order their prompts stand."""
    edges, token = KNOWLEDGE[kind]
    # of different lengths, so that each batch stays one
    batches = [[row + [60] * (13 * number) for row in batch] for number, batch in enumerate(batches)]
    rows = [row for batch in batches for row in padded(batch, token, side)]
    order.shuffle(rows)
    gaps = [max(map(len, batch)) - len(row) for batch in batches for row in batch]
    padding = find_padding(rows, side, edges)
    if max(gaps) > (3 if kind == "nothing is known" else 2):
        assert padding is not None
        assert (padding.token, padding.longest, padding.n_prompts) == (token, max(gaps), sum(map(bool, gaps)))
        assert padding.is_certain == (kind != "nothing is known")
    elif max(gaps) == 0:
        assert padding is None or padding.token != token


@given(
    rows=st.lists(st.lists(words, min_size=2, max_size=12), min_size=1, max_size=6),
    kind=st.sampled_from(["a pad of its own", "the end pads", "nothing is known"]),
    side=st.sampled_from(["begin with", "end in"]),
)
@settings(max_examples=100, deadline=None)
def test_prompts_of_which_no_two_are_equally_long_are_refused_for_three_pads_alone(
    rows: list[list[int]], kind: str, side: Any
) -> None:
    edges, token = KNOWLEDGE[kind]
    rows = [row + [60] * (20 * number) for number, row in enumerate(rows)]
    for count in (1, 2, 3):
        fill = [token] * count
        padding = find_padding([fill + row if side == "begin with" else row + fill for row in rows], side, edges)
        is_certain = padding is not None and padding.token == token and padding.is_certain
        assert is_certain == (count >= {"a pad of its own": 2, "the end pads": 3}.get(kind, 4))


@pytest.mark.parametrize(("rows", "told"), [([[1, 1, 1, 1], [0, 1, 1]], True), ([[1, 1]], False), ([[1, 0, 2]], False)])
def test_a_mask_in_the_place_of_ids_is_told(rows: list[list[int]], told: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        require_unpadded([Prompt(ids=row) for row in rows], EdgeTokens())
    assert any("hold 0 and 1 alone, as an attention_mask does" in str(warning.message) for warning in caught) == told
