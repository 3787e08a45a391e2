"""Models that accelerate has dispatched: some blocks in memory and the others on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support import streamed, zoo

import bathyscope
from bathyscope.errors import ModelError
from bathyscope.model import load
from bathyscope.model.streaming.carrying import ALIGNMENT
from bathyscope.model.streaming.offloaded import is_offloaded

QUICK = ("llama", "gemma4")
# accelerate cannot place weights that blocks share in two places
SHARED = ("universal", "moeut")
THOROUGH = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.thorough)
    for name in dict.fromkeys((*QUICK, *zoo.names(plain=True)))
    if name not in SHARED
]
MEASURES = ("skip", "neurons")
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_blocks_that_were_left_in_memory_begin_at_a_cache_line_as_those_of_load(tmp_path: Path) -> None:
    """Products round in another order elsewhere, so that results of experts differed from the model in memory."""
    folder = streamed.saved("llama", tmp_path / "model")
    model = load(streamed.offloaded(folder, tmp_path / "disk"))
    here = [value for value in model.hf.parameters() if value.device.type == "cpu"]
    assert {value.data_ptr() % ALIGNMENT for value in here} == {0}
    assert len(here) > 9, "a block and what is outside of the blocks"


@pytest.mark.parametrize("name", THOROUGH)
def test_results_are_those_of_the_model_in_memory(name: str, tmp_path: Path) -> None:
    folder = streamed.saved(name, tmp_path / "model")
    here, hf = load(folder, placement="resident"), streamed.offloaded(folder, tmp_path / "disk")
    there = load(hf)
    assert there.placement == "stream"
    assert there.weight_hash == here.weight_hash
    measures = [m for m in MEASURES if m != "neurons" or here.anatomy.sites]
    assert streamed.hashes(there, tmp_path / "there", measures) == streamed.hashes(here, tmp_path / "here", measures)
    # it still runs by itself, also where accelerate cannot run it (DBRX, JetMoe)
    ids = torch.tensor([zoo.prompts(here.hf)[0]])
    with torch.no_grad():
        whole, own = (model(input_ids=ids, use_cache=False).logits for model in (here.hf, hf))
    assert torch.equal(own, whole)


def test_accelerates_own_offloading_is_taken_over(tmp_path: Path) -> None:
    """Weights as accelerate writes and keeps them itself: arrays on disk, and everything off the device."""
    import accelerate

    here = load(zoo.build("llama"))
    on_disk, on_host = zoo.entry("llama").build(), zoo.entry("llama").build()
    accelerate.disk_offload(on_disk, str(tmp_path / "disk"))
    accelerate.cpu_offload(on_host)
    for hf in (on_disk, on_host):
        assert is_offloaded(hf)
        there = load(hf)
        assert there.weight_hash == here.weight_hash
        assert there.checks == here.checks
        assert not is_offloaded(hf)
        assert hf.get_input_embeddings().weight.device.type == "cpu"


@pytest.mark.parametrize("verb", [load, lambda hf: bathyscope.survey(hf, [[1, 2, 3]], ["lens"])])
def test_a_model_on_meta_is_refused_with_its_name(verb: Callable[[Any], object]) -> None:
    hf = zoo.entry("llama").build().to("meta")
    hf.config._name_or_path = "owner/tiny"
    with pytest.raises(ModelError) as caught:
        verb(hf)
    assert str(caught.value) == (
        "All weights of owner/tiny are on the meta device, which stores no values (first: model.embed_tokens.weight). "
        "Load the model with its weights, or by its name: bathyscope.load(folder, placement='stream')."
    )


def test_blocks_that_nobody_keeps_are_refused() -> None:
    hf = zoo.entry("llama").build()
    hf.model.layers[2].to("meta")
    with pytest.raises(ModelError) as caught:
        load(hf)
    assert str(caught.value) == (
        f"9 of {len(list(hf.parameters()))} weights of LlamaForCausalLM are on the meta device, which stores no values "
        "(first: model.layers.2.self_attn.q_proj.weight). Load the model with its weights, or by its name: "
        "bathyscope.load(folder, placement='stream')."
    )
