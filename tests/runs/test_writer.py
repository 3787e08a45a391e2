"""A run goes on where it stopped with the same bits, and refuses to become another run."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from support.synthetic_runs import bits, identity, shard, summary

from bathyscope.errors import OptionError, StoreError
from bathyscope.runs.manifest import library_versions
from bathyscope.runs.opening import open_run
from bathyscope.runs.run import Run
from bathyscope.runs.writer import RunWriter


def complete(path: Path | None, **changes: Any) -> Run:
    """Compute whatever is missing and finish."""
    settings = identity(**changes)
    with RunWriter.open(path, settings) as writer:
        if writer.is_finished:
            return writer.run()
        for index in writer.missing:
            writer.write(index, shard(*settings["plan"][index]))
        return writer.finish(summary(writer.merged()))


def begin(path: Path, *indices: int) -> None:
    """A run in which the shards ``indices`` are written and then the process ends."""
    with RunWriter.open(path, identity()) as writer:
        for index in indices:
            writer.write(index, shard(*identity()["plan"][index]))


def all_bits(run: Run) -> dict[str, Any]:
    return {name: bits(run[name]) for name in run.measures}


def hashes(path: Path) -> list[str]:
    record = json.loads((path / "manifest.json").read_text())["record"]
    return [entry["sha256"] for entry in [*record["shards"], record["derived"]]]


def test_memory_and_disk_give_the_same_bits(tmp_path: Path) -> None:
    in_memory, written = complete(None), complete(tmp_path / "run")
    reopened = open_run(tmp_path / "run")
    assert in_memory.measures == ("skip", "erasure", "effective_depth", "noise")
    assert all_bits(in_memory) == all_bits(written) == all_bits(reopened)
    assert in_memory.manifest["identity"] == written.manifest["identity"]
    assert written.manifest == reopened.manifest
    assert (in_memory.path, written.path) == (None, tmp_path / "run")


def test_values_are_those_that_were_written(tmp_path: Path) -> None:
    run = complete(tmp_path / "run")
    for first, last in identity()["plan"]:
        for name, dataset in shard(first, last).items():
            for label, variable in dataset.data_vars.items():
                if "prompt" in variable.dims:
                    kept = run[name][label].isel(prompt=slice(first, last))
                    corner = kept.isel({dim: slice(size) for dim, size in variable.sizes.items() if dim != "prompt"})
                    assert corner.values.tobytes() == variable.values.tobytes()
    assert run["skip"]["prompt_id"].values.tolist() == [f"story-{p}" for p in range(6)]
    assert run["skip"]["effect_all"].attrs["source"] == "csordas2025, layer skipping"


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_stopped_after_every_shard_equals_uninterrupted(tmp_path: Path, order: list[int]) -> None:
    for done, index in enumerate(order):
        with RunWriter.open(tmp_path / "stopped", identity()) as writer:
            assert writer.finished == set(order[:done])
            assert writer.missing == sorted(order[done:])
            writer.write(index, shard(*identity()["plan"][index]))
    whole = complete(tmp_path / "whole")
    assert all_bits(complete(tmp_path / "stopped")) == all_bits(whole)
    assert hashes(tmp_path / "stopped") == hashes(tmp_path / "whole")


def test_finished_run_is_returned_not_recomputed(tmp_path: Path) -> None:
    first = complete(tmp_path / "run")
    with RunWriter.open(tmp_path / "run", identity()) as writer:
        assert writer.is_finished
        assert writer.missing == []
        assert all_bits(writer.run()) == all_bits(first)
        assert writer.run().manifest == first.manifest


def test_changed_configuration_is_refused_with_the_difference_and_two_ways_out(tmp_path: Path) -> None:
    begin(tmp_path / "run", 0)
    other = identity(measures={"skip": {"parts": ["block"], "protect_first": 0, "positions": None}, "lens": {"k": 5}})
    before = (tmp_path / "run" / "manifest.json").read_bytes()
    with pytest.raises(StoreError) as caught:
        RunWriter.open(tmp_path / "run", other)
    message = str(caught.value)
    assert "belongs to another configuration:\n  measures.skip.protect_first: run has 1, asked for 0\n" in message
    assert "Either ask for the run's own configuration, and it resumes, or give another folder" in message
    assert (tmp_path / "run" / "manifest.json").read_bytes() == before
    assert complete(tmp_path / "run").measures  # the refusal has left the run usable and unlocked


def test_finished_run_of_other_weights_is_never_given_back(tmp_path: Path) -> None:
    complete(tmp_path / "run")
    with pytest.raises(StoreError, match=r"another configuration:\n  weight_hash: run has 'wwww.*', asked for 'vvvv"):
        RunWriter.open(tmp_path / "run", identity(weight_hash="v" * 64))


def test_another_spelling_of_a_models_folder_is_the_same_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    complete(tmp_path / "run", model="models/good")
    for model in ("./models/good", "models/good/", str(tmp_path / "models" / "good")):
        with RunWriter.open(tmp_path / "run", identity(model=model)) as writer:
            assert writer.is_finished
    with pytest.raises(StoreError, match="model: run has 'models/good', asked for 'models/bad'"):
        RunWriter.open(tmp_path / "run", identity(model="models/bad"))


def test_attached_files_are_listed_with_their_hash_and_read_back(tmp_path: Path) -> None:
    settings = identity(2)
    content = b'{"text": "\xc3\xa9"}'
    for path in (None, tmp_path / "run"):
        with RunWriter.open(path, settings) as writer:
            writer.attach("prompts", "prompts.json", b"former")
            writer.attach("prompts", "prompts.json", content)
            writer.write(0, shard(0, 2))
            assert writer.finish({}).files == {"prompts": content}
    assert open_run(tmp_path / "run").files == {"prompts": content}
    listed = json.loads((tmp_path / "run" / "manifest.json").read_text())["record"]["files"]
    assert listed["prompts"]["file"] == "prompts.json"
    (tmp_path / "run" / "prompts.json").write_bytes(b"altered")
    with pytest.raises(StoreError, match=r"prompts\.json' is not the file that was written"):
        open_run(tmp_path / "run")
    with RunWriter.open(None, settings) as writer, pytest.raises(StoreError, match="is not the plain name of a file"):
        writer.attach("prompts", "../prompts.json", content)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_interrupted_again_and_again_within_a_write_the_shard_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: signal.Signals
) -> None:
    """Signals come at every change of the disk, as from somebody who keeps pressing Ctrl-C."""
    real = getattr(os, call)

    def interrupted(*arguments: Any) -> Any:
        signal.raise_signal(number)
        return real(*arguments)

    was = signal.signal(signal.SIGTERM, signal.default_int_handler)
    with RunWriter.open(tmp_path / "run", identity()) as writer:
        monkeypatch.setattr(os, call, interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer.write(1, shard(2, 4))
        monkeypatch.undo()
        assert writer.missing == [0, 2]
    signal.signal(signal.SIGTERM, was)
    assert not list((tmp_path / "run").glob(".partial-*"))
    assert not (tmp_path / "run" / ".owner").exists()
    with RunWriter.open(tmp_path / "run", identity()) as writer:
        assert writer.missing == [0, 2]


def test_many_differences_are_cut_short(tmp_path: Path) -> None:
    with RunWriter.open(tmp_path / "run", identity(measures={f"m{i}": {} for i in range(20)})):
        pass
    with pytest.raises(StoreError, match=r"m11: run has \{\}, not asked for\n  and 8 more\n"):
        RunWriter.open(tmp_path / "run", identity(measures={}))


@pytest.mark.parametrize("written", [(), (0,)])
def test_a_run_refused_before_its_first_shard_leaves_its_folder_free(written: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "run"

    def refused() -> None:
        with RunWriter.open(path, identity()) as writer:
            writer.attach("prompts", "prompts.jsonl", b"{}")
            for index in written:
                writer.write(index, shard(*identity()["plan"][index]))
            raise OptionError("refused")

    with pytest.raises(OptionError, match="refused"):
        refused()
    if written:
        with pytest.raises(StoreError, match="belongs to another configuration"):
            RunWriter.open(path, identity(seed=1))
    else:
        assert not [entry for entry in path.iterdir() if not entry.name.startswith(".")]
        RunWriter.open(path, identity(seed=1)).close()
    # what was there before is never removed
    before = path / "manifest.json"
    with pytest.raises(OptionError), RunWriter.open(path, identity(seed=0 if written else 1)):
        raise OptionError("refused again")
    assert before.exists()


def test_changed_library_version_is_refused_while_unfinished(tmp_path: Path) -> None:
    begin(tmp_path / "run", 0)
    versions = {**library_versions(), "torch": "99.0"}
    with pytest.raises(StoreError) as caught:
        RunWriter.open(tmp_path / "run", identity(), {"versions": versions})
    message = str(caught.value)
    assert f"  torch: run has {library_versions()['torch']}, installed is 99.0\n" in message
    assert "could change its numbers in the last bits" in message
    assert "Install the library versions of this run to resume it, or start again in another folder" in message
    assert "belongs to another configuration" not in message


def test_finished_run_opens_under_other_library_versions(tmp_path: Path) -> None:
    first = complete(tmp_path / "run")
    with RunWriter.open(tmp_path / "run", identity(), {"versions": {"torch": "99.0"}}) as writer:
        assert writer.is_finished
        assert writer.run().manifest["record"]["versions"] == first.manifest["record"]["versions"]


@pytest.mark.parametrize("command", ["bathyscope survey model --out run", None])
def test_an_altered_file_is_said_to_be_computed_by_the_survey_and_not_by_what_reads_it(
    tmp_path: Path, command: str | None
) -> None:
    with RunWriter.open(tmp_path / "run", identity(), {"command": command}) as writer:
        for index in writer.missing:
            writer.write(index, shard(*identity()["plan"][index]))
        writer.finish(summary(writer.merged()))
    (tmp_path / "run" / "shard-00001.nc").write_bytes(b"altered")
    way_out = r"delete this one file and run the command that wrote the run again, which computes it again"
    stored = "" if command is None else rf" \(it stands there as: {command}\)"
    with pytest.raises(StoreError, match=rf"{way_out}{stored}\.$"):
        open_run(tmp_path / "run")


@pytest.mark.parametrize("file", ["shard-00001.nc", "derived.nc"])
def test_altered_file_is_an_error_and_deleting_it_recomputes_only_it(tmp_path: Path, file: str) -> None:
    whole = all_bits(complete(tmp_path / "run"))
    expected = hashes(tmp_path / "run")
    damaged = tmp_path / "run" / file
    damaged.write_bytes(damaged.read_bytes()[:-1])
    for reader in (lambda: RunWriter.open(tmp_path / "run", identity()), lambda: open_run(tmp_path / "run")):
        with pytest.raises(StoreError, match=rf"{file}' is not the file that was written.*delete this one file"):
            reader()
    damaged.unlink()
    with RunWriter.open(tmp_path / "run", identity()) as writer:
        assert not writer.is_finished
        assert writer.missing == ([1] if file.startswith("shard") else [])
    assert all_bits(complete(tmp_path / "run")) == whole
    assert hashes(tmp_path / "run") == expected


def test_shard_that_the_manifest_does_not_list_is_overwritten(tmp_path: Path) -> None:
    begin(tmp_path / "run", 0)
    (tmp_path / "run" / "shard-00001.nc").write_bytes(b"killed between the file and the manifest")
    with RunWriter.open(tmp_path / "run", identity()) as writer:
        assert writer.finished == {0}
    assert all_bits(complete(tmp_path / "run")) == all_bits(complete(None))


def test_leftovers_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    begin(tmp_path / "run", 0)
    (tmp_path / "run" / ".partial-999-shard-00001.nc").write_bytes(b"half")
    complete(tmp_path / "run")
    files = {p.name for p in (tmp_path / "run").iterdir()} - {".lock"}
    assert files == {"manifest.json", "derived.nc", *(f"shard-{i:05d}.nc" for i in range(3))}


def test_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file")
    with pytest.raises(StoreError, match="run' is a file; a run needs a folder of its own"):
        RunWriter.open(tmp_path / "run", identity())


def test_foreign_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    for name in "abcd":
        (tmp_path / name).write_text("mine")
    with pytest.raises(StoreError, match=r"is no run but not empty either \(it holds a, b, c and 1 more\)"):
        RunWriter.open(tmp_path, identity())
    assert sorted(p.name for p in tmp_path.iterdir()) == list("abcd")


def test_folder_that_cannot_be_made_is_refused_before_compute(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot hold a run: Not a directory\. Nothing was computed\."):
        RunWriter.open(tmp_path / "file" / "run", identity())


def test_unwritable_folder_is_refused_before_compute(unprivileged_folder: Path) -> None:
    unprivileged_folder.chmod(0o555)
    for path in (unprivileged_folder, unprivileged_folder / "new"):
        with pytest.raises(StoreError, match=r"cannot hold a run: Permission denied\. Nothing was computed\."):
            RunWriter.open(path, identity())


def test_broken_manifest_is_refused(tmp_path: Path) -> None:
    begin(tmp_path / "run", 0)
    (tmp_path / "run" / "manifest.json").write_text("{")
    with pytest.raises(StoreError, match=r"manifest\.json' is not a readable manifest"):
        RunWriter.open(tmp_path / "run", identity())


def test_wrong_identity_does_not_touch_the_disk(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="does not cut 6 prompts"):
        RunWriter.open(tmp_path / "run", identity(plan=[(0, 5)]))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("path", [None, "run"])
def test_misuse_is_refused(tmp_path: Path, path: str | None) -> None:
    with RunWriter.open(path and tmp_path / path, identity()) as writer:
        writer.write(0, shard(0, 2))
        with pytest.raises(StoreError, match=r"Shard 0 is not to be computed; .* still missing are \[1, 2\]"):
            writer.write(0, shard(0, 2))
        with pytest.raises(StoreError, match="Shard 3 is not to be computed"):
            writer.write(3, shard(4, 6))
        with pytest.raises(OptionError, match=r"skip gives effect_all with the dimensions .* 'prompt' of 2, in"):
            writer.write(1, shard(2, 5))
        with pytest.raises(StoreError, match=r"merged once every shard is there; missing: \[1, 2\]"):
            writer.finish({})
        with pytest.raises(StoreError, match="The run is not finished"):
            writer.run()
        assert writer.finished == {0}


def test_run_level_dataset_takes_the_place_of_its_namesake(tmp_path: Path) -> None:
    floor = xr.Dataset({"floor": ((), 1.0)})
    for path in (None, tmp_path / "run"):
        with RunWriter.open(path, identity(2)) as writer:
            writer.write(0, {"noise": xr.Dataset({"gap": (("prompt",), [0.5, 1.0])})})
            run = writer.finish({"noise": floor})
        assert run.measures == ("noise",)
        assert bits(run["noise"]) == bits(floor)


def test_home_folder_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    run = complete(Path("~") / "runs" / "x")
    assert run.path == tmp_path / "runs" / "x"
    assert open_run("~/runs/x").measures == run.measures


def test_manifest_tells_when_it_began_and_ended(tmp_path: Path) -> None:
    begin(tmp_path / "run", 0)
    begun = json.loads((tmp_path / "run" / "manifest.json").read_text())["record"]
    ended = complete(tmp_path / "run").manifest["record"]
    assert begun["finished"] is None
    assert begun["started"] == ended["started"] <= ended["finished"]


def test_no_pickle_and_no_foreign_files(tmp_path: Path) -> None:
    complete(tmp_path / "run")
    for name in os.listdir(tmp_path / "run"):
        head = (tmp_path / "run" / name).read_bytes()[:4]
        assert head == {".nc": b"\x89HDF", ".json": b'{\n "', "": b""}[Path(name).suffix], name


def ranks_noted(path: Path) -> Any:
    return json.loads((path / "manifest.json").read_text())["record"]["notes"].get("ranks")


def test_the_record_says_over_how_many_ranks_a_run_was_computed(tmp_path: Path) -> None:
    with RunWriter.open(tmp_path / "whole", identity()) as writer:
        writer.note_ranks(1)
    assert ranks_noted(tmp_path / "whole") is None
    for ranks, noted in ((2, [2]), (2, [2]), (4, [2, 4]), (1, [1, 2, 4])):
        with RunWriter.open(tmp_path / "run", identity()) as writer:
            writer.note_ranks(ranks)
        assert ranks_noted(tmp_path / "run") == noted


def test_shards_of_one_process_count_as_computed_by_one(tmp_path: Path) -> None:
    begin(tmp_path / "run", 0)
    with RunWriter.open(tmp_path / "run", identity()) as writer:
        writer.note_ranks(2)
    assert ranks_noted(tmp_path / "run") == [1, 2]
