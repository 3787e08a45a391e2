from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from bathyscope.errors import OptionError, StoreError
from bathyscope.lab import checkpoint
from bathyscope.lab.recipe import Optimisation, Recipe
from bathyscope.lab.train import Run, learning_rate, main


def weights(run: Run) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in run.model.named_parameters()}


@pytest.fixture(scope="module")
def whole(toy_recipe: Recipe, data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = Run(toy_recipe, data_root, tmp_path_factory.mktemp("whole"))
    run.train()
    return run


def test_rate_rises_stays_and_falls() -> None:
    options = Optimisation(learning_rate=2.0, warmup_steps=10, decay=0.5, final_ratio=0.1)
    assert learning_rate(options, step=0, share=0.0) == pytest.approx(0.2)
    assert learning_rate(options, step=9, share=0.1) == 2.0
    assert learning_rate(options, step=50, share=0.5) == 2.0
    assert learning_rate(options, step=75, share=0.75) == pytest.approx(2.0 * (0.1 + 0.9 * 0.5))
    assert learning_rate(options, step=99, share=1.0) == pytest.approx(0.2)


def test_a_run_ends_at_its_tokens_and_learns(whole: Run, toy_recipe: Recipe) -> None:
    assert whole.progress.tokens == toy_recipe.optimisation.max_tokens
    assert whole.progress.step == 20
    lines = [json.loads(line) for line in (whole.out / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [*range(1, 21), 20]
    assert lines[0]["loss"] == pytest.approx(math.log(400), abs=0.3)
    assert lines[19]["loss"] < lines[0]["loss"] - 0.5
    assert set(lines[-1]["held_out"]) == {"books", "gsm8k", "generated"}
    assert max(lines[-1]["held_out"].values()) < math.log(400) - 0.5


def test_interrupted_and_resumed_equals_uninterrupted(
    whole: Run, toy_recipe: Recipe, data_root: Path, tmp_path: Path
) -> None:
    Run(toy_recipe, data_root, tmp_path).train(stop_after=9)
    resumed = Run(toy_recipe, data_root, tmp_path)
    resumed.resume()
    assert resumed.progress.step == 9
    resumed.train()
    expected = weights(whole)
    for name, parameter in weights(resumed).items():
        assert torch.equal(parameter, expected[name]), name


def test_a_run_killed_between_checkpoints_repeats_the_lost_steps(
    whole: Run, toy_recipe: Recipe, data_root: Path, tmp_path: Path
) -> None:
    first = Run(toy_recipe, data_root, tmp_path)
    for _ in range(7):
        first.step()
    first.save()
    first.step()
    (tmp_path / "checkpoints" / "writing_0000008").mkdir()
    resumed = Run(toy_recipe, data_root, tmp_path)
    resumed.resume()
    assert resumed.progress.step == 7
    resumed.train()
    assert torch.equal(resumed.model.lm_head.weight, whole.model.lm_head.weight)


def test_only_the_newest_checkpoints_are_kept(whole: Run) -> None:
    kept = sorted(path.name for path in (whole.out / "checkpoints").iterdir())
    assert kept == ["step_0000014", "step_0000020"]
    assert not list(whole.out.rglob("*.pt"))


def test_minutes_end_a_run(toy_recipe: Recipe, data_root: Path, tmp_path: Path) -> None:
    hurried = dataclasses.replace(toy_recipe.optimisation, max_minutes=1e-9)
    run = Run(dataclasses.replace(toy_recipe, optimisation=hurried), data_root, tmp_path)
    run.train()
    assert run.progress.step == 1


def test_resuming_with_another_recipe_is_refused(whole: Run, toy_recipe: Recipe) -> None:
    newest = checkpoint.latest(whole.out / "checkpoints")
    assert newest is not None
    other = dataclasses.replace(toy_recipe, seed=99).hash()
    with pytest.raises(StoreError, match=f"was trained with recipe {toy_recipe.hash()}, not {other}; resume"):
        checkpoint.load(newest, whole.model, whole.optimizer, other)


def test_resuming_nothing_is_refused(toy_recipe: Recipe, data_root: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"no checkpoint under .*; start without --resume"):
        Run(toy_recipe, data_root, tmp_path).resume()


def test_a_vocabulary_that_the_text_cannot_fill_is_refused(toy_recipe: Recipe, data_root: Path, tmp_path: Path) -> None:
    large = dataclasses.replace(toy_recipe, model=dataclasses.replace(toy_recipe.model, vocabulary=40_000))
    with pytest.raises(OptionError, match=r"pieces, not model\.vocabulary=40000; raise data\.tokenizer_characters"):
        Run(large, data_root, tmp_path)


def test_command_line_trains_and_resumes(whole: Run, toy_recipe: Recipe, data_root: Path, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    path = tmp_path / "toy.yaml"
    path.write_text(toy_recipe.to_yaml(), encoding="utf-8")
    out = tmp_path / "run"
    main([str(path), "--data", str(data_root), "--out", str(out)])
    main([str(path), "--data", str(data_root), "--out", str(out), "--resume"])
    torch.set_num_threads(threads)
    written = load_file(out / "checkpoints" / "step_0000020" / "model.safetensors")
    for name, parameter in weights(whole).items():
        assert torch.equal(written[name], parameter), name
