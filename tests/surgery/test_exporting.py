"""``export``: what plain transformers loads is what ``scheduled`` runs, bit for bit, or the order is refused."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from support import exported, waves, zoo
from support.word_tokenizer import word_tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

import bathyscope
from bathyscope.errors import ModelError, OptionError, StoreError
from bathyscope.schedule import Schedule
from bathyscope.surgery.checkpoint import weight_files

SCHEDULES = ("drop:0", "drop:2", "drop:4", "drop:1,drop:3", "repeat:1+2")
"""First, middle, last, several, and a repeat."""
FEW = ("gpt2", "gemma3_multimodal", "gemma4_plain")
AS_LOADED = ("youtu",)
"""The library loads another model than it saved: it sets the padding token's row of the embedding to zero."""
WITHOUT_ATTENTION = {"jamba-drop-1,drop-3", "lfm2_convolutions-drop-4", "lfm3-drop-1,drop-3", "nemotron_h-drop-2"}
"""No attention is left in these, and the library makes no cache for that: they generate without one."""
TOKENIZER = word_tokenizer(["the", "cat", "sat"])
REFUSED = {
    "diffllama": {text: "self_attn.lambda_init" for text in SCHEDULES if text != "drop:4"},
    "gpt2_scaled": {text: "attn.scaling" for text in SCHEDULES if text != "drop:4"},
    "gpt_neox_japanese": {"drop:4": "attention.dense_bias"},
    "gemma4": {"drop:1,drop:3": "block 4 takes the keys and values of block 1"},
    "gemma4_multimodal": {"drop:1,drop:3": "block 4 takes the keys and values of block 1"},
    # its tower of images is of a package of its own, which users of text need not have
    **({} if find_spec("timm") else {"gemma3n_multimodal": dict.fromkeys(SCHEDULES, "requires the timm library")}),
    "jamba": dict.fromkeys(("drop:2", "repeat:1+2"), "feed_forward"),
    "modernbert-decoder": {"drop:0": "attn_norm"},
    "rwkv": {"drop:0": "pre_ln"},
    "gemma3n": {"drop:1,drop:3": "block 4 takes the keys and values of block 1"},
    "glm_moe_dsa_shared": {"drop:0": "block 1 takes what the block before it passes on"},
    "inkling2": dict.fromkeys(SCHEDULES, "stores streams between its blocks"),
    "minimax": {text: "self_attn.num_hidden_layers" for text in SCHEDULES if text != "drop:1,drop:3"},
    "zaya": {"drop:0": "mlp.gate.router_states_scale"},
    "beam": {text: "attn_residual_add_idx" for text in SCHEDULES if text != "drop:4"},
    "mllama": dict.fromkeys(("drop:0", "drop:2", "repeat:1+2"), "no causal language model of a MllamaTextConfig alone"),
    "musicgen": dict.fromkeys(SCHEDULES, "no causal language model of a MusicgenDecoderConfig alone"),
    "musicgen_melody": dict.fromkeys(SCHEDULES, "no causal language model of a MusicgenMelodyDecoderConfig alone"),
    "zamba2": dict.fromkeys(("drop:4", "drop:1,drop:3", "repeat:1+2"), "shared_transformer"),
    **{
        name: dict.fromkeys(SCHEDULES, "made known by bathyscope_lab") for name in ("universal", "moeut", "mixed_norms")
    },
}


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    folder = tmp_path / "llama"
    zoo.build("llama").save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    return folder


@pytest.mark.skipif(find_spec("timm") is not None, reason="timm is installed, and is not asked for")
def test_a_package_that_a_checkpoint_needs_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"^Checkpoints of gemma3n cannot be built here: .*requires the timm library"):
        bathyscope.export(waves.loaded("gemma3n_multimodal"), "drop:1", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.filterwarnings("ignore:.*without a tokenizer")
def test_a_reloaded_export_is_the_scheduled_model_bit_for_bit(tmp_path: Path) -> None:
    cases = []
    for name in FEW[:2]:
        cases.append(exported.case(name, "drop:1", tmp_path / f"{name}-memory"))
    for name in FEW[2:]:
        source = tmp_path / name
        zoo.build(name).save_pretrained(source)
        with pytest.warns(UserWarning, match="came without a tokenizer, so this copy has none"):
            cases.append(exported.case(name, "repeat:1+2", tmp_path / f"{name}-folder", source))
    assert exported.differing(cases, tmp_path) == []


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:.*without a tokenizer")
@pytest.mark.parametrize("origin", ["memory", "folder"])
def test_every_family_is_exported_or_refused_with_its_reason(tmp_path: Path, origin: str) -> None:
    cases, refused = [], {}
    for name in zoo.names():
        source = tmp_path / f"{name}-source"
        if origin == "folder" or name in AS_LOADED:
            zoo.build(name).save_pretrained(source)
        model = bathyscope.load(source) if name in AS_LOADED else waves.loaded(name)
        # some families are of fewer blocks than the schedules name
        for text in (text for text in SCHEDULES if max(map(int, re.findall(r"\d+", text))) < model.n_blocks):
            folder = tmp_path / f"{name}-{text.replace(':', '-')}"
            given: Any = source if origin == "folder" else None
            try:
                cases.append(exported.case(name, text, folder, given, model))
            except ModelError as error:
                refused[name, text] = str(error)
                assert not folder.exists()
        shutil.rmtree(source, ignore_errors=True)
    assert exported.differing(cases, tmp_path) == []
    without_cache = {Path(folder).name for folder, _ in json.loads((tmp_path / "refused.json").read_text())}
    assert without_cache == WITHOUT_ATTENTION
    wanted = {(name, text): said for name, texts in REFUSED.items() for text, said in texts.items()}
    assert {key: said for key, said in refused.items() if wanted.get(key, "?") not in said} == {}
    assert refused.keys() == wanted.keys()
    assert len({one.name for one in cases} - REFUSED.keys()) >= 60


@pytest.mark.filterwarnings("ignore:.*without a tokenizer")
def test_the_library_is_told_everything_that_goes_by_block(tmp_path: Path) -> None:
    bathyscope.export(waves.loaded("smollm3_windows"), "drop:1,repeat:2", tmp_path / "out")
    config = json.loads((tmp_path / "out/config.json").read_text())
    assert config["num_hidden_layers"] == 5
    assert config["no_rope_layers"] == [1, 1, 1, 0, 1]
    assert config["layer_types"] == ["full_attention"] * 3 + ["sliding_attention", "full_attention"]
    bathyscope.export(waves.loaded("gemma3_multimodal"), "drop:0", tmp_path / "inner")
    inner = json.loads((tmp_path / "inner/config.json").read_text())["text_config"]
    assert (inner["num_hidden_layers"], inner["layer_types"][0]) == (4, "full_attention")


def test_tied_weights_stay_tied_and_generation_and_tokenizer_come_along(tmp_path: Path) -> None:
    source = tmp_path / "qwen2"
    hf = zoo.entry("qwen2").build()
    hf.generation_config.max_new_tokens = 3
    hf.save_pretrained(source)
    TOKENIZER.save_pretrained(source)
    for given, name in ((source, "folder"), (bathyscope.load(source), "memory")):
        out = bathyscope.export(given, "drop:2", tmp_path / name)
        found = AutoModelForCausalLM.from_pretrained(out)
        assert found.lm_head.weight is found.model.embed_tokens.weight
        assert found.generation_config.max_new_tokens == 3
        assert PreTrainedTokenizerFast.from_pretrained(out)("the cat sat")["input_ids"] == [2, 3, 4]
        assert [layer.self_attn.layer_idx for layer in found.model.layers] == [0, 1, 2, 3]


def test_shards_are_indexed_and_hold_the_same(llama: Path, tmp_path: Path) -> None:
    whole = AutoModelForCausalLM.from_pretrained(bathyscope.export(llama, "drop:1", tmp_path / "one"))
    out = bathyscope.export(llama, "drop:1", tmp_path / "many", shard_bytes=100_000)
    found = AutoModelForCausalLM.from_pretrained(out)
    index = json.loads((tmp_path / "many/model.safetensors.index.json").read_text())
    files = sorted(file.name for file in (tmp_path / "many").glob("*.safetensors"))
    assert len(files) > 3
    assert sorted(set(index["weight_map"].values())) == files
    assert all(torch.equal(a, b) for a, b in zip(found.state_dict().values(), whole.state_dict().values(), strict=True))
    # and an export of several files is a source like any other
    again = bathyscope.export(tmp_path / "many", "drop:0", tmp_path / "again")
    assert AutoModelForCausalLM.from_pretrained(again).config.num_hidden_layers == 3


def test_the_card_says_where_it_comes_from(llama: Path, tmp_path: Path) -> None:
    out = Path(bathyscope.export(llama, "drop:1,drop:3", tmp_path / "out", evidence="Cost 0.1 nats (0.05 to 0.2)."))
    card, record = (out / "README.md").read_text(), json.loads((out / "bathyscope.json").read_text())
    assert "left out: 1, 3." in card
    assert "Cost 0.1 nats (0.05 to 0.2)." in card
    assert record["order"] == [0, 2, 4]
    assert record["source"]["model.safetensors"] in card
    assert bathyscope.__version__ in card


def test_the_same_export_is_kept_and_anything_else_is_not_overwritten(llama: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    bathyscope.export(llama, "drop:1", out)
    before = (out / "model.safetensors").stat().st_mtime_ns
    assert bathyscope.export(llama, "drop:1", out) == out
    assert (out / "model.safetensors").stat().st_mtime_ns == before
    with pytest.raises(StoreError, match="exists and holds another export; give a folder that does not exist yet"):
        bathyscope.export(llama, "drop:2", out)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("")
    with pytest.raises(StoreError, match="exists and holds something else"):
        bathyscope.export(llama, "drop:2", tmp_path / "full")
    (tmp_path / "empty").mkdir()
    bathyscope.export(llama, "drop:2", tmp_path / "empty")
    with pytest.raises(StoreError, match="is a file"):
        bathyscope.export(llama, "drop:2", tmp_path / "full" / "notes.txt")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(StoreError, match="is a symbolic link; give the folder itself"):
        bathyscope.export(llama, "drop:2", tmp_path / "link")


def test_the_same_export_takes_the_evidence_of_today(llama: Path, tmp_path: Path) -> None:
    out = Path(bathyscope.export(llama, "drop:1", tmp_path / "out", evidence="Cost 0.1 nats."))
    weights = (out / "model.safetensors").stat().st_mtime_ns
    bathyscope.export(llama, "drop:1", out)
    assert "Cost 0.1 nats." in (out / "README.md").read_text()
    bathyscope.export(llama, "drop:1", out, evidence="Cost 0.2 nats.")
    card = (out / "README.md").read_text()
    assert "Cost 0.2 nats." in card
    assert "0.1 nats" not in card
    assert (out / "model.safetensors").stat().st_mtime_ns == weights


def test_an_export_that_has_lost_its_weights_is_not_taken_for_one(llama: Path, tmp_path: Path) -> None:
    out = Path(bathyscope.export(llama, "drop:1", tmp_path / "out"))
    weights = (out / "model.safetensors").read_bytes()
    (out / "model.safetensors").write_bytes(weights[:-8])
    with pytest.raises(StoreError, match="holds the same export, but not the whole of it any more"):
        bathyscope.export(llama, "drop:1", out)
    (out / "model.safetensors").unlink()
    with pytest.raises(StoreError, match=r"any more \(there is no model\.safetensors\); remove it, and export again"):
        bathyscope.export(llama, "drop:1", out)


@pytest.mark.parametrize("said", ["float32", None])
def test_a_copy_is_loaded_in_the_dtype_of_its_source(tmp_path: Path, said: str | None) -> None:
    """Files in bfloat16 whose configuration says otherwise, or nothing."""
    source = tmp_path / "source"
    zoo.entry("llama").build().to(torch.bfloat16).save_pretrained(source)
    TOKENIZER.save_pretrained(source)
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**config, "dtype": said}))
    out = bathyscope.export(source, "drop:1", tmp_path / "out")
    whole, copy = (AutoModelForCausalLM.from_pretrained(place).eval() for place in (source, out))
    assert copy.dtype == whole.dtype == (torch.bfloat16 if said is None else torch.float32)
    ids = torch.tensor(zoo.prompts(whole, (17, 17)))
    with torch.no_grad(), bathyscope.scheduled(whole, "drop:1") as hf:
        assert torch.equal(copy(ids, use_cache=False).logits, hf(ids, use_cache=False).logits)


def test_nothing_half_written_stays(llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for error, kind in ((OSError(28, "No space left on device"), StoreError), (KeyboardInterrupt(), KeyboardInterrupt)):

        def failing(*_: Any, error: BaseException = error) -> None:
            assert not (tmp_path / "out").exists()  # what is killed here has no name that anybody would load
            raise error

        with monkeypatch.context() as patch:
            patch.setattr("bathyscope.surgery.checkpoint.folder.companions", failing)
            with pytest.raises(kind, match="No space left" if kind is StoreError else None):
                bathyscope.export(llama, "drop:1", tmp_path / "out")
        assert [entry.name for entry in tmp_path.iterdir()] == ["llama"]
    with monkeypatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 0))  # type: ignore[attr-defined]
        with pytest.raises(StoreError, match=r"The export takes 0\.1 GiB, and .* has 0\.0 GiB left"):
            bathyscope.export(llama, "drop:1", tmp_path / "out")


def test_files_that_change_while_they_are_copied_give_no_copy(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same size and same names, other numbers: the second half would be another model's."""
    source, write = shutil.copytree(llama, tmp_path / "source"), weight_files._write

    def changed(file: Path, tensors: Any) -> None:
        write(file, tensors)
        weights = source / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-4] + bytes(4))

    monkeypatch.setattr(weight_files, "_write", changed)
    with pytest.raises(ModelError, match=r"source have changed while they were copied, and the copy would be of two"):
        bathyscope.export(source, "drop:1", tmp_path / "out")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["llama", "source"]


def test_what_cannot_be_exported_is_refused_before_anything_is_written(llama: Path, tmp_path: Path) -> None:
    quantised = tmp_path / "quantised"
    shutil.copytree(llama, quantised)
    config = json.loads((quantised / "config.json").read_text())
    (quantised / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": "aqlm"}}))
    out = tmp_path / "out"
    for given, text, kind, said in (
        (llama, "order:", OptionError, "write the blocks joined by dashes"),
        (llama, ",".join(f"drop:{block}" for block in range(5)), OptionError, "leaves no block"),
        (llama, Schedule.standard(4), OptionError, "made for 4 blocks and this model has 5"),
        (llama, 3, OptionError, "A schedule is a Schedule or a text"),
        (3, "drop:1", OptionError, "takes a folder, a hub name or a transformers model; 3 given"),
        (tmp_path / "lama", "drop:1", ModelError, "There is no folder"),
        (quantised, "drop:1", ModelError, "are quantised, with scales that belong to blocks"),
        (waves.loaded("gemma4"), "drop:1", ModelError, "block 3 takes the keys and values of block 1, which would not"),
        (waves.loaded("diffllama"), "drop:1", ModelError, r"what block 2 is cannot be said of place 1 \(self_attn.lam"),
        (waves.loaded("jamba"), "drop:2", ModelError, "what block 3 is cannot be said of place 2"),
        (waves.loaded("universal"), "drop:1", ModelError, "their type is made known by bathyscope_lab"),
    ):
        with pytest.raises(kind, match=said):
            bathyscope.export(given, text, out)
        assert not out.exists()
    for folder, emit, said in (
        (None, None, "neither asked for, give one of them"),
        (out, "layers", "both asked for"),
        (None, "yaml", r"emit='yaml' is unknown\. Allowed: mergekit, layers, json"),
    ):
        with pytest.raises(OptionError, match=said):
            bathyscope.export(llama, "drop:1", folder, emit=emit)  # type: ignore[arg-type]


def test_a_text_for_other_tools_takes_the_configuration_alone(llama: Path) -> None:
    (llama / "model.safetensors").unlink()
    for option in ({"shard_bytes": 5}, {"evidence": "It costs little."}):
        (name,) = option
        with pytest.raises(OptionError, match=rf"{name}=.* is of a checkpoint, and emit='layers' writes none; leave"):
            bathyscope.export(llama, "drop:1", emit="layers", **option)  # type: ignore[arg-type]
    assert bathyscope.export(llama, "drop:1", emit="layers") == "0,2,3,4"
    assert bathyscope.export(waves.loaded("llama"), "swap:0", emit="layers") == "1,0,2,3,4"
    with pytest.raises(ModelError, match=r"holds no model\.safetensors and no index"):
        bathyscope.export(llama, "drop:1", llama.parent / "out")


def test_a_checkpoint_that_lacks_a_tensor_is_refused(llama: Path, tmp_path: Path) -> None:
    config = json.loads((llama / "config.json").read_text())
    (llama / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 6}))
    with pytest.raises(
        ModelError,
        match=r"^model\.safetensors in .* lacks weights of the model: model\.layers\.5\..* and 6 more\. Restore",
    ):
        bathyscope.export(llama, "drop:1", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_streamed_model_is_copied_from_its_files(llama: Path, tmp_path: Path) -> None:
    bathyscope.export(bathyscope.load(llama, placement="stream"), "drop:1", tmp_path / "streamed")
    bathyscope.export(llama, "drop:1", tmp_path / "copied")
    assert (tmp_path / "streamed/model.safetensors").read_bytes() == (
        tmp_path / "copied/model.safetensors"
    ).read_bytes()


def test_folders_and_file_sizes_are_checked(llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert bathyscope.export(llama, "drop:1", "~/out") == tmp_path / "home/out"
    assert (tmp_path / "home/out/config.json").is_file()
    with pytest.raises(OptionError, match="folder=5 is no folder"):
        bathyscope.export(llama, "drop:1", 5)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="shard_bytes=0 is out of range; allowed: 1 or more"):
        bathyscope.export(llama, "drop:1", tmp_path / "out", shard_bytes=0)


def test_a_hybrid_without_attention_is_exported_with_a_warning(tmp_path: Path) -> None:
    hybrid = zoo.entry("lfm2").build()
    with pytest.warns(UserWarning, match=r"cannot generate from this model with a cache, .* \(ValueError\)\. Generate"):
        bathyscope.export(hybrid, "drop:1,drop:4", tmp_path / "none")
    assert "Generate with use_cache=False" in (tmp_path / "none" / "README.md").read_text(encoding="utf-8")
    written = AutoModelForCausalLM.from_pretrained(tmp_path / "none")
    ids = torch.tensor([[5, 6, 7]])
    with pytest.raises(ValueError, match="get_seq_length"):
        written.generate(ids, max_new_tokens=2, do_sample=False)
    assert written.generate(ids, max_new_tokens=2, do_sample=False, use_cache=False).shape == (1, 5)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*with a cache")
        warnings.filterwarnings("ignore", message=".*without a tokenizer")
        bathyscope.export(hybrid, "drop:1", tmp_path / "some")
        bathyscope.export(zoo.build("gemma2"), "drop:1,drop:3", tmp_path / "windows")


def test_a_configuration_that_refuses_the_order_itself_is_one_sentence(tmp_path: Path) -> None:
    said = r"^olmo_hybrid cannot be exported with this order .*: its configuration refuses it \(OLMoHybrid expects"
    with pytest.raises(ModelError, match=said):
        bathyscope.export(zoo.build("olmo_hybrid"), "drop:1,drop:4", tmp_path / "out")
    assert not (tmp_path / "out").exists()


DECODERS = ("bart", "mbart", "pegasus", "marian", "blenderbot", "blenderbot-small", "plbart", "whisper", "trocr")


@pytest.mark.filterwarnings("ignore:.*without a tokenizer")
@pytest.mark.parametrize("kind", [pytest.param(k, marks=() if k == "bart" else pytest.mark.thorough) for k in DECODERS])
def test_a_decoder_of_an_encoder_decoder_type_counts_its_own_layers(kind: str, tmp_path: Path) -> None:
    config = AutoConfig.for_model(
        kind,
        vocab_size=120,
        d_model=64,
        encoder_layers=2,
        decoder_layers=4,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=96,
        decoder_ffn_dim=96,
        max_position_embeddings=128,
        is_decoder=True,
        is_encoder_decoder=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    hf = AutoModelForCausalLM.from_config(config).eval()
    ids = torch.tensor([[5, 6, 7, 8]])
    with bathyscope.scheduled(hf, "drop:1,swap:2") as running:
        expected = running(ids, use_cache=False).logits
    bathyscope.export(hf, "drop:1,swap:2", tmp_path / "out")
    written = AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    assert (written.config.decoder_layers, written.config.to_dict().get("encoder_layers")) == (3, 2)
    torch.testing.assert_close(written(ids, use_cache=False).logits, expected, rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:.*without a tokenizer")
def test_a_multimodal_folder_is_loaded_surveyed_exported_and_loaded_again(tmp_path: Path) -> None:
    hf = zoo.build("gemma3_multimodal")
    assert type(hf).__name__ == "Gemma3ForConditionalGeneration"
    hf.save_pretrained(tmp_path / "whole")
    whole = bathyscope.load(tmp_path / "whole")
    run = bathyscope.survey(whole, [[5, 9, 7, 30, 44, 12]], ["lens"], progress=False)
    assert run["lens"].sizes["boundary"] == whole.n_blocks + 1
    bathyscope.export(tmp_path / "whole", "drop:1", tmp_path / "less")
    less = bathyscope.load(tmp_path / "less")
    assert type(less.hf) is type(whole.hf)
    assert less.n_blocks == whole.n_blocks - 1


def test_a_file_is_no_evidence(llama: Path, tmp_path: Path) -> None:
    """The card would show its name."""
    costs = tmp_path / "costs.md"
    costs.write_text("0.1 nats")
    for evidence in (str(costs), f" {costs}\n"):
        with pytest.raises(OptionError, match=r"costs.md' is a file, and the card takes its text; give that"):
            bathyscope.export(llama, "drop:1", tmp_path / "copy", evidence=evidence)
    assert not (tmp_path / "copy").exists()


def test_the_models_own_order_is_told(llama: Path, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="'swap:1,swap:1' is the model's own order, so that the copy has the same"):
        bathyscope.export(llama, "swap:1,swap:1", tmp_path / "copy")
