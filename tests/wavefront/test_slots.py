"""Slots: rows split into calls, written back, passed on and lent, with a replay that only notes what it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bathyscope.wavefront.calls import CallPolicy, CallResult
from bathyscope.wavefront.prefix import LentPrefix
from bathyscope.wavefront.slots import Slots

ROWS, BATCH, TOKENS, WIDTH = 7, 2, 3, 4


class NotingReplay:
    """Adds to every row the number of the call, and notes the rows, prompts and passed-on tensors."""

    batch, tokens = BATCH, TOKENS

    def __init__(self) -> None:
        self.recording = SimpleNamespace(resid0_BTD=torch.zeros(BATCH, TOKENS, WIDTH))
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


def made(own_control: bool, rows_a_call: int) -> tuple[NotingReplay, Slots]:
    replay = NotingReplay()
    slots = Slots(replay, CallPolicy(rows_a_call * BATCH * TOKENS, own_control), ROWS)  # type: ignore[arg-type]
    slots.state[:] = rows()
    return replay, slots


def called(
    own_control: bool, rows_a_call: int, asked: Sequence[int] = range(ROWS)
) -> tuple[NotingReplay, list[CallResult], Tensor]:
    """All calls of one visit, with what they were shown copied before it is written over."""
    replay, slots = made(own_control, rows_a_call)
    results = [replace(r, before=r.before.clone()) for r in slots.run(nn.Identity(), 0, asked)]
    return replay, results, rows()[list(asked)]


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
    assert [list(r.slots) for r in results] == [[0, 1], [2, 3], [4, 5, 6]]


def test_rows_that_catch_up_bring_no_control() -> None:
    replay, results, given = called(own_control=True, rows_a_call=3, asked=[2, 5, 3, 6])
    assert torch.equal(torch.cat(replay.given).view(given.shape), given)
    assert [list(r.slots) for r in results] == [[2, 5], [3, 6]]


def test_a_call_has_at_least_one_row() -> None:
    replay, _, _ = called(own_control=False, rows_a_call=0)
    assert [len(call) // BATCH for call in replay.given] == [1] * ROWS


def test_rows_know_their_prompts() -> None:
    replay, _, _ = called(own_control=False, rows_a_call=4)
    assert [p.tolist() for p in replay.prompts if p is not None] == [[0, 1] * 3, [0, 1] * 4]


@pytest.mark.parametrize("own_control", [False, True])
@pytest.mark.parametrize("asked", [range(ROWS), [0, 2, 5, 6]])
def test_what_comes_out_is_written_back_to_its_slots_alone(own_control: bool, asked: Sequence[int]) -> None:
    _, slots = made(own_control, 2)
    wanted = rows()
    for result in slots.run(nn.Identity(), 0, asked):
        assert torch.equal(slots.state[list(result.slots)], result.before)
        wanted[list(result.slots)] = result.after
    assert torch.equal(slots.state, wanted)
    assert not torch.equal(slots.state, rows())


def test_the_control_of_every_call_is_the_one_that_went_in() -> None:
    """Its slot is written back after the first call, before the others run."""
    replay, slots = made(own_control=True, rows_a_call=2)
    for result in slots.run(nn.Identity(), 0, range(ROWS)):
        assert torch.equal(result.control_before, rows()[0])
    for call in replay.given:
        assert torch.equal(call[:BATCH], rows()[0])


@pytest.mark.parametrize("own_control", [False, True])
def test_what_blocks_pass_on_stays_with_its_row(own_control: bool) -> None:
    _, slots = made(own_control, 3)
    first = rows()[:, :, 0, :1]
    list(slots.run(nn.Identity(), 0, range(ROWS)))
    after = slots.state[:, :, 0, :1].clone()
    list(slots.run(nn.Identity(), 1, [0, 3, 4, 6]))
    ran = torch.tensor([0, 3, 4, 6])
    expected = first.clone()
    expected[ran] += after[ran]
    assert torch.equal(passed(slots), expected)


def test_what_the_control_passes_on_is_what_rows_that_were_not_there_have() -> None:
    _, slots = made(own_control=False, rows_a_call=2)
    list(slots.run(nn.Identity(), 0, [0, 2, 5]))
    expected = rows()[[0, 0, 2, 0, 0, 5, 0], :, 0, :1]
    assert torch.equal(passed(slots), expected)
    assert torch.equal(slots.control_passed["seen"][0], expected[0])


def test_a_slot_that_begins_as_another_has_all_that_it_holds() -> None:
    _, slots = made(own_control=False, rows_a_call=9)
    list(slots.run(nn.Identity(), 0, range(ROWS)))
    slots.copy(2, 4)
    slots.copy(0, slice(5, 7))
    came = [0, 1, 2, 3, 2, 0, 0]
    assert torch.equal(slots.state, rows()[came] + 1)
    assert torch.equal(passed(slots), rows()[came, :, 0, :1])


def test_slots_of_one_prompt_receive_its_own_share() -> None:
    slots = Slots(NotingReplay(), CallPolicy(99, False), 3, prompt=1, start=2)  # type: ignore[arg-type]
    assert slots.state.shape == (3, 1, TOKENS - 2, WIDTH)
    slots.receive({"seen": (torch.tensor([[4.0], [5.0]]),)})
    assert passed(slots).tolist() == [[[5.0]]] * 3
    slots.copy(0, 1)
    slots.state[:] = 0
    list(slots.run(nn.Identity(), 0, [0]))
    assert passed(slots).tolist() == [[[5.0]]] * 3


# --- lending --------------------------------------------------------------------------------------------


class Attention(NotingReplay):
    """Offers each row's own stream as keys, twice it as values."""

    def run(self, block: nn.Module, index: int, resid_NTD: Tensor, prompts_N: Tensor | None, **other: Any) -> Tensor:
        if other["cache"] is not None:
            other["cache"].update(1 * resid_NTD[:, None], 2 * resid_NTD[:, None])
        return super().run(block, index, resid_NTD, prompts_N, **other)

    def attends(self, index: int, cache: Any) -> bool:
        return cache.calls > 0


@pytest.mark.parametrize("own_control", [False, True])
@pytest.mark.parametrize("rows_a_call", [2, 9])
@pytest.mark.parametrize("donors", [[0, 3, 5], [0, 3, 3, 3], [5, 5], [6]])
def test_tails_get_the_keys_and_values_of_their_donors(own_control: bool, rows_a_call: int, donors: list[int]) -> None:
    replay, asked = Attention(), [0, 2, 3, 5, 6]
    slots = Slots(replay, CallPolicy(rows_a_call * BATCH * TOKENS, own_control), ROWS)  # type: ignore[arg-type]
    slots.state[:] = rows()
    list(slots.run(nn.Identity(), 0, asked, lends=donors))
    lender = slots.lend_prefix(donors, prompt=1, start=2)
    assert lender.attends
    picked = list(range(len(donors)))
    for tails in (picked, picked[1:] or picked, [*picked[-1:], *picked[:-1]]):
        cache = lender.cache(tails)
        own = torch.full((len(tails), 1, 1, WIDTH), -1.0)
        keys, values = cache.update(own, own)
        lent = rows()[[donors[tail] for tail in tails], 1, :2]
        assert torch.equal(keys, torch.cat([lent[:, None], own], 2))
        assert torch.equal(values[:, :, :2], 2 * lent[:, None])


def test_only_rows_that_were_to_lend_do() -> None:
    slots = Slots(Attention(), CallPolicy(3 * BATCH * TOKENS, True), ROWS)  # type: ignore[arg-type]
    slots.state[:] = rows()
    list(slots.run(nn.Identity(), 0, range(ROWS), lends=[0]))
    cache = slots.lend_prefix([0, 0], prompt=0, start=1).cache([0, 1])
    assert torch.equal(cache.update(*[torch.zeros(2, 1, 2, WIDTH)] * 2)[0][:, 0, 0], rows()[[0, 0], 0, 0])
    with pytest.raises(KeyError):
        slots.lend_prefix([1], prompt=0, start=1)


def test_a_block_without_keys_lends_none() -> None:
    class Silent(Attention):
        def run(self, *args: Any, **other: Any) -> Tensor:
            return NotingReplay.run(self, *args, **other)

    slots = Slots(Silent(), CallPolicy(99, False), ROWS)  # type: ignore[arg-type]
    list(slots.run(nn.Identity(), 0, range(ROWS), lends=range(ROWS)))
    lender = slots.lend_prefix([0, 1], prompt=0, start=1)
    assert not lender.attends
    with pytest.raises(RuntimeError, match="whose donor rows gave no keys and values"):
        lender.cache([0, 1]).update(torch.zeros(2, 1, 2, WIDTH), torch.zeros(2, 1, 2, WIDTH))


def test_what_a_block_lends_is_forgotten_at_the_next() -> None:
    class Mixed(Attention):
        def run(self, block: nn.Module, index: int, *args: Any, **other: Any) -> Tensor:
            return (Attention if index == 0 else NotingReplay).run(self, block, index, *args, **other)

    slots = Slots(Mixed(), CallPolicy(99, False), ROWS)  # type: ignore[arg-type]
    list(slots.run(nn.Identity(), 0, range(ROWS), lends=range(ROWS)))
    assert slots.lend_prefix([0], prompt=0, start=1).attends
    list(slots.run(nn.Identity(), 1, [0, 4], lends=[0, 4]))
    lender = slots.lend_prefix([4], prompt=0, start=1)
    assert (lender.keys, lender.values, lender.attends) == (None, None, False)


@pytest.mark.parametrize("attends", [True, False])
def test_tails_are_told_whether_their_donors_looked_at_keys(attends: bool) -> None:
    told: list[tuple[bool, int]] = []

    class Told(NotingReplay):
        def run(self, *args: Any, **other: Any) -> Tensor:
            told.append((other["attends"], other["start"]))
            return super().run(*args, **other)

    tails = Slots(Told(), CallPolicy(99, False), 2, prompt=0, start=1)  # type: ignore[arg-type]
    list(tails.run(nn.Identity(), 0, [0, 1], prefix=LentPrefix(None, None, [0, 0], 0, 1, attends)))
    assert told == [(attends, 1)]


def passed(slots: Slots) -> Tensor:
    """What the replay passes on in every slot, [slots, batch, 1]."""
    return torch.stack(list(slots._passed["seen"]))[0]
