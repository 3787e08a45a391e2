"""GGUF files: the model that they stand for, what a run says of them, and files that cannot be read."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFWriter, RopeScalingType
from support.gguf_files import BLOCKS, VOCABULARY, Written, write_llama
from tqdm.auto import tqdm
from transformers import AutoModelForCausalLM, modeling_gguf_pytorch_utils

import bathyscope
from bathyscope import ModelError
from bathyscope.core.cache import stored_smollm2
from bathyscope.model import Model
from bathyscope.model import gguf as gguf_module

TEXTS = ["the one on the inn, then on", "on and on the thin one", "in the end the tin", "then one, on in the inn"]
IDS = torch.tensor([[5, 80, 200, 33, 261, 7, 90, 12]])


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A file of eight bits a weight; read only."""
    return write_llama(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="module")
def converted(written: Written) -> Path:
    """The same model as a plain folder, made from the numbers that were written and not from the file."""
    folder = written.path.parent / "folder"
    written.model.save_pretrained(folder)
    bathyscope.load(written.path).tokenizer.save_pretrained(folder)
    return folder


def refused(name: str | Path, **options: object) -> str:
    with pytest.raises(ModelError) as caught:
        bathyscope.load(name, **options)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_1", "F32"])
def test_its_weights_are_the_numbers_that_they_stand_for(kind: str, tmp_path: Path) -> None:
    made = write_llama(tmp_path / "tiny.gguf", GGMLQuantizationType[kind])
    model = bathyscope.load(made.path)
    for name, value in made.model.state_dict().items():
        assert torch.equal(model.hf.state_dict()[name], value), name
    with torch.no_grad():
        assert torch.equal(model.hf(IDS).logits, made.model(IDS).logits)


def test_no_bar_is_drawn_while_tensors_are_unpacked(written: Written, capfd: pytest.CaptureFixture[str]) -> None:
    assert modeling_gguf_pytorch_utils.tqdm is tqdm
    bathyscope.load(written.path)
    assert "GGUF tensors" not in capfd.readouterr().err
    assert modeling_gguf_pytorch_utils.tqdm is tqdm


def test_a_folder_and_a_file_name_are_the_same_model(written: Written) -> None:
    first = bathyscope.load(written.path)
    second = bathyscope.load(written.path.parent, gguf_file="tiny.gguf")
    assert second.name == first.name == str(written.path)
    assert second.weight_hash == first.weight_hash


def test_its_tokenizer_is_the_one_in_the_file(written: Written) -> None:
    tokenizer = bathyscope.load(written.path).tokenizer
    assert tokenizer.convert_ids_to_tokens(tokenizer("the one").input_ids) == ["the", "Ġon", "e"]
    assert tokenizer.decode(tokenizer("the one").input_ids) == "the one"


def test_no_vocabulary_is_read_an_array_a_token(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model, its tokenizer and its estimate read the header of a file in lists."""
    parts = gguf.GGUFReader._get_field_parts

    def of_one_value(self: gguf.GGUFReader, place: int, kind: int) -> Any:
        assert kind != gguf.GGUFValueType.ARRAY
        return parts(self, place, kind)

    monkeypatch.setattr(gguf.GGUFReader, "_get_field_parts", of_one_value)
    assert len(bathyscope.load(written.path).tokenizer) == len(VOCABULARY)
    assert bathyscope.estimate(str(written.path), tokens=64)


def test_an_estimate_reads_a_header_once(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    read = gguf_module._read_header
    monkeypatch.setattr(gguf_module, "_read_header", lambda path, stream: opened.append(path) or read(path, stream))
    assert bathyscope.estimate(str(written.path), tokens=64)
    assert opened == [written.path]


def test_weights_are_unpacked_to_the_precision_that_is_asked_for(written: Written) -> None:
    assert bathyscope.load(written.path).dtype == torch.float32
    halved = bathyscope.load(written.path, dtype="bfloat16")
    expected = written.model.state_dict()["model.layers.1.mlp.up_proj.weight"].bfloat16()
    assert torch.equal(halved.hf.state_dict()["model.layers.1.mlp.up_proj.weight"], expected)


def test_a_run_names_the_file_its_hash_and_its_quantisation(written: Written) -> None:
    run = bathyscope.survey(bathyscope.load(written.path), TEXTS, ["lens"], progress=False)
    assert run.identity.gguf == {
        "file": "tiny.gguf",
        "sha256": hashlib.sha256(written.path.read_bytes()).hexdigest(),
        "quantisation": "Q8_0, F32",
    }
    assert "tiny.gguf (unpacked from Q8_0, F32) on" in repr(run)
    assert "tiny.gguf (Q8_0, F32)" in bathyscope.load(written.path)._repr_html_()


def require_equal(first: Model, second: Model, texts: list[str], place: Path) -> None:
    """Checks, survey, pruning and export of two models give the same numbers and bytes."""
    checks = [bathyscope.check(model) for model in (first, second)]
    apart = {"model": "", "weights": ""}
    assert checks[0] | apart == checks[1] | apart
    assert first.weight_hash == second.weight_hash
    measures = ["residual", "lens", "skip", "drop"]
    runs = [bathyscope.survey(model, texts, measures, progress=False) for model in (first, second)]
    assert runs[0].identity.config_hash == runs[1].identity.config_hash
    for measure in measures:
        assert runs[0][measure].identical(runs[1][measure]), measure
    half = len(texts) // 2
    options = {"drop": 1, "progress": False, "resamples": 100}
    plans = [bathyscope.prune(model, texts[:half], texts[half:], **options) for model in (first, second)]
    assert plans[0].schedule == plans[1].schedule
    for name in plans[0].data:
        np.testing.assert_array_equal(plans[0].data[name], plans[1].data[name], name)
    exports = [
        Path(bathyscope.export(model, "drop:1", place / f"export{number}"))
        for number, model in enumerate((first, second))
    ]
    for name in ("model.safetensors", "config.json"):
        contents = [(folder / name).read_bytes() for folder in exports]
        assert contents[0] == contents[1], name
    assert b"quantization_config" not in contents[0]


@pytest.mark.filterwarnings("ignore")
def test_everything_is_equal_to_the_bit_on_the_file_and_on_the_folder(
    written: Written, converted: Path, tmp_path: Path
) -> None:
    first, second = bathyscope.load(written.path), bathyscope.load(converted)
    assert first.gguf is not None, "one way to the weights is the file"
    assert second.gguf is None, "and the other is not"
    require_equal(first, second, TEXTS, tmp_path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("hashed", [True, False])
def test_the_comparison_of_two_models_sees_one_weight_of_another_value(
    hashed: bool, written: Written, converted: Path, tmp_path: Path
) -> None:
    """By the hash, and by the numbers too where the hashes are made alike."""
    first, other = bathyscope.load(written.path), AutoModelForCausalLM.from_pretrained(converted)
    with torch.no_grad():
        other.model.layers[1].mlp.down_proj.weight[0, 0] += 0.5
    second = bathyscope.load(other, tokenizer=first.tokenizer)
    second = second if hashed else dataclasses.replace(second, weight_hash=first.weight_hash)
    with pytest.raises(AssertionError):
        require_equal(first, second, TEXTS, tmp_path)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_everything_is_equal_to_the_bit_on_a_real_file(tmp_path: Path) -> None:
    """Where ``python -m studies.real_model fetch`` has stored it."""
    folder = stored_smollm2()
    file = folder / "SmolLM2-135M-Instruct.Q4_1.gguf"
    if not file.is_file():
        pytest.skip("SmolLM2 is not stored here; python -m studies.real_model fetch stores it")
    models = bathyscope.load(file), bathyscope.load(folder)
    assert models[0].gguf is not None
    assert models[0].gguf.quantisation == "Q4_1, Q8_0, F32"
    require_equal(*models, TEXTS, tmp_path)


def test_a_file_is_exported_by_its_name_with_its_tokenizer(written: Written, tmp_path: Path) -> None:
    folder = Path(bathyscope.export(written.path, "drop:0", tmp_path / "out"))
    model = AutoModelForCausalLM.from_pretrained(folder)
    assert model.config.num_hidden_layers == BLOCKS - 1
    assert (folder / "tokenizer.json").is_file()


def test_unpacked_weights_bring_no_warning_of_kernels_and_can_be_exported(written: Written, tmp_path: Path) -> None:
    """Of a model in memory too, whose configuration still says how its file was packed."""
    hf = AutoModelForCausalLM.from_pretrained(written.path.parent, gguf_file="tiny.gguf")
    assert hf.config.quantization_config is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bathyscope.load(hf)
        bathyscope.load(written.path)
    folder = Path(bathyscope.export(hf, "drop:2", tmp_path / "out"))
    assert "quantization_config" not in (folder / "config.json").read_text()
    kept = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    original = written.model.state_dict()
    assert all(torch.equal(value, original[name]) for name, value in kept.items())


def test_a_schedule_is_estimated_and_emitted_from_the_header(written: Written) -> None:
    assert bathyscope.estimate(written.path, prompts=TEXTS, measures=["lens"]).blocks == BLOCKS
    assert bathyscope.export(written.path, "drop:1", emit="layers") == "0,2"


def test_a_file_without_a_vocabulary_takes_token_ids_alone(tmp_path: Path) -> None:
    model = bathyscope.load(write_llama(tmp_path / "bare.gguf", tokenizer=False).path)
    assert model.tokenizer is None
    assert bathyscope.survey(model, [IDS[0].tolist()], ["lens"], progress=False).identity.tokenizer_hash is None
    with pytest.raises(bathyscope.PromptError, match="it is text, and the model has no tokenizer; give token ids"):
        bathyscope.survey(model, TEXTS, ["lens"], progress=False)


@pytest.mark.parametrize("part", [0.1, 0.5, 0.99])
def test_a_truncated_file_is_refused_before_it_is_loaded(part: float, written: Written, tmp_path: Path) -> None:
    path, content = tmp_path / "cut.gguf", written.path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    message = refused(path)
    assert message.startswith(f"{path} is truncated: ")
    assert message.endswith(". Download it again.")


def test_other_files_under_that_name_are_refused(written: Written, tmp_path: Path) -> None:
    path = tmp_path / "page.gguf"
    path.write_bytes(b"<html>not found</html>")
    assert refused(path).startswith(f"{path} is not a GGUF file (it does not begin with GGUF). Download it again, or")
    path.write_bytes(b"GGUF" + (9).to_bytes(4, "little") + bytes(16))
    assert refused(path) == f"{path} is GGUF of version 9; versions 2 and 3 can be read. Convert it again."
    content = bytearray(written.path.read_bytes())
    content[24:32] = (1 << 60).to_bytes(8, "little")  # the length of the first name
    path.write_bytes(content)
    assert "is damaged: its header holds a text of 1152921504606846976 bytes" in refused(path)


def _header(*values: tuple[bytes, int, bytes]) -> bytes:
    """A file without tensors, with values as (name, type, bytes)."""
    entries = b"".join(
        len(name).to_bytes(8, "little") + name + kind.to_bytes(4, "little") + content for name, kind, content in values
    )
    return b"GGUF" + (3).to_bytes(4, "little") + bytes(8) + len(values).to_bytes(8, "little") + entries


def _array(inner: int, count: int) -> bytes:
    return inner.to_bytes(4, "little") + count.to_bytes(8, "little")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (_header((b"general.alignment", 4, bytes(4))), "is damaged: its alignment is 0"),
        (_header((b"general.alignment", 8, (2).to_bytes(8, "little") + b"32")), "is damaged: its alignment is '32'"),
        (_header((b"x", 9, _array(9, 1) + _array(9, 1))), "is damaged: its header holds lists of type 9"),
        (_header((b"x", 9, _array(8, 1 << 40))), "is damaged: its header says 1,099,511,627,776 texts"),
        (b"GGUF" + (3).to_bytes(4, "big"), "is a big-endian GGUF file; only little-endian ones can be read. Convert"),
        (b"GGUF" + (3).to_bytes(4, "little") + b"\xff" * 16, "is damaged: its header says 18,446,744,073,709,551,615"),
    ],
)
def test_a_header_that_nobody_wrote_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(content + bytes(256))
    assert message in refused(path)


def _sparse(path: Path, header: bytes, holes: list[int]) -> Path:
    """A header, and holes of some bytes with a text's type and length behind each."""
    path.write_bytes(header)
    with path.open("r+b") as stream:
        stream.seek(0, 2)
        for number, hole in enumerate(holes):
            stream.write((3).to_bytes(8, "little") + b"%03d" % number + (8).to_bytes(4, "little"))
            stream.write(hole.to_bytes(8, "little"))
            stream.seek(hole, 1)
        stream.truncate(stream.tell() + 4096)
    return path


@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="the system does not tell holes")
def test_a_file_of_holes_is_refused_as_one(tmp_path: Path) -> None:
    path = tmp_path / "sparse.gguf"
    path.write_bytes(_header((b"x", 9, _array(12, 1 << 31)), (b"general.alignment", 4, bytes(4))))
    with path.open("r+b") as stream:
        stream.truncate(1 << 35)
    if path.stat().st_blocks * 512 > 1 << 20:
        pytest.skip("files have no holes here")
    assert "it says that it has 32.0 GiB, nearly none of which was ever written" in refused(path)


def test_an_array_of_a_header_is_not_read_into_memory(tmp_path: Path) -> None:
    # too small to be refused for its holes
    path, size = tmp_path / "array.gguf", 48 << 20
    whole = _header((b"x", 9, _array(12, size // 8)), (b"general.alignment", 4, bytes(4)))
    entry = len(_header((b"general.alignment", 4, bytes(4)))) - len(_header())
    with path.open("wb") as stream:
        stream.write(whole[:-entry])
        stream.seek(size, 1)
        stream.write(whole[-entry:] + bytes(256))
    tracemalloc.start()
    message = refused(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # what stands behind the array was read
    assert "is damaged: its alignment is 0" in message
    assert peak < 1 << 24


def test_texts_of_a_header_are_no_gigabytes_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gguf_module, "_LONGEST_HEADER", 1 << 22)
    header = b"GGUF" + (3).to_bytes(4, "little") + bytes(8) + (100).to_bytes(8, "little")
    # small enough that it may have holes
    path = _sparse(tmp_path / "long.gguf", header, [1 << 19] * 100)
    tracemalloc.start()
    message = refused(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "is damaged: its header has more than" in message
    assert peak < 1 << 24


def test_numbers_of_blocks_may_have_any_digits(tmp_path: Path) -> None:
    name = b"blk." + b"9" * 5000 + b".weight"
    tensor = len(name).to_bytes(8, "little") + name + (1).to_bytes(4, "little") + (1).to_bytes(8, "little") + bytes(12)
    keys = b"".join(
        len(key).to_bytes(8, "little") + key + value
        for key, value in (
            (b"general.architecture", (8).to_bytes(4, "little") + (5).to_bytes(8, "little") + b"llama"),
            (b"llama.block_count", (4).to_bytes(4, "little") + (2).to_bytes(4, "little")),
        )
    )
    counts = (1).to_bytes(8, "little") + (2).to_bytes(8, "little")
    path = tmp_path / "digits.gguf"
    path.write_bytes(b"GGUF" + (3).to_bytes(4, "little") + counts + keys + tensor + bytes(256))
    assert gguf_module.open_gguf(path).left_over is None


def test_an_unknown_architecture_is_named(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "other.gguf", architecture="wavenet").path
    message = refused(path)
    assert message.startswith(f"{path} is a GGUF file of the architecture 'wavenet', which transformers ")
    assert message.endswith(" cannot read; give the model's safetensors checkpoint.")


def with_code(content: bytes, code: int) -> bytes:
    """The storage type of the first matrix exchanged in the header."""
    place = content.index(b"token_embd.weight") + len(b"token_embd.weight") + 4 + 2 * 8
    return content[:place] + code.to_bytes(4, "little") + content[place + 4 :]


@pytest.mark.parametrize(("code", "kind"), [(999, "type 999"), (GGMLQuantizationType.Q8_K, "Q8_K")])
def test_an_unknown_quantisation_is_named(code: int, kind: str, written: Written, tmp_path: Path) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(with_code(written.path.read_bytes(), code))
    assert refused(path) == (
        f"{path} stores token_embd.weight as {kind}, a quantisation that the installed gguf cannot unpack. "
        "Update gguf, or give the model in another quantisation."
    )


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "few.gguf", leave_out="blk.1.attn_v.weight").path
    assert "lacks 1 tensor" in refused(path)


def test_without_gguf_the_extra_is_named(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    find: Callable[[str], object] = lambda name: None if name == "gguf" else object()  # noqa: E731
    monkeypatch.setattr(gguf_module, "find_spec", find)
    assert refused(written.path) == (
        f"Reading {written.path} needs gguf, which is not installed; pip install 'bathyscope[gguf]'."
    )


def test_what_a_file_cannot_be_asked_for_is_refused(written: Written, tmp_path: Path) -> None:
    path = written.path
    assert refused(path, placement="stream") == (
        f"{path} is a GGUF file, and GGUF files cannot be streamed: their weights are unpacked in memory. Load it with "
        "placement='resident'."
    )
    assert f"revision='main' is for models on the hub, and {path} is a file" in refused(path, revision="main")
    assert refused(tmp_path / "none.gguf").startswith(f"There is no file {tmp_path / 'none.gguf'}. Give the path of")
    assert refused(path.parent / "none.gguf").endswith(f"{path.parent} holds tiny.gguf.")
    assert "is not the name of a .gguf file inside the folder" in refused(path.parent, gguf_file="../tiny.gguf")
    assert "(hf download owner/name a.gguf) and give its path." in refused("owner/name", gguf_file="a.gguf")
    assert f"{path} is a file already; leave gguf_file='tiny.gguf' out" in refused(path, gguf_file="tiny.gguf")
    with pytest.raises(ModelError, match="gguf_file= is for a folder, and a model in memory was given"):
        bathyscope.load(written.model, gguf_file="tiny.gguf")


def test_the_vocabulary_of_the_file_is_whole(written: Written) -> None:
    assert len(bathyscope.load(written.path).tokenizer) == len(VOCABULARY)


LLAMA_3_FACTORS = np.array([1, 1, 1, 1, 2, 4, 8, 8], np.float32)


@pytest.mark.parametrize(
    ("further", "named"),
    [
        (lambda writer: writer.add_rope_scaling_type(RopeScalingType.LINEAR), "llama.rope.scaling.type = linear"),
        (lambda writer: writer.add_rope_scaling_factor(8.0), "llama.rope.scaling.factor = 8.0"),
        (lambda writer: writer.add_rope_scaling_attn_factors(1.5), "llama.rope.scaling.attn_factor = 1.5"),
        (lambda writer: writer.add_float32("llama.rope.scale_linear", 4.0), "llama.rope.scale_linear = 4.0"),
        (lambda writer: writer.add_tensor("rope_freqs.weight", LLAMA_3_FACTORS), "rope_freqs.weight"),
        (lambda writer: writer.add_tensor("rope_factors_long.weight", LLAMA_3_FACTORS), "rope_factors_long.weight"),
    ],
)
def test_scaled_rotary_frequencies_are_refused_before_loading(
    further: Callable[[GGUFWriter], None], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_llama(tmp_path / "scaled.gguf", further=further).path
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", lambda *_, **__: pytest.fail("loaded"))
    with pytest.raises(ModelError) as caught:
        bathyscope.load(path)
    assert str(caught.value) == (
        f"{path} asks for scaled rotary frequencies ({named}), which transformers leaves out of GGUF files, so that it "
        "would be another model. Give the model's safetensors checkpoint."
    )


@pytest.mark.parametrize("base", [math.nan, math.inf, 0.0, -1.0])
def test_frequencies_of_no_base_are_refused_before_loading(
    base: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_llama(tmp_path / "unusable.gguf", rotary_base=base).path
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", lambda *_, **__: pytest.fail("loaded"))
    with pytest.raises(ModelError) as caught:
        bathyscope.load(path)
    assert str(caught.value) == (
        f"{path} cannot be read: its header says rope_theta: {base}; rotary frequencies are powers of a finite number "
        "above 0."
    )


def test_factors_and_types_that_scale_nothing_are_loaded(tmp_path: Path) -> None:
    def further(writer: GGUFWriter) -> None:
        writer.add_rope_scaling_type(RopeScalingType.NONE)
        writer.add_rope_scaling_factor(1.0)
        writer.add_tensor("rope_freqs.weight", np.ones(8, np.float32))

    written = write_llama(tmp_path / "plain.gguf", further=further)
    ids = torch.arange(1, 9)[None]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the factors, which the model has no place for
        logits = bathyscope.load(written.path).hf(ids).logits
        torch.testing.assert_close(logits, written.model(ids).logits, rtol=0, atol=1e-4)


def test_blocks_that_the_header_leaves_out_are_said(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "cut.gguf", block_count=2).path
    said = "The file holds 3 blocks, and its header asks for the first 2; the others are left out. Was the header "
    with pytest.warns(UserWarning, match=said):
        model = bathyscope.load(path)
    assert model.n_blocks == 2
    assert model.warnings[0].startswith(said)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("block_count", 1_000_000, "asks for 1,000,000 blocks, and its weights are those of at most 3"),
        ("block_count", 2**32 - 1, "asks for 4,294,967,295 blocks"),
        ("embedding_length", 1_000_000, "says embedding_length = 1000000, and no tensor has that size"),
        ("embedding_length", 63, "says embedding_length = 63, and no tensor has that size"),
        ("feed_forward_length", 1_000_000, "says feed_forward_length = 1000000"),
        ("vocab_size", 1_000_000, "says vocab_size = 1000000"),
        ("attention.head_count", 1_000_000, "says attention.head_count = 1000000"),
        ("attention.key_length", 1000, "says attention.key_length = 1000"),
    ],
)
def test_sizes_that_no_tensor_has_are_refused_before_a_model_is_made(
    key: str, value: int, said: str, tmp_path: Path
) -> None:
    """A model of a million blocks, or as wide, was built for minutes and of gigabytes."""
    path = tmp_path / "tiny.gguf"
    write_llama(path, further=lambda writer: writer.add_uint32("llama.attention.key_length", 16))
    name = f"llama.{key}".encode()
    content = bytearray(path.read_bytes())
    place = content.index(len(name).to_bytes(8, "little") + name) + 8 + len(name)
    assert content[place : place + 4] == (4).to_bytes(4, "little")
    content[place + 4 : place + 8] = value.to_bytes(4, "little")
    path.write_bytes(content)
    assert f"is damaged: its header {said}" in refused(path)


def test_a_long_name_of_an_architecture_is_cut_short(tmp_path: Path) -> None:
    write_llama(tmp_path / "tiny.gguf", architecture="a" * 100_000)
    assert len(refused(tmp_path / "tiny.gguf")) < 600


def test_tensors_that_share_bytes_are_refused(tmp_path: Path) -> None:
    """One of them was read as the other."""
    path = write_llama(tmp_path / "tiny.gguf").path
    content = bytearray(path.read_bytes())
    name = b"blk.1.attn_q.weight"
    place = content.index(name) + len(name) + 4 + 2 * 8 + 4
    content[place : place + 8] = bytes(8)
    path.write_bytes(content)
    assert "share bytes; download it again" in refused(path)
