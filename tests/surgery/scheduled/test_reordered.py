"""A survey with a schedule is the survey of the exported checkpoint, on the weights of the model itself."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from support import waves, zoo
from torch import nn

import bathyscope
from bathyscope import ModelError, OptionError
from bathyscope.surgery.scheduled.copying import reordered

MEASURES = ["residual", "lens", "skip", "swap"]


def ids() -> list[list[int]]:
    return zoo.prompts(zoo.build("llama"), (14, 9))


def bits(run: bathyscope.Run) -> dict[tuple[str, str], bytes]:
    return {(m, str(name)): v.values.tobytes() for m in run for name, v in run[m].data_vars.items()}


@pytest.mark.filterwarnings("ignore:(skip. .* too short|.*came without a tokenizer)")
@pytest.mark.parametrize(
    ("family", "schedule"), [("llama", "drop:1"), ("gpt2", "swap:1,repeat:2"), ("gemma2", "drop:1,drop:3")]
)
def test_it_is_the_survey_of_the_exported_checkpoint(family: str, schedule: str, tmp_path: Path) -> None:
    hf = zoo.build(family)
    before = list(hf.modules())
    bathyscope.export(hf, schedule, tmp_path / "exported")
    written = bathyscope.survey(bathyscope.load(tmp_path / "exported"), ids(), MEASURES, progress=False)
    found = bathyscope.survey(hf, ids(), MEASURES, progress=False, schedule=schedule)
    assert bits(found) == bits(written)
    assert found.identity.weight_hash == written.identity.weight_hash
    assert found.n_blocks == written.n_blocks
    assert list(hf.modules()) == before


def test_it_is_the_model_built_so_by_hand() -> None:
    hf = zoo.build("llama")
    other = copy.deepcopy(hf)
    blocks = list(other.model.layers)
    other.model.layers = nn.ModuleList([blocks[0], *blocks[2:]])
    for slot, block in enumerate(other.model.layers):
        block.self_attn.layer_idx = slot
    other.config.num_hidden_layers = len(other.model.layers)
    model = reordered(bathyscope.load(hf), "drop:1")
    batch = torch.tensor(ids()[:1])
    torch.testing.assert_close(model.hf(batch).logits, other(batch).logits, rtol=0, atol=0)
    assert model.hf.model.layers[1].mlp.up_proj.weight.data_ptr() == hf.model.layers[2].mlp.up_proj.weight.data_ptr()
    assert reordered(bathyscope.load(hf), "swap:0,swap:0").hf is hf, "its own order is the model itself"


PASSING_ON = [
    ("glm_moe_dsa", "order:2-1-0-4-3", ""),  # every block chooses its own positions
    pytest.param("glm_moe_dsa", "drop:0", "", marks=pytest.mark.thorough),
    ("glm_moe_dsa_shared", "order:2-1-0-4-3", ""),  # block 1 takes those of block 2
    ("glm_moe_dsa_shared", "drop:1", ""),
    ("glm_moe_dsa_shared", "drop:0", "block 1 takes what the block before it passes on, and none would have run"),
    ("hy_v4", "drop:0", ""),
    ("xlnet", "swap:0", ""),  # it makes weights of torch.FloatTensor, which an outline does not keep from memory
    pytest.param(
        "hy_v4",
        "order:2-1-0-4-3",
        "block 2 takes what the block before it passes on, and none would have run",
        marks=pytest.mark.thorough,
    ),
]
"""What these schedules lack; empty where they run."""


@pytest.mark.parametrize(("name", "schedule", "lacking"), PASSING_ON)
def test_an_order_runs_in_place_where_it_runs_as_a_model_of_its_own(name: str, schedule: str, lacking: str) -> None:
    model = waves.loaded(name)
    batch = torch.tensor(zoo.prompts(model.hf, (17, 17)))
    if lacking:
        for run in (bathyscope.scheduled(model, schedule).__enter__, lambda: reordered(model, schedule)):
            with pytest.raises(ModelError, match=lacking):
                run()
        return
    with torch.no_grad(), bathyscope.scheduled(model, schedule) as hf:
        in_place = hf(batch, use_cache=False).logits
    with torch.no_grad():
        own = reordered(model, schedule).hf(batch, use_cache=False).logits
    torch.testing.assert_close(own, in_place, rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", zoo.swept(zoo.names(), frozenset({"llama", "gpt2", "youtu"})))
def test_the_model_itself_is_not_written_into(name: str) -> None:
    """Some families write zeros into the embedding of the padding token whenever a model is initialised."""
    hf = zoo.entry(name).build()
    before = {key: value.clone() for key, value in hf.state_dict().items()}
    try:
        copied = reordered(bathyscope.load(hf), "swap:1").hf
    except ModelError as error:
        pytest.skip(str(error))
    assert [key for key, value in hf.state_dict().items() if not torch.equal(value, before[key])] == []
    outside = [key for key in before if not any(part.isdecimal() for part in key.split("."))]
    assert [key for key in outside if not torch.equal(copied.state_dict()[key], before[key])] == []


def test_the_schedule_is_part_of_the_run(tmp_path: Path) -> None:
    hf = zoo.build("llama")
    run = bathyscope.survey(hf, ids(), ["residual"], tmp_path / "run", progress=False, schedule="drop:1")
    assert run.identity.schedule == f"0 2…{len(hf.model.layers) - 1} of {len(hf.model.layers)} blocks"
    assert "LlamaForCausalLM (0 2…" in run.caption()
    again = bathyscope.survey(hf, ids(), ["residual"], tmp_path / "run", progress=False, schedule="order:0-2-3-4")
    assert bits(again) == bits(run)
    with pytest.raises(bathyscope.StoreError, match="schedule: run has '0 2…"):
        bathyscope.survey(hf, ids(), ["residual"], tmp_path / "run", progress=False)


def test_what_cannot_be_surveyed_so_is_said(tmp_path: Path) -> None:
    hf = zoo.build("llama")
    with pytest.raises(OptionError, match="Unknown schedule 'dorp:1'"):
        bathyscope.survey(hf, ids(), ["residual"], progress=False, schedule="dorp:1")
    with pytest.raises(
        OptionError, match=r"export the model \(bathyscope export MODEL --schedule ORDER --out FOLDER\)"
    ):
        bathyscope.survey(hf, ids(), ["residual"], tmp_path / "run", part="1/1", schedule="drop:1")
    hf.save_pretrained(tmp_path / "model")
    with pytest.raises(
        ModelError, match=r"are streamed; export it \(bathyscope export MODEL --schedule ORDER --out FOLDER\)"
    ):
        reordered(bathyscope.load(tmp_path / "model", stream=True), "drop:1")
