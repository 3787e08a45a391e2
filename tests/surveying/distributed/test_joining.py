"""A survey in parts: joined, they are the run of a single process, file by file."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from support import waves, workers, zoo

import bathyscope
from bathyscope import ModelError, OptionError, Prompt, StoreError
from bathyscope.runs.parts import Part
from bathyscope.surveying.computing import Computation

MEASURES = ["residual", "lens", "skip", "effective_depth", "depth_score"]
OF = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model as a checkpoint, which a join finds by the name in the parts."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    waves.loaded("llama").hf.save_pretrained(folder)
    return folder


def survey(folder: Path, out: Path, **options: Any) -> bathyscope.Run:
    ids = zoo.prompts(zoo.build("llama"), (20, 13, 17, 26, 14, 15))
    prompts = [Prompt(ids=own, answer_tokens=2, labels={"level": n // 2}) for n, own in enumerate(ids)]
    few = {"effective_depth": {"resamples": 50}, "depth_score": {"resamples": 50, "permutations": 49}}
    return bathyscope.survey(folder, prompts, MEASURES, out, batch_tokens=30, progress=False, **few, **options)


@pytest.fixture(scope="module")
def whole(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> bathyscope.Run:
    return survey(folder, tmp_path_factory.mktemp("runs") / "whole", control="untrained:1")


@pytest.fixture(scope="module")
def parts(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    out = tmp_path_factory.mktemp("parts")
    for number in range(1, OF + 1):
        survey(folder, out / str(number), control="untrained:1", part=f"{number}/{OF}")
    return [out / str(number) for number in range(1, OF + 1)]


def hashes(run: Path) -> dict[str, str]:
    return {
        str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in run.rglob("*")
        if path.suffix in (".nc", ".jsonl")
    }


def test_joined_parts_are_the_run_of_a_single_process(whole: bathyscope.Run, parts: list[Path], tmp_path: Path) -> None:
    assert whole.path is not None
    shards = [{name for name in hashes(part) if "shard" in name and "controls" not in name} for part in parts]
    assert all(shards)
    assert len(set.union(*shards)) == sum(map(len, shards)) == len(whole.identity.plan)
    joined = bathyscope.join(parts, tmp_path / "run")
    assert hashes(tmp_path / "run") == hashes(whole.path)
    assert joined.verdict.text == whole.verdict.text
    assert joined.identity == whole.identity
    assert list(joined.controls) == ["untrained-0"]
    again = bathyscope.join([str(part) for part in parts], tmp_path / "run")
    assert hashes(tmp_path / "run") == hashes(whole.path)
    assert again.measures == whole.measures


def test_parts_without_a_control_that_others_have_are_named(
    folder: Path, whole: bathyscope.Run, parts: list[Path], tmp_path: Path
) -> None:
    without = []
    for part in parts:
        shutil.copytree(part, tmp_path / part.name, ignore=lambda path, names: {"controls"} & {*names})
        without.append(tmp_path / part.name)
    for some in ([parts[0], *without[1:]], [*without[:2], parts[2]], [*without, parts[1]]):
        lacking = [str(part) for part in some if part in without]
        with pytest.raises(StoreError) as caught:
            bathyscope.join(some, tmp_path / "run")
        message = str(caught.value)
        assert f"The control untrained-0 was surveyed for 1 of {len(some)} parts, and not for " in message
        assert all(repr(part) in message for part in lacking[:3])
        assert "same --control (control=…): what is there already is not computed again. Then join again." in message
        assert not (tmp_path / "run").exists()
    # what the message advises
    times = {path: path.stat().st_mtime_ns for path in without[1].rglob("*.nc")}
    for number in (2, 3):
        survey(folder, without[number - 1], control="untrained:1", part=f"{number}/{OF}")
    assert times == {path: path.stat().st_mtime_ns for path in times}
    bathyscope.join([parts[0], *without[1:]], tmp_path / "run")
    assert whole.path is not None
    assert hashes(tmp_path / "run") == hashes(whole.path)
    # a part that is there twice, once without the control, lacks nothing
    joined = bathyscope.join([*parts, without[0]], tmp_path / "twice")
    assert list(joined.controls) == ["untrained-0"]
    assert hashes(tmp_path / "twice") == hashes(whole.path)


def test_no_part_is_computed_twice_and_a_part_goes_on_where_it_stopped(
    folder: Path, parts: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    shards = sorted(parts[0].glob("shard-*.nc"))
    shards[0].unlink()
    calls = []
    compute = Computation.compute

    def noted(computation: Computation, missing: list[int], *rest: Any) -> None:
        calls.append(missing)
        compute(computation, missing, *rest)

    monkeypatch.setattr(Computation, "compute", noted)
    run = survey(folder, parts[0], part=f"1/{OF}")
    assert calls == [[0]]
    assert sorted(parts[0].glob("shard-*.nc")) == shards
    assert 0 < run["lens"].sizes["prompt"] < 6
    assert "effective_depth" not in run.measures


def test_a_part_is_no_finished_run(parts: list[Path]) -> None:
    with pytest.raises(StoreError, match=r"is not finished: \d of \d shards are there"):
        bathyscope.open(parts[0])


@pytest.mark.parametrize("text", ["3", "0/2", "3/2", "a/b", "1/0", "1 of 2"])
def test_no_part(text: str, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"is no part; write which of how many, such as 3/16"):
        survey(folder, tmp_path, part=text)


def test_more_parts_than_shards(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(
        OptionError, match=r"part=1/99: the survey has \d shards and cannot be cut into 99 parts\. Give"
    ):
        survey(folder, tmp_path / "run", part="1/99")
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_a_part_without_a_folder(folder: Path) -> None:
    with pytest.raises(OptionError, match=r"part='1/2' is computed into a folder, to be joined from there; give out="):
        bathyscope.survey(folder, [[1, 2, 3]], ["lens"], part="1/2")


def test_every_shard_is_in_exactly_one_part() -> None:
    for count in (1, 5, 16, 37):
        for of in range(1, count + 1):
            found = [index for number in range(1, of + 1) for index in Part(number, of).shards(count)]
            assert found == list(range(count))


def test_missing_parts_are_named(parts: list[Path], tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"of \d shards are in none of the 2 folders: .*\(prompts \d to \d\).*goes on"):
        bathyscope.join(parts[:2], tmp_path / "run")
    with pytest.raises(StoreError, match=r"of \d shards are not in '.*': "):
        bathyscope.join(parts[0], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_parts_of_different_surveys(folder: Path, parts: list[Path], tmp_path: Path) -> None:
    survey(folder, tmp_path / "other", part="1/2", seed=1)
    with pytest.raises(StoreError, match=r"are no parts of one survey:\n  seed: .* has 0, .*/other has 1\n"):
        bathyscope.join([*parts, tmp_path / "other"], tmp_path / "run")


def test_parts_of_other_options_or_measures_or_versions(folder: Path, parts: list[Path], tmp_path: Path) -> None:
    survey(folder, tmp_path / "frozen", part="1/2", lens={"norm": ["frozen"]})
    with pytest.raises(
        StoreError, match=r"\n  measures\.lens\.norm: .* has \['recompute'\], .*/frozen has \['frozen'\]"
    ):
        bathyscope.join([*parts, tmp_path / "frozen"], tmp_path / "run")
    with pytest.raises(StoreError, match=r"/frozen has \['frozen'\], .* has \['recompute'\]"):
        bathyscope.join([tmp_path / "frozen", *parts], tmp_path / "run")
    shutil.copytree(parts[0], tmp_path / "older")
    manifest = tmp_path / "older" / "manifest.json"
    told = json.loads(manifest.read_text())
    told["record"]["versions"]["torch"] = "2.9.0"
    manifest.write_text(json.dumps(told))
    with pytest.raises(
        StoreError, match=r"\n  torch: .* has [\d.]+\S*, .*/older has 2\.9\.0\n.* with the same versions"
    ):
        bathyscope.join([*parts[1:], tmp_path / "older"], tmp_path / "run")


def test_an_altered_shard(parts: list[Path], tmp_path: Path) -> None:
    shard = next(parts[1].glob("shard-*.nc"))
    content = shard.read_bytes()
    try:
        shard.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(StoreError, match=r"is not the file that was written"):
            bathyscope.join(parts, tmp_path / "run")
    finally:
        shard.write_bytes(content)


def test_nothing_and_the_same_folder_twice(parts: list[Path], tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="There is nothing to join"):
        bathyscope.join([], tmp_path / "run")
    with pytest.raises(OptionError, match="given twice"):
        bathyscope.join([parts[0], str(parts[0])], tmp_path / "run")


def test_a_model_whose_configuration_has_changed(folder: Path, parts: list[Path], tmp_path: Path) -> None:
    """Run-level results are derived from what the model is here, which may be another one by now."""
    written = (folder / "config.json").read_text()
    try:
        (folder / "config.json").write_text(json.dumps({**json.loads(written), "rms_norm_eps": 0.5}))
        with pytest.raises(StoreError, match=r"The configuration of '.*tiny' here is not what the parts were computed"):
            bathyscope.join(parts, tmp_path / "run")
    finally:
        (folder / "config.json").write_text(written)
    assert not (tmp_path / "run").exists()


def test_a_census_of_neurons_needs_the_weights_that_the_parts_had(tmp_path: Path) -> None:
    model = zoo.entry("llama").build()
    model.save_pretrained(tmp_path / "model")
    ids = zoo.prompts(model, (12, 9))
    for number in (1, 2):
        out, part = tmp_path / str(number), f"{number}/2"
        bathyscope.survey(tmp_path / "model", ids, ["neurons"], out, part=part, batch_tokens=12, progress=False)
    with torch.no_grad():
        next(model.parameters()).mul_(2)
    model.save_pretrained(tmp_path / "model")
    with pytest.raises(StoreError, match=r"The weights of '.*model' here are not what the parts were computed with"):
        bathyscope.join([tmp_path / "1", tmp_path / "2"], tmp_path / "run")


def test_parts_that_no_join_could_read_are_refused_before_they_are_computed(folder: Path, tmp_path: Path) -> None:
    """Parts of a model in memory were computed, and could never be joined."""
    ids = zoo.prompts(zoo.build("llama"), (12, 9))
    changed = bathyscope.load(folder).hf
    changed.config.rms_norm_eps = 0.5
    for model, reason in (
        (zoo.build("llama"), "'LlamaForCausalLM' leads to none"),
        (changed, r"'.*tiny' leads to another \(configuration: this one has .*\)"),
    ):
        with pytest.raises(ModelError, match=rf"parts are joined by the model's configuration, and {reason}\. Save a"):
            bathyscope.survey(model, ids, ["lens"], tmp_path / "1", part="1/2", batch_tokens=12, progress=False)
        assert not (tmp_path / "1").exists()


def test_a_measure_from_outside_of_the_package(folder: Path, tmp_path: Path) -> None:
    ids = zoo.prompts(zoo.build("llama"), (12, 9))
    for number in (1, 2):
        out, part = tmp_path / str(number), f"{number}/2"
        bathyscope.survey(folder, ids, ["lens", workers.Deadly], out, part=part, batch_tokens=12, progress=False)
    with pytest.raises(StoreError, match=r"deadly comes from outside the package, and a join does not run code that a"):
        bathyscope.join([tmp_path / "1", tmp_path / "2"], tmp_path / "run")


def test_parts_without_prompts(parts: list[Path], tmp_path: Path) -> None:
    kept = [(part / "prompts.jsonl", (part / "manifest.json")) for part in parts]
    before = [[path.read_bytes() for path in pair] for pair in kept]
    try:
        for prompts, manifest in kept:
            prompts.unlink()
            tree = json.loads(manifest.read_text())
            tree["record"]["files"] = {}
            manifest.write_text(json.dumps(tree))
        with pytest.raises(StoreError, match=r"None of the folders holds the survey's prompts, .* command of any part"):
            bathyscope.join(parts, tmp_path / "run")
    finally:
        for pair, contents in zip(kept, before):
            for path, content in zip(pair, contents):
                path.write_bytes(content)
    assert not (tmp_path / "run").exists()


def test_controls_of_a_part_are_folders_of_its_own(parts: list[Path], tmp_path: Path) -> None:
    """Otherwise results from elsewhere would be joined."""
    copies = [Path(shutil.copytree(part, tmp_path / part.name)) for part in parts]
    (tmp_path / "elsewhere" / "mine").mkdir(parents=True)
    shutil.rmtree(copies[0] / "controls")
    (copies[0] / "controls").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match=r"controls' is a link, and the controls of a run are folders") as caught:
        bathyscope.join(copies, tmp_path / "whole")
    assert "mine" not in str(caught.value)
    assert not (tmp_path / "whole").exists()
