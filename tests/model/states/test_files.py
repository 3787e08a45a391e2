"""Files of stored states: what is read of them, and what is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from bathyscope.errors import ModelError
from bathyscope.model.states.files import StatesFile

TOKENS, BOUNDARIES, WIDTH = 7, 3, 4
Tensors = dict[str, Tensor]


def tensors() -> Tensors:
    draw = torch.Generator().manual_seed(0)
    return {
        "hidden_states": torch.randn(TOKENS, BOUNDARIES, WIDTH, generator=draw).bfloat16(),
        "token_ids": torch.arange(TOKENS),
    }


def written(folder: Path, content: Tensors, name: str = "hs_0.safetensors") -> Path:
    save_file(content, folder / name)
    return folder / name


def test_some_tokens_are_read_and_no_others(tmp_path: Path) -> None:
    content = tensors()
    file = StatesFile(written(tmp_path, content))
    assert torch.equal(file.states_of(2, 3), content["hidden_states"][2:5])
    assert torch.equal(file.states_of(0, TOKENS), content["hidden_states"])
    assert file.ids == (tuple(range(TOKENS)),)


def test_a_file_of_several_prompts_is_cut_where_its_lengths_say(tmp_path: Path) -> None:
    file = StatesFile(written(tmp_path, tensors() | {"lengths": torch.tensor([2, 5])}))
    assert file.ids == ((0, 1), (2, 3, 4, 5, 6))


def test_the_hash_is_that_of_the_whole_file(tmp_path: Path) -> None:
    path = written(tmp_path, tensors())
    read: list[int] = []
    sha256 = StatesFile(path).sha256(read.append, (0, 1, 2))
    assert sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert sum(read) == TOKENS * BOUNDARIES * WIDTH * 2


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_a_number_that_is_not_finite_is_named_by_token_and_boundary(tmp_path: Path, value: float) -> None:
    content = tensors()
    content["hidden_states"][5, 1, 2] = value
    with pytest.raises(ModelError, match=r"hs_0.safetensors holds NaN or Inf: first at token 5, boundary 16\."):
        StatesFile(written(tmp_path, content)).sha256(lambda _: None, (0, 16, 32))


def without(name: str) -> Callable[[Tensors], Tensors]:
    return lambda content: {key: value for key, value in content.items() if key != name}


def changed(**others: Tensor) -> Callable[[Tensors], Tensors]:
    return lambda content: content | others


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("hidden_states"), r"holds no hidden_states but token_ids"),
        (without("token_ids"), r"holds no token_ids but hidden_states"),
        (changed(token_ids=torch.arange(TOKENS - 1)), r"is of 7 tokens and token_ids has the shape \[6\]"),
        (
            changed(token_ids=torch.rand(TOKENS)),
            r"token_ids is stored as float32; token ids and lengths are whole numbers",
        ),
        (changed(hidden_states=torch.zeros(TOKENS, WIDTH)), r"has the shape \[7, 4\]; states have three axes"),
        (
            changed(hidden_states=torch.zeros(TOKENS, BOUNDARIES, WIDTH).to(torch.float8_e4m3fn)),
            r"is stored as float8_e4m3fn, whose scales are unknown",
        ),
        (changed(token_ids=torch.ones(TOKENS).to(torch.complex64)), r"token_ids is stored as complex64; token ids and"),
        (changed(lengths=torch.tensor([3.5, 3.5])), r"lengths is stored as float32; token ids and lengths are whole"),
        (changed(lengths=torch.tensor([3j, 4])), r"lengths is stored as complex64"),
        (changed(lengths=torch.ones(TOKENS, dtype=torch.bool)), r"lengths is stored as bool"),
        (
            changed(lengths=torch.tensor([[3, 4]])),
            r"lengths has the shape \[1, 2\]\. Give the number of tokens of each",
        ),
        (changed(lengths=torch.tensor(TOKENS)), r"lengths has the shape \[\]\. Give the number of tokens of each"),
        (changed(top1_ids=torch.zeros(TOKENS).to(torch.complex64)), r"top1_ids is stored as complex64"),
        (changed(next_logprobs=torch.zeros(TOKENS).to(torch.complex64)), r"log-probabilities are real numbers"),
        (changed(next_logprobs=torch.zeros(TOKENS, dtype=torch.long)), r"next_logprobs is stored as int64"),
        (changed(top1_ids=torch.arange(3)), r"top1_ids has the shape \[3\], and there are 7 tokens"),
    ],
)
def test_what_is_no_file_of_states_is_refused_by_name(
    tmp_path: Path, change: Callable[[Tensors], Tensors], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        StatesFile(written(tmp_path, change(tensors())))


@pytest.mark.parametrize("lengths", [[3, 3], [0, 7], []])
def test_lengths_that_do_not_make_up_the_tokens_are_refused(tmp_path: Path, lengths: list[int]) -> None:
    content = tensors() | {"lengths": torch.tensor(lengths, dtype=torch.long)}
    with pytest.raises(ModelError, match=r"its lengths sum to \d, and it has 7 tokens"):
        _ = StatesFile(written(tmp_path, content)).ids


def test_a_file_that_is_being_written_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, tensors())
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ModelError, match="it was cut short, or is being written"):
        StatesFile(path)


def test_a_header_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, tensors())
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    header["hidden_states"]["shape"] = [TOKENS, BOUNDARIES, WIDTH - 1]
    text = json.dumps(header).encode().ljust(length)
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])
    with pytest.raises(ModelError, match=r"is damaged: its header gives hidden_states 168 bytes"):
        StatesFile(path)


def test_a_file_that_changes_while_it_is_used_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, tensors())
    file = StatesFile(path)
    written(tmp_path, tensors() | {"lengths": torch.tensor([3, 4])})
    with pytest.raises(ModelError, match="has changed since it was first looked at"):
        file.states_of(0, 1)
