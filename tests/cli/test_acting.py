"""One walk through everything that acts on depth: prune, export, repair and report take what the one before wrote."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path
from shutil import copyfile

import pytest
import torch
from support import zoo
from transformers import AutoModelForCausalLM

import bathyscope
from bathyscope.cli import main
from bathyscope.errors import PromptError
from bathyscope.surgery.plan.opening import open_plan
from bathyscope.surgery.repairing.repaired import Repaired

CHECKPOINTS = Path(__file__).parents[2] / "checkpoints"
HEAD = ("kind", "conclusion", "proved", "model", "schedule", "bathyscope")


@pytest.fixture(scope="module")
def walk(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan of one block, from two files of prompts."""
    folder = tmp_path_factory.mktemp("walk")
    for seed, role in enumerate(("calibration", "test")):
        rows = [json.dumps({"ids": ids}) for ids in zoo.prompts(zoo.build("llama"), (12,) * 8, seed)]
        (folder / f"{role}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    sources = ["--calibration", str(folder / "calibration.jsonl"), "--test", str(folder / "test.jsonl")]
    options = ["--drop", "1", "--random", "2", "--resamples", "200", "--quiet", "--out", str(folder / "plan")]
    assert main(["prune", str(model_folder), *sources, *options]) == 0
    return folder


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    record: dict[str, object] = json.loads(capsys.readouterr().out)
    return record


@pytest.mark.contract
def test_each_step_takes_what_the_step_before_wrote(
    walk: Path, model_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Repaired, "chosen", "linear")
    monkeypatch.setattr(Repaired, "proved", True)
    plan = open_plan(walk / "plan")
    capsys.readouterr()
    assert main(["show", str(walk / "plan"), "--format", "json"]) == 0
    pruned = printed(capsys)
    assert main(["export", str(walk / "plan"), "--out", str(walk / "small"), "--json", "--quiet"]) == 0
    exported = printed(capsys)
    assert main(["repair", str(walk / "plan"), "--out", str(walk / "fixed"), "--format", "json", "--quiet"]) in (0, 7)
    repaired = printed(capsys)
    assert main(["show", str(walk / "fixed"), "--format", "json"]) == 0
    assert printed(capsys) == repaired
    for record, kind in ((pruned, "plan"), (exported, "export"), (repaired, "repair")):
        assert record["kind"] == kind
        assert record["schedule"] == str(plan.schedule)
        assert set(HEAD) - {"proved"} <= set(record)
    assert pruned["data"] == repaired["data"]
    assert pruned["model"] == repaired["model"]
    assert "null" not in json.dumps([pruned, exported, repaired]).replace('"random"', "").split("candidates")[0]
    page = walk / "page.html"
    assert main(["report", str(walk / "plan"), str(walk / "fixed"), "--out", str(page)]) == 0
    written = unescape(page.read_text(encoding="utf-8"))
    assert f"What leaving out costs: {model_folder.name}" in written
    assert f"Repaired: {model_folder.name} with {plan.schedule}" in written
    for place in ("small", "fixed"):
        assert AutoModelForCausalLM.from_pretrained(walk / place).config.num_hidden_layers == 4
        assert str(model_folder.parent) not in (walk / place / "README.md").read_text()


def test_a_plan_is_a_schedule_wherever_one_is_taken(walk: Path, model_folder: Path, tmp_path: Path) -> None:
    plan, model = open_plan(walk / "plan"), bathyscope.load(model_folder)
    ids = torch.tensor([[5, 6, 7, 8]])
    with bathyscope.scheduled(model, plan) as hf, torch.no_grad():
        wanted = hf(ids, use_cache=False).logits
    out = bathyscope.export(model, plan, tmp_path / "out")
    assert isinstance(out, Path)
    with torch.no_grad():
        assert torch.equal(AutoModelForCausalLM.from_pretrained(out)(ids, use_cache=False).logits, wanted)
    assert plan.text in (out / "README.md").read_text()
    assert bathyscope.export(model, plan, emit="layers") == ",".join(map(str, plan.schedule))
    other = zoo.entry("llama").build()
    with torch.no_grad():
        other.model.layers[0].mlp.down_proj.weight *= 2
    with pytest.raises(bathyscope.ModelError, match="has other weights now than when"):
        bathyscope.export(other, plan, tmp_path / "other")
    with pytest.raises(bathyscope.ModelError, match="has other weights now than when"):
        bathyscope.repair(other, plan, [[5, 6, 7]], test=[[7, 6, 5]])
    for refused in (other, bathyscope.load(other)):
        with pytest.raises(bathyscope.ModelError, match="has other weights now than when"):
            bathyscope.survey(refused, [ids[0].tolist()], ["lens"], schedule=plan, progress=False)
        with (
            pytest.raises(bathyscope.ModelError, match="has other weights now than when"),
            bathyscope.scheduled(refused, plan),
        ):
            raise AssertionError("another model runs the plan")
    run = bathyscope.survey(model_folder, [ids[0].tolist()], ["lens"], schedule=plan, progress=False)
    assert run.n_blocks == len(tuple(plan.schedule))
    with bathyscope.scheduled(model.hf, plan) as hf, torch.no_grad():
        assert torch.equal(hf(ids, use_cache=False).logits, wanted)


def test_a_plan_is_gone_on_from_in_its_own_precision_and_with_its_own_prompts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A checkpoint in bfloat16 that was pruned in float32, on problems that a seed draws."""
    place = CHECKPOINTS / "permutations_2"
    bathyscope.load(place, dtype="bfloat16").hf.save_pretrained(tmp_path / "half")
    for file in place.glob("*token*"):
        copyfile(file, tmp_path / "half" / file.name)
    task = "task:permutations:8?factors={}&elements=generators&answer=image"
    sources = ["--calibration", task.format("2-3"), "--test", task.format("4-5")]
    options = ["--drop", "1", "--random", "1", "--resamples", "100", "--dtype", "float32", "--seed", "3", "--quiet"]
    assert main(["prune", str(tmp_path / "half"), *sources, *options, "--out", str(tmp_path / "plan")]) == 0
    plan = open_plan(tmp_path / "plan")
    assert plan.left_out == "drop:1"
    capsys.readouterr()
    assert main(["repair", str(tmp_path / "plan"), "--how", "scale", "--format", "json", "--quiet"]) in (0, 7)
    repaired = printed(capsys)
    assert (repaired["data"], repaired["model"]) == (plan.record()["data"], plan.record()["model"])
    with pytest.raises(bathyscope.ModelError, match=r"loaded in bfloat16, and drop:1 was chosen in float32.*--dtype"):
        bathyscope.repair(bathyscope.load(tmp_path / "half"), plan, task.format("2-3"), test=task.format("4-5"))


@pytest.mark.parametrize("role", ["calibration", "test"])
def test_a_plans_own_prompts_are_refused_when_their_file_was_changed(
    role: str, tmp_path: Path, model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.dumps({"ids": ids}) for ids in zoo.prompts(zoo.build("llama"), (12,) * 9)]
    files = {"calibration": tmp_path / "cal.jsonl", "test": tmp_path / "test.jsonl"}
    for file, part in zip(files.values(), (lines[:4], lines[4:8])):
        file.write_text("\n".join(part))
    sources = [word for name, file in files.items() for word in (f"--{name}", str(file))]
    options = ["--drop", "1", "--random", "1", "--resamples", "100", "--quiet"]
    assert main(["prune", str(model_folder), *sources, *options, "--out", str(tmp_path / "plan")]) == 0
    repair = ["repair", str(tmp_path / "plan"), "--how", "scale", "--resamples", "100", "--quiet"]
    assert main(repair) in (0, 7)
    files[role].write_text(files[role].read_text() + "\n" + lines[8])
    capsys.readouterr()
    assert main(repair) == PromptError.exit_code
    assert f"The {role} prompts, '{files[role]}', are others now than when drop:" in capsys.readouterr().err
    copyfile(files[role], tmp_path / "other.jsonl")  # prompts that are named in the call are others on purpose
    assert main([*repair, f"--{role}", str(tmp_path / "other.jsonl")]) in (0, 7)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["export", "{plan}", "--schedule", "drop:1"], "A plan holds its own schedule; leave --schedule out"),
        (["repair", "{plan}", "--schedule", "drop:1"], "A plan holds its own schedule; leave --schedule out"),
        (["export", "{model}", "--out", "x"], "export needs --schedule, or the folder of a plan"),
        (["repair", "{model}", "--schedule", "drop:1"], "repair needs --calibration, or the folder of a plan"),
        (
            ["evaluate", "{plan}", "--tasks", "a", "--schedules", "drop"],
            "A plan holds its own schedule; leave --schedules out",
        ),
    ],
)
def test_what_a_plan_says_is_not_said_twice(
    words: list[str], said: str, walk: Path, model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word.format(plan=walk / "plan", model=model_folder) for word in words]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
