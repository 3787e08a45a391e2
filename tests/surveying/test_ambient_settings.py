"""Settings of torch that a caller has switched on change no number of a survey."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import torch
from support import waves, zoo

import bathyscope
from bathyscope.surveying import rates

MEASURES = ["residual", "skip", "gradient"]
IDS = [[5, 6, 7, 8, 9, 10, 11, 12, 13], [9, 8, 7, 6, 90, 91], [33, 44, 55, 66, 77, 88, 99]]


@contextmanager
def default_device(name: str) -> Iterator[None]:
    before = torch.get_default_device()
    torch.set_default_device(name)
    try:
        yield
    finally:
        torch.set_default_device(before if before.type != "cpu" else None)


SETTINGS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "a default device": lambda: default_device("meta"),
    "a device of a context": lambda: torch.device("meta"),
}

CASES = [
    pytest.param(setting, id=name, marks=pytest.mark.thorough if name == "a device of a context" else ())
    for name, setting in SETTINGS.items()
]


def bits(run: bathyscope.Run) -> dict[tuple[str, str, str], bytes]:
    """Every value of a run and of its controls."""
    runs = {"": run, **run.controls}
    return {
        (label, measure, str(name)): values.values.tobytes()
        for label, one in runs.items()
        for measure in one
        for name, values in one[measure].data_vars.items()
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "llama"
    zoo.build("llama").save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def plain_bits(folder: Path) -> dict[tuple[str, str, str], bytes]:
    return bits(surveyed(folder))


def surveyed(folder: Path) -> bathyscope.Run:
    return bathyscope.survey(folder, IDS, MEASURES, control="untrained", progress=False)


@pytest.mark.filterwarnings("ignore:skip")
@pytest.mark.parametrize("setting", CASES)
def test_a_survey_is_the_same_to_the_bit(
    setting: Callable[[], AbstractContextManager[object]], folder: Path, plain_bits: dict[tuple[str, str, str], bytes]
) -> None:
    with setting():
        run = surveyed(folder)
    assert bits(run) == plain_bits


@pytest.mark.parametrize("setting", CASES)
def test_so_are_checks_and_exports(
    setting: Callable[[], AbstractContextManager[object]], folder: Path, tmp_path: Path
) -> None:
    checks = bathyscope.check(folder)
    with pytest.warns(UserWarning, match="without a tokenizer"):
        bathyscope.export(folder, "drop:1", tmp_path / "plain")
    with setting():
        assert bathyscope.check(folder) == checks
        with pytest.warns(UserWarning, match="without a tokenizer"):
            bathyscope.export(folder, "drop:1", tmp_path / "inside")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("plain", "inside")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("setting", CASES)
def test_the_machine_is_timed_without_them(
    setting: Callable[[], AbstractContextManager[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[torch.dtype, str]] = []

    def timed(work: Callable[[], object], device: torch.device, clock: object) -> float:
        product = work()
        seen.extend([(product.dtype, product.device.type)] if isinstance(product, torch.Tensor) else [])
        return 1.0

    model = waves.loaded("llama")
    monkeypatch.setattr(rates, "_seconds", timed)
    with setting():
        rates.measure_rates(model, 16, torch.device("cpu"))
    assert len(seen) == 2
    assert set(seen) == {(torch.float32, "cpu")}
