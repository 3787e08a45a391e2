"""Files of Jacobian lenses: what is written is read, published files are converted, everything else is refused."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from bathyscope.errors import StoreError
from bathyscope.measures.jacobian.files import open_lens
from bathyscope.measures.jacobian.matrices import FittedLens, LensOrigin


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
    with pytest.raises(StoreError, match=r"is no whole Jacobian lens .* Fit it again"):
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
