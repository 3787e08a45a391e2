"""Pages of courses and of where two models part: figures, numbers and words on the page, and nothing from outside."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import zoo

import bathyscope
from bathyscope.cli import main
from bathyscope.errors import OptionError, StoreError
from bathyscope.pages.figures.of import course as course_figure
from bathyscope.pages.figures.of import diff as diff_figure
from bathyscope.surveying.training.steps import open_course

PROMPTS = [[5 + (7 * i + 11 * j) % 60 for i in range(14)] for j in range(4)]
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def moved(hf: Any, amount: float, *names: str) -> Any:
    """A copy of which some weights have moved."""
    other = copy.deepcopy(hf)
    generator = torch.Generator().manual_seed(0)
    for name, parameter in other.named_parameters():
        if not names or any(part in name for part in names):
            parameter.data += amount * parameter.std() * torch.randn(parameter.shape, generator=generator)
    return other


@pytest.fixture(scope="module")
def course_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    hf, folder = zoo.build("llama"), tmp_path_factory.mktemp("course") / "course"
    trained = moved(hf, 0.0)
    watch = bathyscope.watch(trained, PROMPTS, folder, every=10, progress=False)
    for step, amount in ((0, 0.0), (10, 0.1), (40, 0.3)):
        trained.load_state_dict(moved(hf, amount).state_dict())
        assert watch(step)
    return folder


@pytest.fixture(scope="module")
def difference() -> Any:
    hf = zoo.build("llama")
    return bathyscope.diff(hf, moved(hf, 1.0, "layers.2.", "layers.3."), PROMPTS, resamples=50)


@pytest.mark.usefixtures("blank_pictures")
@pytest.mark.parametrize(("measure", "panels"), [("residual", 0), ("skip", 1)])
def test_a_course_without_a_depth_has_a_page(measure: str, panels: int, tmp_path: Path) -> None:
    """Of what it has, or of the steps alone with what would tell more; no sentence ends twice."""
    hf = zoo.build("llama")
    watch = bathyscope.watch(hf, PROMPTS, tmp_path / "c", every=10, measures=[measure], progress=False)
    for step in (0, 10):
        watch(step)
    course = bathyscope.open_course(tmp_path / "c")
    assert course.to_dataframe()["step"].tolist() == [0, 10]
    text = bathyscope.report(course, tmp_path / "course.html").read_text(encoding="utf-8")
    assert text.count('role="img"') == panels
    verdict = re.search(r'<p class="verdict">(.*?)</p>', text)
    assert verdict is not None
    assert "2 steps were surveyed, 0 to 10.<" in verdict[1]
    assert ".." not in verdict[1]
    assert ("survey the steps with lens, skip or drop" in verdict[1]) == (measure == "residual")


def test_a_course_has_a_page(course_folder: Path, tmp_path: Path) -> None:
    course = open_course(course_folder)
    text = bathyscope.report(course, tmp_path / "course.html").read_text(encoding="utf-8")
    assert course.text.partition(". ")[0] in text
    assert text.count('role="img"') == 5  # depth, loss, later blocks, two maps
    assert "Step 0 is the model before this training" in text
    assert "matters from step" in text
    assert "last step less first" in text
    assert not re.search(r'(src|href)="(?!#|data:)', text)
    assert main(["report", str(course_folder), "--out", str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == text


@pytest.mark.usefixtures("blank_pictures")
def test_a_course_may_stand_next_to_its_runs(course_folder: Path, tmp_path: Path) -> None:
    run = bathyscope.open(course_folder / "step-00000040")
    page = bathyscope.report([open_course(course_folder), run], tmp_path / "both.html")
    assert "All measurements" in page.read_text(encoding="utf-8")


def test_a_course_without_its_first_step_says_so(course_folder: Path) -> None:
    data = open_course(course_folder).data
    assert "There is no survey of step 0" in course_figure.drawing(data.isel(step=slice(1, None))).note


def test_what_parts_two_models_has_a_page_with_tokens(difference: Any, tmp_path: Path) -> None:
    text = bathyscope.report(difference, tmp_path / "diff.html").read_text(encoding="utf-8")
    assert "The streams part at block 2; the weights of " in text
    assert "left unexplained by single grafts" in text
    table = difference.record()["tokens"]
    assert table
    assert f"{table[0]['prompt']}, token {table[0]['token']}" in text
    assert "Drift by token" in text
    assert not re.search(r'(src|href)="(?!#|data:)', text)


def test_without_text_a_page_shows_no_word(difference: Any, tmp_path: Path) -> None:
    words = difference.data.copy()
    names = np.char.add("word", words["piece"].values.astype(str))
    result = type(difference)(
        words.assign(piece=(("prompt", "token"), names)),
        difference.text,
        difference.tabulate,
        difference.fields,
        difference.first,
    )
    shown, hidden = (
        bathyscope.report(result, tmp_path / f"{text}.html", text=text).read_text(encoding="utf-8")
        for text in (True, False)
    )
    assert "word5" in shown
    assert "word" not in re.sub(r"<style>.*?</style>|<summary>.*?</summary>", "", hidden, flags=re.S).replace(
        "keyword", ""
    )


def test_equal_models_have_a_page_too(tmp_path: Path) -> None:
    hf = zoo.build("llama")
    result = bathyscope.diff(hf, copy.deepcopy(hf), PROMPTS, resamples=50)
    assert [panel.name for panel in diff_figure.drawing(result.data).panels][-1] == "weights"
    assert "are equal up to rounding" in bathyscope.report(result, tmp_path / "same.html").read_text("utf-8")


def test_what_is_no_result_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="Expected runs"):
        bathyscope.report([3], tmp_path / "p.html")  # type: ignore[list-item]
    # a text is the folder of a run
    with pytest.raises(StoreError, match="There is no run in 'course'"):
        bathyscope.report(["course"], tmp_path / "p.html")
