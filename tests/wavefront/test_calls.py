"""How rows are split into calls, with a replay that only notes what it is given."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from bathyscope.wavefront.calls import CallPolicy, CallResult, RowCaller, even_pieces

ROWS, BATCH, TOKENS, WIDTH = 7, 2, 3, 4


@given(st.integers(1, 200), st.integers(1, 50))
def test_even_pieces(rows: int, most: int) -> None:
    pieces = list(even_pieces(rows, most))
    assert [first for first, _ in pieces] == [0, *(last for _, last in pieces[:-1])]
    assert pieces[-1][1] == rows
    sizes = [last - first for first, last in pieces]
    assert max(sizes) <= most
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) == -(-rows // most)


@pytest.mark.parametrize(
    ("dtype", "own_control"),
    [(torch.float32, False), (torch.float64, False), (torch.bfloat16, True), (torch.float16, True)],
)
def test_low_precision_needs_a_control_in_every_call(dtype: torch.dtype, own_control: bool) -> None:
    policy = CallPolicy.for_model(dtype, torch.device("cpu"))
    assert policy.control_in_every_call == own_control
    assert 400 <= policy.tokens <= 8000
    assert CallPolicy.for_model(dtype, torch.device("cpu"), 17).tokens == 17
    assert CallPolicy.for_model(dtype, torch.device("cuda")).tokens > policy.tokens


class NotingReplay:
    """Adds to every row the number of the call, and notes the rows, prompts and passed-on tensors."""

    batch = BATCH

    def __init__(self) -> None:
        self.given: list[Tensor] = []
        self.prompts: list[Tensor | None] = []

    def run(self, block: nn.Module, index: int, resid_NTD: Tensor, prompts_N: Tensor | None, **other: Any) -> Tensor:
        self.given.append(resid_NTD.clone())
        self.prompts.append(prompts_N)
        state = other["state"]
        if state is not None:
            seen = state["seen"][0] if "seen" in state else torch.zeros(len(resid_NTD), 1)
            state["seen"] = (seen + resid_NTD[:, 0, :1],)
        return resid_NTD + len(self.given)


def rows() -> Tensor:
    return torch.arange(ROWS * BATCH * TOKENS * WIDTH, dtype=torch.float32).view(ROWS, BATCH, TOKENS, WIDTH)


def called(own_control: bool, rows_a_call: int, **options: Any) -> tuple[NotingReplay, list[CallResult], Tensor]:
    replay, given = NotingReplay(), rows()
    policy = CallPolicy(rows_a_call * BATCH * TOKENS, own_control)
    caller = RowCaller(replay, policy, torch.arange(BATCH))  # type: ignore[arg-type]
    return replay, list(caller.calls(nn.Identity(), 0, given, options.pop("carry", None), **options)), given


def test_one_control_serves_all_calls_of_full_precision() -> None:
    replay, results, given = called(own_control=False, rows_a_call=3)
    assert [len(call) // BATCH for call in replay.given] == [2, 2, 3]
    assert torch.equal(torch.cat(replay.given).view(given.shape), given)
    for result in results:
        assert torch.equal(result.control_before, given[0])
        assert torch.equal(result.control_after, given[0] + 1)
    assert torch.equal(torch.cat([r.before for r in results]), given)
    expected = torch.cat([given[:2] + 1, given[2:4] + 2, given[4:] + 3])
    assert torch.equal(torch.cat([r.after for r in results]), expected)


def test_every_call_of_low_precision_has_its_own_control() -> None:
    replay, results, given = called(own_control=True, rows_a_call=3)
    assert [len(call) // BATCH for call in replay.given] == [2, 3, 4]
    for call in replay.given:
        assert torch.equal(call[:BATCH], given[0])
    for number, result in enumerate(results, start=1):
        assert torch.equal(result.control_after, given[0] + number)
        assert torch.equal(result.after, result.before + number)
    assert torch.equal(torch.cat([r.before for r in results]), given)
    assert [r.first for r in results] == [0, 2, 4]


def test_rows_that_catch_up_bring_no_control() -> None:
    replay, _, given = called(own_control=True, rows_a_call=3, has_control=False)
    assert torch.equal(torch.cat(replay.given).view(given.shape), given)


def test_a_call_has_at_least_one_row() -> None:
    replay, _, _ = called(own_control=False, rows_a_call=0)
    assert [len(call) // BATCH for call in replay.given] == [1] * ROWS


def test_rows_know_their_prompts() -> None:
    replay, _, _ = called(own_control=False, rows_a_call=4)
    assert [p.tolist() for p in replay.prompts if p is not None] == [[0, 1] * 3, [0, 1] * 4]


@pytest.mark.parametrize("own_control", [False, True])
def test_what_blocks_pass_on_stays_with_its_row(own_control: bool) -> None:
    given = rows()
    first = given[:, :, 0, :1]
    carry: dict[object, tuple[Tensor, ...]] = {}
    called(own_control, 3, carry=carry)
    assert torch.equal(carry["seen"][0], first)
    called(own_control, 2, carry=carry)
    assert torch.equal(carry["seen"][0], 2 * first)


def test_results_may_be_written_back_while_calls_go_on() -> None:
    replay, given = NotingReplay(), rows()
    before = given.clone()
    caller = RowCaller(replay, CallPolicy(2 * BATCH * TOKENS, True), torch.arange(BATCH))  # type: ignore[arg-type]
    for result in caller.calls(nn.Identity(), 0, given, None):
        given[result.first : result.first + len(result.after)] = result.after
    for call in replay.given:
        assert torch.equal(call[:BATCH], before[0])
