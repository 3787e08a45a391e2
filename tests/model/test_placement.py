"""Where a model's weights go, and what is refused on the way."""

from __future__ import annotations

import resource
import signal
import tempfile
import warnings
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import torch
from safetensors.torch import load_file, save_file
from support import streamed, zoo

import bathyscope.model.checkpoint as checkpoint
import bathyscope.model.placement as placement
from bathyscope.errors import ModelError, OptionError
from bathyscope.model import load

CPU = torch.device("cpu")


def test_what_fits_is_in_memory_and_nothing_is_said(tmp_path: Path) -> None:
    folder = streamed.saved("llama", tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = load(folder)
    assert model.placement == "resident"
    assert model.blocks is None
    assert "streamed" not in repr(model)


def test_what_does_not_fit_is_streamed_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = streamed.saved("llama", tmp_path)
    size = sum(p.numel() * p.element_size() for p in zoo.build("llama").parameters())
    monkeypatch.setattr(placement, "free_bytes", lambda device: size + placement.STATE_BYTES)
    assert load(folder).placement == "resident"
    assert load(folder, "bfloat16").placement == "resident"
    monkeypatch.setattr(placement, "free_bytes", lambda device: size + placement.STATE_BYTES - 1)
    assert load(folder, "bfloat16").placement == "resident"
    with pytest.warns(UserWarning, match=r"GB are free on cpu: its blocks are streamed from disk \(placement"):
        model = load(folder)
    assert model.placement == "stream"
    assert repr(model).endswith("float32 on cpu, streamed)")


def test_a_model_of_the_hub_that_does_not_fit_is_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = tmp_path / "hub" / "models--org--tiny"
    streamed.saved("llama", repository / "snapshots" / "abc123", shards="100KB")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc123")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    whole = load("org/tiny")
    assert whole.placement == "resident"
    monkeypatch.setattr(placement, "free_bytes", lambda device: placement.STATE_BYTES)
    with pytest.warns(UserWarning, match=r"org/tiny takes .* its blocks are streamed from disk"):
        there = load("org/tiny")
    assert (there.placement, there.weight_hash) == ("stream", whole.weight_hash)


def test_a_model_that_is_still_on_the_hub_is_weighed_by_its_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a byte of its weights is fetched; without an index nothing is known."""
    folder = streamed.saved("llama", tmp_path, shards="100KB")
    size = sum(p.numel() * p.element_size() for p in zoo.build("llama").parameters())
    for file in folder.glob("*.safetensors"):
        file.unlink()
    asked = ("org/tiny", folder, "auto")
    monkeypatch.setattr(placement, "free_bytes", lambda device: size + placement.STATE_BYTES)
    assert not placement.is_streamed(*asked, None, CPU)
    monkeypatch.setattr(placement, "free_bytes", lambda device: size + placement.STATE_BYTES - 1)
    assert not placement.is_streamed(*asked, torch.bfloat16, CPU)
    with pytest.warns(UserWarning, match="its blocks are streamed from disk"):
        assert placement.is_streamed(*asked, None, CPU)
    (folder / "model.safetensors.index.json").unlink()
    assert not placement.is_streamed(*asked, None, CPU)


def test_tensors_of_rare_kinds_are_weighed_as_they_are(tmp_path: Path) -> None:
    folder = streamed.saved("llama", tmp_path)
    tensors = load_file(folder / "model.safetensors")
    rare = {"a.scale": torch.ones(3, dtype=torch.float8_e8m0fnu), "a.packed": torch.ones(3, dtype=torch.uint32)}
    save_file({**tensors, **rare}, folder / "model.safetensors", {"format": "pt"})
    with pytest.warns(UserWarning, match="holds 2 tensors that its LlamaForCausalLM has no place for"):
        assert load(folder).placement == "resident"


def test_stream_is_short_for_a_placement(tmp_path: Path) -> None:
    assert load(streamed.saved("gpt2", tmp_path), stream=True).placement == "stream"


def test_unknown_placements_and_windows(tmp_path: Path) -> None:
    with pytest.raises(OptionError) as caught:
        load(tmp_path, placement="streamed")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "placement='streamed' is unknown. Did you mean 'stream'? Allowed: auto, resident, stream."
    )
    for window, words in (
        (0, "=0 is out of range; allowed: 1 or more"),
        (-1, "=-1 is out of range"),
        (1.5, " takes a whole number; 1.5 given"),
        (True, " takes a whole number; True"),
    ):
        with pytest.raises(OptionError, match=f"window{words}"):
            load(tmp_path, window=window)  # type: ignore[arg-type]


def test_without_accelerate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = streamed.saved("llama", tmp_path)
    monkeypatch.setattr(placement, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match=r"Streaming a model needs accelerate; pip install 'bathyscope\[stream\]'"):
        streamed.streamed(folder)


def test_without_room_for_what_is_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Experts of most mixtures are several tensors in files, and one in memory."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    folder = streamed.saved("mixtral", tmp_path / "model")
    limits, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, limits[1]))
        with pytest.raises(
            ModelError, match=r"once more, which failed in .*/temporary, where [\d.]+ GB are free \(.*\)"
        ):
            streamed.streamed(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert not list((tmp_path / "temporary").iterdir())
    streamed.streamed(folder)


def test_without_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = streamed.saved("llama", tmp_path / "model")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    wanted = r"none can be made \(No such file or directory\); set TMPDIR to one that can be written\.$"
    with pytest.raises(ModelError, match=wanted):
        streamed.streamed(folder)


def changed(folder: Path, name: str, value: torch.Tensor | None) -> Path:
    """The checkpoint with a tensor replaced, added or left out."""
    tensors = load_file(folder / "model.safetensors")
    tensors.pop(name, None)
    save_file({**tensors, **({} if value is None else {name: value})}, folder / "model.safetensors", {"format": "pt"})
    return folder


NAME = "model.layers.2.mlp.up_proj.weight"


def test_a_missing_tensor(tmp_path: Path) -> None:
    folder = changed(streamed.saved("llama", tmp_path), NAME, None)
    with pytest.raises(ModelError, match=rf"lacks 1 tensor of its LlamaForCausalLM.* at random: {NAME}\."):
        streamed.streamed(folder)


def test_a_tensor_too_many(tmp_path: Path) -> None:
    folder = changed(streamed.saved("llama", tmp_path), "model.layers.2.mlp.side.weight", torch.zeros(3))
    with pytest.warns(UserWarning, match="holds 1 tensor that its LlamaForCausalLM has no place for: model.layers.2"):
        assert streamed.streamed(folder).placement == "stream"


def test_a_tensor_of_another_shape(tmp_path: Path) -> None:
    folder = changed(streamed.saved("llama", tmp_path), NAME, torch.zeros(3, 5))
    with pytest.raises(ModelError, match=rf"does not fit its configuration: {NAME} is 3×5 in the file and 96×64 by"):
        streamed.streamed(folder)


def test_a_number_that_is_none(tmp_path: Path) -> None:
    value = zoo.build("llama").get_parameter(NAME).detach().clone()
    value[0, 0] = torch.nan
    folder = changed(streamed.saved("llama", tmp_path), NAME, value)
    with pytest.raises(ModelError, match=rf"holds NaN or Inf in {NAME} \(1 of 6144 values\)"):
        streamed.streamed(folder)


@pytest.mark.parametrize(("kind", "has_accelerate"), [("cuda", True), ("cuda", False), ("cpu", True)])
def test_an_accelerator_is_loaded_tensor_by_tensor(
    kind: str, has_accelerate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "find_spec", lambda name: name if has_accelerate else None)
    device = torch.device(kind)
    straight = kind == "cuda" and has_accelerate
    assert placement.straight_to(device) == ({"device_map": {"": device}} if straight else {})


def test_a_model_loaded_tensor_by_tensor_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = streamed.saved("llama", tmp_path)
    plain = load(folder)
    monkeypatch.setattr(checkpoint, "straight_to", lambda device: {"device_map": {"": device}})
    straight = load(folder)
    assert straight.weight_hash == plain.weight_hash
    assert straight.placement == "resident"


@pytest.mark.parametrize(
    ("options", "streaming"),
    [({"stream": True}, "stream=True"), ({"window": 3}, "window=3")],
)
def test_options_of_streaming_are_refused_beside_a_resident_model(options: dict[str, Any], streaming: str) -> None:
    with pytest.raises(OptionError) as caught:
        load("model", placement="resident", **options)
    assert str(caught.value) == (
        f"{streaming} and placement='resident' do not go together, since a resident model keeps all blocks in memory; "
        "leave one of them out."
    )


def test_a_window_of_a_model_in_memory_brings_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"^window=3 has no effect, because all blocks of this model stay in memory\."):
        load(zoo.build("llama"), window=3)
