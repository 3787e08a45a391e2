"""The recipe ``fine_tune``: what it surveys before and after is enough for the commands that its page names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bathyscope_lab.recipes import read_recipe
from bathyscope_lab.train import train

import bathyscope
from bathyscope.cli import main
from bathyscope.measures.of.effective_depth import EffectiveDepth

PROBLEMS = "task.options={modules: [mul], entropy: [2, 2]}"
QUICK = ("evaluation.problems=2", "evaluation.final_problems=2", "optimisation.warmup_steps=1", "threads=1")
BASE = (
    *("model.hidden_size=16", "model.intermediate_size=16", "model.num_attention_heads=2", "model.head_dim=8"),
    *("model.group_size=3", "model.repeats=1", "model.max_position_embeddings=128"),
    *(PROBLEMS, "tokenizer=characters", "stages.0.context=96", "stages.0.batch=4", "budget.steps=2"),
    *QUICK,
)
TUNED = (
    # like a model from the hub with a context of its own, but for its size
    *(PROBLEMS, "stages.0.context=96", "stages.0.batch=4", "budget.steps=2", "precision=float32"),
    *("optimisation.learning_rate=0.02", "saving.dtype=float32"),
    # two of the recipe's twenty prompts, of the same kind
    "measure.prompts=task:arithmetic:2?split=interpolate&modules=mul&entropy=2-2",
    *QUICK,
)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model trained further by the recipe, with the recipe's own measures."""
    folder = tmp_path_factory.mktemp("fine-tuning")
    base = train(read_recipe("arithmetic_transformer", BASE), folder / "base", device="cpu", progress=False)
    recipe = read_recipe("fine_tune", [f"from={base.folder}", *TUNED])
    return train(recipe, folder / "tuned", device="cpu", progress=False).folder


def test_both_surveys_hold_the_papers_measures_and_what_depths_are_read_off(tuned: Path) -> None:
    wanted = {"erasure", "integrated_gradients", "gradient", "noise", *EffectiveDepth.requires, EffectiveDepth.name}
    for name in ("before", "after"):
        assert set(bathyscope.open(tuned / name).measures) == wanted


def test_before_and_after_are_compared_on_the_same_prompts(tuned: Path) -> None:
    before, after = (bathyscope.open(tuned / name) for name in ("before", "after"))
    found = bathyscope.compare([before, after], resamples=50)
    assert found.data["kind"].values.tolist() == ["paired"]
    ratios = [run["effective_depth"]["ratio"].sel(estimator="centre_of_mass").item() for run in (before, after)]
    change = found.data["difference"].sel(estimator="centre_of_mass").item()
    assert change == pytest.approx(ratios[1] - ratios[0])
    assert abs(change) > 1e-3
    # the others may have no depth in a model this small
    assert np.isfinite(found.data["difference"].sel(estimator=["settle", "prediction"])).all()


@pytest.mark.thorough
def test_the_documented_commands_work(tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [str(tuned / "before"), str(tuned / "after")]
    assert main(["compare", *runs]) == 0
    assert "settle" in capsys.readouterr().out
    assert main(["report", *runs, "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert all(measure in page for measure in ("integrated_gradients", "erasure", "gradient"))
