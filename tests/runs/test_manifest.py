"""The manifest holds plain JSON, comes back equal, and says in words where two configurations differ."""

from __future__ import annotations

import json
import re
from dataclasses import FrozenInstanceError
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.synthetic_runs import identity

from bathyscope.errors import StoreError
from bathyscope.runs.difference import difference, version_difference
from bathyscope.runs.folder import Folder
from bathyscope.runs.manifest import RUN, FileEntry, Identity, Manifest, Record, library_versions, load_manifest


def written(folder: Path, manifest: Manifest) -> bytes:
    with Folder(folder, RUN) as opened:
        opened.save(manifest.to_dict())
    return (folder / "manifest.json").read_bytes()


def read(folder: Path, content: bytes) -> Manifest:
    (folder / "manifest.json").write_bytes(content)
    return load_manifest(folder)


def manifest(**changes: Any) -> Manifest:
    shards = {
        3: FileEntry("shard-00003.nc", "a" * 64, (6, 8)),
        0: FileEntry("shard-00000.nc", "b" * 64, (0, 2)),
    }
    record = Record.begin({"command": "bathyscope survey …", "notes": {"tails": False}})
    return Manifest(Identity.from_mapping(identity(8, **changes)), record).with_record(
        shards=shards, derived=FileEntry("derived.nc", "c" * 64)
    )


def configuration(**changes: Any) -> Identity:
    return Identity.from_mapping(identity(**changes))


def test_manifest_comes_back_equal_from_json(tmp_path: Path) -> None:
    made = manifest()  # which says when it was begun
    assert read(tmp_path, written(tmp_path, made)) == made


def test_file_holds_everything_the_specification_names(tmp_path: Path) -> None:
    tree = json.loads(written(tmp_path, manifest()))
    assert tree["schema"] == 2
    # what is None of almost every run
    unset = dict.fromkeys(("schedule", "adapters", "gguf", "packing", "pace", "loops", "states"))
    assert tree["identity"] == {**unset, **json.loads(json.dumps(identity(8)))}
    assert tree["record"]["shards"] == [
        {"index": 0, "file": "shard-00000.nc", "sha256": "b" * 64, "prompts": [0, 2]},
        {"index": 3, "file": "shard-00003.nc", "sha256": "a" * 64, "prompts": [6, 8]},
    ]
    assert tree["record"]["derived"] == {"file": "derived.nc", "sha256": "c" * 64, "prompts": None}
    assert tree["record"]["finished"] is None
    assert set(tree["record"]["versions"]) == {
        "python",
        "bathyscope",
        "torch",
        "transformers",
        "numpy",
        "xarray",
    }
    assert tree["record"]["notes"] == {"tails": False}


def test_started_is_utc_now() -> None:
    started = datetime.fromisoformat(Record.begin({}).started)
    assert started.utcoffset() == timedelta(0)
    assert abs((datetime.now(started.tzinfo) - started).total_seconds()) < 5


def test_versions_are_the_installed_ones() -> None:
    assert library_versions()["numpy"] == np.__version__


def test_manifest_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        manifest().schema = 2  # type: ignore[misc]


def test_tuples_and_lists_are_the_same_configuration() -> None:
    assert difference(configuration(), configuration(plan=[list(r) for r in identity()["plan"]])) == []


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        (
            {
                "measures": {
                    "skip": {"parts": ["block"], "protect_first": 0, "positions": None},
                    "lens": {"k": 5},
                }
            },
            ["measures.skip.protect_first: run has 1, asked for 0"],
        ),
        (
            {"measures": {"skip": {"parts": ["block"], "protect_first": 1, "positions": None}, "swap": {}}},
            ["measures.lens: run has {'k': 5}, not asked for", "measures.swap: not in the run, asked for {}"],
        ),
        (
            {"dtype": "bfloat16", "seed": 1},
            ["dtype: run has 'float32', asked for 'bfloat16'", "seed: run has 0, asked for 1"],
        ),
        ({"preset": "hu2025"}, ["preset: run has None, asked for 'hu2025'"]),
    ],
)
def test_differences_in_words(changes: dict[str, Any], lines: list[str]) -> None:
    assert difference(configuration(), configuration(**changes)) == lines


def test_differences_within_long_lists_name_the_entry() -> None:
    positions = [[10 * p, 10 * p + 5] for p in range(40)]
    other = [row if p != 17 else [170, 176] for p, row in enumerate(positions)]
    run, asked = (configuration(measures={"skip": {"positions": rows}}) for rows in (positions, other))
    assert difference(run, asked) == ["measures.skip.positions[17]: run has [170, 175], asked for [170, 176]"]
    shorter = configuration(measures={"skip": {"positions": positions[:39]}})
    assert difference(run, shorter) == ["measures.skip.positions: run has 40 entries, asked for 39"]


def test_version_differences_in_words() -> None:
    lines = version_difference({"torch": "2.12.0", "numpy": "2.1"}, {"torch": "2.13.0", "numpy": "2.1", "xarray": "1"})
    assert lines == ["torch: run has 2.12.0, installed is 2.13.0", "xarray: run has none, installed is 1"]


def test_what_an_earlier_schema_did_not_tell_is_no_difference() -> None:
    earlier = configuration(n_blocks=None)
    assert difference(earlier, configuration()) == []
    assert difference(configuration(), configuration(n_blocks=7)) == ["n_blocks: run has 6, asked for 7"]


def test_a_model_is_known_by_its_weights_and_settings_and_not_by_its_name() -> None:
    run, asked = configuration(model="./good", config_hash="c"), configuration(model="/here/good/", config_hash="c")
    assert difference(run, asked) == []
    lines = difference(run, configuration(model="/here/good/", config_hash="d"))
    assert lines == ["model: run has './good', asked for '/here/good/'", "config_hash: run has 'c', asked for 'd'"]
    untold = configuration(model="./good", config_hash=None)
    assert difference(untold, asked) == ["model: run has './good', asked for '/here/good/'"]


@pytest.mark.parametrize("plan", [[], [(0, 3), (4, 6)], [(0, 3), (3, 5)], [(0, 4), (3, 6)], [(0, 6), (6, 6)], [(1, 6)]])
def test_plan_must_cut_the_prompts(plan: list[tuple[int, int]]) -> None:
    with pytest.raises(
        StoreError, match=r"does not cut 6 prompts into shards; allowed: non-empty \[first, last\) ranges"
    ):
        configuration(plan=plan)


@pytest.mark.parametrize("value", [np.float32(1.0), {1, 2}, object(), float("nan"), b"bytes"])
def test_values_that_json_cannot_hold_are_refused_by_name(value: object) -> None:
    with pytest.raises(StoreError, match=r"measures\.skip\.level is .*allowed: text, integers, finite floats"):
        configuration(measures={"skip": {"level": value}})


def test_unknown_and_missing_keys_are_named() -> None:
    values = identity()
    values["atention"] = values.pop("attention")
    expected = "unknown keys ['atention'] and lacks ['attention']; its keys are model, revision"
    with pytest.raises(StoreError, match=re.escape(expected)) as caught:
        Identity.from_mapping(values)
    assert str(caught.value).endswith("Did you mean 'attention'?")
    with pytest.raises(StoreError, match=re.escape("The record of a run has unknown keys ['comand']")):
        Record.begin({"comand": "x"})


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"schema": 1}', b'{"schema": 1, "identity": {}}', b"\xff"]
)
def test_unreadable_manifest_is_refused(tmp_path: Path, content: bytes) -> None:
    where = re.escape(str(tmp_path / "manifest.json"))
    with pytest.raises(StoreError, match=rf"'{where}' is not a readable manifest of a run \("):
        read(tmp_path, content)


def test_manifest_of_another_schema_is_refused(tmp_path: Path) -> None:
    content = written(tmp_path, manifest()).replace(b'"schema": 2', b'"schema": 7')
    with pytest.raises(StoreError, match="is written in schema 7; this bathyscope reads schemas 1 and 2"):
        read(tmp_path, content)
