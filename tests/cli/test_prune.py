"""``bathyscope prune``: what is printed and kept is what the Python call gives."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import signal
from html import unescape
from pathlib import Path

import pandas as pd
import pytest
from support import zoo
from transformers import AutoTokenizer

import bathyscope
from bathyscope.cli import main
from bathyscope.core.tables import html_cells
from bathyscope.pages.acts.plan_head import plan_headline
from bathyscope.surgery.plan.opening import open_plan
from bathyscope.surgery.trial import ledger


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two files of six prompts of token ids."""
    folder = tmp_path_factory.mktemp("prompts")
    for seed, role in enumerate(("calibration", "test")):
        rows = [json.dumps({"ids": ids}) for ids in zoo.prompts(zoo.build("llama"), (12,) * 6, seed)]
        (folder / f"{role}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return str(folder / "calibration.jsonl"), str(folder / "test.jsonl")


@pytest.fixture(scope="module")
def evaluated(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with an end-of-text token; beside it documents, and a task whose answers are written."""
    pytest.importorskip("lm_eval", reason="the extra is not installed: pip install 'bathyscope[eval]'")
    folder = tmp_path_factory.mktemp("evaluated") / "tiny-llama"
    shutil.copytree(model_folder, folder)
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    tokenizer.eos_token = "</s>"
    tokenizer.save_pretrained(folder)
    texts = [f"the old house stood at the {place}" for place in ("edge", "road", "village", "hills", "light", "old")]
    rows = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (folder.parent / "lambada.jsonl").write_text(rows, encoding="utf-8")
    (folder.parent / "endings.yaml").write_text(
        """
task: endings
output_type: generate_until
dataset_path: json
dataset_kwargs: {data_files: {test: lambada.jsonl}}
test_split: test
doc_to_text: "{{text.rsplit(' ', 1)[0]}}"
doc_to_target: "{{text.rsplit(' ', 1)[1]}}"
generation_kwargs: {until: ["."], max_gen_toks: 3, do_sample: false}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
""",
        encoding="utf-8",
    )
    return folder


def arguments(model: Path, sources: tuple[str, str], *more: str) -> list[str]:
    calibration, test = sources
    options = ["--random", "2", "--resamples", "200", "--quiet"]
    return ["prune", str(model), "--calibration", calibration, "--test", test, *options, *more]


def test_the_table_is_that_of_the_call_and_is_shown_again(
    model_folder: Path, sources: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "pruned"
    assert main(arguments(model_folder, sources, "--drop", "40%", "--out", str(out), "--format", "csv")) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    plan = bathyscope.prune(model_folder, *sources, drop=2, random=2, resamples=200, progress=False)
    assert [row["subset"] for row in rows] == plan.table["subset"].tolist()
    assert [float(row["test_cost"]) for row in rows] == plan.table["test_cost"].tolist()
    assert main(["show", str(out)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert " ".join(plan.text.split()) in shown
    assert "candidate left out calibration test (interval) KL top-1 p" in shown
    assert bathyscope.show(out).equals(plan.table)
    for option, value in {
        "measure": "drop",
        "cluster": "book",
        "raw": True,
        "partial": True,
        "prompts": "0-1",
        "variables": "kl",
        "blocks": "0",
    }.items():
        told = [f"--{option}"] if value is True else [f"--{option}", str(value)]
        assert main(["show", str(out), *told]) == 2
        said = "is the folder of a plan, which has a single table. Remove measure, cluster, raw, partial, prompts,"
        assert said in capsys.readouterr().err
        with pytest.raises(bathyscope.OptionError, match=f"Remove .*{option}"):
            bathyscope.show(out, **{option: value})  # type: ignore[arg-type]


def test_domains_are_given_by_name_and_stand_in_table_and_page(
    model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("old house", "light was", "road to", "hills of", "village in", "edge by")
    files = {}
    for number, name in enumerate(("code", "prose", "code_test", "prose_test")):
        # a name of a file may look like a domain's
        files[name] = tmp_path / f"x={name}.jsonl"
        texts = [" ".join([word, *words[number:], *words[:place]]) for place, word in enumerate(words)]
        files[name].write_text("\n".join(json.dumps({"text": text}) for text in texts), encoding="utf-8")
    out, page = tmp_path / "pruned", tmp_path / "page.html"
    command = ["prune", str(model_folder), "--drop", "1", "--random", "2", "--resamples", "100", "--out", str(out)]
    domains = [f"--calibration=code={files['code']}", f"--calibration=prose={files['prose']}"]
    judges = [f"--test=code={files['code_test']}", f"--test=prose={files['prose_test']}"]
    assert main([*command, *domains, *judges, "--joint", "worst"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    plan = open_plan(out)
    assert plan.data.attrs["joint"] == "worst"
    assert "chosen on" in printed
    assert "all domains" in printed
    assert f"In {plan.chosen_again:.0%} of bootstraps" in printed
    assert main(["report", str(out), "--out", str(page)]) == 0
    written = unescape(page.read_text(encoding="utf-8"))
    *_, again, transfer = plan.tables()
    assert [again.headings[0], transfer.headings[0]] == ["may go", "chosen on"]
    for row in (*html_cells(again), *html_cells(transfer)):
        assert all(cell in written for cell in row)
    capsys.readouterr()
    assert main([*command, *domains, f"--test={files['code_test']}"]) == 2
    assert "Every domain chooses and judges" in capsys.readouterr().err
    assert main([*command, *domains, f"--calibration={files['prose']}", *judges]) == 2
    assert "names no domain, and others do. Write NAME=PROMPTS for each" in capsys.readouterr().err


@pytest.mark.usefixtures("blank_pictures")
def test_a_report_has_a_section_of_it(
    model_folder: Path,
    run_folder: Path,
    sources: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, page = tmp_path / "pruned", tmp_path / "page.html"
    monkeypatch.chdir(tmp_path)
    assert main(arguments(model_folder, sources, "--drop", "1", "--out", str(out))) == 0
    assert main(["report", str(run_folder), str(out), "--out", str(page)]) == 0
    plan, written = open_plan(out), unescape(page.read_text(encoding="utf-8"))
    assert plan.text in written
    assert written.index(plan_headline(plan)) < written.index("Depth profile of")  # the decision is first
    assert f"What leaving out costs: {model_folder.name}" in written
    for row in html_cells(plan.tables()[0]):
        assert f'<th scope="row">{row[0]}</th>' + "".join(f"<td>{c}</td>" for c in row[1:]) in written
    alone = tmp_path / "alone.html"
    assert main(["report", str(out), "--out", str(alone)]) == 0
    written = unescape(alone.read_text(encoding="utf-8"))
    assert f"<h1>What leaving out costs: {model_folder.name}</h1>" in written
    # flags are marked up, so that no line ends inside of one
    text = re.sub(r"<[^>]*>", "", written)
    assert "bathyscope export pruned --out SMALLER" in text
    assert str(tmp_path) not in text
    assert "<script" not in written
    with pytest.raises(bathyscope.OptionError, match="A report needs at least one run, plan or repair"):
        bathyscope.report([], page)
    capsys.readouterr()
    assert main(["report", str(out), "--figures", str(tmp_path / "figures")]) == 2
    assert "--figures writes the figures of runs" in " ".join(capsys.readouterr().err.split())


def test_tasks_are_asked_of_the_full_and_of_the_pruned_model(
    evaluated: Path,
    sources: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tasks may be added to what is finished; nothing is computed twice; the numbers are those of ``evaluate``."""
    out, task = tmp_path / "pruned", evaluated.parent / "endings.yaml"
    options = ["--drop", "1", "--out", str(out)]
    assert main(arguments(evaluated, sources, *options)) == 0
    with pytest.raises(bathyscope.OptionError, match="This plan was asked no tasks; give evaluate="):
        _ = open_plan(out).tasks
    data = f"lambada_openai={evaluated.parent / 'lambada.jsonl'}"
    asked = arguments(evaluated, sources, *options, "--evaluate", f"lambada_openai,{task}", "--data", data)
    monkeypatch.setattr(ledger, "tree_costs", None)  # the search is finished
    capsys.readouterr()
    assert main([*asked, "--format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    plan = open_plan(out)
    found = bathyscope.evaluate(
        bathyscope.load(evaluated),
        ["lambada_openai", str(task)],
        [plan.left_out],
        {"lambada_openai": str(evaluated.parent / "lambada.jsonl")},
    )
    wanted = found.to_dataframe().set_index(["schedule", "task", "metric"])["value"]
    tasks = plan.tasks.set_index(["task", "metric"])
    assert set(tasks.index) == {("lambada_openai", name) for name in ("acc", "loglikelihood", "perplexity")} | {
        ("endings", "exact_match")
    }
    for place in tasks.index:
        assert tasks.loc[place, "full"] == wanted[("standard", *place)]
        assert tasks.loc[place, "pruned"] == wanted[(plan.left_out, *place)]
    assert [row["task"] for row in record["tasks"]] == ["lambada_openai"] * 3 + ["endings"]
    assert record["tasks"][-1]["documents"] == 6
    assert not {"task", "documents"} & set(record["candidates"][0])
    monkeypatch.setattr("bathyscope.surgery.benchmarks.harness.score", None)
    assert main(asked) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"Tasks without {plan.left_out}" in shown
    assert "On endings (6 documents) exact_match is" in shown
    assert "endings | exact_match | 6 |" in plan.evidence
    # a task that is asked alone leaves those of earlier calls in the plan
    assert main(arguments(evaluated, sources, *options, "--evaluate", str(task))) == 0
    assert "On lambada_openai (6 documents) acc is" in " ".join(capsys.readouterr().out.split())
    later = open_plan(out).tasks.set_index(["task", "metric"])
    assert later.index.get_level_values("task")[0] == "endings"
    pd.testing.assert_frame_equal(later.sort_index(), tasks.sort_index())


def test_tasks_of_a_plan_in_a_chat_template_are_said_to_be_without_it(
    evaluated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bathyscope.surgery.choosing.pruning.choose", None)
    model = bathyscope.load(evaluated)
    model.tokenizer.chat_template = "{% for m in messages %}{{ m.content }} the {% endfor %}"
    texts = ["the old house", "the road", "the edge of the hills", "the light of the village"]
    with (
        pytest.warns(UserWarning, match=r"evaluate: tasks are asked without the chat template .* PLAN --tasks NAMES"),
        pytest.raises(TypeError),
    ):
        bathyscope.prune(
            model, texts[:2], texts[2:], drop=1, chat=True, evaluate=[str(evaluated.parent / "endings.yaml")]
        )


def test_tasks_that_cannot_be_asked_are_refused_before_the_search(
    evaluated: Path, sources: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "tree_costs", None)
    task = str(evaluated.parent / "endings.yaml")
    for words, said in (
        (["--evaluate", "none.yaml"], "none.yaml does not exist"),
        (["--evaluate", task, "--limit", "0"], "limit=0 is out of range"),
        (
            ["--evaluate", task, "--parts", "mlp"],
            "tasks are run without whole blocks; choose among them (parts='block')",
        ),
    ):
        assert main(arguments(evaluated, sources, "--drop", "1", *words)) in (2, 3)
        assert said in " ".join(capsys.readouterr().err.split())


def test_what_is_wrong_is_said_before_the_model_is_loaded(
    sources: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (odd := tmp_path / "odd.jsonl").write_text('{"question": "1 + 1?", "reply": "2"}\n')
    for model, given, words, code, said in (
        ("none", sources, (), 2, "Say how much may go"),
        ("none", sources, ("--drop", "2.5"), 2, "drop='2.5' is neither a number of blocks nor a share"),
        ("none", sources, ("--drop", "1", "--level", "95"), 2, "level=95.0 is out of range; allowed: 0.01 to 0.9999"),
        ("none", sources, ("--drop", "1", "--parts", "head"), 2, "parts: 'head' is unknown"),
        ("none", sources, ("--drop", "1", "--out", str(tmp_path)), 5, "is no pruning but not empty either"),
        ("none", sources, ("--drop", "0"), 2, "drop='0' is out of range; give 1 or more, or a share"),
        ("none", sources, ("--drop", "250%"), 2, "drop='250%' is out of range; a share lies between"),
        (
            "none",
            (sources[0], str(odd)),
            ("--drop", "1"),
            3,
            "neither given. Rename 'question' to 'text', or name the columns",
        ),
        ("none", (sources[0], "none.jsonl"), ("--drop", "1"), 3, "none.jsonl does not exist"),
    ):
        assert main(arguments(Path(model), given, *words)) == code
        assert said in (err := capsys.readouterr().err)
        assert "Loading" not in err


def test_codes_and_words_of_what_cannot_be_done(
    model_folder: Path, sources: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(model_folder, sources, "--max-cost", "1e-9", "--format", "json")) == 6
    captured = capsys.readouterr()
    assert "error: Not shown to stay below max_cost=" in captured.err
    record = json.loads(captured.out)
    assert (record["kind"], record["proved"], record["schedule"]) == ("plan", False, "standard")
    assert record["candidates"][0]["test_cost"] > 0
    assert main(arguments(model_folder, sources, "--max-cost", "0.0001%", "--format", "json")) == 6
    captured = capsys.readouterr()
    assert "error: Not shown to stay below max_cost=0.0001% of the loss (" in captured.err
    assert json.loads(captured.out)["settings"]["max_share"] == pytest.approx(1e-6)
    assert main(arguments(model_folder, sources, "--max-cost", "little")) == 2
    err = capsys.readouterr().err
    assert "max_cost='little' is neither a number of nats per token, such as 0.05, nor a share of the loss" in err
    assert "Loading" not in err
    assert main(arguments(model_folder, (sources[0], sources[0]), "--drop", "1")) == 3
    assert "6 of 6 test prompts stand among the calibration prompts too" in capsys.readouterr().err
    assert main(arguments(model_folder, sources, "--drop", "5")) == 2
    assert "allowed: 1 to 4, or a share such as '25%'" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_loses_nothing_that_is_finished(
    number: int,
    model_folder: Path,
    sources: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain, made = ledger.tree_costs, []

    def ending(*args: object, **options: object) -> object:
        made.append(1)
        if len(made) == 3:
            os.kill(os.getpid(), number)
        return plain(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ledger, "tree_costs", ending)
    asked = arguments(model_folder, sources, "--drop", "3", "--out", str(tmp_path / "pruned"))
    assert main(asked) == 130
    assert (
        f"finished results are saved in {tmp_path / 'pruned'}. To resume: bathyscope prune" in capsys.readouterr().err
    )
    assert len(list((tmp_path / "pruned").rglob("costs/*/*.nc"))) == 2
    monkeypatch.setattr(ledger, "tree_costs", plain)
    assert main(asked) == 0
    plan = bathyscope.prune(model_folder, *sources, drop=3, random=2, resamples=200, progress=False)
    assert open_plan(tmp_path / "pruned").table.equals(plan.table)
