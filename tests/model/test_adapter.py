"""Folders of adapters: the model that such a folder stands for, and folders that stand for none."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support import zoo
from transformers import LlamaForCausalLM

import bathyscope
from bathyscope.core.apart import can_be_apart
from bathyscope.errors import ModelError
from bathyscope.model import adapter as adapter_module
from bathyscope.model import adapter_settings

peft = pytest.importorskip("peft")

IDS = [[5, 9, 31, 33, 12, 17, 44], [40, 13, 8, 21, 60]]
KINDS: dict[str, Callable[[], Any]] = {
    "lora": lambda: peft.LoraConfig(r=2, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM"),
    "dora": lambda: peft.LoraConfig(r=2, target_modules=["v_proj"], use_dora=True, task_type="CAUSAL_LM"),
    "ia3": lambda: peft.IA3Config(
        target_modules=["k_proj", "down_proj"], feedforward_modules=["down_proj"], task_type="CAUSAL_LM"
    ),
    "with embeddings": lambda: peft.LoraConfig(
        r=2, target_modules=["q_proj"], modules_to_save=["embed_tokens"], task_type="CAUSAL_LM"
    ),
}


def write(base: Path, folder: Path, kind: str = "lora", entries: int | None = None) -> Any:
    """Writes an adapter that changes what the base says, and returns the adapted model."""
    hf = LlamaForCausalLM.from_pretrained(base)
    if entries is not None:
        hf.resize_token_embeddings(entries, mean_resizing=False)
    torch.manual_seed(1)
    model = peft.get_peft_model(hf, KINDS[kind]())
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    return model.eval()


@pytest.fixture(scope="module")
def lora(saved: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a LoRA of the saved model; read only."""
    folder = tmp_path_factory.mktemp("adapters") / "lora"
    write(saved, folder)
    return folder


@pytest.fixture
def changed(lora: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy of the folder whose settings and tensors went through the given functions."""

    def change(settings: Callable[[dict[str, Any]], object] | None = None, tensors: Any = None) -> Path:
        folder = tmp_path / "changed"
        shutil.copytree(lora, folder)
        if settings is not None:
            written = json.loads((folder / "adapter_config.json").read_text())
            settings(written)
            (folder / "adapter_config.json").write_text(json.dumps(written))
        if tensors is not None:
            stored = load_file(folder / "adapter_model.safetensors")
            save_file(tensors(stored), folder / "adapter_model.safetensors")
        return folder

    return change


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_an_adapter_is_the_adapted_model(saved: Path, tmp_path: Path, kind: str) -> None:
    adapted = write(saved, tmp_path / "adapter", kind)
    in_memory = bathyscope.load(adapted)
    from_folder = bathyscope.load(tmp_path / "adapter")
    assert from_folder.name == str(tmp_path / "adapter")
    assert from_folder.weight_hash == in_memory.weight_hash != bathyscope.load(saved).weight_hash
    ids = torch.tensor(IDS[:1])
    # the same calls in the same shapes
    assert torch.equal(from_folder.hf(input_ids=ids).logits, adapted(input_ids=ids).logits)
    runs = [bathyscope.survey(model, IDS, ["lens", "drop"], progress=False) for model in (in_memory, from_folder)]
    first, second = (run.manifest["identity"] for run in runs)
    assert first["adapters"] == second["adapters"] == "default active"
    assert (runs[0]["drop"].loss.values == runs[1]["drop"].loss.values).all()


def test_an_adapter_with_tokens_of_its_own_brings_the_embedding_that_it_needs(saved: Path, tmp_path: Path) -> None:
    entries = LlamaForCausalLM.from_pretrained(saved).config.vocab_size + 3
    adapted = write(saved, tmp_path / "adapter", "with embeddings", entries)
    model = bathyscope.load(tmp_path / "adapter")
    assert model.vocabulary == entries
    ids = torch.tensor([[entries - 1, 4, entries - 2]])
    # the head's new rows too, which the library stores with an embedding that was resized
    assert torch.equal(model.hf(input_ids=ids).logits, adapted(input_ids=ids).logits)


def test_rows_of_the_head_that_are_stored_nowhere_are_refused(saved: Path, tmp_path: Path) -> None:
    entries = LlamaForCausalLM.from_pretrained(saved).config.vocab_size + 3
    write(saved, tmp_path / "adapter", "with embeddings", entries)
    weights = tmp_path / "adapter" / "adapter_model.safetensors"
    stored = load_file(weights)
    assert any("lm_head" in name for name in stored)
    save_file({name: value for name, value in stored.items() if "lm_head" not in name}, weights)
    with pytest.raises(ModelError, match=r"no weights of lm_head for it, which would be drawn at random"):
        bathyscope.load(tmp_path / "adapter")


def test_another_base_is_given_by_hand(saved: Path, lora: Path, altered: Callable[..., Path]) -> None:
    other = altered(lambda tensors: tensors["model.norm.weight"].mul_(2))
    model = bathyscope.load(lora, base=other)
    assert torch.equal(model.hf.model.norm.weight, 2 * bathyscope.load(saved).hf.model.norm.weight)


def test_the_tokenizer_is_the_adapters_own_or_else_the_bases(
    lora: Path, changed: Callable[..., Path], altered: Callable[..., Path], plain: Any
) -> None:
    base = altered()
    plain.save_pretrained(base)
    folder = changed(lambda settings: settings.update(base_model_name_or_path=str(base)))
    text = plain.decode([7, 8, 9])
    assert bathyscope.load(folder).tokenizer(text).input_ids == plain(text).input_ids
    own = type(plain).from_pretrained(base)
    own.add_tokens(["<new>"])
    own.save_pretrained(folder)
    assert "<new>" in bathyscope.load(folder).tokenizer.get_vocab()


@pytest.mark.parametrize("added", [0, 3])
def test_a_course_goes_through_adapters(saved: Path, tmp_path: Path, added: int) -> None:
    """Also through those with tokens of their own."""
    before = LlamaForCausalLM.from_pretrained(saved).config.vocab_size
    entries = before + added if added else None
    for step in (2, 9):
        model = write(saved, tmp_path / "out" / f"checkpoint-{step}", entries=entries)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter.mul_(step)
        model.save_pretrained(tmp_path / "out" / f"checkpoint-{step}")
    course = bathyscope.course(tmp_path / "out", IDS, tmp_path / "course", measures="drop", progress=False)
    assert course.data.step.values.tolist() == [2, 9]
    expected = bathyscope.survey(tmp_path / "out" / "checkpoint-9", IDS, "drop", progress=False)
    assert bathyscope.load(tmp_path / "out" / "checkpoint-9").vocabulary == (entries or before)
    added = expected["drop"].loss - expected["drop"].baseline_loss
    assert float(course.data.added_loss[1, 0]) == pytest.approx(float(added[:, 0].mean()), rel=1e-6)


def test_an_estimate_of_an_adapter_is_one_of_its_base(saved: Path, lora: Path) -> None:
    both = [bathyscope.estimate(place, tokens=20, measures="drop") for place in (saved, lora)]
    assert both[0].block_flops == both[1].block_flops > 0


def _with_block(tensors: dict[str, Any], number: int) -> dict[str, Any]:
    more = {name.replace("layers.0", f"layers.{number}"): value.clone() for name, value in tensors.items()}
    return {**tensors, **{name: value for name, value in more.items() if f"layers.{number}" in name}}


REFUSED: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "no base": (
        lambda settings: settings.update(base_model_name_or_path=None),
        None,
        {},
        "does not say of which model; give it",
    ),
    "a base that is gone": (
        lambda settings: settings.update(base_model_name_or_path="/no/such/place"),
        None,
        {},
        "There is no folder /no/such/place",
    ),
    "no kind": (lambda settings: settings.pop("peft_type"), None, {}, "names no kind of adapter"),
    "an unknown kind": (
        lambda settings: settings.update(peft_type="NEW"),
        None,
        {},
        r"the kind .NEW. .*which peft does not know\. Update",
    ),
    "code": (
        lambda settings: settings.update(megatron_config={"a": 1}, megatron_core="antigravity"),
        None,
        {},
        "megatron_config, by which other code is imported",
    ),
    "blocks that are not there": (
        None,
        lambda tensors: _with_block(tensors, 9),
        {},
        "has weights for layers that .* does not have",
    ),
    "layers that are not there": (
        None,
        lambda tensors: {name: value for name, value in tensors.items() if "layers.0" not in name},
        {},
        "lacks weights for layers of",
    ),
    "another width": (
        None,
        lambda tensors: {name: value[:, :5].contiguous() for name, value in tensors.items()},
        {},
        "does not fit .*size mismatch",
    ),
    "a rank that no file holds": (
        lambda settings: settings.update(r=10**9),
        None,
        {},
        "declares a rank of 1,000,000,000, and",
    ),
    "a rank of some layers": (
        lambda settings: settings.update(rank_pattern={"q_proj": 10**9}),
        None,
        {},
        "declares a rank of 1,000,000,000, and its file holds no matrix of that size",
    ),
    "an embedding without width": (
        None,
        lambda tensors: {**tensors, "base_model.model.model.embed_tokens.weight": torch.empty(10**12, 0)},
        {},
        "does not fit|has weights for layers",
    ),
    "streamed": (None, None, {"placement": "stream"}, "is an adapter, .* and cannot be streamed. Merge it"),
    "revision": (None, None, {"revision": "main"}, "which holds what it holds"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_adapter_of_the_model_is_refused(changed: Callable[..., Path], case: str) -> None:
    settings, tensors, options, message = REFUSED[case]
    with pytest.raises(ModelError, match=message):
        bathyscope.load(changed(settings, tensors), **options)


def test_damaged_files_are_named(lora: Path, changed: Callable[..., Path], saved: Path) -> None:
    folder = changed()
    weights, settings = folder / "adapter_model.safetensors", folder / "adapter_config.json"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-7])
    with pytest.raises(ModelError, match=r"adapter_model.safetensors is no whole safetensors file"):
        bathyscope.load(folder)
    weights.rename(folder / "adapter_model.bin")
    with pytest.raises(ModelError, match=r"adapter_model.bin alone, a pickle, which is not opened here"):
        bathyscope.load(folder)
    weights.write_bytes(whole)
    (folder / "model.safetensors").write_bytes((saved / "model.safetensors").read_bytes())
    with pytest.raises(ModelError, match="only one of them can be meant"):
        bathyscope.load(folder)
    settings.write_text("{")
    with pytest.raises(ModelError, match=r"no readable adapter_config.json"):
        bathyscope.load(folder)


def test_a_link_out_of_the_folder_is_refused(lora: Path, changed: Callable[..., Path]) -> None:
    folder = changed()
    weights = folder / "adapter_model.safetensors"
    weights.unlink()
    weights.symlink_to(lora / "adapter_model.safetensors")
    with pytest.raises(ModelError, match="cannot be read"):
        bathyscope.load(folder)


def test_base_is_for_adapters_alone(saved: Path) -> None:
    with pytest.raises(ModelError, match=r"base='other' is for adapters, and .* holds no adapter_config.json"):
        bathyscope.load(saved, base="other")
    with pytest.raises(ModelError, match="base= is for the folder of an adapter, and a model in memory was given"):
        bathyscope.load(zoo.build("llama"), base="other")


def test_without_the_library_it_is_named(lora: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter_module, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"needs peft: pip install 'bathyscope\[adapters\]'"):
        bathyscope.load(lora)


def test_a_whole_model_is_asked_for_where_a_checkpoint_is_written(lora: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"an adapter, and a whole model is needed here: merge it"):
        bathyscope.export(lora, "drop:1", tmp_path / "out")
    with pytest.raises(ModelError, match="Merge them first"):
        bathyscope.export(bathyscope.load(lora), "drop:1", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_name_on_the_hub_is_read_from_its_cache(saved: Path, lora: Path, hub: Callable[..., None]) -> None:
    hub("owner/adapter", lora)
    model = bathyscope.load("owner/adapter", base=saved)
    assert model.name == "owner/adapter"
    assert model.weight_hash == bathyscope.load(lora).weight_hash


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts a folder into a cache of the hub, without a network."""
    import huggingface_hub.constants
    import transformers.utils.hub

    cache = tmp_path / "hub"
    for module, name in ((huggingface_hub.constants, "HF_HUB_CACHE"), (transformers.utils.hub, "TRANSFORMERS_CACHE")):
        monkeypatch.setattr(module, name, str(cache), raising=False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)

    def put(name: str, folder: Path) -> None:
        place = cache / f"models--{name.replace('/', '--')}"
        commit = "0" * 40
        (place / "refs").mkdir(parents=True)
        (place / "refs" / "main").write_text(commit)
        shutil.copytree(folder, place / "snapshots" / commit)

    return put


@pytest.mark.parametrize("kind", ["PROMPT_TUNING", "MULTITASK_PROMPT_TUNING", "P_TUNING", "PREFIX_TUNING", "CPT"])
def test_an_adapter_of_virtual_tokens_is_refused_before_its_library_makes_them(
    kind: str, changed: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A billion tokens, which no file holds, would be drawn at random before the file is looked at."""

    def make(*_: object, **__: object) -> None:
        raise AssertionError("the library makes them")

    monkeypatch.setattr("peft.PeftModel.from_pretrained", make)
    folder = changed(settings=lambda written: written.update(peft_type=kind, num_virtual_tokens=10**9, token_dim=10**6))
    with pytest.raises(ModelError, match=rf"is an adapter by {kind}, which puts states in front of a prompt"):
        bathyscope.load(folder)


@pytest.mark.skipif(not can_be_apart(), reason="patterns are matched in the program's own process here")
@pytest.mark.parametrize(
    "settings",
    [{"target_modules": "(.*)*(.*)*x"}, {"alpha_pattern": {"(.*)*(.*)*x": 2}}, {"layers_pattern": ["(.*)*(.*)*x"]}],
)
def test_patterns_that_are_never_matched_are_refused(
    settings: dict[str, Any], changed: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One pattern of a dozen letters would take longer than anybody waits."""
    monkeypatch.setattr(adapter_settings, "_SECONDS", 0.5)
    folder = changed(settings=lambda written: written.update(settings))
    with pytest.raises(ModelError, match=r"names modules by patterns that are not matched within 0\.5 s, such as '.*x"):
        bathyscope.load(folder)


@pytest.mark.skipif(not can_be_apart(), reason="patterns are matched in the program's own process here")
def test_patterns_have_ten_seconds(changed: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []

    def stop(apart: object, request: object, limit: float) -> None:
        limits.append(limit)
        raise TimeoutError

    monkeypatch.setattr("bathyscope.core.apart.Apart.__call__", stop)
    folder = changed(settings=lambda written: written.update(target_modules=r".*\.(q_proj|down_proj)"))
    with pytest.raises(ModelError, match=r"names modules by patterns that are not matched within 10 s, such as '"):
        bathyscope.load(folder)
    assert limits == [10.0]


@pytest.mark.parametrize(
    ("kind", "setting"), [("VBLORA", "num_vectors"), ("ADAPTION_PROMPT", "adapter_len"), ("POLY", "n_tasks")]
)
def test_sizes_that_no_tensor_has_are_refused_before_the_library_makes_them(
    kind: str, setting: str, changed: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(*_: object, **__: object) -> None:
        raise AssertionError("the library makes them")

    monkeypatch.setattr("peft.PeftModel.from_pretrained", make)
    folder = changed(settings=lambda written: written.update({"peft_type": kind, setting: 1_000_000}))
    with pytest.raises(ModelError, match=rf"declares {setting}, a size, of 1,000,000, and its file holds no matrix of"):
        bathyscope.load(folder)


@pytest.mark.parametrize(
    ("settings", "rounds"),
    [
        ({"init_lora_weights": "pissa_niter_1000000000"}, r"1000000000 rounds of approximation \(init_lora_weights\)"),
        ({"init_lora_weights": "pissa_niter_1001"}, "1001 rounds"),
        ({"init_lora_weights": f"pissa_niter_{'9' * 5000}"}, "9999999999999999999… rounds"),
        ({"loftq_config": {"loftq_iter": 10**9}}, r"1000000000 rounds of approximation \(loftq_config\.loftq_iter\)"),
    ],
)
def test_rounds_without_end_are_refused_before_the_library_begins_them(
    settings: dict[str, Any], rounds: str, changed: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(*_: object, **__: object) -> None:
        raise AssertionError("the library begins")

    monkeypatch.setattr("peft.PeftModel.from_pretrained", begin)
    folder = changed(settings=lambda written: written.update(settings))
    with pytest.raises(ModelError, match=f"asks for {rounds}"):
        bathyscope.load(folder)


def test_few_rounds_are_taken(changed: Callable[..., Path]) -> None:
    folder = changed(settings=lambda written: written.update(init_lora_weights="pissa_niter_4", loftq_config={}))
    assert bathyscope.load(folder).weight_hash


def test_patterns_that_are_matched_are_taken(saved: Path, changed: Callable[..., Path]) -> None:
    folder = changed(settings=lambda written: written.update(target_modules=r".*\.(q_proj|down_proj)"))
    assert bathyscope.load(folder).weight_hash != bathyscope.load(saved).weight_hash


def test_blocks_that_are_run_again_without_end_are_refused(changed: Callable[..., Path]) -> None:
    folder = changed(settings=lambda written: written.update(layer_replication=[[0, 4]] * 10_000))
    with pytest.raises(
        ModelError, match=r"asks for 40,000 blocks \(layer_replication\), and its weights are those of at"
    ):
        bathyscope.load(folder)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_weights_that_are_no_floating_point_numbers_are_refused(
    dtype: torch.dtype, changed: Callable[..., Path]
) -> None:
    """The library casts them: whole numbers lost their fractions, and complex ones a part of theirs."""
    folder = changed(tensors=lambda stored: {name: value.to(dtype) for name, value in stored.items()})
    with pytest.raises(ModelError, match="weights of an adapter are floating-point numbers"):
        bathyscope.load(folder)


def test_a_tensor_of_no_module_is_refused(changed: Callable[..., Path]) -> None:
    folder = changed(tensors=lambda stored: {**stored, "further": torch.zeros(2)})
    with pytest.raises(ModelError, match=r"has weights for layers that .* does not have \(further\)"):
        bathyscope.load(folder)


@pytest.mark.parametrize("setting", ["r", "lora_alpha", "lora_dropout"])
def test_a_text_in_place_of_a_number_is_not_said_to_be_another_models_adapter(
    setting: str, changed: Callable[..., Path]
) -> None:
    folder = changed(settings=lambda written: written.update({setting: "8"}))
    with pytest.raises(
        ModelError, match=rf"says {setting}: '8', a text in place of a number. Write the number without"
    ):
        bathyscope.load(folder)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"lora_alpha": math.nan}, "lora_alpha: nan"),
        ({"alpha_pattern": {"q_proj": math.inf}}, "alpha_pattern.q_proj: inf"),
    ],
)
def test_settings_that_are_no_finite_numbers_are_refused(
    settings: dict[str, Any], said: str, changed: Callable[..., Path]
) -> None:
    """Attention makes finite numbers of NaN on some processors, so that no check of the model sees it."""
    folder = changed(settings=lambda written: written.update(settings))
    with pytest.raises(ModelError, match=rf"adapter_config\.json that says {said}, and settings are finite numbers\."):
        bathyscope.load(folder)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"r": 4}, r"says r=4, and its matrices are of rank \d\. Its settings are those of another adapter"),
        (
            {"peft_type": "LORAA"},
            r"the kind 'LORAA' \(peft_type\), which peft does not know\. Did you mean 'LORA'\?",
        ),
    ],
)
def test_settings_that_no_base_fits_are_named(
    settings: dict[str, Any], words: str, changed: Callable[..., Path]
) -> None:
    folder = changed(settings=lambda written: written.update(settings))
    with pytest.raises(ModelError, match=words) as refused:
        bathyscope.load(folder)
    assert "--base" not in str(refused.value)


def test_an_adapter_that_is_scaled_by_nothing_is_told(changed: Callable[..., Path]) -> None:
    folder = changed(settings=lambda written: written.update(lora_alpha=0))
    with pytest.warns(UserWarning, match="lora_alpha=0: the model is its base, unchanged"):
        bathyscope.load(folder)


def test_a_module_that_is_said_to_be_saved_whole_and_is_not_is_named(changed: Callable[..., Path]) -> None:
    """The base is the right one."""
    folder = changed(settings=lambda written: written.update(modules_to_save=["lm_head"]))
    words = r"says that it saves lm_head whole \(modules_to_save\), and its file lacks lm_head\.weight\. Save the"
    with pytest.raises(ModelError, match=words) as refused:
        bathyscope.load(folder)
    assert "trained on" not in str(refused.value)


@pytest.mark.parametrize("setting", ["lm_head", 3, ["lm_head", 3]])
def test_modules_to_save_are_a_list_of_names(setting: Any, changed: Callable[..., Path]) -> None:
    folder = changed(settings=lambda written: written.update(modules_to_save=setting))
    with pytest.raises(ModelError, match=r"says modules_to_save: .*, which is no list of names\. Write"):
        bathyscope.load(folder)


def test_an_adapter_whose_base_was_moved_names_itself(changed: Callable[..., Path], saved: Path) -> None:
    folder = changed(lambda settings: settings.update(base_model_name_or_path="/no/such/base"))
    with pytest.raises(ModelError) as caught:
        bathyscope.load(folder)
    assert str(caught.value) == (
        f"The adapter {folder} names in its adapter_config.json a base that cannot be read: There is no folder "
        "/no/such/base. Give a checkpoint folder or a hub name such as Qwen/Qwen2.5-1.5B. If the base was moved, give "
        "its folder (base=, --base)."
    )
    assert bathyscope.load(folder, base=saved).n_blocks == 5


def test_an_adapter_is_not_its_own_base(changed: Callable[..., Path]) -> None:
    folder = changed()
    settings = folder / "adapter_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "base_model_name_or_path": str(folder)}))
    with pytest.raises(ModelError, match="the base that it names is its own folder; give the model that it was train"):
        bathyscope.load(folder)


@pytest.mark.parametrize(
    ("task", "words"), [("SEQ_CLS", "classifying texts"), ("TOKEN_CLS", "classifying tokens"), ("QUESTION_ANS", "mark")]
)
def test_an_adapter_of_another_task(task: str, words: str, changed: Callable[..., Path]) -> None:
    """With its head it is no adapter of a language model; without, it may have been meant."""
    folder = changed(settings=lambda written: written.update(task_type=task))
    with pytest.warns(UserWarning, match=rf"was trained for {words}.* \(task_type: {task}\) and has no head for that;"):
        bathyscope.load(folder)
    stored = load_file(folder / "adapter_model.safetensors")
    save_file({**stored, "base_model.model.score.weight": torch.zeros(2, 64)}, folder / "adapter_model.safetensors")
    with pytest.raises(
        ModelError, match=rf"of a model for {words}.* with a head for that \(score\.weight\)"
    ) as refused:
        bathyscope.load(folder)
    assert str(refused.value).endswith("Give an adapter with task_type CAUSAL_LM.")
