from __future__ import annotations

import errno
from pathlib import Path

import pytest
import torch
from bathyscope_lab import checkpoint
from torch import nn
from transformers import TrainerState

from bathyscope.errors import StoreError


def made(seed: int) -> tuple[nn.Module, torch.optim.AdamW]:
    """A small network with tied weights, and its optimiser after two steps."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 4), nn.Linear(4, 7, bias=False))
    model[2].weight = model[0].weight
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(2):
        model(torch.arange(7)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


def save(folder: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> Path:
    return checkpoint.save(folder, step, model, optimizer, {"step": step}, TrainerState(global_step=step))


def test_a_checkpoint_gives_everything_back(tmp_path: Path) -> None:
    model, optimizer = made(seed=1)
    path = save(tmp_path, 3, model, optimizer)
    expected = torch.rand(5)
    other, other_optimizer = made(seed=2)
    checkpoint.load_weights(path, other)
    checkpoint.load_optimizer(path, other_optimizer)
    checkpoint.load_random_states(path)
    assert torch.equal(torch.rand(5), expected)
    assert other[2].weight is other[0].weight
    for name, tensor in model.state_dict().items():
        assert torch.equal(other.state_dict()[name], tensor)
    for number, entries in optimizer.state_dict()["state"].items():
        for name, value in entries.items():
            assert torch.equal(other_optimizer.state_dict()["state"][number][name], value)
    assert checkpoint.load_progress(path) == {"step": 3}
    assert TrainerState.load_from_json(str(path / checkpoint.TRAINER_STATE)).global_step == 3


def test_tensors_are_in_safetensors_and_the_rest_is_json(tmp_path: Path) -> None:
    path = save(tmp_path, 3, *made(seed=1))
    assert {file.suffix for file in path.iterdir()} == {".safetensors", ".json"}


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    made_once = made(seed=1)
    for step in (1, 2, 3):
        save(tmp_path, step, *made_once)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-0000002", "step-0000003"]
    assert checkpoint.latest(tmp_path) == tmp_path / "step-0000003"
    assert checkpoint.latest(tmp_path / "nowhere") is None


def test_what_a_killed_process_left_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / ".partial-step-0000009").mkdir()
    assert checkpoint.latest(tmp_path) is None
    save(tmp_path, 1, *made(seed=1))
    assert [path.name for path in tmp_path.iterdir()] == ["step-0000001"]


@pytest.mark.parametrize("stage", ["save_model", "_force_to_disk"])
def test_a_full_disk_leaves_the_last_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    model, optimizer = made(seed=1)
    good = save(tmp_path, 1, model, optimizer)
    before = {file.name: file.read_bytes() for file in good.iterdir()}

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, stage, full)
    message = r"step-0000002 cannot be written: No space left on device\. Free some space .* step-0000001, is kept"
    with pytest.raises(StoreError, match=message):
        save(tmp_path, 2, model, optimizer)
    assert [path.name for path in tmp_path.iterdir()] == ["step-0000001"]
    assert {file.name: file.read_bytes() for file in good.iterdir()} == before


DAMAGES = [
    ("model.safetensors", "cut", r"model\.safetensors: Error while deserializing header: .*"),
    ("optimizer.safetensors", "cut", r"optimizer\.safetensors: Error while deserializing header: .*"),
    ("random.safetensors", "emptied", r"random\.safetensors: Error while deserializing header: .*"),
    ("progress.json", "cut", r"progress\.json: Unterminated .*"),
    ("trainer_state.json", "removed", r"trainer_state\.json: .*No such file .*"),
]


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] if how == "cut" else b"")
    if how == "removed":
        path.unlink()


@pytest.mark.parametrize(("file", "how", "message"), DAMAGES)
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path: Path, file: str, how: str, message: str) -> None:
    older, newer = (save(tmp_path, step, *made(seed=1)) for step in (1, 2))
    damage(newer / file, how)
    with pytest.warns(
        UserWarning, match=rf"step-0000002 is damaged \({message}\); going on from the older step-0000001"
    ):
        assert checkpoint.to_resume(tmp_path) == older
    assert checkpoint.latest(tmp_path) == older


@pytest.mark.parametrize(("file", "how", "message"), DAMAGES)
def test_without_a_whole_checkpoint_the_remedy_is_said(tmp_path: Path, file: str, how: str, message: str) -> None:
    damage(save(tmp_path, 1, *made(seed=1)) / file, how)
    with pytest.raises(
        StoreError, match=rf"step-0000001 is damaged \({message}\), and no whole .* or remove .* to begin again"
    ):
        checkpoint.to_resume(tmp_path)


def test_whole_checkpoints_are_gone_on_from_without_a_word(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    assert checkpoint.to_resume(tmp_path) is None
    path = save(tmp_path, 1, *made(seed=1))
    assert checkpoint.to_resume(tmp_path) == path
    assert not recwarn.list


def test_a_damaged_newer_checkpoint_takes_no_place_from_whole_ones(tmp_path: Path) -> None:
    for step in (1, 9):
        save(tmp_path, step, *made(seed=1))
    damage(tmp_path / "step-0000009" / "progress.json", "cut")
    save(tmp_path, 2, *made(seed=1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-0000001", "step-0000002"]


def test_the_parameter_that_is_not_finite_is_named() -> None:
    model, _ = made(seed=1)
    model.register_buffer("mask", torch.full((2,), -torch.inf))
    assert checkpoint.not_finite(model) is None
    with torch.no_grad():
        model[1].bias[2] = torch.inf
    assert checkpoint.not_finite(model) == "1.bias"
