"""What a checkpoint lacks is refused, what it holds beyond the model is said, and configurations that cannot be."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support import zoo
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    LlamaForSequenceClassification,
)

import bathyscope
from bathyscope import ModelError
from bathyscope.model import load, load_config, weight_hash
from bathyscope.model.states.head import read_head
from bathyscope.pages.head.answer import answer

Altered = Callable[..., Path]
Tensors = dict[str, torch.Tensor]


def refused(folder: Path, **options: Any) -> str:
    with pytest.raises(ModelError) as caught:
        load(folder, **options)
    return str(caught.value)


def without(*parts: str) -> Callable[[Tensors], None]:
    """Takes all tensors away whose names hold one of these."""

    def remove(tensors: Tensors) -> None:
        for name in [name for name in tensors if any(part in name for part in parts)]:
            del tensors[name]

    return remove


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("layers.2.self_attn.k_proj", "lacks 1 tensor of its LlamaForCausalLM, which would be drawn at random: model."),
        ("layers.4.", "lacks 9 tensors of its LlamaForCausalLM, which would be drawn at random: model.layers.4.input_"),
        ("model.norm.", "at random: model.norm.weight. A base model, a classifier or a checkpoint with other names"),
        ("lm_head", "at random: lm_head.weight. A base model, a classifier"),
        ("embed_tokens", "at random: model.embed_tokens.weight. A base"),
    ],
)
def test_missing_tensors(altered: Altered, part: str, message: str) -> None:
    assert message in refused(altered(without(part)))


def test_renamed_tensors(altered: Altered) -> None:
    def rename(tensors: Tensors) -> None:
        tensors["model.layers.3.mlp.upward.weight"] = tensors.pop("model.layers.3.mlp.up_proj.weight")

    message = refused(altered(rename))
    assert "at random: model.layers.3.mlp.up_proj.weight; it holds 1 tensor that the model does not know" in message
    assert "(model.layers.3.mlp.upward.weight)" in message


def test_tensors_of_another_shape(altered: Altered) -> None:
    message = refused(altered(config=lambda written: written.update(intermediate_size=80)))
    assert "does not fit its configuration: model.layers.0.mlp.down_proj.weight is 64×96 in the file and 64×80 by" in (
        message
    )
    assert message.endswith(" and 10 more; config.json belongs to another checkpoint.")


def test_more_blocks_in_the_configuration_than_in_the_file(altered: Altered) -> None:
    assert "lacks 9 tensors" in refused(altered(config=lambda written: written.update(num_hidden_layers=6)))


def test_fewer_blocks_in_the_configuration_than_in_the_file(altered: Altered) -> None:
    folder = altered(config=lambda written: written.update(num_hidden_layers=3))
    with pytest.warns(UserWarning, match="holds 5 blocks, and its configuration asks for the first 3; the others are"):
        model = load(folder)
    assert model.n_blocks == 3
    assert model.warnings == (
        "The checkpoint holds 5 blocks, and its configuration asks for the first 3; the others are left out. Was "
        "config.json changed?",
    )


def test_what_loading_warned_of_stands_in_the_run_and_at_the_head_of_its_page(altered: Altered, tmp_path: Path) -> None:
    """Whoever opens the page has not seen the warning; of the folder it says nothing."""
    folder = altered(config=lambda written: written.update(num_hidden_layers=3))
    with pytest.warns(UserWarning, match="holds 5 blocks"):
        run = bathyscope.survey(folder, [[5, 6, 7, 8], [9, 5, 7]], ["drop"], tmp_path / "run", progress=False)
    warning = "The checkpoint holds 5 blocks, and its configuration asks for the first 3; the others are left out."
    [note] = run.manifest["record"]["notes"]["warnings"]
    assert note.startswith(warning)
    assert warning in " ".join(answer(bathyscope.open(tmp_path / "run")).trust)
    page = bathyscope.report([run], tmp_path / "page.html").read_text(encoding="utf-8")
    head = page.partition('<h3 class="part">Provenance</h3>')[0]
    assert warning in head
    assert str(folder) not in note


def test_a_complete_checkpoint_warns_of_nothing(saved: Path) -> None:
    assert load(saved).warnings == ()


def test_tensors_that_nobody_needs(altered: Altered) -> None:
    folder = altered(lambda tensors: tensors.update({f"extra.{n}": torch.zeros(2) for n in range(12)}))
    said = r"holds 12 tensors that its LlamaForCausalLM has no place for: extra\.0, extra\.1, .*extra\.4 and 7 more\."
    with pytest.warns(UserWarning, match=said) as caught:
        load(folder)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("blocks", [0, -1])
def test_no_blocks(altered: Altered, blocks: int) -> None:
    folder = altered(config=lambda written: written.update(num_hidden_layers=blocks))
    assert f"num_hidden_layers: {blocks}; a model has 1 to 1,000 blocks" in refused(folder)


def test_a_base_model_and_a_classifier(saved: Path, tmp_path: Path) -> None:
    AutoModel.from_pretrained(saved).save_pretrained(tmp_path / "base")
    assert refused(tmp_path / "base").endswith(
        "at random: lm_head.weight. It was saved without its head (LlamaModel in its config.json); give the complete "
        "causal language model."
    )
    LlamaForSequenceClassification.from_pretrained(saved).save_pretrained(tmp_path / "classifier")
    assert refused(tmp_path / "classifier").endswith(
        "at random: lm_head.weight; it holds 1 tensor that the model does not know (score.weight). It is a classifier "
        "(LlamaForSequenceClassification in its config.json); give the causal model that it was made from."
    )


def test_a_base_model_whose_head_is_tied_is_whole(tmp_path: Path) -> None:
    hf = zoo.entry("gpt2").build()
    assert hf.config.tie_word_embeddings
    hf.transformer.save_pretrained(tmp_path)
    with pytest.warns(UserWarning, match=r"names a model without a head \(GPT2Model\); its embedding is read as the"):
        model = load(tmp_path)
    assert model.weight_hash == weight_hash(hf)
    assert len(model.warnings) == 1


@pytest.mark.parametrize(
    "kind", [AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoModelForQuestionAnswering]
)
def test_the_embedding_of_a_classifier_is_no_head(kind: Any, tmp_path: Path) -> None:
    zoo.entry("gpt2").build().save_pretrained(tmp_path / "plain")
    classifier = kind.from_pretrained(tmp_path / "plain")
    classifier.save_pretrained(tmp_path / "classifier")
    message = (
        f"{tmp_path / 'classifier'} holds a classifier ({type(classifier).__name__} in its config.json) without a head "
        "that predicts tokens: its embedding would pass for one. Give the causal language model that it was made from."
    )
    assert refused(tmp_path / "classifier") == message
    assert refused(tmp_path / "classifier", placement="stream") == message
    with pytest.raises(ModelError) as caught:
        read_head(str(tmp_path / "classifier"), torch.float32)
    assert str(caught.value) == message


def test_a_language_model_that_is_said_to_be_a_classifier_is_measured_with_a_warning(altered: Altered) -> None:
    folder = altered(config=lambda written: written.update(architectures=["LlamaForSequenceClassification"]))
    with pytest.warns(
        UserWarning, match=r"names a classifier \(LlamaForSequenceClassification\); measured is the langu"
    ):
        assert load(folder).warnings


@pytest.mark.parametrize("architectures", [None, 3, [], [3], ["OwnModel", "OwnForCausalLM"], ["LlamaForCausalLM"]])
def test_other_classes_are_not_spoken_of(architectures: Any, altered: Altered) -> None:
    folder = altered(config=lambda written: written.update(architectures=architectures))
    assert load(folder).warnings == ()


@pytest.mark.parametrize("name", ["gpt2", "mixtral", "gpt_neo", "falcon", "bloom", "deepseek_v3", "gemma2", "mamba"])
def test_what_families_save_is_whole(name: str, tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """Tied weights, fused experts and tensors that families leave out on purpose."""
    hf = zoo.entry(name).build()
    hf.save_pretrained(tmp_path)
    assert load(tmp_path).weight_hash == weight_hash(hf)
    assert [str(one.message) for one in recwarn if "tensor" in str(one.message)] == []


@pytest.mark.parametrize(
    "change",
    [
        {"num_hidden_layers": "five"},
        {"hidden_size": 63},
        {"num_attention_heads": 7},
        {"dtype": "float99"},
        {"num_key_value_heads": 3},
        {"vocab_size": None},
        {"model_type": ["llama"]},
    ],
)
def test_configurations_that_cannot_be(altered: Altered, change: dict[str, Any]) -> None:
    message = refused(altered(config=lambda written: written.update(change)))
    assert "\n" not in message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[1, 2]", "its config.json holds a list, and a configuration has names and values"),
        ('"text"', "its config.json holds a str, and a configuration has names and values"),
        ("3", "its config.json holds a single value, and a configuration has names and values"),
        ("null", "its config.json holds a single value, and a configuration has names and values"),
        ("{", ""),
        ("\x00", ""),
        ("[" * 100_000, ""),
    ],
)
def test_configurations_that_are_no_mapping(altered: Altered, content: str, said: str) -> None:
    folder = altered()
    (folder / "config.json").write_text(content)
    message = refused(folder)
    assert message.startswith(f"{folder} cannot be loaded as a causal language model: {said}")
    with pytest.raises(ModelError, match=f"has no readable configuration: {said}"):
        load_config(str(folder))


def test_the_librarys_report_is_not_printed_as_well(altered: Altered, capfd: pytest.CaptureFixture[str]) -> None:
    folder = altered(without("lm_head"))
    refused(folder)
    assert "LOAD REPORT" not in "".join(capfd.readouterr())


def test_the_dtype_of_the_files_is_not_needed_in_the_configuration(altered: Altered) -> None:
    folder = altered(config=lambda written: [written.pop(name, None) for name in ("dtype", "torch_dtype")])
    assert "dtype" not in json.loads((folder / "config.json").read_text())
    assert load(folder).dtype == torch.float32


def test_weights_begin_at_a_cache_line_whatever_file_they_came_from(saved: Path) -> None:
    """Products round in another order elsewhere, so that the last bit of a result would tell the file's layout."""
    mapped = AutoModelForCausalLM.from_pretrained(saved)
    assert any(value.data_ptr() % 64 for value in mapped.parameters())
    hf = load(saved).hf
    assert all(value.data_ptr() % 64 == 0 for value in hf.parameters())
    assert all(torch.equal(value, hf.state_dict()[name]) for name, value in mapped.state_dict().items())


def test_a_head_of_its_own_that_the_configuration_ties_is_told(altered: Altered, tmp_path: Path) -> None:
    folder = altered(config=lambda written: written.update(tie_word_embeddings=True))
    for placement in ("resident", "stream"):
        with pytest.warns(UserWarning, match="holds lm_head.weight with other values than model.embed_tokens.weight"):
            model = load(folder, placement=placement)
        assert model.warnings == (
            "The checkpoint holds lm_head.weight with other values than model.embed_tokens.weight, and its "
            "configuration says tie_word_embeddings: true; both were read, untied. Set it to false in config.json, or "
            "remove the tensor.",
        )
        assert model.hf.config.tie_word_embeddings is False
    with pytest.warns(UserWarning, match="both were read, untied"):
        run = bathyscope.survey(folder, [[5, 6, 7]], ["drop"], tmp_path / "run", schedule="drop:1", progress=False)
    assert run.n_blocks == 4


def test_two_bases_of_rotary_frequencies_are_told(altered: Altered) -> None:
    def change(written: dict[str, Any]) -> None:
        written["rope_parameters"] = {"rope_type": "default", "rope_theta": 500000.0}
        written["rope_theta"] = 10000.0

    message = "says rope_theta: 10000.0 and, in rope_parameters, rope_theta: 500000.0; the model uses 500000.0. Remove"
    with pytest.warns(UserWarning, match=message):
        load(altered(config=change))
