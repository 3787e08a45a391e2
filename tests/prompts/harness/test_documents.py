"""Documents of the harness's tasks as prompts: text, answer and label against the harness's own requests and scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import bathyscope
from bathyscope import PromptError
from bathyscope.cli import main
from bathyscope.extend.prompts import harness_prompts, tokenized
from bathyscope.model import Model
from bathyscope.prompts.harness import documents
from bathyscope.prompts.harness.loading import Benchmark, load_benchmarks
from bathyscope.prompts.source import require_there, resolve
from bathyscope.prompts.spec import parse


def rewritten(task: Path, **lines: str) -> Path:
    """Return a copy of a task with other values of these keys; a value may have lines of its own."""
    kept, skipping = [], False
    for line in task.read_text(encoding="utf-8").splitlines():
        skipping = line.split(":")[0] in lines or (skipping and line.startswith(" "))
        kept += [] if skipping else [line]
    file = task.with_name("rewritten.yaml")
    file.write_text("\n".join([*kept, *(f"{key}: {value}" for key, value in lines.items()), ""]), encoding="utf-8")
    return file


def choosing(task: Path, rows: list[dict[str, Any]], **lines: str) -> Path:
    """Return a task that scores given answers, with these documents."""
    task.with_name("counting.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    own = {
        "output_type": "multiple_choice",
        "doc_to_choice": "choices",
        "doc_to_target": "right",
        "metric_list": "[{metric: acc}]",
        "filter_list": "null",
        "generation_kwargs": "null",
    }
    return rewritten(task, **{**own, **lines})


@pytest.mark.parametrize("task", ["arc_easy", "hellaswag", "lambada_openai"])
def test_answers_have_the_scores_that_the_harness_gives_them(
    task: str, files: dict[str, Path], bundled: Model, tmp_path: Path
) -> None:
    bathyscope.evaluate(bundled, [task], data={task: files[task]}, out=tmp_path / "e")
    (results,) = (tmp_path / "e" / "results" / "standard").glob("*.json")
    scores = [
        document["loglikelihoods"][document["right"]] for document in json.loads(results.read_text())["documents"]
    ]
    prompts = tokenized(bundled, f"lm-eval:{task}:5@{files[task]}")
    assert [prompt.labels for prompt in prompts] == [{"task": task}] * 5
    for prompt, score in zip(prompts, scores, strict=True):
        ids = torch.tensor([prompt.ids])
        with torch.no_grad():
            logprobs_TV = bundled.hf(ids).logits[0].double().log_softmax(-1)
        by_token = logprobs_TV[:-1].gather(1, ids[0, 1:, None])[:, 0]
        assert prompt.answer_tokens is not None
        assert float(by_token[-prompt.answer_tokens :].sum()) == pytest.approx(score, abs=1e-3)


@pytest.mark.parametrize("prefix", ["", "So", "So "])
@pytest.mark.parametrize("delimiter", [" ", "", "\n"])
def test_a_written_answer_is_joined_as_in_the_harness_examples(own_task: Path, prefix: str, delimiter: str) -> None:
    lines = {"target_delimiter": json.dumps(delimiter), "doc_to_target": '"{{answer.strip()}}"'}
    file = rewritten(own_task, **lines, **({"gen_prefix": json.dumps(prefix)} if prefix else {}))
    (benchmark,) = load_benchmarks([str(file)])
    first, second = list(benchmark.task.eval_docs)[:2]
    # the harness shows the first document as an example before the second
    benchmark.task.sampler.sample = lambda *_, **__: [first]
    example = benchmark.task.fewshot_context(second, 1)
    prompt = harness_prompts(str(file), count=1)[0]
    assert prompt.text is not None
    assert example.startswith(f"{prompt.text}\n\nA boy")
    assert prompt.text.endswith(f"{prompt.answer}")
    assert str(prompt.answer).strip() == "dog"


def test_the_right_choice_by_place_by_text_and_first_of_several(own_task: Path) -> None:
    rows = [{"text": "Rain is", "choices": ["dry", "wet", "hot"], "right": right} for right in (1, 2)]
    assert [prompt.text for prompt in harness_prompts(str(choosing(own_task, rows)))] == ["Rain is wet", "Rain is hot"]
    rows = [{"text": "Rain is", "choices": ["dry", "wet", "hot"], "right": "wet"}]
    assert harness_prompts(str(choosing(own_task, rows)))[0].answer == " wet"
    rows = [{"text": "Rain is", "choices": ["dry", "wet", "hot"], "right": [2, 1]}]
    assert harness_prompts(str(choosing(own_task, rows)))[0].answer == " hot"


def test_where_choices_are_contexts_the_right_one_is_taken(own_task: Path) -> None:
    rows = [{"right": 1, "choices": ["The cat saw the dog. The cat", "The cat saw the dog. The dog"], "end": "barked."}]
    file = choosing(own_task, rows, doc_to_text="right", doc_to_target="end")
    (prompt,) = harness_prompts(str(file))
    assert (prompt.text, prompt.answer) == ("The cat saw the dog. The dog barked.", " barked.")


def test_tasks_of_a_group_take_turns(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    benchmarks: tuple[Benchmark, ...] = (
        load_benchmarks(["arc_easy", "lambada_openai"], files | {}, as_file="")
        if (files := {name: files[name] for name in ("arc_easy", "lambada_openai")})
        else ()
    )
    monkeypatch.setattr(documents, "load_benchmarks", lambda *_, **__: benchmarks)
    for count in (5, 10, None):
        tasks = [prompt.labels["task"] for prompt in harness_prompts("both", count=count)]
        assert tasks == (["arc_easy", "lambada_openai"] * 5)[:count]
    with pytest.raises(PromptError, match=r"^both has 10 documents and 11 were asked for; ask for at most that\.$"):
        harness_prompts("both", count=11)


def test_a_short_task_of_a_group_gives_its_turns_to_the_others(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = tmp_path / "short.jsonl"
    short.write_text(files["arc_easy"].read_text(encoding="utf-8").splitlines()[0] + "\n", encoding="utf-8")
    benchmarks = load_benchmarks(
        ["arc_easy", "lambada_openai"], {"arc_easy": short, "lambada_openai": files["lambada_openai"]}
    )
    monkeypatch.setattr(documents, "load_benchmarks", lambda *_, **__: benchmarks)
    tasks = [prompt.labels["task"] for prompt in harness_prompts("both", count=5)]
    assert tasks == ["arc_easy", *["lambada_openai"] * 4]


@pytest.mark.parametrize(
    "source", ["lm-eval:arc_easi:3", "lm-eval:a/folder/none.yaml:3", "lm-eval:arc_easy:3@none.jsonl"]
)
def test_what_is_not_there_is_refused_before_a_model_is_loaded(source: str) -> None:
    expected = {
        "lm-eval:arc_easi:3": r"has no task 'arc_easi'\. Did you mean 'arc_easy'\? `lm-eval ls tasks` lists them all",
        "lm-eval:a/folder/none.yaml:3": "none.yaml does not exist",
        "lm-eval:arc_easy:3@none.jsonl": "none.jsonl does not exist",
    }[source]
    for read in (require_there, resolve):
        with pytest.raises(PromptError, match=rf"^Prompts '{source}': .*{expected}"):
            read(source)


def test_what_is_wrong_with_local_documents_is_refused_before_a_model_is_loaded(
    files: dict[str, Path], own_task: Path
) -> None:
    more = f"lm-eval:arc_easy:9@{files['arc_easy']}"
    withheld = choosing(own_task, [{"text": "Rain is", "choices": ["dry", "wet"], "right": -1}])
    for source, expected in (
        (more, "arc_easy has 5 documents and 9 were asked for; ask for at most that"),
        (f"lm-eval:gsm8k:1@{files['arc_easy']}", "does not suit the task gsm8k"),
        (
            f"lm-eval:{withheld}",
            r"Document 0 of counting \(.*counting.jsonl\) tells no right answer \(its target is -1\)",
        ),
    ):
        for read in (require_there, resolve):
            with pytest.raises(PromptError, match=expected):
                read(source)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ({"doc_to_target": '""'}, "tells no right answer"),
        ({"doc_to_text": '""'}, r"has no question before its answer ' *dog'"),
        ({"output_type": "loglikelihood_rolling", "metric_list": "[{metric: word_perplexity}]"}, "is scored by logl"),
    ],
)
def test_tasks_without_question_or_answer_are_refused(own_task: Path, lines: dict[str, str], expected: str) -> None:
    file = rewritten(own_task, **lines)
    with pytest.raises(PromptError, match=expected):
        resolve(f"lm-eval:{file}:2")


def test_code_of_a_task_runs_only_where_a_call_says_so(own_task: Path) -> None:
    file = rewritten(own_task, process_docs="!function own.shorter")
    file.with_name("own.py").write_text(
        "from pathlib import Path\n\nPath(__file__).with_name('ran').touch()\n\n\ndef shorter(documents):\n"
        "    return documents.select(range(2))\n",
        encoding="utf-8",
    )
    for read in (require_there, resolve):
        with pytest.raises(
            PromptError, match=r"would run code \(!function own\.shorter\).*harness_prompts\(…, allow_code"
        ):
            read(f"lm-eval:{file}:2")
    assert not file.with_name("ran").exists()
    assert len(harness_prompts(str(file), allow_code=True)) == 2
    assert file.with_name("ran").exists()


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "lm_eval" else object())
    for read in (require_there, resolve):
        with pytest.raises(PromptError, match=r"^Prompts 'lm-eval:arc_easy:3': .*pip install 'bathyscope\[eval\]'"):
            read("lm-eval:arc_easy:3")


def test_examples_before_a_question_are_left_out_with_a_warning(own_task: Path) -> None:
    file = rewritten(own_task, num_fewshot="2")
    with pytest.warns(UserWarning, match="counting is asked zero-shot, and its own file puts 2 examples before each"):
        prompts = resolve(f"lm-eval:{file}:2").prompts
    assert prompts[0].text == "Once there was one cat and one  dog"


def test_names_of_sources() -> None:
    for text, label in (
        ("lm-eval:arc_easy:100", "lm-eval:arc_easy:100"),
        ("lm-eval:tasks/mine.yaml:20", "lm-eval:mine.yaml:20"),
        ("lm-eval:arc_easy@a:b.jsonl", "lm-eval:arc_easy"),
    ):
        spec = parse(text)
        assert (str(spec), spec.label, spec.kind) == (text, label, "harness task")
    assert parse("lm-eval:tasks/mine.yaml").harness_task == "tasks/mine.yaml"
    for text, expected in (
        ("lm-eval:", "the task is missing; write lm-eval:TASK:N"),
        ("lm-eval:arc_easy:0", "the count after ':' must be a whole number of at least 1"),
        ("lm-eval:arc_easy:3?split=test", r"unknown option 'split'\. Options of lm-eval:arc_easy: none"),
        ("lm-eval:mine.yaml:3@rows.jsonl", "mine.yaml says itself where its documents are"),
    ):
        with pytest.raises(PromptError, match=expected):
            parse(text)


def test_a_survey_and_other_verbs_measure_them(
    own_task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from bathyscope.model.bundled import model_path

    model, source = str(model_path()), f"lm-eval:{own_task}:4"
    out = tmp_path / "run"
    assert main(["survey", model, "--prompts", source, "--measures", "lens,drop", "--out", str(out), "--quiet"]) == 0
    run = bathyscope.open(out)
    assert run["lens"].task.values.tolist() == ["counting"] * 4
    assert set(run["lens"].dataset.values.tolist()) == {"lm-eval:counting.yaml:4"}
    # the same command resumes the run
    assert main(["survey", model, "--prompts", source, "--measures", "lens,drop", "--out", str(out), "--quiet"]) == 0
    assert main(["estimate", model, "--prompts", source, "--measures", "lens"]) == 0
    assert main(["compare", "solved", model, "--prompts", source]) == 0
    capsys.readouterr()
    assert main(["survey", model, "--prompts", f"lm-eval:{own_task}:6"]) == PromptError.exit_code
    assert "counting has 5 documents and 6 were asked for" in " ".join(capsys.readouterr().err.split())
