"""Files of Jacobian lenses: what is written is read, published files are converted, everything else is refused."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections import OrderedDict
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from bathyscope.errors import StoreError
from bathyscope.measures.jacobian.files import open_lens
from bathyscope.measures.jacobian.matrices import FittedLens, LensOrigin
from bathyscope.measures.jacobian.writing import FORMAT


def lens() -> FittedLens:
    generator = torch.Generator().manual_seed(0)
    origin = LensOrigin("m", "ab", 2, 3, 4, 5, "p", "cd", 6, (("torch", "1"),))
    sums = torch.randn(2, 2, 6, 6, generator=generator)
    return FittedLens(origin, (0, 1), sums, (3, 2), torch.tensor([1.0, 2.0], dtype=torch.float64))


def published(**changes: Any) -> dict[str, Any]:
    matrices = {layer: torch.full((4, 4), layer + 1.0, dtype=torch.float16) for layer in (0, 1, 2)}
    return {"J": matrices, "n_prompts": 10, "d_model": 4, "source_layers": [0, 1, 2], **changes}


def test_a_lens_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = lens().save(tmp_path / "deeper" / "lens.safetensors")
    found = open_lens(path)
    assert torch.equal(found.sums_HBDD, lens().sums_HBDD)
    assert (found.origin, found.boundaries, found.counts) == (lens().origin, (0, 1), (3, 2))
    assert torch.equal(found.squares_B, lens().squares_B)
    assert found.fingerprint == lens().fingerprint
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_published_file_is_converted(tmp_path: Path) -> None:
    torch.save(published(), tmp_path / "lens.pt")
    found = open_lens(tmp_path / "lens.pt")
    assert found.boundaries == (1, 2, 3)  # layer 0 of the reference is what block 0 gives
    assert torch.equal(found.matrix(2), torch.full((4, 4), 2.0))
    assert found.prompts == 10
    assert found.data.half_agreement.isnull().all()


class Harm:
    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemExit('ran')",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"J": Harm()}, "holds more than plain tensors, or is damaged"),
        ([1, 2], "is no Jacobian lens. Give a file with the entries J, n_prompts and d_model"),
        ({"J": {}, "n_prompts": 1, "d_model": 4}, "J is not one 4 × 4 matrix for each layer"),
        (published(d_model=5), "J is not one 5 × 5 matrix for each layer"),
    ],
)
def test_other_pickles_are_refused(content: Any, message: str, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "lens.pt", pickle_module=pickle)
    with pytest.raises(StoreError, match=message):
        open_lens(tmp_path / "lens.pt")


def test_what_is_no_lens_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no such file. Give a file that fit_lens"):
        open_lens(tmp_path / "none.safetensors")
    save_file({"weight": torch.zeros(2)}, tmp_path / "weights.safetensors")
    with pytest.raises(StoreError, match=r"is no Jacobian lens. Give a file that fit_lens"):
        open_lens(tmp_path / "weights.safetensors")
    whole = lens().save(tmp_path / "lens.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(whole[:-40])
    with pytest.raises(StoreError, match=r"is no whole Jacobian lens .* Fit it again, or give a file"):
        open_lens(tmp_path / "cut.safetensors")


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"The lens cannot be written to .* Free space, or give another path"):
        lens().save(tmp_path / "file" / "lens.safetensors")


def test_matrices_that_are_the_same_numbers_are_not_made_several(tmp_path: Path) -> None:
    shared = torch.eye(4)
    torch.save(published(J=dict.fromkeys(range(1000), shared), d_model=4), tmp_path / "lens.pt")
    with pytest.raises(StoreError, match=r"is no Jacobian lens: several of its matrices are the same numbers\. Give"):
        open_lens(tmp_path / "lens.pt")


def with_pickle(path: Path, pickled: bytes, name: str = "data.pkl", further: bytes | None = None) -> Path:
    """Write an archive of ``torch.save`` with another pickle in it."""
    honest = BytesIO()
    torch.save(published(), honest)
    with zipfile.ZipFile(honest) as source, zipfile.ZipFile(path, "w") as archive:
        for entry in source.infolist():
            if not entry.filename.endswith("data.pkl"):
                archive.writestr(entry.filename, source.read(entry))
                continue
            archive.writestr(entry.filename.replace("data.pkl", name), pickled)
            if further is not None:
                archive.writestr(entry.filename.replace("data.pkl", "DATA.pkl"), further)
    return path


def calling(module: str, name: str, arguments: bytes) -> bytes:
    """Return a pickle that calls a function; ``arguments`` leaves their tuple."""
    return b"\x80\x02}X\x01\x00\x00\x00xc" + f"{module}\n{name}\n".encode() + arguments + b"Rs."


GIGABYTES = b"J" + (2**31 - 1).to_bytes(4, "little") + b"\x85"
SAFE = b"\x80\x02}."
HOSTILE: dict[str, tuple[bytes, str]] = {
    "bytearray": (calling("__builtin__", "bytearray", GIGABYTES), "it calls __builtin__.bytearray"),
    "builtins": (calling("builtins", "bytearray", GIGABYTES), "it calls builtins.bytearray"),
    "encode": (calling("_codecs", "encode", b"X\x01\x00\x00\x00x\x85"), "it calls _codecs.encode"),
    "sparse": (calling("torch._utils", "_rebuild_sparse_tensor", b")"), "it calls torch._utils._rebuild_sparse_tensor"),
    "a tensor of any size": (calling("torch", "empty", GIGABYTES), "it calls torch.empty"),
    "a step of objects": (b"\x80\x02}ccollections\nOrderedDict\n)\x81.", "it takes the step NEWOBJ"),
    "tuples of tuples": (
        b"\x80\x02Nq\x00" + b"".join(bytes([104, i, 104, i, 134, 113, i + 1]) for i in range(40)) + b".",
        "it holds one tuple twice",
    ),
    "a number taken again": (b"\x80\x02Nq\x00Nq\x00.", "it numbers its values out of order"),
    "a step that drops": (b"\x80\x02}N0.", "it takes the step POP"),
    "cut short": (b"\x80\x02}", "exhausted"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_asks_for_more_than_tensors_is_refused_before_it_is_read(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pickled, message = HOSTILE[kind]
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("the file is read"))
    for name in ("data.pkl", "DATA.PKL"):
        with pytest.raises(StoreError) as refusal:
            open_lens(with_pickle(tmp_path / "lens.pt", pickled, name))
        assert message in str(refusal.value)
        assert "Give a file with the entries J, n_prompts and d_model" in str(refusal.value)


def test_archives_that_another_reader_reads_otherwise_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("the file is read"))
    twice = with_pickle(tmp_path / "twice.pt", SAFE, further=calling("builtins", "bytearray", GIGABYTES))
    with pytest.raises(StoreError, match="two of its entries have one name"):
        open_lens(twice)
    # the reader of PyTorch takes this for a pickle, with an archive behind it
    behind = tmp_path / "behind.pt"
    behind.write_bytes(calling("builtins", "bytearray", GIGABYTES) + with_pickle(tmp_path / "a.pt", SAFE).read_bytes())
    torch.save(published(), tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    for file in (behind, tmp_path / "old.pt"):
        with pytest.raises(StoreError, match="it is no archive of torch"):
            open_lens(file)


@pytest.mark.parametrize("name", ["n_prompts", "d_model"])
def test_values_that_are_no_numbers_are_not_written_out(name: str, tmp_path: Path) -> None:
    nested: list[Any] = []
    for _ in range(60):
        nested = [nested, nested]
    torch.save(published(**{name: nested}), tmp_path / "lens.pt")
    with pytest.raises(StoreError, match=f"its {name} is no number"):
        open_lens(tmp_path / "lens.pt")


def test_every_kind_of_dense_tensor_is_read(tmp_path: Path) -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        matrices = {layer: torch.eye(4, dtype=dtype) for layer in range(3)}
        extra = {
            "dtype": torch.float32,
            "rows": torch.nn.Parameter(torch.ones(2)),
            "shape": (2, 3),
            "of": [1, None, "a"],
        }
        torch.save({**published(J=OrderedDict(matrices)), **extra}, tmp_path / "lens.pt")
        assert torch.equal(open_lens(tmp_path / "lens.pt").matrix(3), torch.eye(4))


def test_a_layer_before_the_first_is_refused(tmp_path: Path) -> None:
    torch.save(published(J={-1: torch.eye(4)}), tmp_path / "lens.pt")
    with pytest.raises(StoreError, match="it has a matrix of boundary 0"):
        open_lens(tmp_path / "lens.pt")


def test_trained_parameters_are_matrices_like_others(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    torch.save(published(J={0: torch.nn.Parameter(torch.eye(4))}), tmp_path / "lens.pt")
    assert open_lens(tmp_path / "lens.pt").to_dataframe().identity_share.tolist() == [1.0]
    assert [str(warning.message) for warning in recwarn] == []


@pytest.mark.parametrize("value", ["text", {"a": 1}])
def test_prompts_that_a_lens_is_fitted_to_are_a_list(value: object, tmp_path: Path) -> None:
    path = lens().save(tmp_path / "lens.safetensors")
    with safe_open(path, "pt") as file:
        about = json.loads(file.metadata()[FORMAT])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    about["origin"]["fitted"] = value
    path.unlink()
    save_file(tensors, path, {FORMAT: json.dumps(about)})
    with pytest.raises(StoreError, match="what it was fitted to is no list"):
        open_lens(path)
