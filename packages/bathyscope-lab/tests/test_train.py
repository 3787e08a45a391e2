from __future__ import annotations

import errno
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from bathyscope_lab import trainer
from bathyscope_lab.curve import draw_curve, save_curve
from bathyscope_lab.folder import RunFolder
from bathyscope_lab.recipe import Recipe
from bathyscope_lab.train import Trained, train
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

import bathyscope
from bathyscope.errors import OptionError, PromptError, StoreError
from bathyscope.prompts.tasks import task


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def assert_same(first: Path, second: Path) -> None:
    """Same losses, and the same weights to the bit."""
    assert metrics(first) == metrics(second)
    expected = weights(first)
    given = weights(second)
    assert given.keys() == expected.keys()
    assert all(torch.equal(given[name], tensor) for name, tensor in expected.items())


@pytest.fixture(scope="module")
def on_text(text_recipe: Any, data_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(text_recipe(), tmp_path_factory.mktemp("runs") / "text", data_root, "cpu", progress=False)


@pytest.fixture(scope="module")
def on_task(task_recipe: Any, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return train(task_recipe(), tmp_path_factory.mktemp("runs") / "task", device="cpu", progress=False)


def test_the_folder_is_a_checkpoint_and_holds_no_pickle(on_text: Trained) -> None:
    files = {path.name for path in on_text.folder.iterdir() if not path.name.startswith(".")}
    kinds = {Path(name).suffix for name in files}
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md", "loss.png"} <= files
    assert kinds == {".json", ".safetensors", ".md", ".png", ".yaml", ".jsonl"}
    model = bathyscope.load(on_text.folder)
    assert model.n_blocks == 2
    run = bathyscope.survey(model, ["Tom has 3 cups and 4 plates."], ["residual"], progress=False)
    assert run["residual"].sizes["prompt"] == 1


def test_a_run_ends_at_its_tokens_and_learns(on_text: Trained) -> None:
    records = metrics(on_text.folder)
    steps = [record for record in records if "loss" in record]
    assert [record["step"] for record in steps] == list(range(1, 21))
    assert steps[-1]["tokens"] == on_text.summary["tokens"] == 20 * 128
    assert steps[0]["loss"] == pytest.approx(math.log(400), abs=0.3)
    assert steps[-1]["loss"] < steps[0]["loss"] - 0.5
    held_out = [record for record in records if "held_out" in record]
    assert [record["step"] for record in held_out] == [10, 20]
    assert set(held_out[-1]["held_out"]) == {"books_loss", "gsm8k_loss", "generated_loss"}
    assert steps[0]["learning_rate"] == pytest.approx(0.01 / 4)


def test_losses_are_those_of_the_saved_weights(on_text: Trained) -> None:
    last = metrics(on_text.folder)[-1]["held_out"]
    for name, loss in on_text.summary["held_out"].items():
        assert loss == pytest.approx(last[name], rel=1e-5)


def test_the_card_says_what_was_done(on_text: Trained, on_task: Trained, text_recipe: Any) -> None:
    card = (on_text.folder / "README.md").read_text(encoding="utf-8")
    assert "2,560 tokens in 20 steps" in card
    assert f"hash `{text_recipe().hash()}`" in card
    assert "- 60% of the tokens: books" in card
    assert f"| generated | {on_text.summary['held_out']['generated_loss']:.4f} |" in card
    assert f"torch {torch.__version__}" in card
    card = (on_task.folder / "README.md").read_text(encoding="utf-8")
    assert "Problems of the task `pointer_chasing` (nodes 4, hops [1, 2])" in card
    accuracy = on_task.summary["held_out"]["interpolate_accuracy"]
    assert f"| {accuracy:.3f} (" in card


def test_with_steps_the_card_says_that_they_are_given(on_task: Trained, task_recipe: Any, tmp_path: Path) -> None:
    task = {"name": "nested_arithmetic", "options": {"leaves": 4, "depth": [2, 2], "beyond": [3, 3], "modulus": 5}}
    train(task_recipe(task=task, steps=True, budget={"steps": 2}), tmp_path, device="cpu", progress=False)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "on 12 problems of each split, given the true steps: loss of the answer" in card
    assert "| exact answers, given the true steps |" in card
    assert "Whether the model would write those steps itself is not tested." in card
    assert "steps itself" not in (on_task.folder / "README.md").read_text(encoding="utf-8")


def test_steps_that_count_are_part_of_an_exact_answer(task_recipe: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {"factors": (1, 2), "elements": "generators", "answer": "image"}
    written = task_recipe(
        task={"name": "permutations", "options": options}, steps=True, loss="written", budget={"steps": 2}
    )
    trained = train(written, tmp_path, device="cpu", progress=False)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "each split, steps and all: loss of the steps, the answer and the end token in nats per token" in card
    assert "steps itself" not in card
    model = bathyscope.load(trained.folder, device="cpu", dtype="float32")
    assert model.tokenizer is not None
    losses = []
    for index in range(12):
        problem = task("permutations", **options).problem(index, 0, "interpolate")
        asked = len(model.tokenizer(problem.question).input_ids)
        ids = torch.tensor([[*model.tokenizer(problem.example(True).text).input_ids, model.tokenizer.eos_token_id]])
        with torch.no_grad():
            log_p = model.hf(ids).logits[0, asked - 1 : -1].log_softmax(-1)
        losses.append(-log_p.gather(-1, ids[0, asked:, None]).mean())
    assert trained.summary["held_out"]["interpolate_loss"] == pytest.approx(float(torch.stack(losses).mean()), rel=1e-4)


def test_the_card_holds_the_revision(on_text: Trained) -> None:
    card = (on_text.folder / "README.md").read_text(encoding="utf-8")
    assert f"- Revision of bathyscope: {on_text.summary['revision'] or 'not under version control'}.\n" in card


def test_the_curve_is_drawn_from_the_metrics(on_task: Trained, tmp_path: Path) -> None:
    records = metrics(on_task.folder)
    panel = draw_curve(records, "toy task").axes[0]
    drawn = {str(line.get_label()): line.get_xydata() for line in panel.get_lines()}
    steps = [(record["step"], record["loss"]) for record in records if "loss" in record]
    assert drawn["training, each step"].tolist() == [list(point) for point in steps]
    held_out = [(r["step"], r["held_out"]["extrapolate_loss"]) for r in records if "held_out" in r]
    assert drawn["held out: extrapolate (answers)"].tolist() == [list(point) for point in held_out]
    assert (len(steps), len(held_out)) == (20, 2)
    given = draw_curve(records, "toy task", ", given the true steps")
    assert given.axes[1].get_ylabel() == "exact answers (share of problems), given the true steps"
    save_curve(records, "toy task", tmp_path / "all.png")
    save_curve(records[1:], "toy task", tmp_path / "fewer.png")
    assert (on_task.folder / "loss.png").read_bytes() == (tmp_path / "all.png").read_bytes()
    assert (on_task.folder / "loss.png").read_bytes() != (tmp_path / "fewer.png").read_bytes()


def test_the_answers_loss_is_all_that_counts(on_task: Trained, task_recipe: Any) -> None:
    first = metrics(on_task.folder)[0]
    assert first["step"] == 1
    # a fresh model is nearly uniform over all words, whatever counts; after 20 steps it knows where texts end
    assert first["loss"] == pytest.approx(math.log(on_task_words(on_task)), abs=0.3)
    assert metrics(on_task.folder)[-2]["loss"] < 0.7 * first["loss"]


def on_task_words(trained: Trained) -> int:
    return int(AutoModelForCausalLM.from_pretrained(trained.folder).config.vocab_size)


def test_a_finished_run_is_not_made_again(on_task: Trained, task_recipe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer.LabTrainer, "train", None)
    assert train(task_recipe(), on_task.folder, device="cpu", progress=False).summary == on_task.summary


def test_the_same_seed_gives_the_same_run_and_another_does_not(
    on_task: Trained, task_recipe: Any, tmp_path: Path
) -> None:
    again = train(task_recipe(), tmp_path / "again", device="cpu", progress=False)
    assert_same(on_task.folder, again.folder)
    other = train(task_recipe(seed=4), tmp_path / "other", device="cpu", progress=False)
    assert metrics(other.folder)[3]["loss"] != metrics(on_task.folder)[3]["loss"]


DROPOUT = {"type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "resid_pdrop": 0.2}


KILLED = """
import os, signal, sys
from bathyscope.cli import main
from bathyscope_lab.folder import RunFolder

log = RunFolder.log

def last(self, record):
    log(self, record)
    if record["step"] == 13:
        os.kill(os.getpid(), signal.SIGKILL)

RunFolder.log = last
main(sys.argv[1:])
"""


def test_killed_and_resumed_equals_uninterrupted(task_recipe: Any, tmp_path: Path) -> None:
    """The process is really killed; dropout needs the generator's state, and stages change on the way."""
    stages = [{"until": 0.5, "context": 64, "batch": 8}, {"context": 64, "batch": 4}]
    recipe = task_recipe(model=DROPOUT, budget={"steps": 30}, saving={"every": 5}, stages=stages)
    path = tmp_path / "recipe.yaml"
    path.write_text(recipe.to_yaml(), encoding="utf-8")
    out = tmp_path / "killed"
    command = [sys.executable, "-c", KILLED, "lab", "train", str(path), "--out", str(out), "--device", "cpu", "--quiet"]
    ended = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert not (out / "training.json").exists()
    assert RunFolder(out, recipe).metrics()[-1]["step"] == 13
    resumed = train(recipe, out, device="cpu", progress=False)
    assert resumed.summary["steps"] == 30
    whole = train(recipe, tmp_path / "whole", device="cpu", progress=False)
    assert_same(whole.folder, resumed.folder)


def test_stages_and_text_are_resumed_exactly(
    on_text: Trained, text_recipe: Any, data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = RunFolder.log

    def interrupted(self: RunFolder, record: dict[str, Any]) -> None:
        log(self, record)
        if record["step"] == 9:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "log", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(text_recipe(), tmp_path, data_root, "cpu", progress=False)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-0000007"]
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 10, "lo')
    train(text_recipe(), tmp_path, data_root, "cpu", progress=False)
    assert_same(on_text.folder, tmp_path)


def test_a_signal_before_the_first_checkpoint_keeps_the_step_that_it_is_in(
    on_task: Trained, task_recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = RunFolder.log

    def signalled(self: RunFolder, record: dict[str, Any]) -> None:
        log(self, record)
        if record["step"] == 3:  # when it is over and the next one is to begin
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "log", signalled)
        with pytest.raises(KeyboardInterrupt):
            train(task_recipe(), tmp_path, device="cpu", progress=False)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-0000004"]
    train(task_recipe(), tmp_path, device="cpu", progress=False)
    assert_same(on_task.folder, tmp_path)


def test_a_full_disk_is_said_and_the_same_call_goes_on(
    on_task: Trained, task_recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = RunFolder.log

    def full(self: RunFolder, record: dict[str, Any]) -> None:
        if record["step"] == 9:
            raise OSError(errno.ENOSPC, "No space left on device")
        log(self, record)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "log", full)
        with pytest.raises(StoreError, match=r"No space left on device\. Free some space .* step-0000007, is kept"):
            train(task_recipe(), tmp_path, device="cpu", progress=False)
    train(task_recipe(), tmp_path, device="cpu", progress=False)
    assert_same(on_task.folder, tmp_path)


def test_a_limit_in_minutes_ends_a_run_annealed(task_recipe: Any, tmp_path: Path) -> None:
    recipe = task_recipe(budget={"steps": 20, "minutes": 1e-9})
    trained = train(recipe, tmp_path, device="cpu", progress=False)
    assert trained.summary["steps"] == 1
    assert metrics(tmp_path)[0]["learning_rate"] == pytest.approx(0.01 * 0.1)


def test_bfloat16_computes_otherwise_and_saves_as_asked(on_task: Trained, task_recipe: Any, tmp_path: Path) -> None:
    recipe = task_recipe(precision="bfloat16", saving={"dtype": "bfloat16", "shard": "10KB"})
    trained = train(recipe, tmp_path, device="cpu", progress=False)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert model.dtype == torch.bfloat16
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    losses = [(a["loss"], b["loss"]) for a, b in zip(metrics(tmp_path), metrics(on_task.folder)) if "loss" in a]
    assert all(given == pytest.approx(expected, abs=0.1) for given, expected in losses)
    assert any(given != expected for given, expected in losses)
    assert trained.summary["steps"] == 20


@pytest.mark.parametrize(
    "model",
    [
        {"type": "bathyscope_universal", "group_size": 1, "repeats": 2, "intermediate_size": 48},
        {"type": "bathyscope_moeut", "group_size": 1, "repeats": 2, "head_dim": 8, "num_experts": 4}
        | {"num_experts_per_tok": 2, "moe_intermediate_size": 16, "attention_experts": 2},
    ],
)
def test_shared_layers_are_trained_resumed_and_loaded(model: dict[str, Any], task_recipe: Any, tmp_path: Path) -> None:
    keys = {"hidden_size": 32, "num_attention_heads": 4, "max_position_embeddings": 64}
    trained = train(task_recipe(model={**model, **keys}), tmp_path, device="cpu", progress=False)
    assert bathyscope.load(trained.folder).n_blocks == 2
    assert metrics(tmp_path)[-2]["loss"] < metrics(tmp_path)[0]["loss"] - 0.5


def test_a_damaged_checkpoint_is_passed_over_and_the_run_ends_the_same(
    on_task: Trained, task_recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_at(monkeypatch, task_recipe(), tmp_path, step=16)
    (tmp_path / "checkpoints" / "step-0000014" / "model.safetensors").write_bytes(b"{")
    with pytest.warns(UserWarning, match="step-0000014 is damaged .* going on from the older step-0000007"):
        train(task_recipe(), tmp_path, device="cpu", progress=False)
    assert_same(on_task.folder, tmp_path)


def interrupt_at(monkeypatch: pytest.MonkeyPatch, recipe: Recipe, folder: Path, step: int) -> None:
    """A run that is stopped after the record of a step."""
    log = RunFolder.log

    def interrupted(self: RunFolder, record: dict[str, Any]) -> None:
        log(self, record)
        if record["step"] == step:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "log", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(recipe, folder, device="cpu", progress=False)


def test_a_run_whose_checkpoints_are_all_damaged_says_so(
    task_recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_at(monkeypatch, task_recipe(), tmp_path, step=9)
    (tmp_path / "checkpoints" / "step-0000007" / "progress.json").unlink()
    with pytest.raises(StoreError, match=r"step-0000007 is damaged \(progress.json: .* remove .*/checkpoints to begin"):
        train(task_recipe(), tmp_path, device="cpu", progress=False)


@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param({"model": {"type": "lama"}}, marks=pytest.mark.thorough),
        pytest.param({"task": {"name": "pointer_chase"}}, marks=pytest.mark.thorough),
        pytest.param({"stages": [{"context": 8, "batch": 4}]}, marks=pytest.mark.thorough),
        {"tokenizer": {"type": "bpe", "vocabulary": 2000}},
    ],
)
def test_a_corrected_recipe_takes_the_folder_of_the_mistaken_one(
    mistake: dict[str, Any], on_task: Trained, task_recipe: Any, tmp_path: Path
) -> None:
    with pytest.raises((OptionError, PromptError)):
        train(task_recipe(**mistake), tmp_path, device="cpu", progress=False)
    train(task_recipe(), tmp_path, device="cpu", progress=False)
    assert_same(on_task.folder, tmp_path)


@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param({"measures": ["residul"]}, marks=pytest.mark.thorough),
        {"prompts": "nowhere.txt"},
        pytest.param({"options": {"residual": {"colour": 1}}}, marks=pytest.mark.thorough),
    ],
)
def test_a_corrected_measure_takes_the_folder_too(
    mistake: dict[str, Any], on_task: Trained, task_recipe: Any, tmp_path: Path
) -> None:
    given = {"model": None, "tokenizer": None, "from": str(on_task.folder), "budget": {"steps": 1}}
    (tmp_path / "prompts.txt").write_text("a > b ; b > a ; start a hop stay : b\n")
    measure = {"measures": ["residual"], "prompts": str(tmp_path / "prompts.txt")}
    with pytest.raises((OptionError, PromptError)):
        train(task_recipe(**given, measure={**measure, **mistake}), tmp_path / "out", device="cpu", progress=False)
    train(task_recipe(**given, measure=measure), tmp_path / "out", device="cpu", progress=False)


def test_what_was_prepared_by_the_mistaken_recipe_is_not_used(
    on_text: Trained, text_recipe: Any, data_root: Path, tmp_path: Path
) -> None:
    """Tokenizer and stream are there already when the model turns out wrong."""
    mistaken = text_recipe(model={"type": "llama", "hidden": 3}, seed=8, tokenizer={"type": "bpe", "vocabulary": 300})
    with pytest.raises(OptionError, match="has no key 'hidden'"):
        train(mistaken, tmp_path, data_root, "cpu", progress=False)
    assert (tmp_path / "stream.npy").is_file()
    train(text_recipe(), tmp_path, data_root, "cpu", progress=False)
    assert_same(on_text.folder, tmp_path)


@pytest.mark.parametrize("step", [3, 9])
def test_a_folder_with_steps_of_another_recipe_is_refused(
    step: int, task_recipe: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first checkpoint there are only records; both belong to the recipe that made them."""
    interrupt_at(monkeypatch, task_recipe(), tmp_path, step)
    with pytest.raises(StoreError, match="belongs to another recipe"):
        train(task_recipe(seed=99), tmp_path, device="cpu", progress=False)
    assert RunFolder(tmp_path, task_recipe()).metrics()[-1]["step"] == step


def test_a_folder_of_another_recipe_or_of_something_else_is_refused(
    on_task: Trained, task_recipe: Any, tmp_path: Path
) -> None:
    with pytest.raises(
        StoreError, match=r"belongs to another recipe .* give the same recipe to go on, or another folder"
    ):
        train(task_recipe(seed=99), on_task.folder, device="cpu", progress=False)
    (tmp_path / "thesis.txt").write_text("all of it")
    with pytest.raises(StoreError, match=r"holds thesis.txt but no training run; give an empty or a new folder"):
        train(task_recipe(), tmp_path, device="cpu", progress=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"steps": True, "task": {"name": "arithmetic", "options": {"modules": ["mul"]}}, "tokenizer": "characters"},
            "no intermediate steps",
        ),
        ({"task": {"name": "arithmetic"}}, "this task has no list of words; give bpe or characters"),
        ({"task": {"name": "pointer_chase"}}, "'pointer_chase' is no task"),
    ],
)
def test_tasks_that_do_not_fit_are_refused(
    change: dict[str, Any], message: str, task_recipe: Any, tmp_path: Path
) -> None:
    with pytest.raises(OptionError, match=message):
        train(task_recipe(**change), tmp_path, device="cpu", progress=False)


def test_fine_tuning_goes_on_from_a_checkpoint_and_measures_both(
    on_task: Trained, task_recipe: Any, tmp_path: Path
) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("a > b ; b > a ; start a hop stay : b\n")
    changes = {"model": None, "tokenizer": None, "from": str(on_task.folder), "optimisation": {"learning_rate": 1e-3}}
    measure = {"measures": ["residual"], "prompts": str(prompts)}
    recipe: Recipe = task_recipe(**changes, measure=measure, budget={"steps": 3})
    tuned = train(recipe, tmp_path / "tuned", device="cpu", progress=False)
    before, after = (bathyscope.open(tuned.folder / name) for name in ("before", "after"))
    fresh = bathyscope.survey(str(on_task.folder), str(prompts), ["residual"], progress=False)
    assert before["residual"].equals(fresh["residual"])
    assert not after["residual"].equals(before["residual"])
    first = metrics(tuned.folder)[0]["loss"]
    assert first == pytest.approx(metrics(on_task.folder)[-2]["loss"], abs=0.3)
    assert "Trained further from" in (tuned.folder / "README.md").read_text()
