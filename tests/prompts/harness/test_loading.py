"""Tasks and their documents: which are found, how files are read, and what is refused before any compute."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import lm_eval.tasks
import pytest
from lm_eval.tasks.hellaswag import utils as hub_hellaswag

from bathyscope.errors import OptionError, PromptError
from bathyscope.prompts.harness.loading import hellaswag_from_ctx, load_benchmarks


def requests(benchmark: Any) -> list[tuple[str, str]]:
    benchmark.task.build_all_requests()
    return [instance.args for instance in benchmark.task.instances]


def test_a_tasks_own_template_reads_the_file(files: dict[str, Path]) -> None:
    arc, lambada = load_benchmarks(["arc_easy", "lambada_openai"], without_hellaswag(files))
    assert requests(arc)[:3] == [
        ("Question: Where does rain come from?\nAnswer:", f" {answer}") for answer in ("the sea", "the hills", "a shop")
    ]
    assert len(requests(arc)) == 3 + 4 + 3 + 4 + 3
    context = "She walked to the house because she had been told that nobody was in the"
    assert requests(lambada)[0] == (context, " house")
    assert arc.source == str(files["arc_easy"])


def without_hellaswag(files: dict[str, Path]) -> dict[str, Path]:
    return {name: files[name] for name in ("arc_easy", "lambada_openai")}


def test_hellaswag_with_the_joint_context(files: dict[str, Path]) -> None:
    (found,) = load_benchmarks(["hellaswag"], {"hellaswag": files["hellaswag"]})
    assert requests(found)[0] == (
        "Rowing: The old man pushed the boat into the river. The old man",
        " took the oars and rowed.",
    )


def test_hellaswag_is_tidied_as_the_harness_does() -> None:
    row = {
        "activity_label": "Baking",
        "ctx_a": "How to bake [header] Take flour. [title] Mix  it.",
        "ctx_b": "Then she",
        "endings": ["[step] stirs  it.", " [title] Wait."],
        "label": "1",
    }
    expected = hub_hellaswag.process_docs(datasets.Dataset.from_list([row]))[0]
    found = hellaswag_from_ctx({**row, "ctx": f"{row['ctx_a']} {row['ctx_b']}"})
    assert (found["query"], found["choices"]) == (expected["query"], expected["choices"])


def test_hub_columns_of_hellaswag_go_through_the_harnesss_own_processing(tmp_path: Path) -> None:
    path = tmp_path / "hub.jsonl"
    row = {"activity_label": "Rowing", "ctx": "-", "ctx_a": "A man rows.", "ctx_b": "he", "label": "0"}
    path.write_text(json.dumps({**row, "endings": ["sings.", "eats.", "runs.", "falls."]}), encoding="utf-8")
    (found,) = load_benchmarks(["hellaswag"], {"hellaswag": path})
    assert requests(found)[0] == ("Rowing: A man rows. He", " sings.")


def test_gsm8k_is_asked_without_examples(tmp_path: Path) -> None:
    path = tmp_path / "gsm8k.jsonl"
    path.write_text('{"question": "1 + 1?", "answer": "2 #### 2"}\n', encoding="utf-8")
    (found,) = load_benchmarks(["gsm8k"], {"gsm8k": path})
    assert requests(found)[0][0] == "Question: 1 + 1?\nAnswer:"
    assert found.written


def test_a_task_of_ones_own_stands_in_a_yaml_file_with_its_documents_beside_it(own_task: Path) -> None:
    (found,) = load_benchmarks([str(own_task)])
    assert (found.name, found.source, found.written) == ("counting", str(own_task.with_name("counting.jsonl")), True)
    context, options = requests(found)[0]
    assert context == "Once there was one cat and one"
    assert (options["until"], options["max_gen_toks"]) == ([".", "\n"], 6)  # type: ignore[index]
    other = own_task.with_name("other.jsonl")
    other.write_text('{"text": "A cow and", "answer": "a horse"}\n', encoding="utf-8")
    (found,) = load_benchmarks([str(own_task)], {"counting": other})
    assert requests(found)[0][0] == "A cow and"


def test_two_tasks_of_one_name_are_refused(own_task: Path, tmp_path: Path) -> None:
    other = tmp_path / "counting.yaml"
    other.write_text(own_task.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(OptionError, match=r"both define the task 'counting', and results are stored by name"):
        load_benchmarks([str(own_task), str(other)])
    other.write_text(own_task.read_text(encoding="utf-8").replace("task: counting", "task: arc_easy"))
    with pytest.raises(OptionError, match=r"tasks: arc_easy and .*counting.yaml both define the task 'arc_easy'"):
        load_benchmarks(["arc_easy", str(other)])
    (found,) = load_benchmarks([str(own_task), str(own_task)])
    assert found.name == "counting"


def test_yaml_files_that_tell_no_task_are_refused(own_task: Path, tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"none\.yaml does not exist"):
        load_benchmarks([str(tmp_path / "none.yaml")])
    wrong = tmp_path / "wrong.yaml"
    for content, said in (
        ("a: [", "cannot be read as a task"),
        ("a: 3", "defines no task; a task's file has task: NAME"),
        ("", "defines no task"),
        ("[a, b]", "defines no task"),
        ("output_type: multiple_choice\ndataset_path: json", "defines no task"),
        ("task: [a]", "defines no task"),
    ):
        wrong.write_text(content, encoding="utf-8")
        with pytest.raises(PromptError, match=rf"wrong\.yaml {said}"):
            load_benchmarks([str(wrong)])
    own_task.with_name("counting.jsonl").unlink()
    with pytest.raises(
        PromptError, match=r"The documents of counting cannot be loaded from the hub .*--data counting=FILE"
    ):
        load_benchmarks([str(own_task)])


@pytest.mark.parametrize("split", ["test_split", "validation_split"])
def test_a_split_that_no_file_holds_is_named(split: str, own_task: Path) -> None:
    text = own_task.read_text(encoding="utf-8").replace("test_split: test", f"{split}: tets")
    own_task.write_text(text, encoding="utf-8")
    words = rf"counting\.yaml: {split}: 'tets' is none of its data_files; they hold test\. Did you mean 'test'\?"
    with pytest.raises(PromptError, match=words):
        load_benchmarks([str(own_task)])
    # a file that is given takes the place of all of them
    (found,) = load_benchmarks([str(own_task)], {"counting": own_task.with_name("counting.jsonl")})
    assert len(found.task.eval_docs) == 5


def test_shared_files_suit_their_tasks(shared: Callable[[str], Path]) -> None:
    data = {
        "hellaswag": shared("data/hellaswag/validation_first2000.jsonl"),
        "arc_easy": shared("data/arc_easy/validation.jsonl"),
        "lambada_openai": shared("data/lambada/test_first2500.jsonl"),
    }
    found = load_benchmarks(list(data), data)
    assert [len(one.task.eval_docs) for one in found] == [2000, 570, 2500]


@pytest.mark.parametrize(
    ("tasks", "data", "error", "said"),
    [
        ([], {}, OptionError, "tasks: none given; for example hellaswag"),
        (["arc_easy"], {"hellaswag": "arc_easy"}, OptionError, "'hellaswag' is none of the tasks asked for: arc_easy"),
        (["arc_easy"], {}, PromptError, "cannot be loaded from the hub (ConnectionError: Couldn't reach"),
        (["arc_easy"], {"arc_easy": "lambada_openai"}, PromptError, "'question' is undefined); its columns are text."),
        (["hellaswag"], {"hellaswag": "lambada_openai"}, PromptError, "KeyError: 'activity_label'); its columns are"),
        (
            ["wikitext"],
            {"wikitext": "wikitext"},
            OptionError,
            "wikitext is scored by loglikelihood_rolling; allowed are",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    tasks: list[str], data: dict[str, str], error: type[Exception], said: str, files: dict[str, Path], tmp_path: Path
) -> None:
    own = tmp_path / "wikitext.jsonl"
    own.write_text('{"page": "Rain falls."}\n', encoding="utf-8")
    known = {**files, "wikitext": own}
    with pytest.raises(error) as caught:
        load_benchmarks(tasks, {name: known[source] for name, source in data.items()})
    assert said in str(caught.value)


def test_missing_and_empty_files(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match=r"none.jsonl does not exist"):
        load_benchmarks(["arc_easy"], {"arc_easy": tmp_path / "none.jsonl"})
    (tmp_path / "empty.jsonl").write_text("", encoding="utf-8")
    with pytest.raises(PromptError, match=r"empty.jsonl holds no row"):
        load_benchmarks(["arc_easy"], {"arc_easy": tmp_path / "empty.jsonl"})


def test_an_unknown_task_is_refused_before_the_harness_indexes_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness's own index of all tasks takes up to a minute."""
    monkeypatch.setattr(lm_eval.tasks, "TaskManager", lambda **_: pytest.fail("the harness indexed its files"))
    with pytest.raises(OptionError, match=r"has no task 'arc_easi'. Did you mean 'arc_easy'\?.*lm-eval ls tasks"):
        load_benchmarks(["arc_easi"])
    with pytest.raises(OptionError, match=r"has no task 'qqqqqqqq'\. `lm-eval ls tasks` lists them all\.$"):
        load_benchmarks(["qqqqqqqq"])


def test_without_the_extra_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "lm_eval" else object())
    with pytest.raises(OptionError, match=r"lm_eval is not installed.*pip install 'bathyscope\[eval\]'"):
        load_benchmarks(["arc_easy"])
