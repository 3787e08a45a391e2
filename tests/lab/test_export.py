from __future__ import annotations

import stat
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from bathyscope.errors import ModelError, OptionError
from bathyscope.lab import export as export_module
from bathyscope.lab.evaluate import held_out_losses, held_out_streams
from bathyscope.lab.export import export, main
from bathyscope.lab.recipe import Recipe
from bathyscope.lab.train import Run

TEXT = "Tom has 48 cups.\n\nHe doesn't  like 7 of them."


@pytest.fixture(scope="module")
def run(toy_recipe: Recipe, data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = Run(toy_recipe, data_root, tmp_path_factory.mktemp("run"))
    run.train(stop_after=10)
    return run


@pytest.fixture(scope="module")
def folder(run: Run, data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exported")
    main([str(run.out), "--data", str(data_root), "--out", str(out), "--held-out-tokens", "1000"])
    return out


def test_exported_model_gives_the_trained_models_logits(run: Run, folder: Path) -> None:
    ids = torch.tensor([run.tokenizer.encode(TEXT).ids])
    loaded = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        given = loaded(ids).logits
        for parameter in run.model.parameters():
            parameter.copy_(parameter.bfloat16())
        expected = run.model(ids).logits
    torch.testing.assert_close(given, expected, atol=1e-5, rtol=1e-5)


def test_weights_are_bfloat16_and_tied(folder: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.dtype == torch.bfloat16
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert AutoConfig.from_pretrained(folder).tie_word_embeddings


def test_tokenizer_loads_as_it_was_trained(run: Run, folder: Path) -> None:
    ids = run.tokenizer.encode(TEXT).ids
    loaded = AutoTokenizer.from_pretrained(folder)
    assert loaded(TEXT)["input_ids"] == ids
    assert Tokenizer.from_file(str(folder / "tokenizer.json")).encode(TEXT).ids == ids
    assert ids[0] == loaded.bos_token_id
    assert loaded.decode(ids, skip_special_tokens=True) == TEXT
    assert loaded.model_max_length == 64


def test_card_states_losses_of_the_exported_weights(run: Run, folder: Path, data_root: Path) -> None:
    card = (folder / "MODEL_CARD.md").read_text(encoding="utf-8")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    streams = held_out_streams(data_root, run.tokenizer, 1000)
    for name, loss in held_out_losses(model, streams, 64, run.bos_id).items():
        assert f"| {name} | {loss:.3f} |" in card
    assert run.recipe.hash() in card
    assert "1,280 tokens in 10 steps" in card
    assert "license: apache-2.0" in card


def test_shards_stay_small_and_an_older_export_is_replaced(
    run: Run, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model-00001-of-00009.safetensors").write_bytes(b"old")
    monkeypatch.setattr(export_module, "LARGEST_SHARD", "40KB")
    export(run.out, tmp_path, data_root, held_out_tokens=200)
    shards = list(tmp_path.glob("*.safetensors"))
    assert len(shards) > 1
    assert all(shard.stat().st_size < 45_000 for shard in shards)
    assert all(stat.S_IMODE(shard.stat().st_mode) == 0o644 for shard in shards)
    assert not any(shard.name.endswith("of-00009.safetensors") for shard in shards)
    assert AutoModelForCausalLM.from_pretrained(tmp_path).num_parameters() == run.model.num_parameters()


def test_a_folder_that_is_too_large_is_refused(
    run: Run, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_module, "LARGEST_FOLDER", 1000)
    with pytest.raises(ModelError, match=r"at most 1000 are shipped\. Train a smaller model\."):
        export(run.out, tmp_path, data_root, held_out_tokens=200)


def test_a_run_without_a_checkpoint_is_refused(toy_recipe: Recipe, data_root: Path, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(toy_recipe.to_yaml(), encoding="utf-8")
    with pytest.raises(OptionError, match=r"No checkpoint under .*; train first"):
        export(tmp_path, tmp_path / "out", data_root)
