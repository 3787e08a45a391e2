"""The campaign on stand-ins: killed twice it measures what it does at one go, and says what is left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support import stand_ins

from bathyscope.errors import OptionError
from bathyscope.surveying.papers.reproductions import REPRODUCTIONS
from studies.campaign.command import app
from studies.campaign.page import page_of, scores_of
from studies.campaign.running import Campaign
from studies.campaign.stages import Machine, Stage, stages_of
from studies.common.program import main
from studies.real_model.claims import CLAIMS

PROGRAM = "python -m studies.campaign"
MODEL = "Qwen2.5-1.5B-Instruct"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stand-in for one model, with three data sets."""
    home = tmp_path_factory.mktemp("campaign")
    stand_ins.checkpoint(home / "first")
    stand_ins.everything(home / "data")
    return home


def arguments(home: Path, out: Path) -> list[str]:
    model = f"{MODEL}={home / 'first'}"
    return ["--out", str(out), "--models", model, "--data", str(home / "data"), "--prompts", "3", "--device", "cpu"]


def begin(home: Path, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "studies.campaign", *arguments(home, out)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for(out: Path, runs: int, process: subprocess.Popen[str]) -> None:
    """Until so many runs have stored a shard; a campaign that ends before has nothing to be killed in."""
    while len({path.parent.parent for path in out.glob("runs/**/*.nc")}) < runs and process.poll() is None:
        time.sleep(0.02)


def numbers(record: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(record.read_text(encoding="utf-8"))["numbers"]
    return found


def test_killed_twice_it_is_the_uninterrupted_campaign(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "campaign"
    first = begin(home, out)
    wait_for(out, 1, first)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    second = begin(home, out)
    wait_for(out, 2, second)
    second.send_signal(signal.SIGTERM)
    _, said = second.communicate()
    assert second.returncode in (0, 130)  # where it was quicker than the signal it is done
    assert second.returncode == 0 or "the same command goes on with what is left" in said
    assert main([*arguments(home, out), "--quiet"], app, PROGRAM) == 0
    (stage,) = stages_of([f"{MODEL}={home / 'first'}"])
    campaign = Campaign(out)
    assert campaign.is_done(stage)
    assert main([*arguments(home, tmp_path / "whole"), "--quiet"], app, PROGRAM) == 0
    record = Campaign(tmp_path / "whole").record(stage)
    assert numbers(campaign.record(stage)) == numbers(record)
    page = (out / "campaign.md").read_text(encoding="utf-8")
    assert page.startswith("# The papers' numbers, measured\n\n1 of 1 stages are done")
    count = sum(row["value"] is not None for row in numbers(record) if row["quantity"] in ("cosine", "kl", "overlap"))
    assert 0 < count <= 9
    assert f"Of the 108 cells of hu2025's Table 1, {count} are measured" in page
    assert "= first)" in page
    assert str(home) not in page
    before = (out / "campaign.jsonl").read_bytes()
    assert main([*arguments(home, out), "--quiet"], app, PROGRAM) == 0
    assert (out / "campaign.jsonl").read_bytes() == before


def test_what_fails_is_said_and_tried_again(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = [f"{MODEL}={home / 'nowhere'}", "--data", str(home / "data"), "--prompts", "3", "--device", "cpu"]
    out = tmp_path / "campaign"
    for calls in (1, 2):
        assert main(["--out", str(out), "--models", *missing], app, PROGRAM) == 1
        assert len(Campaign(out).log()) == calls
    assert "ended with code" in capsys.readouterr().err
    page = (out / "campaign.md").read_text(encoding="utf-8")
    assert page.startswith("# The papers' numbers, measured\n\n0 of 1 stages are done")
    row = next(line for line in page.splitlines() if line.startswith(f"| Qwen/{MODEL} | hu2025-table1 |"))
    assert "nowhere" in row
    assert "not run" not in row


def test_every_model_of_the_papers_has_its_stages() -> None:
    targets = {"hu2025": "hu2025-table1", "csordas2025": "csordas2025", "lad2024": "lad2024"}
    expected = {(targets[paper], model) for paper, one in REPRODUCTIONS.items() for model in one.models}
    stages = stages_of()
    assert {(stage.target, stage.model) for stage in stages} == expected
    assert len(stages) == len(expected)
    assert [stage.billions for stage in stages] == sorted(stage.billions for stage in stages)
    assert len({stage.name for stage in stages}) == len(stages)
    assert len({stage.model for stage in stages}) == len(stages)  # so that each downloads a model of its own
    sizes = REPRODUCTIONS["hu2025"].tables["2"]
    for stage in stages:
        if stage.target == "hu2025-table1":
            assert stage.blocks == sizes.published(stage.model, "blocks")
        written = re.search(r"(\d+(?:\.\d+)?)([bm])(?:-|$)", stage.model, re.IGNORECASE)
        if written is not None:
            size = float(written[1]) / (1000 if written[2].lower() == "m" else 1)
            assert stage.billions == pytest.approx(size, rel=0.25)


def test_a_model_of_no_paper_is_refused() -> None:
    with pytest.raises(OptionError, match=r"No paper has a model 'Qwen2.5-1.5B-Instuct'.*Qwen2.5-1.5B-Instruct"):
        stages_of(["Qwen2.5-1.5B-Instuct"])


def test_a_stage_above_the_budget_is_not_begun(tmp_path: Path) -> None:
    said: list[str] = []
    stages = stages_of(["gpt2", "Meta-Llama-3.1-70B"])
    Campaign(tmp_path).run(stages, Machine(), 0.0, said.append)
    assert [stage.model for stage in stages] == ["gpt2", "meta-llama/Meta-Llama-3.1-70B"]
    assert len(said) == 2
    assert all("give --budget-hours more" in text for text in said)
    assert Campaign(tmp_path).log() == []


def test_hours_are_of_downloads_and_forwards() -> None:
    stage = Stage("hu2025-table1", "m", "", billions=1.0, blocks=10)
    folder = replace(stage, place="folder")  # nothing is downloaded
    machine = Machine(petaflops=1.0, gigabytes=0.5)
    seconds = 9_000 * 2e9 / 1e15
    assert folder.hours(machine) == pytest.approx(seconds / 3600)
    assert stage.hours(machine) == pytest.approx((seconds + 4.0) / 3600)


def test_the_dry_run_lists_and_measures_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dry-run", "--out", str(tmp_path / "c"), "--budget-hours", "1"], app, PROGRAM) == 0
    printed = capsys.readouterr().out
    assert "Meta-Llama-3.1-405B" in printed
    assert "over the budget" in printed
    assert re.search(r"stages of \d+ models: about [\d.]+ h and \d+ GB of downloads\. Hours are\s+arithmetic", printed)
    assert not (tmp_path / "c").exists()


def test_a_page_without_any_number_says_that_nothing_was_run(tmp_path: Path) -> None:
    stages, campaign = stages_of(["gpt2"]), Campaign(tmp_path)
    page = page_of(campaign, stages, scores_of(campaign, stages))
    assert "0 of 1 stages are done" in page
    assert "| gpt2 | lad2024 | not run |" in page


def test_figures_are_numbered_as_the_papers_number_them() -> None:
    """By the lists of figures that ``bathyscope reproduce`` draws by."""
    for claim in CLAIMS:
        paper = REPRODUCTIONS[claim.paper]
        kind, number = claim.figure.removeprefix("after ").split(" ")
        known = any(figure.includes(number) for figure in paper.figures)
        if kind == "Table":
            known = number in paper.tables or any(figure.includes(f"table {number}") for figure in paper.figures)
        assert known, (claim.key, claim.figure)


def test_the_page_says_what_the_papers_models_read() -> None:
    """Of 28 blocks, in the table of the paper; one number of the KL criterion is an outlier."""
    table = REPRODUCTIONS["hu2025"].tables["1"]
    shares: dict[str, list[float]] = {}
    for model in (name for name in table.values if "1.5B" in name):
        for criterion in ("cosine", "kl", "overlap"):
            for data in ("hellaswag", "gsm8k", "aime2024"):
                index = table.published(model, criterion, data)
                assert index is not None
                shares.setdefault(criterion, []).append((index + 1) / 28)
    page = (Path(__file__).parents[3] / "docs" / "real_model.md").read_text(encoding="utf-8")
    lows = {name: sorted(values)[1 if name == "kl" else 0] for name, values in shares.items()}
    words = {name: f"{lows[name]:.2f} to {max(values):.2f}" for name, values in shares.items()}
    assert (
        f"(cosine {words['cosine']}, KL {words['kl']} with one of {min(shares['kl']):.2f}, overlap {words['overlap']})"
        in (" ".join(page.split()))
    )
