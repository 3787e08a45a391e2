"""Files of tasks run no code unless that is asked for: functions, scripts of metrics and data, templates."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import bathyscope
from bathyscope import OptionError, PromptError
from bathyscope.cli import main
from bathyscope.model import Model
from bathyscope.prompts.harness.loading import load_benchmarks
from bathyscope.prompts.harness.task_code import confine_templates

FUNCTIONS = """
from pathlib import Path

Path(__file__).with_name("ran").touch()

def shorter(documents):
    return documents.select(range(2))
"""
CODES = {
    "!function evil.shorter": "process_docs: !function evil.shorter",
    "!function evil.": "custom_dataset: !function evil.",
    "!function subprocess.getoutput": "fewshot_config: {samples: [&a !function subprocess.getoutput]}",
    "tag:yaml.org,2002:python/name:os.system": "process_results: !!python/name:os.system ''",
    "metric: ./evil, which the harness does not have.": "metadata: {x: [&m {metric: ./evil}]}\nmetric_list: [*m]",
    "metric: somebody_s, which the harness does not have.": "metric_list: [{metric: somebody_s}]",
    "metric: acc_nrm, which the harness does not have. Did you mean 'acc_norm'?": "metric_list: [{metric: acc_nrm}]",
    "hf_evaluate: true": "metric_list: [{metric: exact_match, hf_evaluate: true}]",
    "trust_remote_code: true": "metadata: {a: {trust_remote_code: true}}",
    "dataset_path: pandas": "dataset_path: pandas",
    "use_prompt: other.yaml:x": "use_prompt: other.yaml:x",
}


def with_lines(task: Path, lines: str) -> Path:
    """Return a copy of a task with these lines in place of those with the same keys."""
    names = tuple(f"{line.partition(':')[0]}:" for line in lines.splitlines())
    kept, skipping = [], False
    for line in task.read_text(encoding="utf-8").splitlines():
        skipping = line.startswith(names) or (skipping and line.startswith(" "))
        kept += [] if skipping else [line]
    file = task.with_name("changed.yaml")
    file.write_text("\n".join([*kept, lines, ""]), encoding="utf-8")
    file.with_name("evil.py").write_text(FUNCTIONS, encoding="utf-8")
    return file


@pytest.mark.parametrize("where", ["itself", "included", "included twice"])
@pytest.mark.parametrize("code", CODES)
def test_code_in_a_task_is_named_and_not_run(code: str, where: str, own_task: Path) -> None:
    file = with_lines(own_task, CODES[code])
    if where != "itself":
        folder = own_task.parent / "base"
        folder.mkdir()
        (folder / "base.yaml").write_text(CODES[code], encoding="utf-8")
        own_task.with_name("between.yaml").write_text("include: [base/base.yaml]", encoding="utf-8")
        name = "base/base.yaml" if where == "included" else "between.yaml"
        file = with_lines(own_task, f"include: {name}")
    with pytest.raises(OptionError) as refusal:
        load_benchmarks([str(file)])
    assert f"would run code ({code}" in str(refusal.value)
    assert "--allow-code (allow_code=True)" in str(refusal.value)
    assert not own_task.with_name("ran").exists()


def test_functions_of_a_task_run_once_that_is_asked_for(own_task: Path) -> None:
    file = with_lines(own_task, "process_docs: !function evil.shorter")
    (benchmark,) = load_benchmarks([str(file)], allow_code=True)
    assert own_task.with_name("ran").exists()
    assert len(list(benchmark.task.eval_docs)) == 2


def test_what_is_typed_at_evaluate_and_prune_is_refused_before_a_model_is_loaded(
    own_task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = with_lines(own_task, "process_docs: !function evil.shorter")
    text = tmp_path / "text.txt"
    text.write_text("some words\n", encoding="utf-8")
    prompts = ["--calibration", str(text), "--test", str(text), "--drop", "1"]
    for line in (
        ["evaluate", "no/model", "--tasks", str(file)],
        ["prune", "no/model", *prompts, "--evaluate", str(file)],
    ):
        assert main(line) == OptionError.exit_code
        assert "would run code (!function evil.shorter)" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(OptionError, match=r"would run code \(!function evil\.shorter\)"):
        bathyscope.prune("no/model", str(text), str(text), drop=1, evaluate=[str(file)])
    assert not own_task.with_name("ran").exists()


@pytest.mark.parametrize("field", ["doc_to_text", "doc_to_target"])
def test_templates_reach_nothing_behind_the_document(field: str, own_task: Path, bundled: Model) -> None:
    ran = own_task.with_name("ran")
    template = f"{{{{ cycler.__init__.__globals__.os.mkdir('{ran}') }}}}"
    file = with_lines(own_task, f'{field}: "{template}"')
    with pytest.raises(PromptError, match=r"SecurityError|unsafe"):
        bathyscope.evaluate(bundled, [str(file)], ["drop:1"], limit=1)
    assert not ran.exists()


def test_the_sandbox_keeps_what_the_environment_of_the_harness_has(monkeypatch: pytest.MonkeyPatch) -> None:
    from jinja2 import BaseLoader, Environment, StrictUndefined
    from lm_eval import utils

    environment: Any = Environment(loader=BaseLoader(), undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters["shout"] = str.upper
    environment.globals["answer"] = 42
    monkeypatch.setattr(utils, "env", environment)
    confine_templates()
    confined = utils.env
    assert confined is not environment
    assert utils.apply_template("{{ word | shout }} {{ answer }}\n", {"word": "hey"}) == "HEY 42\n"
    confine_templates()
    assert utils.env is confined


def test_files_of_the_harness_itself_may_name_functions(own_task: Path) -> None:
    import lm_eval

    base = Path(lm_eval.__file__).parent / "tasks" / "gsm8k" / "gsm8k.yaml"
    assert base.is_file()
    file = with_lines(own_task, f"include: {base}")
    (benchmark,) = load_benchmarks([str(file)])
    assert benchmark.name == "counting"


def test_files_of_tasks_are_regular_and_end(own_task: Path) -> None:
    pipe = own_task.with_name("pipe.yaml")
    os.mkfifo(pipe)
    including = with_lines(own_task, "include: pipe.yaml")
    for file in (pipe, including):
        with pytest.raises(PromptError, match="it is a FIFO, and only regular files are read"):
            load_benchmarks([str(file)])
    for number in range(80):
        own_task.with_name(f"{number}.yaml").write_text(f"include: {number + 1}.yaml", encoding="utf-8")
    with pytest.raises(PromptError, match="includes more than 64 files"):
        load_benchmarks([str(own_task.with_name("0.yaml"))])
