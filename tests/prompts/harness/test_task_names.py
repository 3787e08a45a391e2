"""Names of tasks as read off the harness's files, next to the harness's own index of them."""

from __future__ import annotations

from pathlib import Path

import lm_eval.tasks
import pytest

from bathyscope.prompts.harness.task_names import names_in

TASKS = Path(lm_eval.tasks.__file__).parent
SEVERAL = ("arc", "translation", "scrolls", "squadv2", "glue", "hendrycks_ethics", "lambada", "super_glue")
"""Single tasks, lists of tags, classes in Python, groups, names that are quoted, files that include others."""


@pytest.mark.parametrize(
    "folder",
    [*(TASKS / name for name in SEVERAL), pytest.param(TASKS, marks=pytest.mark.thorough)],
    ids=lambda path: path.name,
)
def test_names_are_those_of_the_harness(folder: Path) -> None:
    index = lm_eval.tasks.TaskManager(include_defaults=False, include_path=str(folder)).task_index
    names = names_in(folder)
    assert set(names) == set(index)
    assert index
    assert {name for name in names if name in names.tags} == {
        name for name, entry in index.items() if entry.kind.name == "TAG"
    }
    for name, file in names.files.items():
        assert file.resolve() == Path(index[name].yaml_path).resolve()


def test_a_folder_that_is_not_the_harnesss_names_what_its_files_define(tmp_path: Path) -> None:
    (tmp_path / "base_yaml").write_text("tag: [sums, easy]\noutput_type: generate_until\n", encoding="utf-8")
    for name, text in {
        "one": 'include: base_yaml\n"task": "add"  # two numbers\n',
        "two": "task: carry\ntag:\n  - sums\n  - hard\n",
        "group": "group: arithmetic\ntask:\n  - add\n  - carry\n",
        "template": "output_type: generate_until\n",
    }.items():
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    names = names_in(tmp_path)
    assert list(names) == ["add", "arithmetic", "carry", "easy", "hard", "sums"]
    assert names.tags == {"easy", "hard", "sums"}
    assert names.files["add"] == tmp_path / "one.yaml"
