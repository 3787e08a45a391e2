"""``evaluate``: the harness scores the model under a schedule as it scores one whose blocks were edited by hand."""

from __future__ import annotations

import copy
import json
import math
import shutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from lm_eval.api.metrics import bootstrap_stderr, mean_stderr, perplexity
from lm_eval.evaluator import evaluate as harness_evaluate
from lm_eval.models.huggingface import HFLM
from torch import nn

from bathyscope.errors import ModelError, OptionError, PromptError, StoreError
from bathyscope.model import Model
from bathyscope.prompts.harness.loading import load_benchmarks
from bathyscope.schedule import Schedule
from bathyscope.surgery.benchmarks import Evaluation, evaluate, open_evaluation
from bathyscope.surgery.benchmarks.answers import Writer, WrittenAnswer
from bathyscope.surgery.benchmarks.evaluating import require_answerable
from bathyscope.surgery.benchmarks.harness import LoadedLM
from bathyscope.surgery.benchmarks.result import tell_cut_answers
from bathyscope.surgery.scheduled.running import scheduled

TASKS = ("hellaswag", "arc_easy", "lambada_openai")
SCHEDULES = ("drop:5", "swap:3", "repeat:4+3")


def by_hand(model: Model, order: tuple[int, ...], tasks: Any, limit: int | None = None) -> dict[str, list[list[float]]]:
    """Every answer's log-likelihood from the harness alone, on a copy whose list of blocks was edited."""
    edited = copy.deepcopy(model.hf)
    edited.model.layers = nn.ModuleList(edited.model.layers[index] for index in order)
    for slot, block in enumerate(edited.model.layers):
        block.self_attn.layer_idx = slot
    edited.config.num_hidden_layers = len(order)
    edited.config.use_cache = False
    lm = HFLM(pretrained=edited, tokenizer=copy.deepcopy(model.tokenizer), backend="causal", batch_size=8)
    given = harness_evaluate(
        lm=lm, task_dict={"tasks": {one.name: one.task for one in tasks}}, limit=limit, bootstrap_iters=0
    )
    return {
        name: [[answer[0][0] for answer in sample["resps"]] for sample in samples]
        for name, samples in given["samples"].items()
    }


def loglikelihoods(found: Evaluation, schedule: str, task: str) -> list[list[float]]:
    (score,) = [one for one in found.scores if (one["schedule"], one["task"]) == (schedule, task)]
    return [document["loglikelihoods"] for document in score["documents"]]


def assert_scores_by_hand(found: Evaluation, model: Model, tasks: Any, limit: int | None = None) -> None:
    """Equal to the edited model's to 1e-5 of each value; different from the normal model's."""
    normal: dict[str, list[list[float]]] = {}
    for schedule in ("standard", *SCHEDULES):
        expected = by_hand(model, Schedule.parse(schedule, model.n_blocks).order, tasks, limit)
        normal = normal or expected
        for one in tasks:
            got = loglikelihoods(found, schedule, one.name)
            assert len(got) == len(expected[one.name])
            for own, wanted, untouched in zip(got, expected[one.name], normal[one.name]):
                assert own == pytest.approx(wanted, rel=1e-5)
                if schedule != "standard":
                    assert max(abs(a - b) for a, b in zip(own, untouched)) > 1e-3


@pytest.fixture(scope="module")
def finished(
    bundled: Model, files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Evaluation, Path]:
    """Three tasks under four schedules, on disk."""
    out = tmp_path_factory.mktemp("evaluations") / "bundled"
    return evaluate(bundled, TASKS, SCHEDULES, files, out=out), out


def test_scores_are_those_of_a_model_edited_by_hand(
    finished: tuple[Evaluation, Path], bundled: Model, files: dict[str, Path]
) -> None:
    assert_scores_by_hand(finished[0], bundled, load_benchmarks(TASKS, files))


@pytest.mark.parametrize("documents", [2, pytest.param(50, marks=pytest.mark.thorough)])
def test_scores_of_the_real_benchmarks(bundled: Model, shared: Callable[[str], Path], documents: int) -> None:
    data = {
        "hellaswag": shared("data/hellaswag/validation_first2000.jsonl"),
        "arc_easy": shared("data/arc_easy/validation.jsonl"),
        "lambada_openai": shared("data/lambada/test_first2500.jsonl"),
    }
    tasks = load_benchmarks(TASKS, data)
    found = evaluate(bundled, tasks, SCHEDULES, limit=documents)
    assert found.data.sizes["document"] == documents
    assert_scores_by_hand(found, bundled, tasks, documents)


def test_a_log_likelihood_is_the_sum_over_the_answers_tokens(finished: tuple[Evaluation, Path], bundled: Model) -> None:
    """Without the harness: tokens of the context and the answer, one plain forward."""
    context = "She walked to the garden because she had been told that nobody was in the"
    before, whole = (bundled.tokenizer.encode(t) for t in (context, context + " garden"))
    with torch.no_grad():
        log_p = bundled.hf(torch.tensor([whole])).logits[0].double().log_softmax(-1)
    expected = sum(float(log_p[place - 1, whole[place]]) for place in range(len(before), len(whole)))
    assert loglikelihoods(finished[0], "standard", "lambada_openai")[1] == pytest.approx([expected], rel=1e-5)


def test_the_model_is_as_before(finished: tuple[Evaluation, Path], bundled: Model) -> None:
    assert bundled.hf.model.layers[5] is bundled.anatomy.blocks[5]
    assert bundled.hf.config.num_hidden_layers == 12


def test_values_and_standard_errors_are_the_harnesss(finished: tuple[Evaluation, Path]) -> None:
    data = finished[0].data
    own = data.sel(schedule="drop:5", task="arc_easy")
    correct = own["correct"].values
    assert float(own["value"].sel(metric="acc")) == pytest.approx(correct.mean())
    assert float(own["stderr"].sel(metric="acc")) == pytest.approx(mean_stderr(list(correct)))
    lambada = data.sel(schedule="drop:5", task="lambada_openai")
    logs = list(lambada["loglikelihood"].values)
    assert float(lambada["value"].sel(metric="perplexity")) == pytest.approx(perplexity(logs))
    assert float(lambada["value"].sel(metric="loglikelihood")) == pytest.approx(np.mean(logs))
    assert math.isnan(float(lambada["value"].sel(metric="acc_norm")))


def test_a_perplexitys_standard_error_is_near_the_bootstraps(monkeypatch: pytest.MonkeyPatch) -> None:
    from bathyscope.surgery.benchmarks.harness import _stderr

    logs = list(np.random.default_rng(3).normal(-2.0, 0.5, 400))
    monkeypatch.setenv("DISABLE_MULTIPROC", "1")
    resampled = bootstrap_stderr(perplexity, logs, iters=1000)
    assert _stderr("perplexity", perplexity(logs), np.array(logs)) == pytest.approx(resampled, rel=0.1)


def test_differences_pair_documents(finished: tuple[Evaluation, Path]) -> None:
    data = finished[0].data
    gaps = data["loglikelihood"].sel(schedule="swap:3") - data["loglikelihood"].sel(schedule="standard")
    found = data.sel(schedule="swap:3", metric="loglikelihood")
    for task in TASKS:
        own = gaps.sel(task=task).values
        assert float(found["difference"].sel(task=task)) == pytest.approx(own.mean())
        assert float(found["difference_stderr"].sel(task=task)) == pytest.approx(own.std(ddof=1) / math.sqrt(5))
    assert (data["difference"].sel(schedule="standard", metric="acc") == 0).all()


def test_labels(finished: tuple[Evaluation, Path]) -> None:
    data = finished[0].data
    assert list(data["schedule"].values) == ["standard", *SCHEDULES]
    assert list(data["kind"].values) == ["standard", "drop", "swap", "repeat"]
    assert list(data["block"].values) == [-1, 5, 3, 4]
    assert list(data["length"].values) == [0, 1, 2, 3]
    frame = finished[0].to_dataframe()
    assert list(frame.columns[:6]) == ["schedule", "kind", "block", "length", "task", "metric"]
    assert len(frame) == 4 * 9
    assert repr(finished[0]).endswith(": 4 schedules, 3 tasks>")
    one = replace(finished[0], data=data.isel(schedule=[0], task=[0]))
    assert repr(one).endswith(": 1 schedule, 1 task>")


def test_the_folder_holds_it_all(finished: tuple[Evaluation, Path]) -> None:
    found, out = finished
    assert len(list(out.glob("results/*/*.json"))) == 4 * 3
    again = open_evaluation(out).data
    for name in ("value", "stderr", "difference", "correct", "loglikelihood"):
        xr.testing.assert_equal(*xr.align(again[name], found.data[name], join="inner"))
        assert again[name].sizes == found.data[name].sizes
    stored = xr.open_dataset(out / "evaluation.nc", group="evaluation", engine="h5netcdf")
    assert stored.attrs["precision"] == "float32"
    xr.testing.assert_equal(stored["value"], again["value"])
    assert len((out / "evaluation.csv").read_text(encoding="utf-8").splitlines()) == 1 + 4 * 9


def test_a_result_that_was_removed_is_missed(finished: tuple[Evaluation, Path], tmp_path: Path) -> None:
    out = tmp_path / "copy"
    shutil.copytree(finished[1], out)
    file = next((out / "results" / "standard").glob("*.json"))
    file.unlink()
    with pytest.raises(StoreError, match=rf"standard/{file.name}' of the evaluation cannot be read \(No such file"):
        open_evaluation(out)


def test_an_interrupted_evaluation_goes_on(
    bundled: Model, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted in the last of four tasks, of one forward each: three results are kept and not computed again."""
    stop_at, calls = 4, []
    model_call = LoadedLM._model_call

    def counted(self: LoadedLM, inps: torch.Tensor, *given: Any) -> torch.Tensor:
        calls.append(len(inps))
        if len(calls) == stop_at:
            raise KeyboardInterrupt
        return model_call(self, inps, *given)

    monkeypatch.setattr(LoadedLM, "_model_call", counted)
    data = files_of(files, "arc_easy", "lambada_openai")
    with pytest.raises(KeyboardInterrupt):
        evaluate(bundled, list(data), ["drop:5"], data, batch_size=20, out=tmp_path)
    assert bundled.hf.model.layers[0] is bundled.anatomy.blocks[0]
    kept = {path: path.read_bytes() for path in tmp_path.glob("results/*/*.json")}
    assert sorted("/".join(path.parts[-2:]) for path in kept) == [
        "drop-5/arc_easy.json",
        "standard/arc_easy.json",
        "standard/lambada_openai.json",
    ]
    assert open_evaluation(tmp_path).data["value"].sel(schedule="drop:5", task="lambada_openai").isnull().all()
    found = evaluate(bundled, list(data), ["drop:5"], data, batch_size=20, out=tmp_path)
    assert calls == [15, 5, 15, 5, 5]  # 17 answers, three of which differ from another in their last token alone
    assert all(path.read_bytes() == content for path, content in kept.items())
    whole = evaluate(bundled, list(data), ["drop:5"], data, batch_size=20)
    xr.testing.assert_identical(found.data, whole.data)


def test_settings_may_not_change_but_more_may_be_added(bundled: Model, files: dict[str, Path], tmp_path: Path) -> None:
    arc = {"arc_easy": files["arc_easy"]}
    evaluate(bundled, ["arc_easy"], ["drop:5"], arc, limit=2, out=tmp_path)
    first = (tmp_path / "results" / "drop-5" / "arc_easy.json").stat().st_mtime_ns
    more = evaluate(bundled, TASKS[1:], ["swap:3"], files_of(files, *TASKS[1:]), limit=2, out=tmp_path)
    assert list(more.data["schedule"].values) == ["standard", "swap:3"]
    everything = open_evaluation(tmp_path)
    assert list(everything.data["schedule"].values) == ["standard", "drop:5", "swap:3"]
    assert (tmp_path / "results" / "drop-5" / "arc_easy.json").stat().st_mtime_ns == first
    with pytest.raises(StoreError, match="another configuration:\\n  limit: evaluation has 2, asked for 3\\n"):
        evaluate(bundled, ["arc_easy"], ["drop:5"], arc, limit=3, out=tmp_path)
    with pytest.raises(StoreError, match="arguments: evaluation has 'block', asked for 'slot'"):
        evaluate(bundled, ["arc_easy"], ["drop:5"], arc, limit=2, arguments="slot", out=tmp_path)
    other = tmp_path / "other.jsonl"
    rows = files["arc_easy"].read_text(encoding="utf-8").replace("rain", "hail")
    other.write_text(rows, encoding="utf-8")
    with pytest.raises(StoreError, match=r"arc_easy.requests: evaluation has"):
        evaluate(bundled, ["arc_easy"], ["drop:5"], {"arc_easy": other}, limit=2, out=tmp_path)


def test_a_limit_above_the_number_of_documents_says_how_many_there_are(bundled: Model, files: dict[str, Path]) -> None:
    count = len(files["arc_easy"].read_text(encoding="utf-8").splitlines())
    arc = {"arc_easy": files["arc_easy"]}
    with pytest.warns(UserWarning, match=rf"^limit=99 \(--limit\) is more than the {count} documents of arc_easy: all"):
        evaluate(bundled, ["arc_easy"], [], arc, limit=99)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        evaluate(bundled, ["arc_easy"], [], arc, limit=count)
    assert not [one for one in caught if "limit=" in str(one.message)]


def test_results_of_other_right_answers_metrics_or_tokens_are_not_taken_over(
    bundled: Model, files: dict[str, Path], own_task: Path, tmp_path: Path
) -> None:
    out, other = tmp_path / "out", tmp_path / "other.jsonl"
    evaluate(bundled, ["arc_easy", str(own_task)], [], {"arc_easy": files["arc_easy"]}, limit=2, out=out)
    rows = [json.loads(line) for line in files["arc_easy"].read_text(encoding="utf-8").splitlines()]
    other.write_text("".join(json.dumps({**row, "answerKey": "A"}) + "\n" for row in rows), encoding="utf-8")
    with pytest.raises(StoreError, match=r"configuration:\n  arc_easy.documents: evaluation has"):
        evaluate(bundled, ["arc_easy"], [], {"arc_easy": other}, limit=2, out=out)
    evaluate(bundled, [str(own_task)], [], limit=2, out=out)
    own_task.write_text(own_task.read_text(encoding="utf-8").replace("[a-z]+$", "[a-z]+"), encoding="utf-8")
    with pytest.raises(StoreError, match=r"configuration:\n  counting.scoring: evaluation has"):
        evaluate(bundled, [str(own_task)], [], limit=2, out=out)
    tokenizer = copy.deepcopy(bundled.tokenizer)
    tokenizer.add_tokens(["rain"])
    with pytest.raises(StoreError, match=r"configuration:\n  arc_easy.tokens: evaluation has"):
        evaluate(
            replace(bundled, given_tokenizer=tokenizer),
            ["arc_easy"],
            [],
            {"arc_easy": files["arc_easy"]},
            limit=2,
            out=out,
        )


def test_results_of_other_targets_are_not_taken_over(bundled: Model, own_task: Path, tmp_path: Path) -> None:
    """The rows and the requests are the same; what the task takes for the right answer of a row is not."""
    evaluate(bundled, [str(own_task)], [], limit=2, out=tmp_path / "out")
    text = own_task.read_text(encoding="utf-8")
    own_task.write_text(text.replace("{{answer}}", " dog{{answer[:0]}}"), encoding="utf-8")
    with pytest.raises(StoreError, match=r"configuration:\n  counting.answers: evaluation has"):
        evaluate(bundled, [str(own_task)], ["drop:5"], limit=2, out=tmp_path / "out")


@pytest.mark.parametrize(("name", "value"), [("eos_token_id", [0, 5]), ("repetition_penalty", 1.5)])
def test_answers_written_by_other_settings_are_not_taken_over(
    bundled: Model,
    own_task: Path,
    files: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    value: object,
) -> None:
    """What ends an answer, and what is penalised in it, is no part of the configuration or the weights."""
    tasks, arc = [str(own_task), "arc_easy"], {"arc_easy": files["arc_easy"]}
    evaluate(bundled, tasks, [], arc, limit=1, out=tmp_path / "out")
    monkeypatch.setattr(bundled.hf.generation_config, "temperature", 0.3)
    evaluate(bundled, tasks, [], arc, limit=1, out=tmp_path / "out")
    monkeypatch.setattr(bundled.hf.generation_config, name, value)
    # answers that are given depend on none of them
    evaluate(bundled, ["arc_easy"], [], arc, limit=1, out=tmp_path / "out")
    with pytest.raises(StoreError, match=r"configuration:\n  counting.writing: evaluation has"):
        evaluate(bundled, tasks, ["drop:5"], arc, limit=1, out=tmp_path / "out")


def test_documents_that_repeat_others_are_told(bundled: Model, files: dict[str, Path], tmp_path: Path) -> None:
    rows = files["arc_easy"].read_text(encoding="utf-8").splitlines(keepends=True)
    repeating = tmp_path / "rows.jsonl"
    repeating.write_text("".join([*rows, *rows[:2]]), encoding="utf-8")
    with pytest.warns(UserWarning, match=r"arc_easy: 2 of 7 documents repeat another one's requests\. .* too small"):
        require_answerable(bundled, ["arc_easy"], {"arc_easy": repeating}, None, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        require_answerable(bundled, ["arc_easy"], {"arc_easy": files["arc_easy"]}, None, 8)


def files_of(files: dict[str, Path], *names: str) -> dict[str, Path]:
    return {name: files[name] for name in names}


def test_damaged_and_foreign_folders(bundled: Model, files: dict[str, Path], tmp_path: Path) -> None:
    arc = {"arc_easy": files["arc_easy"]}
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(StoreError, match=r"is no evaluation but not empty either \(it holds thesis.txt\)"):
        evaluate(bundled, ["arc_easy"], ["drop:5"], arc, out=tmp_path / "foreign")
    with pytest.raises(StoreError, match=r"There is no evaluation in .*Give the folder that bathyscope evaluate wrote"):
        open_evaluation(tmp_path / "foreign")
    out = tmp_path / "own"
    evaluate(bundled, ["arc_easy"], ["drop:5"], arc, limit=1, out=out)
    damaged = out / "results" / "drop-5" / "arc_easy.json"
    damaged.write_text(damaged.read_text(encoding="utf-8")[:-9], encoding="utf-8")
    with pytest.raises(
        StoreError,
        match=r"json' is not the file that was written.*delete this one file and run the command that wrote the eval",
    ):
        evaluate(bundled, ["arc_easy"], ["drop:5"], arc, limit=1, out=out)
    damaged.unlink()
    evaluate(bundled, ["arc_easy"], ["drop:5"], arc, limit=1, out=out)
    assert json.loads(damaged.read_text(encoding="utf-8"))["schedule"] == "drop:5"


def test_predictions_that_are_no_numbers_are_no_result(
    bundled: Model, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_call = LoadedLM._model_call
    monkeypatch.setattr(LoadedLM, "_model_call", lambda *given: model_call(*given) * torch.nan)
    with pytest.raises(
        ModelError, match=r"arc_easy under the schedule standard: the model gives NaN or Inf .*dtype='float32'"
    ):
        evaluate(bundled, ["arc_easy"], ["drop:5"], {"arc_easy": files["arc_easy"]}, limit=1, out=tmp_path)
    assert not list(tmp_path.glob("results/*/*.json"))


def test_what_is_asked_wrongly_is_refused_before_any_forward(
    bundled: Model, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LoadedLM, "_model_call", lambda *_: pytest.fail("the model ran"))
    arc = {"arc_easy": files["arc_easy"]}
    given: Any = {"data": arc, "out": tmp_path / "out"}
    with pytest.raises(OptionError, match=r"arguments='blok' is unknown\. Did you mean 'block'"):
        evaluate(bundled, ["arc_easy"], ["drop:5"], arguments="blok", **given)
    with pytest.raises(OptionError, match="arguments='slot' needs no more slots than the model has blocks"):
        evaluate(bundled, ["arc_easy"], ["drop", "repeat:5"], arguments="slot", **given)
    assert not (tmp_path / "out").exists()
    with pytest.raises(OptionError, match="limit=0 is out of range; allowed: 1 or more"):
        evaluate(bundled, ["arc_easy"], data=arc, limit=0)
    with pytest.raises(OptionError, match=r"^data=5 is no dict; give one of tasks and files:"):
        load_benchmarks(["arc_easy"], 5)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"^data\['arc_easy'\]=5 is no path; give it as text"):
        evaluate(bundled, ["arc_easy"], data={"arc_easy": 5})  # type: ignore[dict-item]
    with pytest.raises(OptionError, match="batch_size=-1 is out of range"):
        evaluate(bundled, ["arc_easy"], data=arc, batch_size=-1)
    with pytest.raises(OptionError, match="Unknown schedule 'dorp'"):
        evaluate(bundled, ["arc_easy"], ["dorp"], arc)
    tokenizer = copy.deepcopy(bundled.tokenizer)
    tokenizer.bos_token = tokenizer.eos_token = None
    with pytest.raises(PromptError, match="neither a beginning-of-text nor an end-of-text token"):
        evaluate(replace(bundled, given_tokenizer=tokenizer), ["arc_easy"], ["drop:5"], arc)


def test_written_answers_are_those_of_generate_under_the_schedule(
    bundled: Model, own_task: Path, tmp_path: Path
) -> None:
    """Document after document, cut at the first stop; read twice, with a difference that pairs documents."""
    rows = [json.loads(line) for line in own_task.with_name("counting.jsonl").read_text(encoding="utf-8").splitlines()]
    found = evaluate(bundled, [str(own_task)], ["drop:5", "repeat:4+3"], out=tmp_path / "out")
    for score in found.scores:
        with scheduled(bundled, score["schedule"]) as hf:
            for row, document in zip(rows, score["documents"]):
                ids = torch.tensor([bundled.tokenizer.encode(row["text"])])
                tokens = hf.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, do_sample=False)[0]
                text = bundled.tokenizer.decode(tokens[ids.shape[1] :], skip_special_tokens=True)
                assert document["answer"] == text.split(".")[0].split("\n")[0]
    assert list(found.data["metric"].values) == ["exact_match,second word", "exact_match,whole"]
    by_name = {score["schedule"]: score for score in found.scores}
    assert {d["answer"] for d in by_name["drop:5"]["documents"]} != {
        d["answer"] for d in by_name["standard"]["documents"]
    }
    for name in ("exact_match,whole", "exact_match,second word"):
        own, normal = ([d[name] for d in by_name[schedule]["documents"]] for schedule in ("drop:5", "standard"))
        picked = found.data.sel(schedule="drop:5", task="counting", metric=name)
        assert float(picked["value"]) == np.mean(own)
        assert float(picked["difference"]) == pytest.approx(np.mean(own) - np.mean(normal))
    correct = found.data["correct"].sel(schedule="drop:5", task="counting").values
    assert list(correct) == [d["exact_match,whole"] for d in by_name["drop:5"]["documents"]]
    again = open_evaluation(tmp_path / "out")
    xr.testing.assert_equal(again.data["value"], found.data["value"])


@pytest.mark.parametrize("schedule", ["drop:4,5", "swap:3", "repeat:2+2", "parallel:3+4"])
@pytest.mark.parametrize(
    ("shares", "advice"),
    [
        (
            [0.03, 1.0],
            "the normal model's 3%: this order of blocks ends answers later, or never; a larger max_gen_toks",
        ),
        ([0.5, 1.0], "set a larger max_gen_toks"),
        ([0.5, 0.2], "set a larger max_gen_toks"),
    ],
)
def test_more_tokens_are_advised_where_they_would_help(shares: list[float], advice: str, schedule: str) -> None:
    """A model that lost the blocks which end an answer goes on for ever, and in another order none may be missing."""
    data = xr.Dataset(
        {"cut_off": (("schedule", "task"), [[share] for share in shares])},
        {"schedule": ["standard", schedule], "task": ["mine"]},
    )
    (sentence,) = tell_cut_answers(data)
    assert advice in sentence
    assert "missing" not in sentence
    assert sentence.startswith(f"mine: the limit of tokens ended {max(shares):.0%} of answers")


def test_shares_of_cut_answers_stand_next_to_scores(
    bundled: Model, files: dict[str, Path], own_task: Path, tmp_path: Path
) -> None:
    """As plain generation has it: neither a stop nor an end among as many tokens as there may be."""
    rows = [json.loads(line) for line in own_task.with_name("counting.jsonl").read_text(encoding="utf-8").splitlines()]
    tasks = [str(own_task), "arc_easy"]
    with pytest.warns(UserWarning, match=r"counting: the limit of tokens ended \d+% of answers .*max_gen_toks"):
        found = evaluate(bundled, tasks, ["drop:5"], {"arc_easy": files["arc_easy"]}, out=tmp_path / "out")
    assert found.data["cut_off"].sel(task="arc_easy").isnull().all()
    for score in found.scores:
        if score["task"] == "arc_easy":
            assert "cut_off" not in score["documents"][0]
            continue
        expected = []
        with scheduled(bundled, score["schedule"]) as hf:
            for row in rows:
                ids = torch.tensor([bundled.tokenizer.encode(row["text"])])
                tokens = hf.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, do_sample=False)[0]
                text = bundled.tokenizer.decode(tokens[ids.shape[1] :])
                ended = bundled.tokenizer.eos_token_id in tokens[ids.shape[1] :]
                expected.append(not ended and "." not in text and "\n" not in text)
        assert [document["cut_off"] for document in score["documents"]] == expected
        assert float(found.data["cut_off"].sel(schedule=score["schedule"], task="counting")) == np.mean(expected)
        assert any(expected)
    counting, arc = found.tables()
    assert (counting.headings[-1], "cut off" in arc.headings) == ("cut off", False)
    assert found.text.count("the limit of tokens ended") == 1
    assert found.text.count(". ") == 1
    again = open_evaluation(tmp_path / "out").data["cut_off"]
    xr.testing.assert_equal(again.sortby("task"), found.data["cut_off"].sortby("task"))


def test_answers_that_end_are_no_reason_to_warn(bundled: Model, own_task: Path) -> None:
    content = own_task.read_text(encoding="utf-8")
    own_task.write_text(content.replace('until: ["."', 'until: [" ", "e", "."'), encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = evaluate(bundled, [str(own_task)], ["drop:5"])
    assert found.data["cut_off"].values.tolist() == [[0], [0]]
    assert "limit of tokens" not in found.text


def test_a_task_without_a_limit_has_room_for_twice_its_longest_answer(
    bundled: Model, own_task: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The harness would cut all answers at 256 tokens; those of a task that says how many stay at that."""
    content = own_task.read_text(encoding="utf-8")
    documents = own_task.with_name("counting.jsonl")
    longest = " and the old man went to the sea" * 20
    rows = [{"text": "A boy", "answer": " and"}, {"text": "The", "answer": longest}]
    documents.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    tokens = len(bundled.tokenizer.encode(longest, add_special_tokens=False))
    assert 128 < tokens < bundled.max_tokens / 2 - 10
    limits = []
    for task in (content, content.replace("  max_gen_toks: 6\n", "")):
        own_task.write_text(task, encoding="utf-8")
        (benchmark,) = require_answerable(bundled, [str(own_task)], None, None, 8)
        limits.append({instance.args[1]["max_gen_toks"] for instance in benchmark.task.instances})
    assert limits == [{6}, {2 * tokens}]
    # the harness makes its requests again, and asks for as much
    asked: list[int] = []
    monkeypatch.setattr(Writer, "write", lambda _, questions: [asked.append(q.most) or refused for q in questions])
    refused = WrittenAnswer("", is_cut_off=False)
    evaluate(bundled, [str(own_task)], ["standard"])
    assert asked == [2 * tokens] * 2
    documents.write_text(json.dumps({"text": "A boy", "answer": " and"}) + "\n", encoding="utf-8")
    (benchmark,) = require_answerable(bundled, [str(own_task)], None, None, 8)
    assert benchmark.task.instances[0].args[1]["max_gen_toks"] == 256
    documents.write_text(json.dumps({"text": "A boy", "answer": longest * 4}) + "\n", encoding="utf-8")
    (benchmark,) = require_answerable(bundled, [str(own_task)], None, None, 8)
    room = bundled.max_tokens - len(bundled.tokenizer.encode("A boy"))
    assert benchmark.task.instances[0].args[1]["max_gen_toks"] == room


def test_questions_stand_in_the_chat_template_as_the_harness_puts_them(
    bundled: Model, files: dict[str, Path], tmp_path: Path
) -> None:
    """Equal to what the harness scores of the same model with its own apply_chat_template."""
    data = {"arc_easy": files["arc_easy"]}
    with pytest.raises(PromptError, match="has no chat template, and chat=True puts questions in it"):
        evaluate(bundled, ["arc_easy"], ["drop:5"], data, chat=True)
    tokenizer = copy.deepcopy(bundled.tokenizer)
    tokenizer.chat_template = (
        "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    model = replace(bundled, given_tokenizer=tokenizer)
    found = evaluate(model, ["arc_easy"], ["standard"], data, chat=True, out=tmp_path / "out")
    tasks = load_benchmarks(["arc_easy"], data)
    lm = HFLM(pretrained=model.hf, tokenizer=tokenizer, backend="causal", batch_size=8)
    task_dict = {"tasks": {"arc_easy": tasks[0].task}}
    theirs: Any = harness_evaluate(lm=lm, task_dict=task_dict, bootstrap_iters=0, apply_chat_template=True)
    expected = [[answer[0][0] for answer in sample["resps"]] for sample in theirs["samples"]["arc_easy"]]
    assert "[user] Question: Where does rain come from?" in str(theirs["samples"]["arc_easy"][0]["arguments"])
    got = loglikelihoods(found, "standard", "arc_easy")
    plain = loglikelihoods(evaluate(model, ["arc_easy"], ["standard"], data), "standard", "arc_easy")
    for own, wanted, untouched in zip(got, expected, plain):
        assert own == pytest.approx(wanted, rel=1e-6)
        assert own != pytest.approx(untouched, rel=1e-3)
    with pytest.raises(StoreError, match="chat"):
        evaluate(model, ["arc_easy"], ["standard"], data, out=tmp_path / "out")


def test_written_and_scored_answers_stand_side_by_side_and_are_resumed(
    bundled: Model, files: dict[str, Path], own_task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = ["arc_easy", str(own_task)]
    found = evaluate(bundled, tasks, ["drop:5"], {"arc_easy": files["arc_easy"]}, limit=2, out=tmp_path / "out")
    assert list(found.data["task"].values) == ["arc_easy", "counting"]
    assert np.isnan(found.data["value"].sel(task="counting", metric="acc")).all()
    monkeypatch.setattr(LoadedLM, "generate_until", lambda *_: pytest.fail("computed again"))
    again = evaluate(bundled, tasks, ["drop:5"], {"arc_easy": files["arc_easy"]}, limit=2, out=tmp_path / "out")
    xr.testing.assert_identical(again.data, found.data)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("do_sample: true\n  temperature: 0.7", "counting draws its answers at random .* set do_sample: false"),
        ("temperature: 0.7", "counting draws its answers at random"),
        (
            "do_sample: false\n  num_beams: 3",
            "counting asks for 'num_beams' in its generation_kwargs; allowed are until",
        ),
        ("do_sample: false\n  max_gen_toks: 5000", "counting lets an answer have 5000 tokens; allowed: 1 to "),
        ("do_sample: false\n  max_gen_toks: 0", "counting lets an answer have 0 tokens; allowed: 1"),
    ],
)
def test_what_is_not_greedy_or_has_no_room_is_refused_before_any_forward(
    given: str, said: str, bundled: Model, own_task: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LoadedLM, "generate_until", lambda *_: pytest.fail("the model ran"))
    content = own_task.read_text(encoding="utf-8").replace("  max_gen_toks: 6\n", "")
    own_task.write_text(content.replace("do_sample: false", given), encoding="utf-8")
    with pytest.raises(OptionError, match=said):
        evaluate(bundled, [str(own_task)], ["drop:5"])


def test_contexts_that_leave_no_room_lose_their_beginning(bundled: Model, own_task: Path) -> None:
    window = bundled.max_tokens
    assert window is not None
    start = "The old man and the sea and the boy. " * 60
    row = {"text": start[:-1], "answer": "-"}
    own_task.with_name("counting.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    with pytest.warns(UserWarning, match="1 of 1 contexts have lost their beginning, to leave room for answers"):
        found = evaluate(bundled, [str(own_task)], ["standard"])
    ids = torch.tensor([bundled.tokenizer.encode(row["text"])[-(window - 6) :]])
    tokens = bundled.hf.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, do_sample=False)[0]
    text = bundled.tokenizer.decode(tokens[window - 6 :], skip_special_tokens=True)
    assert found.scores[0]["documents"][0]["answer"] == text.split(".")[0].split("\n")[0]
