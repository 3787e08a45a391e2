"""Quantised folders: their weights to the bit, what a run says of them, and what is wrong with some."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from support import quantised, zoo
from support.quantised import KINDS, Checkpoint, Kind, rewrite, write
from torch import Tensor

import bathyscope
from bathyscope import ModelError

pytestmark = pytest.mark.filterwarnings("ignore:.*The source came without a tokenizer")

IDS = [[1, 5, 9, 7, 3, 8, 6, 4, 11, 10, 12, 15, 13, 14], [3, 8, 6, 4, 1, 5, 9, 7, 13, 14, 10, 12, 15, 11]]


def require_equal_weights(found: bathyscope.extend.Model, expected: bathyscope.extend.Model) -> None:
    """Every parameter and buffer is that of the plain folder, to the bit."""
    values = expected.hf.state_dict()
    assert found.hf.state_dict().keys() == values.keys()
    for name, value in found.hf.state_dict().items():
        assert torch.equal(value, values[name]), name
    assert found.weight_hash == expected.weight_hash


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_to_the_bit_those_that_the_numbers_stand_for(kind: str, tmp_path: Path) -> None:
    written = write(KINDS[kind], tmp_path)
    found = bathyscope.load(written.packed)
    require_equal_weights(found, bathyscope.load(written.plain))
    assert found.packing == KINDS[kind].said
    assert found.dtype == torch.float32
    # it is a plain model from here on
    assert getattr(found.hf.config, "quantization_config", None) is None
    assert found.warnings == ()


@pytest.mark.parametrize("family", ["gpt2", "qwen3_moe", "gemma2", "deepseek_v3"])
@pytest.mark.parametrize("kind", ["gptq-4", "awq", "int4-zeros", "nf4", "bits-8", "fp8"])
def test_families_have_their_weights_where_the_plain_folder_has_them(kind: str, family: str, tmp_path: Path) -> None:
    """Matrices that are turned, experts that are put together, norms on the outputs, blocks of two kinds."""
    written = write(KINDS[kind], tmp_path, family)
    require_equal_weights(bathyscope.load(written.packed), bathyscope.load(written.plain))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """A folder of GPTQ in four bits; read only."""
    return write(KINDS["gptq-4"], tmp_path_factory.mktemp("quantised"))


def test_everything_is_equal_to_the_bit_on_the_packed_and_on_the_plain_folder(
    written: Checkpoint, tmp_path: Path
) -> None:
    packed, plain = bathyscope.load(written.packed), bathyscope.load(written.plain)
    measures = ["residual", "lens", "skip", "drop"]
    runs = [bathyscope.survey(model, IDS, measures, progress=False) for model in (packed, plain)]
    for measure in measures:
        assert runs[0][measure].identical(runs[1][measure]), measure
    assert runs[0].identity.config_hash == runs[1].identity.config_hash
    exports = [
        Path(bathyscope.export(source, "drop:1", tmp_path / name))
        for name, source in (("packed", written.packed), ("memory", packed), ("plain", plain))
    ]
    for name in ("model.safetensors", "config.json"):
        contents = [(folder / name).read_bytes() for folder in exports]
        assert contents[0] == contents[1] == contents[2], name
    note = "unpacked from gptq 4-bit, group 32; this copy holds them as plain numbers."
    assert [note in (folder / "README.md").read_text(encoding="utf-8") for folder in exports] == [True, True, False]


def test_a_run_a_check_and_a_notebook_say_what_the_weights_were_unpacked_from(written: Checkpoint) -> None:
    model = bathyscope.load(written.packed)
    run = bathyscope.survey(model, IDS, ["lens"], progress=False)
    assert run.identity.packing == "gptq 4-bit, group 32"
    assert "packed (unpacked from gptq 4-bit, group 32) on" in run.caption()
    assert "gptq 4-bit, group 32" in model._repr_html_()
    assert bathyscope.check(written.packed)["weights"] == "unpacked from gptq 4-bit, group 32"
    assert "float32 (unpacked from gptq 4-bit, group 32)," in bathyscope.check(model).text
    assert bathyscope.check(written.plain)["weights"] == "as stored"


@pytest.mark.parametrize("family", ["llama", "qwen3_moe"])
def test_streamed_blocks_give_the_same_numbers(family: str, tmp_path: Path) -> None:
    written = write(KINDS["int4-group"], tmp_path, family)
    resident = bathyscope.load(written.packed)
    streamed = bathyscope.load(written.packed, placement="stream")
    assert (streamed.placement, streamed.weight_hash) == ("stream", resident.weight_hash)
    assert streamed.packing == resident.packing
    runs = [bathyscope.survey(model, IDS, ["lens", "drop"], progress=False) for model in (resident, streamed)]
    for measure in ("lens", "drop"):
        assert runs[0][measure].identical(runs[1][measure]), measure
    exported = bathyscope.load(bathyscope.export(streamed, "drop:1", tmp_path / "copy"))
    assert (
        exported.weight_hash == bathyscope.load(bathyscope.export(resident, "drop:1", tmp_path / "other")).weight_hash
    )


def test_weights_are_unpacked_to_the_precision_that_is_asked_for(written: Checkpoint) -> None:
    name = "model.layers.1.mlp.up_proj.weight"
    halved = bathyscope.load(written.packed, dtype="bfloat16")
    assert halved.dtype == torch.bfloat16
    assert torch.equal(halved.hf.state_dict()[name], bathyscope.load(written.plain).hf.state_dict()[name].bfloat16())


def test_a_name_on_the_hub_is_unpacked_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = write(KINDS["awq"], tmp_path)
    repository = tmp_path / "hub" / "models--org--tiny"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0" * 40)
    shutil.copytree(written.packed, repository / "snapshots" / ("0" * 40))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    found = bathyscope.load("org/tiny")
    require_equal_weights(found, bathyscope.load(written.plain))
    assert (found.name, found.packing) == ("org/tiny", KINDS["awq"].said)


def test_an_estimate_is_of_the_unpacked_weights(tmp_path: Path) -> None:
    """A configuration says the dtype from before the weights were packed, and they are unpacked to float32."""
    written = write(KINDS["awq"], tmp_path)
    quantised.declare(written.packed, dtype="float16")
    estimates = [bathyscope.estimate(folder, IDS, ["lens"]) for folder in (written.packed, written.plain)]
    first, second = (estimate.record() for estimate in estimates)
    assert first["dtype"] == "float32"
    assert first["weight_bytes"] == second["weight_bytes"]


def test_several_files_are_read_as_one(tmp_path: Path) -> None:
    """The parts of one weight may lie in different files."""
    written = write(KINDS["gptq-4"], tmp_path)
    tensors = quantised.load_file(written.packed / "model.safetensors")
    (written.packed / "model.safetensors").unlink()
    places = {name: f"model-0000{1 + number % 2}-of-00002.safetensors" for number, name in enumerate(sorted(tensors))}
    for file in set(places.values()):
        chosen = {name: value for name, value in tensors.items() if places[name] == file}
        quantised.save_file(chosen, written.packed / file, {"format": "pt"})
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    (written.packed / "model.safetensors.index.json").write_text(json.dumps(index))
    require_equal_weights(bathyscope.load(written.packed), bathyscope.load(written.plain))


def test_what_the_packed_weights_need_decides_whether_blocks_are_streamed(
    written: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the size of the unpacked weights that has to fit."""
    from bathyscope.model import placement

    stored = (written.packed / "model.safetensors").stat().st_size
    plain = (written.plain / "model.safetensors").stat().st_size
    assert stored < plain / 2
    monkeypatch.setattr(placement, "free_bytes", lambda device: placement.STATE_BYTES + (stored + plain) // 2)
    with pytest.warns(UserWarning, match="its blocks are streamed from disk"):
        assert bathyscope.load(written.packed).placement == "stream"


def test_generation_settings_are_read_as_those_of_a_plain_folder(tmp_path: Path) -> None:
    written = write(KINDS["awq"], tmp_path)
    for folder in (written.packed, written.plain):
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 9], "pad_token_id": 3}))
    packed, plain = (
        bathyscope.load(folder).hf.generation_config.to_dict() for folder in (written.packed, written.plain)
    )
    assert packed == plain
    assert packed["eos_token_id"] == [7, 9]


def test_drafting_blocks_of_a_packed_folder_are_left_out_and_an_export_says_so(tmp_path: Path) -> None:
    """DeepSeek-V3 is published in FP8, with blocks behind its last that only draft."""
    written = write(KINDS["fp8"], tmp_path)
    quantised.declare(written.packed, num_hidden_layers=2, num_nextn_predict_layers=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = bathyscope.load(written.packed)
    assert model.warnings == ()
    with pytest.warns(UserWarning, match="which predict further tokens for drafts"):
        bathyscope.export(written.packed, "drop:1", tmp_path / "copy")
    said = "behind its last were left out (2, 3, 4), which predict further tokens for drafts."
    assert said in (tmp_path / "copy" / "README.md").read_text(encoding="utf-8")


def test_plain_weights_of_a_configuration_that_declares_packed_ones_are_measured_with_a_warning(tmp_path: Path) -> None:
    zoo.build("llama").save_pretrained(tmp_path)
    quantised.declare(tmp_path, quantization_config=KINDS["gptq-4"].config)
    with pytest.warns(
        UserWarning, match=r"declares quantised weights \(gptq\), and all of its tensors are plain numbers"
    ):
        model = bathyscope.load(tmp_path)
    assert model.packing is None
    assert len(model.warnings) == 1


def without(part: str) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    return lambda tensors: {name: value for name, value in tensors.items() if not name.endswith(part)}


WRONG_SIZES: list[tuple[str, dict[str, Any], str]] = [
    (
        "gptq-4",
        {"group_size": 16},
        r"down_proj.weight has a scales of 3×64, and a group_size of 16 for 96 inputs asks for 6×64",
    ),
    ("gptq-4", {"group_size": -1}, r"has a scales of 3×64, and one group for 96 inputs asks for 1×64"),
    ("gptq-4", {"bits": 8}, r"has a qweight of 12×64, and 8 bits for 96 inputs asks for 24×64"),
    ("awq", {"group_size": 64}, r"has a scales of 3×64, and a group_size of 64 for 96 inputs asks for 2×64"),
]


@pytest.mark.parametrize(("kind", "changes", "reason"), WRONG_SIZES)
def test_sizes_that_the_tensors_do_not_have_are_refused(
    kind: str, changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    written = write(KINDS[kind], tmp_path)
    quantised.declare(written.packed, quantization_config={**KINDS[kind].config, **changes})
    with pytest.raises(ModelError, match=rf"{reason}.*belongs to another checkpoint, or the files are damaged\.$"):
        bathyscope.load(written.packed)


@pytest.mark.parametrize(
    ("kind", "changes", "reason"),
    [
        ("int4-group", {"group_size": 16}, "has 64×3 scales, and the configuration declares groups of 16"),
        ("int4-group", {"num_bits": 8}, "packs 96 inputs in 12 words, and the configuration declares 8 bits"),
        ("float8-block", {"block_structure": [64, 64]}, "has 2×3 scales, and the configuration declares no groups"),
    ],
)
def test_sizes_of_groups_of_compressed_tensors_that_do_not_fit_are_refused(
    kind: str, changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    written = write(KINDS[kind], tmp_path)
    config = json.loads(json.dumps(KINDS[kind].config))
    config["config_groups"]["group_0"]["weights"] |= changes
    quantised.declare(written.packed, quantization_config=config)
    with pytest.raises(ModelError, match=reason):
        bathyscope.load(written.packed)


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("gptq-4", "qzeros"),
        ("awq", "scales"),
        ("int4-group", "weight_scale"),
        ("int4-group", "weight_shape"),
        ("float8-tensor", "weight_scale"),
        ("bits-8", "SCB"),
        ("nf4", "absmax"),
        ("nf4-double", "nested_quant_map"),
        ("torchao-channel", "scale"),
        ("fp8", "scale_inv"),
    ],
)
def test_a_part_that_is_missing_is_named(kind: str, part: str, tmp_path: Path) -> None:
    written = write(KINDS[kind], tmp_path)
    rewrite_with_notes(written.packed, without(part))
    with pytest.raises(ModelError, match=rf"proj\.weight lacks its .*{part}\. The checkpoint is not whole"):
        bathyscope.load(written.packed)


def rewrite_with_notes(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    """Changes the tensors and leaves the file's metadata as they are."""
    from safetensors import safe_open

    file = folder / "model.safetensors"
    with safe_open(file, "pt") as opened:
        notes = opened.metadata()
    quantised.save_file(change(quantised.load_file(file)), file, notes)


UNSUPPORTED: list[tuple[str, dict[str, Any], str]] = [
    ("gptq-4", {"checkpoint_format": "marlin"}, "its format is marlin, and gptq and gptq_v2 are unpacked"),
    ("gptq-4", {"bits": 5}, "it has 5 bits, and 2, 3, 4, 8 are unpacked"),
    ("awq", {"version": "gemv"}, "its version is gemv, and gemm is unpacked"),
    ("awq", {"bits": 3}, "it has 3 bits, and 4 are unpacked"),
    ("int4-group", {"format": "marlin-24"}, "its format is marlin-24, and pack-quantized, .* are unpacked"),
    (
        "int4-group",
        {"sparsity_config": {"format": "sparse-24-bitmask"}},
        r"its zeros are left out \(sparse-24-bitmask\)",
    ),
    ("int4-group", {"transform_config": {"config_groups": {}, "a": 1}}, "its activations are rotated while it runs"),
]


@pytest.mark.parametrize(("kind", "changes", "reason"), UNSUPPORTED)
def test_variants_that_are_not_unpacked_are_refused_with_the_reason(
    kind: str, changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    written = write(KINDS[kind], tmp_path)
    quantised.declare(written.packed, quantization_config={**KINDS[kind].config, **changes})
    with pytest.raises(ModelError, match=rf"in a way that is not unpacked: {reason}.*Give the checkpoint before"):
        bathyscope.load(written.packed)


def test_tensors_that_are_laid_out_for_one_kernel_are_refused_with_their_kind(tmp_path: Path) -> None:
    written = write(quantised.torchao(32, "Int4Tensor"), tmp_path)
    with pytest.raises(ModelError, match=r"is stored as Int4Tensor, which is laid out for one kernel\. Int8Tensor, "):
        bathyscope.load(written.packed)


@pytest.mark.parametrize("state", [b"no json", b'{"shape": [1e9]}', b'{"shape": [64, 64], "blocksize": 0}', b"[1]"])
def test_a_damaged_description_of_four_bits_is_one_error(state: bytes, tmp_path: Path) -> None:
    written = write(KINDS["nf4"], tmp_path)
    text = torch.tensor(list(state), dtype=torch.uint8)
    rewrite(written.packed, lambda tensors: {n: text.clone() if "quant_state" in n else v for n, v in tensors.items()})
    with pytest.raises(ModelError, match=r"has a quant_state\.bitsandbytes__nf4 that cannot be read"):
        bathyscope.load(written.packed)


@pytest.mark.parametrize("size", [0, -2, "32", None, True, 1.5])
@pytest.mark.parametrize("kind", ["gptq-4", "awq"])
def test_a_group_size_that_is_none_is_refused(kind: str, size: object, tmp_path: Path) -> None:
    written = write(KINDS[kind], tmp_path)
    quantised.declare(written.packed, quantization_config={**KINDS[kind].config, "group_size": size})
    with pytest.raises(ModelError, match=rf"declares group_size: {size!r}; it is a whole number above 0, or -1"):
        bathyscope.load(written.packed)


def test_empty_parts_are_refused(tmp_path: Path) -> None:
    written = write(KINDS["gptq-4"], tmp_path)
    rewrite(written.packed, lambda tensors: {n: v[:0] if n.endswith("scales") else v for n, v in tensors.items()})
    with pytest.raises(ModelError, match=r"proj\.weight has an empty scales\. The checkpoint is not whole"):
        bathyscope.load(written.packed)


def test_a_truncated_folder_is_refused_before_anything_is_unpacked(tmp_path: Path) -> None:
    written = write(KINDS["gptq-4"], tmp_path)
    file = written.packed / "model.safetensors"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(ModelError, match=r"is no whole safetensors file .* it was cut short"):
        bathyscope.load(written.packed)


def test_a_configuration_of_another_width_is_refused(tmp_path: Path) -> None:
    written = write(KINDS["gptq-4"], tmp_path)
    quantised.declare(written.packed, intermediate_size=160)
    with pytest.raises(ModelError, match=r"does not fit its configuration: .*96.* in the file and .*160"):
        bathyscope.load(written.packed)


def kinds_of_methods() -> list[Kind]:
    by_method = {kind.config["quant_method"]: kind for kind in KINDS.values()}
    return list(by_method.values())


def test_every_method_that_is_unpacked_is_tested() -> None:
    from bathyscope.model.packed.registry import PACKINGS

    # experts of GPT-OSS are tested in test_quantised.py
    assert {kind.config["quant_method"] for kind in kinds_of_methods()} == set(PACKINGS) - {"mxfp4"}


def edit(part: str, change: Callable[[Tensor], Tensor]) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    """Change every tensor of this part."""
    return lambda tensors: {
        name: change(value) if name.endswith(f".{part}") else value for name, value in tensors.items()
    }


def first_entry(value: Tensor) -> Tensor:
    return value.flatten()[:1].reshape(())


def to_complex(value: Tensor) -> Tensor:
    return value.to(torch.complex64)


def to_bool(value: Tensor) -> Tensor:
    return value.to(torch.bool)


@pytest.mark.parametrize(
    ("kind", "part", "change", "reason"),
    [
        ("gptq-4", "g_idx", first_entry, "has a g_idx of 0 axes, for 1"),
        ("gptq-4", "g_idx", lambda value: value.double() * float("nan"), "has a g_idx in torch.float64, for whole"),
        ("gptq-4", "g_idx", lambda value: value - 1, r"cannot be unpacked \(an input in group -1 to 1 of 3\)"),
        ("gptq-sorted", "g_idx", lambda value: value + 1, r"cannot be unpacked \(an input in group 1 to 3 of 3\)"),
        ("gptq-4", "qzeros", lambda value: value.float(), "has a qzeros in torch.float32, for whole numbers"),
        ("gptq-4", "scales", to_complex, "has a scales in complex64"),
        ("awq", "qweight", to_bool, "has a qweight in bool"),
        ("awq", "qweight", lambda value: value.float(), "has a qweight in torch.float32, for whole numbers"),
        ("int4-group", "weight_shape", lambda value: value * float("nan"), "has a weight_shape in torch.float32"),
        ("int4-group", "weight_shape", lambda value: value.repeat(3), "has a weight_shape of 6"),
        ("int4-group", "weight_packed", to_bool, "has a weight_packed in bool"),
        ("int4-group", "weight_scale", to_complex, "has a weight_scale in complex64"),
        ("int4-sorted", "weight_g_idx", lambda value: value - 1, r"an input in group -1 to 1 of 3"),
        ("int8-tensor", "weight_zero_point", lambda value: value.float(), "has a weight_zero_point in torch.float32"),
        ("bits-8", "SCB", to_complex, "has a SCB in complex64"),
        ("bits-8", "weight_format", lambda value: value.double(), "has a weight_format in torch.float64"),
        ("nf4", "quant_map", lambda value: value[:4], "has a quant_map of 4, and 4 bits asks for 16"),
        ("nf4-double", "nested_quant_map", lambda value: value[:4], "has a nested_quant_map of 4, and 8 bits asks"),
        ("nf4-double", "nested_absmax", lambda value: value.repeat(2), "has a nested_absmax of 2, and a block size of"),
    ],
)
def test_parts_that_cannot_be_what_they_are_called_are_refused(
    kind: str, part: str, change: Callable[[Tensor], Tensor], reason: str, tmp_path: Path
) -> None:
    written = write(KINDS[kind], tmp_path)
    rewrite(written.packed, edit(part, change))
    with pytest.raises(ModelError, match=reason):
        bathyscope.load(written.packed)


def test_a_weight_format_of_many_entries_is_looked_at_as_a_whole(tmp_path: Path) -> None:
    written = write(KINDS["bits-8"], tmp_path)
    rewrite(written.packed, edit("weight_format", lambda value: torch.tensor([0, 1], dtype=torch.uint8)))
    with pytest.raises(ModelError, match="is laid out for one kind of GPU"):
        bathyscope.load(written.packed)


@pytest.mark.parametrize("kind", ["int4-zeros", "int8-packed", "int8-tensor"])
def test_numbers_that_are_not_symmetric_need_their_zeros(kind: str, tmp_path: Path) -> None:
    """Without them they would be read as symmetric, with other weights."""
    written = write(KINDS[kind], tmp_path)
    assert KINDS[kind].config["config_groups"]["group_0"]["weights"]["symmetric"] is False
    rewrite(written.packed, without("weight_zero_point"))
    with pytest.raises(ModelError, match="lacks its weight_zero_point, and its numbers are not symmetric"):
        bathyscope.load(written.packed)


def test_inputs_that_were_sorted_need_their_order(tmp_path: Path) -> None:
    written = write(KINDS["gptq-sorted"], tmp_path)
    quantised.declare(written.packed, quantization_config={**KINDS["gptq-sorted"].config, "desc_act": True})
    bathyscope.load(written.packed)
    rewrite(written.packed, without("g_idx"))
    with pytest.raises(ModelError, match=r"lacks the order of its inputs \(g_idx\), which were sorted"):
        bathyscope.load(written.packed)


def test_a_method_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    """transformers would measure the numbers of eight bits without their scales."""
    written = write(KINDS["fp8"], tmp_path)
    quantised.declare(written.packed, quantization_config={**KINDS["fp8"].config, "quant_method": "other\x1b[31m"})
    with pytest.raises(
        ModelError, match=r"is quantised by 'other\\.*', which neither bathyscope nor transformers"
    ) as error:
        bathyscope.load(written.packed)
    assert "\x1b" not in str(error.value)


@pytest.mark.parametrize("kind", ["awq", "fp8", "nf4", "nf4-double"])
def test_a_block_that_is_declared_far_too_large_takes_no_memory(kind: str, tmp_path: Path) -> None:
    """One scale for a billion inputs is one for all of them: the same weights as with a block of their size."""
    huge = 10**9
    written = write(KINDS[kind], tmp_path)
    config = dict(KINDS[kind].config)

    def in_state(value: Tensor, **entries: int) -> Tensor:
        state = {**json.loads(bytes(value.tolist())), **entries}
        return torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8)

    def change(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        for name, value in tensors.items():
            if kind == "awq" and name.endswith(("scales", "qzeros")):
                tensors[name] = value[:1].clone()
            elif kind == "fp8" and name.endswith("scale_inv"):
                rows = len(tensors[name.removesuffix("_scale_inv")])
                tensors[name] = value.flatten()[:1].repeat(rows)[:, None].clone()
            elif (kind, name.rpartition(".")[2]) in {("nf4", "absmax"), ("nf4-double", "nested_absmax")}:
                tensors[name] = value[:1].clone()
            elif "quant_state" in name:
                entry = "blocksize" if kind == "nf4" else "nested_blocksize"
                tensors[name] = in_state(value, **{entry: huge})
        return tensors

    rewrite(written.packed, change)
    entry = {"awq": {"group_size": huge}, "fp8": {"weight_block_size": [1, huge]}}.get(kind, {})
    quantised.declare(written.packed, quantization_config={**config, **entry})
    tracked = bathyscope.load(written.packed)
    assert all(value.isfinite().all() for value in tracked.hf.state_dict().values())
