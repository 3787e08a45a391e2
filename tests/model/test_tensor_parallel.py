"""What is refused of a model that is to be split over ranks, before a weight is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support import waves, zoo

import bathyscope
from bathyscope import ModelError, OptionError
from bathyscope.model.options import read_split
from bathyscope.model.ranks import agreed, is_first, of_all, of_first, rank, require_same, size, together
from bathyscope.model.tensor_parallel import require_splittable, split_of
from bathyscope.surgery.scheduled.copying import reordered
from bathyscope.surveying.controls import controls_of


def saved(place: Path, family: str, **changes: Any) -> Path:
    """A folder with the configuration of a family alone, so that nothing could load its weights."""
    config = zoo.entry(family).config()
    for name, value in changes.items():
        setattr(config, name, value)
    config.save_pretrained(place)
    return place


def refusal(folder: Path, ranks: int) -> str:
    with pytest.raises(ModelError) as caught:
        require_splittable(folder.name, str(folder), None, False, ranks)
    return str(caught.value)


def test_heads_that_do_not_divide(tmp_path: Path) -> None:
    folder = saved(tmp_path / "llama", "llama")
    require_splittable("llama", str(folder), None, False, 2)
    assert refusal(folder, 4) == (
        "llama has 2 heads of keys and values in a block, which 4 ranks cannot share evenly; allowed: 2. Load it on "
        "one device, on several of one machine (device_map), or streamed (placement='stream')."
    )
    assert refusal(folder, 3).startswith("llama has 4 heads of attention in a block, which 3 ranks cannot share evenly")


def test_a_single_head_of_keys(tmp_path: Path) -> None:
    folder = saved(tmp_path / "one", "llama", num_key_value_heads=1)
    assert refusal(folder, 2).startswith(
        "one has one head of keys and values in a block, which 2 ranks cannot share evenly. Load it on one device"
    )


def test_a_family_without_a_plan(tmp_path: Path) -> None:
    folder = saved(tmp_path / "gpt2", "gpt2")
    assert refusal(folder, 2).startswith("gpt2 is a gpt2 model (GPT2LMHeadModel), and transformers ")
    assert "has no plan by which its blocks are split over ranks (base_model_tp_plan)" in refusal(folder, 2)


def test_heads_that_every_rank_has_need_not_divide(tmp_path: Path) -> None:
    """Phi 3 attends on every rank by itself, and only what follows is split."""
    require_splittable("phi3", str(saved(tmp_path / "phi3", "phi3", num_key_value_heads=1)), None, False, 3)


def test_a_quantised_checkpoint(tmp_path: Path) -> None:
    config = {"quant_method": "gptq", "bits": 4}
    assert "is quantised, and packed weights are not split" in refusal(
        saved(tmp_path / "q", "llama", quantization_config=config), 2
    )


@pytest.mark.parametrize(("value", "split"), [(None, None), ("auto", "auto"), (2, 2), ("4", 4), (64, 64)])
def test_numbers_of_processes(value: object, split: object) -> None:
    assert read_split(value) == split


@pytest.mark.parametrize("value", [0, 1, -2, "1", "two", "", 2.0, True, [2], "2.5"])
def test_what_is_no_number_of_processes(value: Any) -> None:
    with pytest.raises(OptionError, match="is no number of processes; give 'auto', or how many torchrun has started"):
        read_split(value)


@pytest.mark.parametrize(
    "options", [{"device": "cpu"}, {"placement": "stream"}, {"stream": True}, {"base": "x"}, {"gguf_file": "m.gguf"}]
)
def test_options_that_do_not_go_together(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=r"tensor_parallel='auto' and .* do not go together, since the plan"):
        bathyscope.load("nowhere", tensor_parallel="auto", **options)


def test_a_process_that_was_started_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with pytest.raises(OptionError) as caught:
        bathyscope.load("nowhere", tensor_parallel=2)
    assert str(caught.value) == (
        "tensor_parallel=2 splits a model over several processes, and this one was started alone. Start them with "
        "torchrun --nproc-per-node 2 -m bathyscope COMMAND … --tensor-parallel auto."
    )
    with pytest.raises(OptionError, match="started alone"):
        bathyscope.survey("nowhere", ["A text."], loading={"tensor_parallel": "auto"})


def test_another_number_than_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(OptionError, match="tensor_parallel=4 was asked for, and 2 processes were started; give 'auto'"):
        bathyscope.load("nowhere", tensor_parallel=4)


def test_a_model_in_memory_is_taken_as_it_is() -> None:
    with pytest.raises(ModelError, match=r"tensor_parallel= is for models loaded by name\. A model that transformers"):
        bathyscope.load(zoo.build("llama"), tensor_parallel=2)


def test_one_process_alone_agrees_with_itself() -> None:
    calls: list[int] = []
    with together(None):
        assert (rank(), size(), is_first(), agreed("x"), of_all(3)) == (0, 1, True, "x", [3])
        assert of_first(lambda: calls.append(1)) is None
        require_same("prompts", object())
    assert calls == [1]


def test_whole_models_are_not_split() -> None:
    hf = zoo.build("llama")
    assert split_of(hf) is None
    assert split_of(torch.nn.Linear(2, 2)) is None
    assert split_of("a name") is None
    assert split_of("a name", {"tensor_parallel": "2"}) == 2


def test_what_works_in_one_process_is_not_split(tmp_path: Path) -> None:
    reason = "tensor_parallel='auto' is for load, check and survey, and {} works in one process; leave it out."
    with pytest.raises(OptionError) as caught:
        bathyscope.course("nowhere", ["A text."], tmp_path / "course", loading={"tensor_parallel": "auto"})
    assert str(caught.value) == reason.format("course")
    with pytest.raises(OptionError) as caught:
        bathyscope.reproduce("csordas2025", tensor_parallel="auto")
    assert str(caught.value) == reason.format("reproduce")
    grid = {"models": ["gpt2"], "prompts": ["stories.txt:2"], "tensor_parallel": "auto"}
    with pytest.raises(OptionError) as caught:
        bathyscope.grid(grid, tmp_path / "grid")
    assert str(caught.value) == reason.format("grid")


@pytest.mark.parametrize("kind", ["untrained", "shuffled_blocks"])
def test_controls_that_are_built_again_are_refused_of_split_models(kind: str) -> None:
    split = replace(waves.loaded("llama"), ranks=2)
    (control,) = controls_of(kind)
    with pytest.raises(ModelError, match=rf"The control {kind} builds \w+ again from its configuration, and blocks"):
        control.require(split)
    (text,) = controls_of("shuffled_text")
    text.require(split)


def test_orders_that_are_built_again_are_refused_of_split_models() -> None:
    split = replace(waves.loaded("llama"), ranks=2)
    with pytest.raises(ModelError, match=r"schedule='drop:2' builds \w+ again from its configuration, and"):
        reordered(split, "drop:2")
