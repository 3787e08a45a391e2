"""Names that lead out of a folder, and manifests that say something else than their files, are refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.synthetic_runs import identity, small_shard, small_summary

import bathyscope
from bathyscope.errors import OptionError, StoreError
from bathyscope.runs.folder import Folder, Kind, plain_name, read_manifest, require_own_folder
from bathyscope.runs.opening import open_run
from bathyscope.runs.writer import RunWriter

KIND = Kind("evaluation", "bathyscope evaluate", "evaluation.json", schemas=(1,))
Tree = dict[str, Any]


def written(path: Path, **changes: Any) -> Path:
    settings = identity(**changes)
    with RunWriter.open(path, settings) as writer:
        for index in writer.missing:
            writer.write(index, small_shard(*settings["plan"][index]))
        writer.finish(small_summary(writer.merged()))
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three shards; tests change copies of it."""
    return written(tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def edit(run: Path, change: Callable[[Tree], object]) -> None:
    tree = json.loads((run / "manifest.json").read_text())
    change(tree)
    (run / "manifest.json").write_text(json.dumps(tree))


@pytest.mark.parametrize("name", ["../outside.nc", "{folder}/outside.nc", "a/../../outside.nc", "..", "", 3, None, []])
@pytest.mark.parametrize("place", ["shard", "derived", "file"])
def test_files_outside_of_the_folder_are_not_read(run: Path, name: object, place: str) -> None:
    (run.parent / "outside.nc").write_bytes((run / "shard-00000.nc").read_bytes())
    name = name.format(folder=run.parent) if isinstance(name, str) else name

    def change(tree: Tree) -> None:
        record = tree["record"]
        entry = {"file": name, "sha256": record["shards"][0]["sha256"], "prompts": [0, 2]}
        if place == "shard":
            record["shards"][0] |= entry
        elif place == "derived":
            record["derived"] = entry
        else:
            record["files"] = {"prompts": entry}

    edit(run, change)
    for reader in (open_run, lambda path: RunWriter.open(path, identity())):
        with pytest.raises(StoreError, match=r"is not a readable manifest of a run .*is not the plain name of a file"):
            reader(run)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda tree: tree["record"]["shards"].insert(0, "shard"), r"record\.shards\[0\] is 'shard', not a mapping"),
        (lambda tree: tree["record"].update(shards={}), r"record\.shards is \{\}, not a list"),
        (lambda tree: tree["record"]["shards"][1].update(index=0), r"record\.shards\[1\] says it is shard 0"),
        (lambda tree: tree["record"]["shards"][1].update(index=True), r"index is True, not a whole number"),
        (lambda tree: tree["record"]["shards"][1].update(index=[1]), r"index is \[1\], not a whole"),
        (lambda tree: tree["record"]["shards"][1].update(prompts=[0, 2]), r"says it is shard 1, which the plan has"),
        (lambda tree: tree["record"]["shards"][1].update(prompts=3), "TypeError"),
        (lambda tree: tree["record"]["shards"][1].update(sha256=7), r"sha256 is 7, not text"),
        (lambda tree: tree["record"].update(versions=[]), r"record\.versions is \[\], not a mapping"),
        (lambda tree: tree["record"].update(files=[]), r"record\.files is \[\], not a mapping"),
        (lambda tree: tree["identity"].update(model=["a"]), r"model is \['a'\], not text"),
        (lambda tree: tree["identity"].update(prompts="6"), r"prompts is '6', not a whole number"),
        (lambda tree: tree["identity"].update(measures=[]), r"measures is \[\], not a mapping"),
        (lambda tree: tree.update(identity=[]), "lacks"),
        (lambda tree: tree.update(record=None), "TypeError"),
    ],
)
def test_manifests_of_another_form_are_refused_in_a_sentence(
    run: Path, change: Callable[[Tree], object], said: str
) -> None:
    edit(run, change)
    with pytest.raises(StoreError, match=rf"is not a readable manifest of a run \(.*{said}.*Restore the file"):
        open_run(run)


@pytest.mark.parametrize("content", ["[" * 100_000, '{"schema": 2, "identity": ' + "[" * 5000 + "]" * 5000 + "}"])
def test_deep_nesting_is_refused_in_a_sentence(run: Path, content: str) -> None:
    (run / "manifest.json").write_text(content)
    with pytest.raises(StoreError, match="is not a readable manifest of a run"):
        open_run(run)


def test_shards_know_which_they_are(run: Path) -> None:
    """Files exchanged in the manifest together with their hashes: every checksum holds."""

    def exchange(tree: Tree) -> None:
        first, second, _ = tree["record"]["shards"]
        for key in ("file", "sha256"):
            first[key], second[key] = second[key], first[key]

    edit(run, exchange)
    with pytest.raises(
        StoreError, match=r"says of itself kept_part='shard 1: prompts 2 to 3', .* takes it for 'shard 0"
    ):
        open_run(run)


def test_shards_know_their_run(run: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "other", seed=1)
    shutil.copy(other / "shard-00001.nc", run / "shard-00001.nc")
    entry = json.loads((other / "manifest.json").read_text())["record"]["shards"][1]
    edit(run, lambda tree: tree["record"]["shards"][1].update(entry))
    with pytest.raises(StoreError, match=r"shard-00001.nc' says of itself kept_run=.*put there from another place"):
        open_run(run)


def test_run_level_results_are_no_shard(run: Path) -> None:
    edit(run, lambda tree: tree["record"]["derived"].update(tree["record"]["shards"][0]))
    edit(run, lambda tree: tree["record"]["derived"].pop("index"))
    with pytest.raises(StoreError, match="takes it for 'run-level results'"):
        open_run(run)


def test_a_folder_of_another_kind_is_refused(tmp_path: Path, finished: Path) -> None:
    with pytest.raises(
        StoreError, match=r"is no evaluation but not empty either \(it holds derived\.nc, manifest\.json"
    ):
        Folder(finished, KIND)
    with pytest.raises(StoreError, match=r"There is no evaluation in .*Give the folder that bathyscope evaluate wrote"):
        read_manifest(finished, KIND)
    with Folder(tmp_path / "new", KIND) as folder:
        assert folder.manifest() is None
        folder.save({"schema": 1})
        assert folder.manifest() == {"schema": 1}
        with pytest.raises(StoreError, match=r"The evaluation in .* is being written by process"):
            Folder(tmp_path / "new", KIND)
        folder.save({"schema": 2})
        with pytest.raises(StoreError, match=r"is written in schema 2; this bathyscope reads schema 1\."):
            folder.manifest()


def test_what_a_killed_process_left_is_removed_also_below(tmp_path: Path) -> None:
    with Folder(tmp_path, KIND) as folder:
        folder.write("results/drop-5/arc.json", b"{}")
        folder.save({"schema": 1})
    left = tmp_path / "results" / "drop-5" / ".partial-1-arc.json"
    left.write_bytes(b"{")
    Folder(tmp_path, KIND).close()
    assert not left.exists()


@pytest.mark.parametrize("name", ["a\\b", "c:d", "a\0b", "/a", "a//b", "./a"])
def test_only_plain_names(name: str) -> None:
    with pytest.raises(StoreError, match="is not the plain name of a file in the folder itself"):
        plain_name(name)


@pytest.mark.parametrize("path", [3, None, "", ["run"], b"run"])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(OptionError, match=r"path=.* is no folder; give its path as text, such as 'runs/qwen'"):
        bathyscope.open(path)
    if path is not None:
        with pytest.raises(OptionError, match=r"out=.* is no folder"):
            RunWriter.open(path, identity())


def test_paths_that_no_system_has_are_refused() -> None:
    with pytest.raises(OptionError, match=r"path='a.x00b' holds a null character"):
        bathyscope.open("a\0b")
    with pytest.raises(OptionError, match=r"out='a.x00b' holds a null character"):
        RunWriter.open("a\0b", identity())


@pytest.mark.parametrize("measure", [3, None, ["skip"], ("skip",)])
def test_measures_are_asked_for_by_name(finished: Path, measure: Any) -> None:
    with pytest.raises(OptionError, match="This run has no measure"):
        open_run(finished)[measure]


def test_links_on_the_way_to_a_folder_of_results_are_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "b").mkdir(parents=True)
    given = tmp_path / "given"
    given.symlink_to(outside)
    for names in (["a"], ["a", "b"], ["a", "b", "c"]):
        require_own_folder(given.joinpath(*names), "it is not", given)
    (outside / "a").symlink_to(tmp_path)
    for names in (["a"], ["a", "b"], ["a", "b", "c"]):
        with pytest.raises(StoreError, match=r"given/a' is a link, and it is not\. Remove it"):
            require_own_folder(given.joinpath(*names), "it is not", given)
