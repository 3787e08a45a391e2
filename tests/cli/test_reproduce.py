"""``bathyscope reproduce`` on stand-ins for checkpoints and data sets."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from support import stand_ins

import bathyscope
from bathyscope.cli import main
from bathyscope.core.interrupts import INTERRUPTED
from bathyscope.errors import ModelError, PromptError
from bathyscope.pages.papers import cells, verbs
from bathyscope.pages.papers.rows import pair_rows
from bathyscope.runs.opening import open_run
from bathyscope.surveying import asking, cutting
from bathyscope.surveying.rates import Rates
from bathyscope.wavefront.engine import Wavefront

DATA_SETS = ("hellaswag", "gsm8k", "aime2024")
LISTED = ("Qwen2.5-1.5B-Instruct", "Qwen2.5-Math-1.5B")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three checkpoints and two data sets."""
    home = tmp_path_factory.mktemp("reproduce")
    for seed, name in enumerate(("first", "second", "third")):
        stand_ins.checkpoint(home / name, seed=seed)
    stand_ins.data(home / "data")
    return home


def asked(home: Path, models: Sequence[str], *more: str) -> list[str]:
    arguments = ["reproduce", "hu2025-table1", "--models", *models, "--data", str(home / "data"), "--prompts", "3"]
    return [*arguments, "--out", str(home / "out"), "--quiet", *more]


def found(arguments: list[str], code: int) -> dict[str, Any]:
    """What is printed as JSON, with the exit code that the first missing survey gives."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        assert main([*arguments, "--format", "json"]) == code
    document: dict[str, Any] = json.loads(printed.getvalue())
    return document


@pytest.fixture(scope="module")
def table(home: Path) -> dict[str, Any]:
    """Both tables of two stand-ins for published models, one other folder, and one that is not there."""
    models = [f"{LISTED[0]}={home / 'first'},{LISTED[1]}={home / 'second'}", str(home / "third"), str(home / "no")]
    one = found(asked(home, models), PromptError.exit_code)
    sizes = ["reproduce", "hu2025-table2", "--models", *models, "--quiet"]
    return {**one, "table2": found(sizes, 0)["table2"]}


def test_the_table_holds_what_was_measured_beside_what_was_published(home: Path, table: dict[str, Any]) -> None:
    rows = table["table1"]
    assert len(rows) == 4 * 3 * 3
    published = {(row["model"], row["quantity"], row["data"]): row["published"] for row in rows}
    assert published[LISTED[0], "cosine", "gsm8k"] == 20
    assert published[LISTED[1], "kl", "aime2024"] == 23
    assert published["third", "kl", "gsm8k"] is None
    measured = {(model, data) for model in (*LISTED, "third") for data in DATA_SETS[:2]}
    runs = {(model, data): open_run(home / "out" / "hu2025" / model / data) for model, data in measured}
    assert {run.manifest["identity"]["preset"] for run in runs.values()} == {"hu2025"}
    for row in rows:
        if (row["model"], row["data"]) not in measured:
            assert (row["measured"], row["blocks"], row["agrees"]) == (None, None, None)
            assert row["reason"]
            continue
        depth = float(runs[row["model"], row["data"]]["effective_depth"]["index"].sel(estimator=row["quantity"]))
        assert row["measured"] == (None if depth != depth else depth)
        assert row["blocks"] == 5
        assert row["agrees"] == (None if row["published"] is None else row["measured"] == row["published"])


def test_what_is_missing_is_listed_with_its_reason(home: Path, table: dict[str, Any]) -> None:
    data, model = table["missing"]
    assert (data["models"], data["data"]) == ([*LISTED, "third"], ["aime2024"])
    assert "Maxwell-Jia/AIME_2024" in data["reason"]
    assert (model["models"], model["data"]) == (["no"], list(DATA_SETS))
    assert model["reason"].startswith(f"There is no folder {home / 'no'}")


def test_table_2_says_what_the_checkpoints_are(table: dict[str, Any]) -> None:
    rows = [(row["quantity"], row["measured"], row["published"]) for row in table["table2"]]
    assert rows[:3] == [("blocks", 5, 28), ("query_heads", 4, 12), ("key_heads", 2, 2)]
    assert rows[-3:] == [(name, None, None) for name in ("blocks", "query_heads", "key_heads")]
    assert len(rows) == 4 * 3


@pytest.fixture
def unloaded(table: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of ``table`` are there, and no model is loaded for what is not."""

    def refuse(source: str, **given: Any) -> None:
        raise ModelError("nothing is loaded here")

    monkeypatch.setattr(cells, "load", refuse)


@pytest.mark.usefixtures("unloaded")
def test_finished_runs_are_only_read(home: Path, table: dict[str, Any]) -> None:
    after = found(asked(home, [f"{LISTED[0]}={home / 'first'}"]), ModelError.exit_code)
    own = [row for row in table["table1"] if row["model"] == LISTED[0] and row["data"] != "aime2024"]
    assert [row for row in after["table1"] if row["data"] != "aime2024"] == own
    assert after["missing"] == [{"models": [LISTED[0]], "data": ["aime2024"], "reason": "nothing is loaded here"}]


@pytest.mark.usefixtures("unloaded")
def test_the_python_call_gives_the_same_rows(home: Path, table: dict[str, Any]) -> None:
    models = [f"{LISTED[0]}={home / 'first'}"]
    again = bathyscope.reproduce(
        "hu2025-table1", models, data=[str(home / "data")], prompts=3, out=home / "out", progress=False
    )
    own = [row for row in table["table1"] if row["model"] == LISTED[0] and row["data"] != "aime2024"]
    assert [row for row in pair_rows(again.entries["1"]) if row["data"] != "aime2024"] == own


@pytest.mark.usefixtures("unloaded")
def test_the_printed_table(home: Path, table: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    rows = {(row["model"], row["quantity"], row["data"]): row for row in table["table1"]}
    assert main(asked(home, [f"{LISTED[0]}={home / 'first'}"])) == ModelError.exit_code
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert lines[0].startswith("0 of 6 results are as published")
    assert lines[1].split() == ["Model", "HellaSwag", "GSM8K", "AIME24"]
    first = lines.index(next(line for line in lines if line.startswith(f"{LISTED[0]}, L=5")))
    for offset, estimator in enumerate(("cosine", "kl", "overlap"), start=1):
        shown = []
        for data in DATA_SETS[:2]:
            row = rows[LISTED[0], estimator, data]
            measured = "none" if row["measured"] is None else str(row["measured"])
            interval = "" if row["measured"] is None else f" ({row['ci_low']:.0f} to {row['ci_high']:.0f})"
            shown.append(f"{measured}{interval} ≠ {row['published']}")
        shown.append(f"– · {rows[LISTED[0], estimator, 'aime2024']['published']}")
        assert lines[first + offset].split() == [estimator, *" ".join(shown).split()]
    assert max(map(len, lines[1 : first + 4])) <= 80
    assert "0 of 6 results are as published" in printed
    assert "weights in 8 bits" in printed
    assert f"Not measured: {LISTED[0]} on aime2024. nothing is loaded here" in printed


@pytest.mark.usefixtures("unloaded")
def test_csv_holds_the_numbers_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(asked(home, [f"{LISTED[0]}={home / 'first'}"], "--format", "csv")) == ModelError.exit_code
    printed, said = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert len(rows) == 9
    assert (rows[1]["model"], rows[1]["data"], rows[1]["published"]) == (LISTED[0], "gsm8k", "20")
    assert rows[2]["measured"] == ""
    assert said == f"Not measured: {LISTED[0]} on aime2024. nothing is loaded here\n"


def test_an_interrupted_reproduction_goes_on(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    survey, begun = verbs.survey, []

    def interrupted(model: Any, prompts: Any, *rest: Any, **given: Any) -> Any:
        begun.append(prompts)
        if len(begun) == 2:
            raise KeyboardInterrupt
        return survey(model, prompts, *rest, **given)

    monkeypatch.setattr(verbs, "survey", interrupted)
    arguments = ["reproduce", "hu2025-table1", "--models", str(home / "third"), "--data", str(home / "data")]
    arguments += ["--prompts", "2", "--out", str(home / "stopped"), "--quiet"]
    assert main(arguments) == INTERRUPTED
    said = capsys.readouterr().err
    assert (
        f"Interrupted: 1 of 3 runs are finished and saved in {home / 'stopped'}. To resume: bathyscope reproduce"
        in said
    )
    assert main(arguments) == PromptError.exit_code
    assert [prompts.name for prompts in begun] == ["hellaswag", "gsm8k", "gsm8k", "aime2024"]


def test_an_interrupted_run_of_few_prompts_keeps_its_shards(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three prompts two are finished when it is stopped, as on a machine that takes minutes for each."""
    monkeypatch.setattr(cutting, "_STRETCH_FLOPS", {False: 1.0, True: 1.0})
    monkeypatch.setattr(cutting, "SHARD_SECONDS", 1e-9)
    monkeypatch.setattr(asking, "measure_rates", lambda *_: Rates(matrix=1e9, compared=1e9, device="cpu"))
    run, calls = Wavefront.run_convoy, []

    def interrupted(wave: Wavefront, convoy: Any, *more: Any) -> None:
        calls.append(convoy)
        if len(calls) == 3:
            raise KeyboardInterrupt
        run(wave, convoy, *more)

    monkeypatch.setattr(Wavefront, "run_convoy", interrupted)
    arguments = ["reproduce", "hu2025-table1", "--models", str(home / "third"), "--data", str(home / "data")]
    arguments += ["--prompts", "3", "--out", str(home / "shards"), "--quiet"]
    assert main(arguments) == INTERRUPTED
    words = f"Interrupted: 0 of 3 runs are finished, with 2 of 3 shards of the next, and saved in {home / 'shards'}."
    assert words in capsys.readouterr().err
    main(arguments)
    assert len(calls) == 3 + 1 + 3, "the third prompt of the first data set, and those of the second"


def test_figures_of_a_paper(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = home / "figures"
    arguments = ["reproduce", "csordas2025", "--figures", "4,3a", "--models", str(home / "first"), "--quiet"]
    arguments += ["--data", str(home / "data"), "--prompts", "2", "--out", str(out), "--formats", "svg"]
    assert main([*arguments, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    pictures = out / "figures" / "csordas2025"
    assert [(row["figure"], row["file"], row["models"], row["data"]) for row in found["figures"]] == [
        (number, str(pictures / f"{number}.svg"), ["first"], ["gsm8k-20"]) for number in ("3a", "4a", "4b")
    ]
    assert all(Path(row["file"]).read_bytes().startswith(b"<?xml") for row in found["figures"])
    assert found["missing"] == []
    skip = open_run(out / "csordas2025" / "first" / "gsm8k-20")["skip"]
    assert skip.effect_future.isnull().all()
    assert skip.effect_all.notnull().any()


def test_as_published_has_a_folder_of_its_own(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["reproduce", "hu2025", "--figures", "1", "--models", str(home / "first"), "--as-published", "--quiet"]
    arguments += ["--data", str(home / "data"), "--prompts", "2", "--out", str(home / "published")]
    assert main([*arguments, "--format", "csv"]) == 0
    assert "figures/hu2025-as-published/1.png" in capsys.readouterr().out
    run = open_run(home / "published" / "hu2025-as-published" / "first" / "gsm8k")
    assert run.manifest["identity"]["measures"]["skip"]["axis"] == "channels"
    assert "published_cos_attn" in run["residual"]


def test_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "csordas2025", "--list", "--format", "json"]) == 0
    listed = {row["figure"]: row for row in json.loads(capsys.readouterr().out)}
    assert listed["3a"]["data"] == ["gsm8k:20"]
    assert listed["3a"]["models"] == ["meta-llama/Meta-Llama-3.1-70B"]
    assert listed["6a, 6b, 6c, 6d"]["data"] == ["2 questions with answers"]
    assert len(listed["23, 24, 25, 26"]["models"]) == 10
    assert listed["1"]["models"] == []
    assert "before and after fine-tuning" in listed["39, 40, 41"]["needs"]
    assert main(["reproduce", "csordas2025", "--list", "--format", "csv", "--figures", "9,3b"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["figure"], row["draws"]) for row in rows] == [("3b", "skip.future"), ("9, 42, 43", "erasure")]
    assert main(["reproduce", "lad2024", "--list"]) == 0
    assert "§4.3" in capsys.readouterr().out
    assert main(["reproduce", "hu2025-table1", "--list", "--format", "json"]) == 0
    tables = json.loads(capsys.readouterr().out)
    assert len(tables["table1"]) == 12 * 9
    assert {row["measured"] for row in tables["table1"]} == {None}


def test_what_a_figure_needs_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "csordas2025", "--figures", "9", "--out", str(tmp_path), "--quiet"]) == 0
    assert "Not drawn: Figure 9, 42, 43 needs a Transformer and a MoEUT trained alike" in capsys.readouterr().out
    assert main(["reproduce", "csordas2025", "--figures", "1", "--out", str(tmp_path), "--quiet"]) == 3
    assert "Give a table with --data scores=FILE.csv" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["hu2025-table3"], 2, "'hu2025-table3' cannot be reproduced. Did you mean 'hu2025-table"),
        (["csordas2025", "--figures", "52"], 2, "csordas2025 has no figure 52 here; it has 1, 2a, 2b,"),
        (["csordas2025", "--figures", "two"], 2, "csordas2025 has no figure two here; it has 1, 2a, 2b,"),
        (
            ["hu2025-table1", "--figures", "2"],
            2,
            "--figures needs a paper, not a table; give hu2025 --figures 2.",
        ),
        (["hu2025", "--prompts", "0"], 2, "--prompts 0 is out of range; give a whole number, 1 or more."),
        (["hu2025", "--formats", "gif"], 2, "gif"),
        (
            ["hu2025", "--list", "--models", "mine=./mine"],
            2,
            "--list lists tables and figures for all models of the paper",
        ),
        (["hu2025", "--data", "nowhere"], 3, "--data 'nowhere' is not a folder. Give a folder, or NAME=FILE"),
    ],
)
def test_errors(arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", *arguments]) == code
    assert message in capsys.readouterr().err


def test_a_folder_without_a_model_is_refused_before_the_others_are_measured(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts").mkdir()
    models = [f"{LISTED[0]}={home / 'first'}", f"{LISTED[1]}={tmp_path / 'texts'}"]
    arguments = ["reproduce", "hu2025-table1", "--models", *models, "--data", str(home / "data"), "--prompts", "3"]
    assert main([*arguments, "--out", str(tmp_path / "out"), "--quiet"]) == ModelError.exit_code
    assert f"{tmp_path / 'texts'} is a folder without a config.json; give" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
