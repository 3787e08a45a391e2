"""Healing: training that recovers, and that an interruption does not change by a bit."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from support import waves, zoo
from torch import Tensor

from bathyscope.errors import StoreError
from bathyscope.schedule import Schedule
from bathyscope.surgery.repairing.healing import STATE, Budget, heal
from bathyscope.surgery.scheduled.copying import ScheduledCopy

BATCHES = [zoo.prompts(zoo.build("llama"), (20, 20), seed=seed) for seed in range(5)]


class StoppedError(Exception):
    """In the middle of a training."""


def healed(
    folder: Path | None = None, stop: float = 2.0, tokens: int = 600, interrupt: float = 2.0, **identity: Any
) -> ScheduledCopy:
    """Fifteen steps of two prompts, unless they are stopped."""
    model = waves.loaded("llama")
    copy = ScheduledCopy(model.hf, Schedule.standard(5).drop(2), model.anatomy.family)

    def progress(done: float) -> None:
        if done > stop:
            raise StoppedError
        if done > interrupt:
            signal.raise_signal(signal.SIGINT)

    heal(
        *(model.hf, copy, [1], BATCHES, Budget(tokens=tokens)),
        rate=3e-3,
        seed=0,
        identity=identity,
        folder=folder,
        save_every=2 if interrupt > 1 else 50,
        progress=progress,
    )
    return copy


def divergence(copy: ScheduledCopy) -> float:
    """KL(whole ‖ copy) in nats a token, over all batches."""
    ids = torch.tensor([prompt for batch in BATCHES for prompt in batch])
    with torch.no_grad():
        p, q = (hf(ids, use_cache=False).logits.log_softmax(-1) for hf in (waves.loaded("llama").hf, copy.hf))
    return float((p.exp() * (p - q)).sum(-1).mean())


def changed(copy: ScheduledCopy) -> dict[str, Tensor]:
    return copy.changes()


def test_training_brings_the_copy_nearer_and_touches_the_blocks_beside_the_cut_alone() -> None:
    model = waves.loaded("llama")
    plain = ScheduledCopy(model.hf, Schedule.standard(5).drop(2), model.anatomy.family)
    copy = healed()
    assert divergence(copy) < 0.9 * divergence(plain)
    assert {name.split(".")[2] for name in changed(copy)} == {"1", "2"}
    assert not any(parameter.requires_grad for parameter in copy.hf.parameters())


def test_an_interrupted_training_ends_in_the_same_weights(tmp_path: Path) -> None:
    whole = changed(healed())
    with pytest.raises(StoppedError):
        healed(tmp_path, stop=0.5)
    assert (tmp_path / STATE).is_file()
    resumed = changed(healed(tmp_path))
    assert resumed.keys() == whole.keys()
    assert all(torch.equal(value, whole[name]) for name, value in resumed.items())
    # a finished one is not gone on with
    again = changed(healed(tmp_path))
    assert all(torch.equal(value, whole[name]) for name, value in again.items())


def test_a_signal_is_answered_behind_the_step_and_what_it_made_is_kept(tmp_path: Path) -> None:
    whole = changed(healed())
    with pytest.raises(KeyboardInterrupt):
        healed(tmp_path, interrupt=0.18)  # behind the third step of fifteen, where nothing is saved by itself
    with safe_open(tmp_path / STATE, framework="pt") as held:
        assert json.loads(held.metadata()["at"])[:2] == [3, 120]
    resumed = changed(healed(tmp_path))
    assert all(torch.equal(value, whole[name]) for name, value in resumed.items())


def test_the_state_of_another_training_is_refused(tmp_path: Path) -> None:
    healed(tmp_path, tokens=80)
    with pytest.raises(StoreError, match="is the state of another training; give another folder, or remove it"):
        healed(tmp_path, tokens=80, seed=1)


def test_minutes_are_counted_by_the_clock(tmp_path: Path) -> None:
    model, ticks = waves.loaded("llama"), iter(range(1000))
    copy = ScheduledCopy(model.hf, Schedule.standard(5).drop(2), model.anatomy.family)
    shares: list[float] = []
    heal(
        *(model.hf, copy, [1], BATCHES, Budget(minutes=0.1)),
        rate=1e-3,
        seed=0,
        identity={},
        clock=lambda: float(next(ticks)),
        progress=shares.append,
    )
    # a second passes between two looks at the clock, which is looked at before and behind each step
    assert shares == [pytest.approx(seconds / 6) for seconds in (0, 2, 4, 6)]


def test_a_damaged_state_is_refused(tmp_path: Path) -> None:
    (tmp_path / STATE).write_bytes(b"no tensors")
    with pytest.raises(StoreError, match=r"cannot be read \(.*remove it to begin again"):
        healed(tmp_path)


def test_whatever_a_state_holds_is_refused_in_one_sentence(tmp_path: Path) -> None:
    healed(tmp_path, tokens=80)
    with safe_open(tmp_path / STATE, framework="pt") as stored:
        metadata, tensors = stored.metadata(), {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
    first = next(iter(tensors))
    cases = [
        *(
            ({**metadata, "at": at}, tensors)
            for at in ("", "[", "{}", "[1]", '["a", 2, 3]', "[-1, 0, 0]", "[1, 2, NaN]")
        ),
        ({**metadata, "at": "[" * 100_000}, tensors),
        ({name: value for name, value in metadata.items() if name != "at"}, tensors),
        (metadata, {name: value for name, value in tensors.items() if name != first}),
        (metadata, {**tensors, first: torch.zeros(2, 3, 5)}),
    ]
    for other_metadata, other_tensors in cases:
        save_file(other_tensors, tmp_path / STATE, other_metadata)
        with pytest.raises(StoreError, match=r"cannot be read \(.*remove it to begin again"):
            healed(tmp_path, tokens=80)


def test_a_state_behind_a_link_is_not_read(tmp_path: Path) -> None:
    healed(tmp_path / "other", tokens=80)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / STATE).symlink_to(tmp_path / "other" / STATE)
    with pytest.raises(StoreError, match=r"cannot be read \(.*it is a link that leaves .*remove it to begin again"):
        healed(tmp_path / "own", tokens=80)


@pytest.mark.parametrize(("name", "holds"), [("manifest.json", "a run"), ("config.json", "a model")])
def test_a_state_is_not_put_between_results_or_into_a_model(tmp_path: Path, name: str, holds: str) -> None:
    (tmp_path / name).write_text("{}")
    with pytest.raises(StoreError, match=f"holds {holds}, and the state of a training does not belong in between"):
        healed(tmp_path, tokens=80)
    assert [path.name for path in tmp_path.iterdir()] == [name]
