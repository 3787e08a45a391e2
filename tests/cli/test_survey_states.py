"""``bathyscope survey --states``: flags, messages, and what ``show`` and a page say of such a run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from support import stored, zoo
from support.packed import read

import bathyscope
from bathyscope.analysis.depths.grouping import _estimators
from bathyscope.cli.main import main
from bathyscope.errors import OptionError
from bathyscope.pages.explorer.content import content
from bathyscope.statistics.effective_depth import ESTIMATORS, measure_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, and with states of three prompts at all boundaries and at some."""
    place = tmp_path_factory.mktemp("served")
    hf = zoo.build("llama")
    hf.save_pretrained(place / "model")
    ids = zoo.prompts(hf, (14, 9, 21))
    stored.write_states(place / "dump", hf, ids)
    stored.write_states(place / "some", hf, ids, [0, 2, 5], record=False)
    stored.write_states(place / "early", hf, ids, [0, 2, 4])
    return place


def arguments(folder: Path, *flags: str, dump: str = "dump") -> list[str]:
    return ["survey", "--states", str(folder / dump), "--head", str(folder / "model"), *flags]


def run_of(folder: Path, tmp_path: Path, *flags: str, dump: str = "dump") -> Path:
    assert main(arguments(folder, "--out", str(tmp_path / "run"), "--quiet", *flags, dump=dump)) == 0
    return tmp_path / "run"


def test_states_are_surveyed_and_the_verdict_says_what_they_are(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(folder, tmp_path)
    printed = " ".join(capsys.readouterr().out.split())
    assert (
        "(states of a served model, which tell no effect of its blocks; predictions as the head gives them, not "
        in printed
    )
    assert "compared with those that were served; no control" in printed
    assert "stored states of" in printed
    assert "(all boundaries) on dump: 3 prompts, 44 tokens, float32." in printed
    assert "--measures lens,skip" not in printed
    assert bathyscope.open(run).measures == ("residual", "lens", "tokens", "effective_depth")


def test_boundaries_are_given_as_numbers(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of(folder, tmp_path, "--boundaries", "0,2,5", dump="some")
    assert bathyscope.open(run).stored == (0, 2, 5)
    assert "3 of 6 boundaries" in capsys.readouterr().out
    assert main(arguments(folder, "--out", str(tmp_path / "other"), dump="some")) == 4
    assert "does not say which 3 of the 6 boundaries" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_the_run_goes_where_head_and_states_are_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments(folder, "--measures", "residual", "--quiet")) == 0
    assert (tmp_path / "runs" / "model-dump" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--measures", "skip"], "skip needs the blocks; these are states. Leave skip out, or survey the model itself"),
        (["--control", "untrained:3"], "control='untrained:3' is for a model that is run, and states are read"),
        (["--device", "cpu"], "device='cpu' is for a model that is run, and states are read; leave device out"),
        (["--grow"], "grow=True is for a model that is run, and states are read"),
        (["--lens.k", "0"], "lens: k"),
        (["--measures", "lense"], "Unknown measure 'lense'"),
    ],
)
def test_what_states_cannot_do_is_refused(
    flags: list[str], message: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(folder, "--out", str(tmp_path / "run"), *flags)) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()


def test_a_head_is_needed_and_a_model_is_none(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["survey", "--states", str(folder / "dump")]) == 2
    assert "none is given: say --head MODEL" in capsys.readouterr().err
    assert main(["survey", "gpt2", "--states", str(folder / "dump")]) == 2
    assert "are two things to survey; name the model as head='gpt2' (--head gpt2)" in capsys.readouterr().err
    assert main(["survey", "gpt2", "--prompts", "gsm8k:2", "--head", "gpt2"]) == 2
    assert "head='gpt2' reads stored states; give states=" in capsys.readouterr().err


def words_of(page: Path) -> str:
    """Return what a page says, without its scripts, styles and pictures."""
    html = page.read_text()
    for tag in ("script", "style", "svg"):
        html = re.sub(rf"<{tag}\b.*?</{tag}>", " ", html, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


@pytest.mark.parametrize("dump", ["dump", "some", "early"])
def test_a_page_and_show_say_nothing_that_states_cannot_tell(
    dump: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--boundaries", "0,2,5") if dump == "some" else ()
    measures = "residual" if dump == "early" else "residual,lens,tokens"
    run = run_of(folder, tmp_path, "--measures", measures, *flags, dump=dump)
    page = tmp_path / "page.html"
    assert main(["report", str(run), "--out", str(page)]) == 0
    said = words_of(page)
    assert "Which blocks are cheap to leave out cannot be told" in said
    assert "Which blocks carry the model cannot be told States of a served model show no block left out." in said
    assert "drop was not measured" not in said
    assert "90 % of the effect" not in said
    assert "skip effects of blocks" not in said
    assert "stored states of model" in said
    if dump == "early":
        assert "These states say nothing of depth: that needs the lens, and the boundary behind the last block" in said
    else:
        assert "tates of a served model, which tell no effect of its blocks" in said
    if dump == "some":
        assert "ead at boundaries 0, 2 and 5 alone: a depth is the first of these" in said
    capsys.readouterr()
    assert main(["show", str(run)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "survey with skip" not in shown
    assert "90 % of the effect" not in shown
    assert "stored states of" in shown


def test_the_views_of_a_page_count_no_boundaries_that_were_not_stored(folder: Path, tmp_path: Path) -> None:
    some = bathyscope.open(run_of(folder, tmp_path / "some", "--boundaries", "0,2,5", dump="some"))
    every = bathyscope.open(run_of(folder, tmp_path / "all"))
    of_some, _ = read(content(some, "some"))
    of_all, _ = read(content(every, "all"))
    assert of_some["tokens"] is None
    assert of_all["tokens"]["boundaries"] == 6


def test_a_comparison_of_depths_does_not_ask_for_what_states_cannot_tell(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = run_of(folder, tmp_path)
    copy = shutil.copytree(run, tmp_path / "copy")
    capsys.readouterr()
    assert main(["compare", str(run), str(copy)]) == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert "is of stored states and lacks skip" in printed
    assert "Survey the model itself where it can be run." in printed
    assert "Survey again" not in printed
    assert "--estimators" in printed
    # depths of groups are those that the lens tells at all boundaries, and not those of skip and depth_score
    estimators = _estimators(bathyscope.open(run))
    assert "kl" in estimators
    assert {"skip", "depth_score"}.isdisjoint(measure_of(name) for name in estimators if name in ESTIMATORS)
    some = bathyscope.open(run_of(folder, tmp_path / "some", "--boundaries", "0,2,5", dump="some"))
    with pytest.raises(OptionError, match="are read off the lens at all boundaries, or need the blocks") as refusal:
        _estimators(some)
    assert "Survey again" not in str(refusal.value)
