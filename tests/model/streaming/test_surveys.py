"""A streamed model is the resident one: the same hash, checks, and bytes of every result, with few readings."""

from __future__ import annotations

import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from support import streamed, zoo

import bathyscope.surveying.asking
import bathyscope.surveying.computing
import bathyscope.surveying.plan
from bathyscope.errors import BathyscopeError, ModelError
from bathyscope.model import Model, load
from bathyscope.model.streaming.lending import lent
from bathyscope.model.streaming.store import BlockStore, Readings
from bathyscope.surveying.engines import survey
from bathyscope.wavefront import histories

EVERYWHERE = [
    *(pytest.param(name, streamed.FEW, id=f"{name}-few") for name in streamed.QUICK),
    *(pytest.param(name, streamed.MEASURES, id=name, marks=pytest.mark.thorough) for name in zoo.names(plain=True)),
]
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def store_of(model: Model) -> BlockStore:
    assert model.blocks is not None
    return model.blocks


def kinds(model: Model) -> int:
    return len({type(block) for block in model.anatomy.blocks})


def lasting(model: Model) -> bool:
    return all(type(block).__module__.startswith("transformers.") for block in model.anatomy.blocks)


@pytest.mark.parametrize(("name", "measures"), EVERYWHERE)
def test_results_are_those_of_the_model_in_memory(name: str, measures: tuple[str, ...], tmp_path: Path) -> None:
    folder = streamed.saved(name, tmp_path / "model", shards="200KB")
    here, there = load(folder, placement="resident"), streamed.streamed(folder)
    assert there.weight_hash == here.weight_hash
    assert repr(there.checks) == repr(here.checks)
    if lasting(there) and kinds(there) == 1:
        assert store_of(there).readings.blocks == there.n_blocks
    asked = measures if measures == streamed.FEW else [m for m in measures if possible(m, here)]
    assert streamed.hashes(there, tmp_path / "there", asked) == streamed.hashes(here, tmp_path / "here", asked)
    in_memory = [block for block in there.anatomy.blocks if any(p.device.type != "meta" for p in block.parameters())]
    assert len(in_memory) <= 1


def possible(measure: str, model: Model) -> bool:
    """What a family allows, asked of the model in memory."""
    try:
        bathyscope.surveying.asking.Survey([measure]).plan(model, streamed.prompts(model))
    except BathyscopeError:
        return False
    return True


def test_steps_of_loops_are_the_same_wherever_weights_are(tmp_path: Path) -> None:
    """A step whose weights are in memory has the place that it has while they are not."""
    folder = streamed.saved("universal", tmp_path / "model", shards="200KB")
    there, resident = streamed.streamed(folder).anatomy, load(folder, placement="resident").anatomy
    assert resident.cycle is not None
    for block in (there.blocks[-1], there.blocks[0]):
        there.__dict__.pop("cycle", None)
        with lent(block):
            assert there.cycle == resident.cycle


def test_blocks_are_read_once_at_load_and_once_for_each_convoy(tmp_path: Path) -> None:
    """Rows of swaps and repeats go back by a block, which is still there."""
    model = streamed.streamed(streamed.saved("llama", tmp_path / "model"))
    readings, blocks = store_of(model).readings, model.n_blocks
    size = sum(p.numel() * p.element_size() for block in model.anatomy.blocks for p in block.parameters())
    assert readings == Readings(blocks, size)
    found = streamed.hashes(model, tmp_path / "run", ["drop", "swap", "repeat"])
    assert sum(file.startswith("shard") for file in found) == 3
    assert readings == Readings(2 * blocks, 2 * size)


def test_pairs_in_low_precision_read_a_block_once_for_all_that_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for the wave, and for each shard once for the full model, which is ahead, and once for all others."""
    folder = streamed.saved("llama", tmp_path / "model")
    here, there = (load(folder, "bfloat16", placement=where) for where in ("resident", "stream"))
    measures, lengths = ["pairs"], (14, 9)
    whole = streamed.hashes(here, tmp_path / "here", measures, lengths)
    assert streamed.hashes(there, tmp_path / "there", measures, lengths) == whole
    at_load, wave = there.n_blocks, there.n_blocks
    assert store_of(there).readings.blocks <= at_load + wave + 2 * 2 * there.n_blocks
    monkeypatch.setattr(histories, "free_bytes", lambda device: 0)
    assert streamed.hashes(there, tmp_path / "narrow", measures, lengths) == whole


@pytest.mark.parametrize(
    ("module", "limit"),
    [(bathyscope.surveying.computing, "free_bytes"), (bathyscope.surveying.plan, "convoy_seconds")],
    ids=["no room", "shards that take longer than a reading is worth"],
)
def test_where_there_is_no_room_or_no_time_each_shard_is_a_convoy(
    module: ModuleType, limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = streamed.saved("llama", tmp_path / "model")
    wide, narrow = streamed.streamed(folder), streamed.streamed(folder)
    together = streamed.hashes(wide, tmp_path / "wide", ["drop"])
    monkeypatch.setattr(module, limit, lambda *_: 0)
    assert streamed.hashes(narrow, tmp_path / "narrow", ["drop"]) == together
    assert store_of(wide).readings.blocks == 2 * wide.n_blocks
    assert store_of(narrow).readings.blocks == 4 * narrow.n_blocks


def test_calls_leave_room_for_the_blocks_that_are_to_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what is free on an accelerator: two blocks, as swaps need them, and the one on its way."""
    model = streamed.streamed(streamed.saved("llama", tmp_path / "model"))
    block = sum(p.numel() * p.element_size() for p in model.anatomy.blocks[0].parameters())
    assert store_of(model).most_bytes == 3 * block
    asked: list[int] = []
    sized = bathyscope.surveying.computing.call_size
    monkeypatch.setattr(
        bathyscope.surveying.computing, "call_size", lambda *given: (asked.append(given[-1]), sized(*given))[1]
    )
    survey(model, streamed.prompts(model), ["drop"], progress=False)
    assert asked == [3 * block]


def test_a_window_that_is_too_small_costs_readings_and_no_bits(tmp_path: Path) -> None:
    folder = streamed.saved("llama", tmp_path / "model")
    enough, one = streamed.streamed(folder), streamed.streamed(folder, window=1)
    assert streamed.hashes(one, tmp_path / "one", ["swap"]) == streamed.hashes(enough, tmp_path / "two", ["swap"])
    assert store_of(enough).readings.blocks == 2 * enough.n_blocks
    assert store_of(one).readings.blocks > 2 * one.n_blocks


def test_bfloat16_read_from_float32(tmp_path: Path) -> None:
    folder = streamed.saved("llama", tmp_path / "model")
    here, there = load(folder, "bfloat16", placement="resident"), streamed.streamed(folder, dtype="bfloat16")
    assert there.dtype == torch.bfloat16
    assert there.weight_hash == here.weight_hash
    measures = ["drop"]
    assert streamed.hashes(there, tmp_path / "there", measures) == streamed.hashes(here, tmp_path / "here", measures)


def test_an_interrupted_survey_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = streamed.saved("llama", tmp_path / "model")
    whole = streamed.hashes(load(folder, placement="resident"), tmp_path / "whole", ["skip"])
    monkeypatch.setattr(bathyscope.surveying.computing, "free_bytes", lambda device: 0)
    model = streamed.streamed(folder)
    killed, real = 2 * model.n_blocks + 2, BlockStore._read

    def read(store: BlockStore, index: int) -> Any:
        if store is model.blocks and store.readings.blocks >= killed:
            raise KeyboardInterrupt
        return real(store, index)

    monkeypatch.setattr(BlockStore, "_read", read)
    with pytest.raises(KeyboardInterrupt):
        streamed.hashes(model, tmp_path / "run", ["skip"])
    kept = sorted(path.name for path in (tmp_path / "run").glob("shard-*.nc"))
    assert kept == ["shard-00000.nc"]
    again = streamed.streamed(folder)
    assert streamed.hashes(again, tmp_path / "run", ["skip"]) == whole
    assert store_of(again).readings.blocks == 3 * again.n_blocks


def test_a_disk_that_is_slower_than_the_blocks_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No block is there before it is asked for, however early it was sent for; what runs waits for it."""
    folder = streamed.saved("llama", tmp_path / "model")
    whole = streamed.hashes(load(folder, placement="resident"), tmp_path / "whole", ["swap"])
    model = streamed.streamed(folder)
    asked, read_now = {index: threading.Event() for index in range(model.n_blocks)}, []
    read, arriving = BlockStore._read, BlockStore._arriving

    def slow(store: BlockStore, index: int) -> Any:
        if store is model.blocks:
            assert asked[index].wait(60)
            read_now.append(index)
        return read(store, index)

    def wanted(store: BlockStore, index: int) -> Any:
        for one in {index, index if store._coming is None else store._coming[0]}:
            asked[one].set()
        return arriving(store, index)

    monkeypatch.setattr(BlockStore, "_read", slow)
    monkeypatch.setattr(BlockStore, "_arriving", wanted)
    assert streamed.hashes(model, tmp_path / "run", ["swap"]) == whole
    assert read_now == list(range(model.n_blocks))


def test_solving_and_probing_take_streamed_models(tmp_path: Path) -> None:
    from bathyscope.analysis.between.cka import cka
    from bathyscope.analysis.solving import solved

    folder = streamed.saved("gpt2", tmp_path / "model")
    here, there = load(folder, placement="resident"), streamed.streamed(folder)
    asked = streamed.prompts(here)
    assert solved(there, asked, progress=False).identical(solved(here, asked, progress=False))
    ids = zoo.prompts(here.hf, (8, 9, 7, 8))
    assert cka(there, there, ids).identical(cka(here, here, ids))


@pytest.mark.parametrize("measure", ["gradient", "integrated_gradients"])
def test_gradients_through_all_blocks_are_refused_before_compute(measure: str, tmp_path: Path) -> None:
    model = streamed.streamed(streamed.saved("llama", tmp_path / "model"))
    before = store_of(model).readings.blocks
    with pytest.raises(ModelError) as caught:
        survey(model, streamed.prompts(model), [measure], progress=False)
    assert str(caught.value) == (
        f"{measure} is not possible: gradients pass through all blocks at once, and the blocks of this model are "
        "streamed; leave this measure out, or load the model whole where it has room (placement='resident')."
    )
    assert store_of(model).readings.blocks == before


def test_all_measures_leave_gradients_out(tmp_path: Path) -> None:
    model = streamed.streamed(streamed.saved("llama", tmp_path / "model"))
    with pytest.warns(UserWarning, match="gradient is left out: gradients pass through all blocks at once"):
        plan = bathyscope.surveying.asking.Survey("all").plan(model, streamed.prompts(model))
    assert not {"gradient", "integrated_gradients"} & {measure.name for measure in plan.measures}


def test_controls_that_need_weights_in_memory_are_refused(tmp_path: Path) -> None:
    model = streamed.streamed(streamed.saved("llama", tmp_path / "model"))
    needs = {"untrained": "a second copy of .* are streamed", "shuffled_blocks": "the blocks of .* are streamed"}
    for control, need in needs.items():
        with pytest.raises(ModelError, match=f"The control {control} needs {need}"):
            survey(model, streamed.prompts(model), ["residual"], control=control, progress=False)


def test_a_streamed_model_is_neither_moved_nor_saved_and_stays_as_it_is(tmp_path: Path) -> None:
    model = streamed.streamed(streamed.saved("llama", tmp_path / "model"))
    before = {name: (tensor.dtype, tensor.device) for name, tensor in model.hf.named_parameters()}
    for ask in (
        model.hf.half,
        model.hf.cuda,
        model.hf.model.double,
        model.hf.model.layers[1].bfloat16,
        lambda: model.hf.to("cpu"),
        lambda: model.hf.to(torch.float64),
    ):
        with pytest.raises(ModelError, match=r"neither moved nor cast .* dtype='float16', .* placement='resident'\."):
            ask()
    for ask in (model.hf.save_pretrained, model.hf.push_to_hub):
        with pytest.raises(ModelError, match=r"cannot be saved .*; copy the files .* by bathyscope\.export, or"):
            ask(str(tmp_path / "saved"))
    assert not (tmp_path / "saved").exists()
    assert {name: (tensor.dtype, tensor.device) for name, tensor in model.hf.named_parameters()} == before


def test_a_streamed_model_cannot_be_copied(tmp_path: Path) -> None:
    import copy

    model = streamed.streamed(streamed.saved("llama", tmp_path / "model"))
    with pytest.raises(ModelError, match="A model whose blocks are streamed cannot be copied"):
        copy.deepcopy(model.hf)
