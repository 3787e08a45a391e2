"""Checkpoints of other programs, and names that are none: what they are, and what helps, in one message."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from support import edited, zoo
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification, Qwen2AudioConfig
from transformers.distributed import DistributedConfig

import bathyscope
from bathyscope.errors import BathyscopeError, ModelError
from bathyscope.model import admission
from bathyscope.model.tensor_parallel import comparison_warning


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    edited.tiny(3).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    file = folder / "model.safetensors"
    save_file({name: value.clone() for name, value in change(load_file(file)).items()}, file, metadata={"format": "pt"})


def declare(folder: Path, **entries: object) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **entries}))


def message_of(call: Callable[[], object]) -> str:
    with pytest.raises(BathyscopeError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize(
    ("prefix", "helps"),
    [
        ("_orig_mod.", "Save the model inside of torch.compile: model._orig_mod.save_pretrained(FOLDER)."),
        ("module.", "Save the model inside of data parallelism: model.module.save_pretrained(FOLDER)."),
        ("base_model.model.", "Save the model inside of PEFT: model.merge_and_unload().save_pretrained(FOLDER)."),
        (
            "pretrained_model.",
            "Save the model inside of TRL's value head: model.pretrained_model.save_pretrained(FOLDER).",
        ),
        ("wrapped.", "Rename them without it."),
    ],
)
def test_names_in_the_wrapper_of_a_framework(prefix: str, helps: str, folder: Path) -> None:
    rewrite(folder, lambda tensors: {f"{prefix}{name}": value for name, value in tensors.items()})
    assert message_of(lambda: bathyscope.load(folder)) == (
        f"The names of all 30 tensors of {folder} begin with {prefix!r}, and those of its configuration do not. {helps}"
    )


@pytest.mark.parametrize(
    ("prefix", "helps"), [("_orig_mod.", "torch.compile"), ("wrapped.", "Rename them without it.")]
)
def test_an_export_says_it_too(prefix: str, helps: str, folder: Path, tmp_path: Path) -> None:
    rewrite(folder, lambda tensors: {f"{prefix}{name}": value for name, value in tensors.items()})
    told = message_of(lambda: bathyscope.export(folder, "drop:1", tmp_path / "copy"))
    assert told.startswith(f"The names of all 30 tensors of {folder} begin with {prefix!r}")
    assert helps in told
    assert not (tmp_path / "copy").exists()


def test_a_prefix_is_seen_where_embeddings_are_tied(tmp_path: Path) -> None:
    """The file has no unembedding, which the library misses under its own name."""
    config = LlamaConfig(
        vocab_size=32, hidden_size=8, intermediate_size=8, num_hidden_layers=2, num_attention_heads=2,
        tie_word_embeddings=True,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path)
    rewrite(tmp_path, lambda tensors: {f"module.{name}": value for name, value in tensors.items()})
    told = message_of(lambda: bathyscope.load(tmp_path))
    assert "begin with 'module.', and those of its configuration do not. Save the model inside of data" in told


def test_empty_tensors_of_scattered_trainings(folder: Path) -> None:
    rewrite(folder, lambda tensors: {name: torch.empty(0) for name in tensors})
    assert message_of(lambda: bathyscope.load(folder)) == (
        f"{folder} holds empty tensors, which DeepSpeed ZeRO-3 leaves in place of weights that are scattered over its "
        "processes. Put them together first: python zero_to_fp32.py CHECKPOINT OUTPUT."
    )


@pytest.mark.parametrize("act", ["export", "stream"])
def test_empty_tensors_are_known_wherever_a_checkpoint_is_read(act: str, folder: Path, tmp_path: Path) -> None:
    rewrite(folder, lambda tensors: {name: torch.empty(0) for name in tensors})
    acts = {
        "export": lambda: bathyscope.export(folder, "drop:1", tmp_path / "copy"),
        "stream": lambda: bathyscope.load(folder, placement="stream"),
    }
    assert "holds empty tensors, which DeepSpeed ZeRO-3 leaves" in message_of(acts[act])
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("act", ["load", "estimate"])
def test_a_folder_that_another_class_opens_is_measured_in_memory(act: str, tmp_path: Path) -> None:
    """A model of sound and text, of which transformers has no causal language model."""
    place = tmp_path / "hearing"
    Qwen2AudioConfig().save_pretrained(place)
    acts = {
        "load": lambda: bathyscope.load(place),
        "estimate": lambda: bathyscope.estimate(place, [[1, 2, 3]], ["lens"]),
    }
    assert message_of(acts[act]) == (
        f"{place} is no causal language model alone (its configuration is a Qwen2AudioConfig). Where it writes text, "
        "load it by its own class, which its config.json names (architectures), and give that model in memory."
    )


def test_a_reward_model_in_memory() -> None:
    reward = LlamaForSequenceClassification(edited.tiny(2).config)
    assert message_of(lambda: bathyscope.load(reward)) == (
        "LlamaForSequenceClassification predicts no tokens: its head is one for SequenceClassification, such as a "
        "reward model's. Give the causal language model it was made from."
    )


def test_code_that_comes_with_a_checkpoint(folder: Path, tmp_path: Path) -> None:
    declare(folder, model_type="unheard_of", auto_map={"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"})
    asked = (
        f"{folder} comes with code of its own, which is not run unless it is asked for: trust_remote_code=True "
        "(--trust-remote-code). Read it first."
    )
    assert message_of(lambda: bathyscope.load(folder)) == asked
    assert message_of(lambda: bathyscope.estimate(folder, [[1, 2, 3]], ["lens"])) == asked
    assert message_of(lambda: bathyscope.export(folder, "drop:1", tmp_path / "copy")) == (
        f"{folder} comes with code of its own, and an exported checkpoint is one that transformers loads by itself. "
        "Load it with trust_remote_code=True, and run the order by bathyscope.scheduled instead."
    )


def test_blocks_that_only_draft_are_no_alarm_and_an_export_says_that_they_are_left_out(
    folder: Path, tmp_path: Path
) -> None:
    declare(folder, num_hidden_layers=2, num_nextn_predict_layers=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bathyscope.load(folder).warnings == ()
    with pytest.warns(UserWarning, match="which predict further tokens for drafts"):
        bathyscope.export(folder, "drop:1", tmp_path / "copy")
    card = (tmp_path / "copy" / "README.md").read_text(encoding="utf-8")
    said = "Blocks of the source's files behind its last were left out (2), which predict further tokens for drafts."
    assert f"- {said}" in card


@pytest.mark.parametrize("family", ["deepseek_v3", "glm4_moe"])
def test_families_that_are_published_with_drafting_blocks_raise_no_alarm(family: str, tmp_path: Path) -> None:
    """Their further block has projections and norms of its own, of which the model has no modules."""
    model = zoo.build(family)
    place, last = tmp_path / "model", model.config.num_hidden_layers
    model.save_pretrained(place)
    tensors = load_file(place / "model.safetensors")
    drafting = {
        name.replace(f".{last - 1}.", f".{last}."): value.clone()
        for name, value in tensors.items()
        if f".{last - 1}." in name
    }
    width = model.config.hidden_size
    drafting |= {
        f"model.layers.{last}.eh_proj.weight": torch.zeros(width, 2 * width),
        f"model.layers.{last}.enorm.weight": torch.ones(width),
        f"model.layers.{last}.shared_head.norm.weight": torch.ones(width),
        f"model.layers.{last}.embed_tokens.weight": tensors["model.embed_tokens.weight"].clone(),
    }
    plain = bathyscope.load(place)
    save_file({**tensors, **drafting}, place / "model.safetensors", metadata={"format": "pt"})
    declare(place, num_nextn_predict_layers=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = bathyscope.load(place)
    assert (loaded.warnings, loaded.weight_hash) == ((), plain.weight_hash)
    with pytest.warns(UserWarning, match="which predict further tokens for drafts"):
        bathyscope.export(place, "drop:1", tmp_path / "copy")
    said = f"were left out ({last}), which predict further tokens for drafts."
    assert said in (tmp_path / "copy" / "README.md").read_text(encoding="utf-8")


def test_names_without_the_base_models_prefix_are_read(folder: Path) -> None:
    """Checkpoints of a base model have names without ``model.``, and their head lies next to them."""
    expected = bathyscope.load(folder).weight_hash
    rewrite(folder, lambda tensors: {name.removeprefix("model."): value for name, value in tensors.items()})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bathyscope.load(folder).weight_hash == expected


def test_blocks_that_nothing_counts_are_still_an_alarm(folder: Path, tmp_path: Path) -> None:
    declare(folder, num_hidden_layers=1, num_nextn_predict_layers=1)
    with pytest.warns(UserWarning, match=r"holds 3 blocks, and its configuration asks for the first 1; .*changed\?"):
        bathyscope.load(folder)
    with pytest.warns(UserWarning, match=r"left out \(1, 2\), which its configuration does not count"):
        bathyscope.export(folder, "repeat:0", tmp_path / "copy")


def test_a_course_of_adapters_without_a_base_says_what_is_missing(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    lora = peft.LoraConfig(r=2, target_modules=["q_proj"])
    peft.get_peft_model(edited.tiny(2), lora).save_pretrained(tmp_path / "checkpoint-5")
    with pytest.warns(UserWarning, match="Step 5 is left out"):
        message = message_of(lambda: bathyscope.course(tmp_path, [[1, 2, 3]], tmp_path / "course", progress=False))
    assert message == (
        f"None of the 1 checkpoints can be surveyed: {tmp_path / 'checkpoint-5'} is an adapter that does not say of "
        "which model; give it (base=, --base)."
    )


@pytest.mark.parametrize("verb", ["load", "check", "survey", "estimate", "export", "prune", "diff"])
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("  ", "The model's name is empty; give a checkpoint folder"),
        ("\n", "The model's name is empty; give a checkpoint folder"),
        (" gpt2 ", "The model's name ' gpt2 ' has blanks at its ends; give it without: 'gpt2'."),
        ("gpt2\n", "The model's name 'gpt2\\n' has blanks at its ends; give it without: 'gpt2'."),
        ("Qwen/Qwen3-0.6B ", "has blanks at its ends; give it without: 'Qwen/Qwen3-0.6B'."),
        ("my model", "'my model' is no folder here, and no name on the hub, which has letters, digits,"),
        ("a..b", "'a..b' is no folder here, and no name on the hub"),
    ],
)
def test_names_that_no_model_has(verb: str, name: str, said: str, tmp_path: Path) -> None:
    prompts = [[1, 2, 3], [2, 3, 4]]
    calls: dict[str, Callable[[], object]] = {
        "load": lambda: bathyscope.load(name),
        "check": lambda: bathyscope.check(name),
        "survey": lambda: bathyscope.survey(name, prompts, ["lens"], progress=False),
        "estimate": lambda: bathyscope.estimate(name, prompts, ["lens"]),
        "export": lambda: bathyscope.export(name, "drop:1", tmp_path / "copy"),
        "prune": lambda: bathyscope.prune(name, prompts, prompts, drop=1, progress=False),
        "diff": lambda: bathyscope.diff(name, name, prompts),
    }
    assert said in message_of(calls[verb])


def test_a_folder_whose_name_ends_in_a_blank_is_loaded(tmp_path: Path) -> None:
    edited.tiny(1).save_pretrained(tmp_path / "model ")
    assert bathyscope.load(f"{tmp_path}/model ").n_blocks == 1


@pytest.fixture
def alone_in_a_group(tmp_path: Path) -> Iterator[None]:
    """A process group of one process, in which weights can be split over one."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone_in_a_group")
def test_weights_that_something_else_has_split() -> None:
    hf = edited.tiny(1)
    mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))
    hf.lm_head.weight = torch.nn.Parameter(distribute_tensor(hf.lm_head.weight.detach(), mesh, [Shard(0)]))
    with pytest.raises(ModelError) as caught:
        admission.require_measurable(hf)
    assert str(caught.value) == (
        "This LlamaForCausalLM is split by something else than the plan of transformers, and its blocks cannot be "
        "measured so. Load it by load(name, tensor_parallel='auto'), or without parallelism (device_map, "
        "placement='stream')."
    )


@pytest.mark.usefixtures("alone_in_a_group")
def test_weights_that_are_sharded_for_training() -> None:
    hf = edited.tiny(1)
    fully_shard(hf, mesh=init_device_mesh("cpu", (1,)))
    with pytest.raises(ModelError, match=r"is split by FSDP, which gathers blocks for a training's forward, and its"):
        admission.require_measurable(hf)


@pytest.mark.usefixtures("alone_in_a_group")
def test_a_split_model_outside_of_its_ranks_work() -> None:
    hf = edited.tiny(1)
    mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))
    hf.lm_head.weight = torch.nn.Parameter(distribute_tensor(hf.lm_head.weight.detach(), mesh, [Shard(0)]))
    hf.config.distributed_config = DistributedConfig(tp_size=1)
    with pytest.raises(ModelError) as caught:
        admission.require_measurable(hf)
    assert str(caught.value) == (
        "This LlamaForCausalLM is split over processes (tensor parallelism), and this call works in one. load, check, "
        "survey and scheduled take split models; load it without tensor_parallel for others (device_map, "
        "placement='stream')."
    )
    assert comparison_warning(hf) is None
    hf.config.model_type = "starcoder2"
    assert str(comparison_warning(hf)).startswith("Models of type starcoder2 were not compared over ranks with")
    hf.config.distributed_config = DistributedConfig(tp_size=2, ep_size=2)
    with pytest.raises(ModelError, match=r"is split by experts as well \(ep_size=2\), and its blocks"):
        admission.require_measurable(hf)
