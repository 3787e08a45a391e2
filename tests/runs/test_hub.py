"""Runs on the hub, with a folder for a hub behind the library's own calls."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.errors import LocalTokenNotFoundError
from huggingface_hub.utils import filter_repo_objects
from support.synthetic_runs import identity, shard, summary

import bathyscope
from bathyscope.cli import main
from bathyscope.errors import OptionError, StoreError
from bathyscope.runs.hub import listing
from bathyscope.runs.opening import open_run
from bathyscope.runs.run import Run
from bathyscope.runs.writer import RunWriter


def written(path: Path | None) -> Run:
    with RunWriter.open(path, identity()) as writer:
        writer.attach("prompts", "prompts.jsonl", b'{"id": "0"}\n')
        for index in writer.missing:
            writer.write(index, shard(*identity()["plan"][index]))
        return writer.finish(summary(writer.merged()))


class FakeHub:
    """What of ``HfApi`` is called, on a folder; it keeps to the signatures of the library."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.private: dict[str, bool | None] = {}
        self.asked: list[str | None] = []

    def __call__(self) -> FakeHub:
        return self

    def create_repo(self, repo_id: str, *, repo_type: str, private: bool | None = None, exist_ok: bool = False) -> None:
        assert (repo_type, exist_ok) == ("dataset", True)
        self.private.setdefault(repo_id, private)
        (self.root / repo_id).mkdir(parents=True, exist_ok=True)

    def file_exists(self, repo_id: str, filename: str, *, repo_type: str) -> bool:
        return (self.root / repo_id / filename).is_file()

    def upload_folder(
        self, *, repo_id: str, folder_path: Path, repo_type: str, ignore_patterns: list[str], commit_message: str
    ) -> None:
        self._copied(folder_path, self.root / repo_id, ignore_patterns=ignore_patterns)

    def snapshot_download(
        self, repo_id: str, *, repo_type: str, revision: str | None, allow_patterns: list[str]
    ) -> str:
        self.asked.append(revision)
        if not (self.root / repo_id).is_dir():
            raise huggingface_hub.errors.LocalEntryNotFoundError("Cannot find the repository\nand more lines")
        kept = self.root / "cache" / repo_id
        self._copied(self.root / repo_id, kept, allow_patterns=allow_patterns)
        return str(kept)

    @staticmethod
    def _copied(source: Path, to: Path, **patterns: Any) -> None:
        there = [str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()]
        to.mkdir(parents=True, exist_ok=True)
        for name in filter_repo_objects(there, **patterns):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, to / name)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    fake = FakeHub(tmp_path / "hub")
    monkeypatch.setattr(huggingface_hub, "HfApi", fake)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fake.snapshot_download)
    return fake


@pytest.mark.parametrize("place", ["in memory", "in a folder"])
def test_a_pushed_run_is_opened_as_it_was(hub: FakeHub, tmp_path: Path, place: str) -> None:
    run = written(None if place == "in memory" else tmp_path / "written")
    address = run.push("user/name")
    assert address == "hf://datasets/user/name"
    assert hub.private == {"user/name": True}
    opened = bathyscope.open(address)
    assert opened.tree.identical(run.tree)
    assert opened.files == run.files
    assert opened.manifest["identity"] == run.manifest["identity"]
    assert not list((hub.root / "user/name").rglob(".*"))


def test_controls_and_revisions_come_along(hub: FakeHub, tmp_path: Path) -> None:
    written(tmp_path / "run")
    written(tmp_path / "run" / "controls" / "untrained-0")
    assert bathyscope.push(tmp_path / "run", "hf://datasets/user/name", private=False) == "hf://datasets/user/name"
    assert hub.private == {"user/name": False}
    (hub.root / "user/name" / "weights.bin").write_bytes(b"nobody asked for these")
    opened = bathyscope.open("hf://datasets/user/name@v1")
    assert list(opened.controls) == ["untrained-0"]
    assert hub.asked == ["v1"]
    assert opened.path is not None
    assert not (opened.path / "weights.bin").exists()


def test_an_altered_file_on_the_hub_is_found(hub: FakeHub, tmp_path: Path) -> None:
    written(tmp_path / "run").push("user/name")
    shard_file = next((hub.root / "user/name").glob("*.nc"))
    shard_file.write_bytes(shard_file.read_bytes()[:-1] + b"?")
    with pytest.raises(StoreError):
        bathyscope.open("hf://datasets/user/name")


def test_a_run_is_not_written_over(hub: FakeHub, tmp_path: Path) -> None:
    run = written(tmp_path / "run")
    run.push("user/name")
    with pytest.raises(StoreError, match="There is a run in hf://datasets/user/name already; push to another name"):
        run.push("user/name")


@pytest.mark.each
@pytest.mark.parametrize("to", ["name", "a/b/c", "user/", "", None])
def test_what_is_no_name_is_refused(to: Any, hub: FakeHub, tmp_path: Path) -> None:
    no_name = r"names no data set on the hub; give owner/name, or hf://datasets/owner/name"
    with pytest.raises(OptionError, match=r"to takes a text; None given" if to is None else no_name):
        written(tmp_path / "run").push(to)
    assert hub.private == {}


def test_what_the_hub_refuses_is_one_sentence(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise LocalTokenNotFoundError("Token is required\nbut none was found")

    with pytest.raises(StoreError, match=r"^Reading hf://datasets/no/body failed: Cannot find the repository\. A priv"):
        open_run("hf://datasets/no/body")
    (hub.root / "user/empty").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"hf://datasets/user/empty holds no run: there is no manifest\.json"):
        open_run("hf://datasets/user/empty")
    monkeypatch.setattr(hub, "create_repo", refused)
    with pytest.raises(StoreError, match=r"^Pushing to hf://datasets/user/name failed: Token is required\. Log in by"):
        written(tmp_path / "run").push("user/name")


def test_the_command_is_the_call(hub: FakeHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path / "run")
    assert main(["push", str(tmp_path / "run"), "user/name", "--no-private"]) == 0
    assert capsys.readouterr().out == "hf://datasets/user/name\n"
    assert hub.private == {"user/name": False}


def test_the_library_has_what_is_called() -> None:
    """The fake above answers to names and arguments that the library itself knows."""
    import inspect

    for name in ("create_repo", "file_exists", "upload_folder"):
        known = inspect.signature(getattr(huggingface_hub.HfApi, name)).parameters
        assert set(inspect.signature(getattr(FakeHub, name)).parameters) <= set(known), name
    known = inspect.signature(huggingface_hub.snapshot_download).parameters
    assert set(inspect.signature(FakeHub.snapshot_download).parameters) - {"self"} <= set(known)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"id": "0", "pieces": ["a"]}', "with the texts of its prompts"),
        ('{"pieces" : ["a"]}', "with the texts of its prompts"),
        ("no JSON", "with the texts of its prompts"),
        ('{"id": "\\"pieces\\":"}', "with token ids and without texts"),
    ],
)
def test_whether_texts_are_published_is_told_however_they_are_written(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "prompts.jsonl").write_text(f'{{"id": "1"}}\n{line}\n')
    assert said in listing(tmp_path, "a/b")
