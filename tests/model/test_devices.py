"""Devices that this torch cannot use."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from support import zoo

from bathyscope import ModelError
from bathyscope.model import as_device, load


@pytest.mark.parametrize("kind", ["xpu", "vulkan"])
def test_devices_that_are_not_there(kind: str) -> None:
    here = getattr(torch, kind, None)
    if here is not None and here.is_available():
        pytest.skip(f"this machine has {kind}")
    with pytest.raises(ModelError, match=f"Device '{kind}' asked for, but torch sees no {kind.upper()} device; use"):
        as_device(kind)


def test_the_device_without_numbers_is_refused() -> None:
    with pytest.raises(ModelError, match="Device 'meta' holds no numbers to compute with; use a processor's or an"):
        as_device("meta")


def test_a_device_without_float64_is_refused() -> None:
    with pytest.raises(
        ModelError, match=r"Apple's GPUs \(mps\) hold no float64, .*; use device='cpu' \(--device cpu\)"
    ):
        as_device("mps")


@pytest.mark.parametrize("given", ["tpu9000", "cuda:x", "", 3.5])
def test_names_of_no_device(given: object) -> None:
    with pytest.raises(ModelError, match=r"Unknown device .*; try cpu, cuda or cuda:0\."):
        as_device(given)  # type: ignore[arg-type]


def test_devices_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "xpu", SimpleNamespace(is_available=lambda: True, device_count=lambda: 2))
    assert as_device("xpu:1") == torch.device("xpu:1")
    with pytest.raises(ModelError, match="Device 'xpu:2' asked for, but torch sees 2 of that kind"):
        as_device("xpu:2")


def test_a_model_in_memory_stays_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    hf = zoo.entry("llama").build()
    assert load(hf, device="cpu").device.type == "cpu"
    monkeypatch.setattr(torch, "xpu", SimpleNamespace(is_available=lambda: True, device_count=lambda: 1))
    said = r"device= is for models loaded by name, and this one is on cpu; move .* yourself \(model\.to\('xpu'\)\)"
    with pytest.raises(ModelError, match=said):
        load(hf, device="xpu")
