"""Which controls are compared with a run: of its model, once each, on its prompts or on the same tokens reordered."""

from __future__ import annotations

import copy
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import waves

import bathyscope
from bathyscope.model import load
from bathyscope.pages.head.numbers import read_profile
from bathyscope.runs.paired import contradiction, is_paired, paired_controls
from bathyscope.runs.run import Run

KINDS = "untrained:3,shuffled_blocks:2,shuffled_text:3"
IDS = np.random.default_rng(0).integers(2, 60, (6, 9)).tolist()


@pytest.fixture(scope="module")
def surveyed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with controls of all kinds, beside one of a model with a block more."""
    folder = tmp_path_factory.mktemp("runs")
    bathyscope.survey(waves.loaded("llama"), IDS, ["lens", "skip"], folder / "run", control=KINDS, progress=False)
    config = waves.loaded("llama").hf.config.to_dict()
    config["num_hidden_layers"] += 1
    config.pop("layer_types", None)
    deeper = type(waves.loaded("llama").hf)(type(waves.loaded("llama").hf.config)(**config)).eval()
    bathyscope.survey(load(deeper), IDS, ["lens", "skip"], folder / "deeper", control="untrained:2", progress=False)
    return folder


@pytest.fixture(scope="module")
def opened_once(surveyed: Path) -> Run:
    """The run with controls, for tests that change nothing of it."""
    return bathyscope.open(surveyed / "run")


@pytest.fixture
def run(surveyed: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return shutil.copytree(surveyed / "run", tmp_path / "run")


def assert_left_out(run: Path, other: Path, warning: str, words: str) -> None:
    """Controls of another survey, put into a run, are told by a warning and a note, and nothing is compared."""
    shutil.rmtree(run / "controls")
    shutil.copytree(other / "controls", run / "controls")
    with pytest.warns(UserWarning, match=warning):
        opened = bathyscope.open(run)
    assert paired_controls(opened) == []
    assert opened.verdict.half.nulls == {}
    assert read_profile(opened).notes == (f"{words}, and left out of every difference from the run.",)


def test_each_kind_of_control_has_its_differences(run: Path) -> None:
    opened = bathyscope.open(run)
    assert paired_controls(opened) == sorted(opened.controls)
    nulls = opened.verdict.half.nulls
    assert {kind: null.seeds for kind, null in nulls.items()} == {
        "untrained": 3,
        "shuffled_blocks": 2,
        "shuffled_text": 3,
    }
    by_hand = np.mean([opened.controls[f"shuffled_text-{seed}"].verdict.half.value for seed in range(3)])
    row = next(row for row in opened.verdict.rows() if (row["reading"], row["control"]) == ("half", "shuffled_text"))
    assert row["null"] == pytest.approx(by_hand)
    assert row["difference"] == pytest.approx(opened.verdict.half.value - by_hand)
    assert read_profile(opened).notes == ()


def test_shuffled_text_alone_is_a_control_and_no_untrained_one(tmp_path: Path) -> None:
    run = bathyscope.survey(waves.loaded("llama"), IDS, ["lens"], control="shuffled_text:2", progress=False)
    assert run.verdict.half.nulls["shuffled_text"].seeds == 2
    assert "no untrained control" in run.verdict.text


def test_controls_of_another_model_are_told_and_not_compared(surveyed: Path, run: Path) -> None:
    shutil.rmtree(run / "controls")
    shutil.copytree(surveyed / "deeper" / "controls", run / "controls")
    with pytest.warns(UserWarning, match=r"The control untrained-\d in .* is of another model .* nothing is compared"):
        opened = bathyscope.open(run)
    assert paired_controls(opened) == []
    assert opened.verdict.half.nulls == {}
    assert "(no control: an untrained model has depths too)" in opened.verdict.text
    assert read_profile(opened).notes == (
        "2 controls are of another model, and left out of every difference from the run.",
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"skip": {"protect_first": 4}}, r"skip\.protect_first \(1 and 4\)"),
        ({"lens": {"norm": "frozen"}}, r"lens\.norm \(\['recompute'\] and \['frozen'\]\)"),
    ],
)
def test_controls_of_other_options_are_told_and_not_compared(
    options: dict[str, Any], words: str, run: Path, tmp_path: Path
) -> None:
    """Their depths are other quantities: one said that training moved nothing, by blocks skipped at other tokens."""
    other = tmp_path / "other"
    bathyscope.survey(
        waves.loaded("llama"), IDS, ["lens", "skip"], other, control="untrained:2", progress=False, **options
    )
    assert_left_out(
        run,
        other,
        rf"The control untrained-0 .* with other options than the run \({words}\)",
        "2 controls are measured with other options",
    )


@pytest.mark.parametrize("kind", ["shuffled_blocks", "shuffled_text"])
def test_a_control_that_keeps_the_weights_has_those_of_the_run(kind: str, run: Path, tmp_path: Path) -> None:
    """One of another training of the same shape was subtracted as the run's own."""
    model, other = copy.deepcopy(waves.loaded("llama").hf), tmp_path / "other"
    with torch.no_grad():
        next(model.parameters()).mul_(1.5)
    bathyscope.survey(load(model), IDS, ["lens", "skip"], other, control=f"{kind}:2", progress=False)
    assert_left_out(
        run,
        other,
        rf"The control {kind}-\d in .* is of another model .* nothing is compared",
        "2 controls are of another model",
    )


def test_controls_of_other_prompts_are_told_and_not_compared(run: Path, tmp_path: Path) -> None:
    """The verdict says that there is no control, which was all that anybody read."""
    others = np.random.default_rng(1).integers(2, 60, (6, 9)).tolist()
    other = tmp_path / "other"
    bathyscope.survey(waves.loaded("llama"), others, ["lens", "skip"], other, control="untrained:1", progress=False)
    shutil.rmtree(run / "controls")
    shutil.copytree(other / "controls", run / "controls")
    with pytest.warns(UserWarning, match=r"The control untrained-0 in .* read other prompts, and nothing is compared"):
        opened = bathyscope.open(run)
    assert paired_controls(opened) == []
    assert read_profile(opened).notes == (
        "1 control is of other prompts or without depths, and left out of every difference from the run.",
    )


def test_a_copied_control_counts_once(run: Path) -> None:
    before = bathyscope.open(run).verdict
    for number in (7, 8):
        shutil.copytree(run / "controls/untrained-1", run / f"controls/untrained-{number}")
    opened = bathyscope.open(run)
    assert is_paired(opened, "untrained-7")
    assert opened.verdict.half.nulls["untrained"].seeds == 3
    assert opened.verdict.text == before.text
    assert read_profile(opened).notes == (
        "2 controls are copied from the run or another control, and left out of every difference from the run.",
    )


@pytest.mark.parametrize("kind", ["shuffled_blocks", "shuffled_text"])
def test_a_copied_order_counts_once(kind: str, run: Path) -> None:
    before = bathyscope.open(run).verdict
    shutil.copytree(run / "controls" / f"{kind}-1", run / "controls" / f"{kind}-7")
    opened = bathyscope.open(run)
    assert opened.verdict.half.nulls[kind].seeds == before.half.nulls[kind].seeds
    assert opened.verdict.half.nulls[kind].interval == before.half.nulls[kind].interval
    assert read_profile(opened).notes == (
        "1 control is copied from the run or another control, and left out of every difference from the run.",
    )


def test_an_untrained_model_that_is_measured_twice_is_one_draw(run: Path) -> None:
    """Another kernel rounds otherwise, and three models were said to be four, of which training was surely another."""
    opened = bathyscope.open(run)
    again = opened.controls["untrained-1"]
    rounded = again.tree.copy(deep=True)
    rounded["lens/entropy"] = rounded["lens/entropy"] * (1 + 2.0**-23)
    controls = {**opened.controls, "untrained-7": replace(again, tree=rounded)}
    assert not controls["untrained-7"]["lens"].equals(again["lens"])
    with_copy = replace(opened, controls=controls)
    assert is_paired(with_copy, "untrained-7")
    assert with_copy.verdict.half.nulls["untrained"].seeds == 3
    assert with_copy.verdict.text == opened.verdict.text


@pytest.mark.parametrize("name", ["untrained", "first-0", "-0"])
def test_a_folder_that_names_no_control_holds_none(name: str, run: Path) -> None:
    shutil.copytree(run / "controls/untrained-0", run / "controls" / name)
    with pytest.warns(UserWarning, match=rf"The control {name} in .* is a control untrained, whatever its folder"):
        opened = bathyscope.open(run)
    assert set(opened.verdict.half.nulls) == {"untrained", "shuffled_blocks", "shuffled_text"}
    assert opened.verdict.half.nulls["untrained"].seeds == 3


def test_the_run_itself_is_no_untrained_model(run: Path) -> None:
    before = bathyscope.open(run).verdict.text
    files = [path for path in run.iterdir() if path.is_file()]
    (run / "controls/untrained-9").mkdir()
    for path in files:
        shutil.copy(path, run / "controls/untrained-9")
    opened = bathyscope.open(run)
    assert "untrained-9" in opened.controls
    assert opened.verdict.half.nulls["untrained"].seeds == 3
    assert opened.verdict.text == before
    # of a run of an untrained model an earlier version drew the same weights once more
    manifest = copy.deepcopy(opened.manifest)
    manifest["record"]["notes"]["control"] = {"kind": "untrained", "seed": 9}
    drawn_again = replace(opened, controls={**opened.controls, "untrained-9": replace(opened, manifest=manifest)})
    assert is_paired(drawn_again, "untrained-9")
    assert drawn_again.verdict.half.nulls["untrained"].seeds == 3


def test_controls_of_other_tokens_under_the_same_names_are_not_paired(run: Path) -> None:
    other = bathyscope.survey(waves.loaded("llama"), [ids[::-1] for ids in IDS], ["lens", "skip"], progress=False)
    opened = bathyscope.open(run)
    opened.controls["shuffled_text-9"] = other
    # the first token of a prompt stays where it is in shuffled text
    assert not is_paired(opened, "shuffled_text-9")


CONTROLS = (*(f"untrained-{n}" for n in range(3)), "shuffled_blocks-0", "shuffled_blocks-1", "shuffled_text-0")


@pytest.mark.filterwarnings("ignore:The control")
@pytest.mark.parametrize("says", ["note", "name", "weights"])
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_a_control_is_what_it_says_and_not_what_its_folder_is_called(
    opened_once: Run, says: str, data: st.DataObject
) -> None:
    """Stored by this version, by an earlier one (no note), or by one that called it after its model (weights alone)."""
    controls = opened_once.controls
    sources = {"run": replace(opened_once, controls={}), **{label: controls[label] for label in CONTROLS}}
    folders = data.draw(st.lists(st.sampled_from([*CONTROLS, "untrained-7", "shuffled_text-8"]), unique=True))
    named = {folder: data.draw(st.sampled_from(sorted(sources))) for folder in folders}
    run = replace(opened_once, controls={folder: _written(sources[source], says) for folder, source in named.items()})
    for folder, source in named.items():
        kind, actual = folder.rpartition("-")[0], source.rpartition("-")[0]
        # whatever tells less than a name leaves untrained ones of the run's own weights
        told = kind == actual if says != "weights" else not (kind == "untrained" and actual in ("", "shuffled_text"))
        if says == "name" and not actual and kind != "untrained":
            continue
        assert (contradiction(run, folder) == "") == told, (folder, source)


def _written(run: Run, says: str) -> Run:
    """The run as a version would have written it that says no more of what a control is."""
    manifest = copy.deepcopy(run.manifest)
    if says != "note":
        del manifest["record"]["notes"]["control"]
    if says == "weights":
        manifest["identity"] |= {"model": "m", "dataset": "given"}
    return replace(run, manifest=manifest)


def test_a_renamed_control_and_a_copied_run_are_told(run: Path) -> None:
    shutil.move(run / "controls/shuffled_blocks-0", run / "controls/untrained-5")
    with pytest.warns(
        UserWarning, match=r"untrained-5 in .* is a control shuffled_blocks, whatever its folder is called"
    ):
        opened = bathyscope.open(run)
    assert opened.verdict.half.nulls["untrained"].seeds == 3
    assert read_profile(opened).notes == (
        "1 control is not what the name says, and left out of every difference from the run.",
    )
    assert opened.controls["untrained-0"].manifest["record"]["notes"]["control"] == {"kind": "untrained", "seed": 0}
