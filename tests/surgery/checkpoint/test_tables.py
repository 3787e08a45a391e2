"""Tables that were changed in memory are in no checkpoint, so that no model with such a table is exported."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from support import edited, zoo
from support.loaded_facts import from_disk
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedModel

import bathyscope
from bathyscope import ModelError
from bathyscope.model.classes import loads_by_itself
from bathyscope.model.constants.tables import changed_tables, rounded_tables
from bathyscope.model.tables import tables_of

QUICK = zoo.FEWER | {"gemma3", "gptj", "llama_longrope"}
REFUSAL = "is not what its configuration makes"


def computed_with(hf: nn.Module) -> dict[str, Tensor]:
    """Return tables of numbers, one of each name, but those that a forward itself writes."""
    by_key = {name.rpartition(".")[2]: name for name in tables_of(hf)}
    rotary = {name: hf.get_submodule(name.rpartition(".")[0]) for name in by_key.values()}
    written = {name for name, owner in rotary.items() if getattr(owner, "rope_type", "") in ("dynamic", "longrope")}
    return {
        name: table
        for name, table in tables_of(hf).items()
        if name in by_key.values()
        and table.is_floating_point()
        and table.any()
        and not (name in written and name.endswith(".inv_freq"))
    }


def refusal_of(hf: PreTrainedModel, folder: Path) -> str:
    """Return why an export is refused; empty where it is written."""
    try:
        bathyscope.export(hf, "drop:1", folder)
    except ModelError as error:
        return str(error)
    return ""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", zoo.swept(zoo.names(), QUICK))
def test_a_changed_table_is_refused_by_name_and_a_rounded_one_is_not(name: str, tmp_path: Path) -> None:
    with zoo.entry(name).within():
        hf = from_disk(zoo.build(name), tmp_path / "plain", torch.float32)
        long = torch.tensor(zoo.prompts(hf, (64,)))
        with torch.no_grad():
            hf(long, use_cache=False)
        assert REFUSAL not in refusal_of(hf, tmp_path / "run")
        for path, table in computed_with(hf).items():
            before = table.clone()
            table.mul_(1.5)
            assert path in changed_tables(hf)
            # what transformers opens by no class of its own is refused for that, whatever its tables are
            if loads_by_itself(hf.config):
                assert f"{path} of this {type(hf).__name__} {REFUSAL}" in refusal_of(hf, tmp_path / path)
            else:
                assert "no checkpoint of one can be loaded by itself" in refusal_of(hf, tmp_path / path)
            assert not (tmp_path / path).exists()
            table.copy_(before)
        assert REFUSAL not in refusal_of(hf.to(torch.bfloat16), tmp_path / "rounded")


@settings(max_examples=30, deadline=None)
@given(
    casts=st.lists(st.sampled_from([torch.bfloat16, torch.float16, torch.float32, torch.float64]), max_size=2),
    name=st.sampled_from(["llama", "llama_dynamic", "gemma3", "gptj", "ctrl"]),
    # four roundings of bfloat16, in which a model may have made its tables, are 3 %
    factor=st.sampled_from([0.5, 0.95, 1.05, 1.5]),
)
def test_casts_of_a_model_leave_its_tables_and_factors_do_not(
    casts: list[torch.dtype], name: str, factor: float
) -> None:
    hf = zoo.entry(name).build()
    for dtype in casts:
        hf.to(dtype)
    assert changed_tables(hf) == []
    _assert_rounded_where_loaded_tables_differ(hf)
    path, table = next(iter(computed_with(hf).items()))
    table.mul_(factor)
    assert changed_tables(hf) == [path]


def test_a_base_that_only_the_configuration_was_told_is_refused(tmp_path: Path) -> None:
    hf = edited.tiny(3)
    hf.config.rope_parameters = {"rope_type": "default", "rope_theta": 50.0}
    assert refusal_of(hf, tmp_path / "copy").startswith(
        "model.rotary_emb.inv_freq of this LlamaForCausalLM (and 1 more) "
    )


@pytest.mark.filterwarnings("ignore")
def test_every_way_to_write_a_schedule_refuses_a_changed_table(tmp_path: Path) -> None:
    prompts = [[[7, 9, 11, 13, 15 + row, 17] for row in range(4)], [[8, 9, 12, 13, 25 + row, 17] for row in range(4)]]
    hf = edited.tiny(4)
    hf.model.rotary_emb.inv_freq.mul_(2)
    plan = bathyscope.prune(hf, *prompts, drop=1, resamples=100, budget=0, random=1, progress=False)
    message = rf"^model\.rotary_emb\.inv_freq of this LlamaForCausalLM {REFUSAL}, and no checkpoint holds it\."
    with pytest.raises(ModelError, match=message), bathyscope.scheduled(hf, "drop:1") as running:
        running.save_pretrained(tmp_path / "saved")
    for act in (
        lambda: bathyscope.export(hf, "drop:1", tmp_path / "exported"),
        lambda: plan.export(tmp_path / "planned"),
        lambda: bathyscope.survey(hf, prompts[0], ["lens"], schedule="drop:1", progress=False),
        lambda: bathyscope.repair(hf, "drop:1", prompts[0], test=prompts[1], progress=False),
    ):
        with pytest.raises(ModelError, match=message):
            act()
    assert not [*tmp_path.iterdir()]


def _assert_rounded_where_loaded_tables_differ(hf: PreTrainedModel) -> None:
    """Tables are rounded where those of a model that is built in this dtype have other numbers."""
    built = type(hf)._from_config(copy.deepcopy(hf.config), dtype=next(hf.parameters()).dtype)
    rounded = rounded_tables(hf)
    frequencies = {name: table for name, table in computed_with(built).items() if table.ndim == 1}
    for name, table in frequencies.items():
        now, exact = tables_of(hf)[name].double(), table.double()
        share = float(((now - exact) / exact).abs()[exact != 0].max())
        assert rounded.get(name, 0.0) == (pytest.approx(share) if share > 1e-5 else 0.0)


@pytest.mark.parametrize("cast", ["to", "loaded", "and back"])
def test_an_export_says_which_tables_were_rounded_in_memory(cast: str, tmp_path: Path) -> None:
    """A checkpoint is loaded with tables in full, and so computes something else at distant tokens."""
    zoo.entry("llama").build().save_pretrained(tmp_path / "plain")
    dtype = torch.float32 if cast == "and back" else torch.bfloat16
    hf = AutoModelForCausalLM.from_pretrained(tmp_path / "plain", dtype=dtype if cast == "loaded" else torch.float32)
    if cast != "loaded":
        hf = hf.to(torch.bfloat16).to(dtype)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        folder = bathyscope.export(hf, "drop:1", tmp_path / "export")
    said = [str(warning.message) for warning in caught if "rounded" in str(warning.message)]
    copied = AutoModelForCausalLM.from_pretrained(folder)
    first, second = (model.model.rotary_emb.inv_freq.double() for model in (hf, copied))
    share = float(((first - second) / second).abs().max())
    assert bool(said) == (share > 0) == (cast != "loaded")
    for text in (*said, *[(folder / "README.md").read_text()] * len(said)):
        name = str(dtype).removeprefix("torch.")
        assert (
            f"model.rotary_emb.inv_freq (and 1 more) was rounded with the model in memory (by up to {share:.2g} of a"
            in text
        )
        assert f"Measure this copy, or load the source with dtype={name} instead of casting it." in text
