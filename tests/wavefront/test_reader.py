"""How residual vectors are read out: in large products, within the memory asked for, and by heads of every kind."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys

import pytest
import torch
from support import zoo
from torch import Tensor, nn

from bathyscope import ModelError, survey
from bathyscope.model import load
from bathyscope.model.anatomy.readout import Readout
from bathyscope.wavefront.compare import compare
from bathyscope.wavefront.reader import Reader

CPU = torch.device("cpu")
WIDTH, VOCABULARY = 16, 96


def states(seed: int, tokens: int = 40) -> Tensor:
    return torch.randn(tokens, WIDTH, generator=torch.Generator().manual_seed(seed))


def head() -> nn.Linear:
    linear = nn.Linear(WIDTH, VOCABULARY, bias=False)
    nn.init.normal_(linear.weight, generator=torch.Generator().manual_seed(9))
    return linear.requires_grad_(False)


@pytest.mark.parametrize("vocabulary", [512, 32_000, 49_152, 152_064, 262_144])
def test_products_are_large_and_slices_are_small(vocabulary: int) -> None:
    """A product is worth the unembedding's way from memory, and a slice stays near a core's cache in float64."""
    reader = Reader(Readout(None, head()), vocabulary)
    assert reader.product_tokens(CPU) >= 128
    assert reader.product_tokens(CPU) * vocabulary * 4 <= 160 << 20
    assert reader.slice_tokens(CPU) == 1 or reader.slice_tokens(CPU) * vocabulary * 8 <= 2 << 20


@pytest.mark.parametrize("room", [10**6, 10**7, 10**8, 10**9])
@pytest.mark.parametrize("vocabulary", [512, 12_000])
def test_no_more_memory_than_asked_for(room: int, vocabulary: int) -> None:
    reader = Reader(Readout(None, head()), vocabulary, room=room)
    products = reader.product_tokens(CPU) * vocabulary * 4
    slices = reader.slice_tokens(CPU) * vocabulary * 8 * 8
    assert products + slices <= room
    assert reader.bytes_at_once(10**9, CPU) <= room


def test_one_tokens_logits_beyond_the_memory_are_refused_before_compute() -> None:
    with pytest.raises(
        ModelError,
        match=r"Comparing the logits of one token \(a vocabulary of 262144\) takes 0\.0189 GB, and memory= leaves "
        r"0\.01 GB for it; allow more\.",
    ):
        Reader(Readout(None, head()), 262_144, room=10**7)


def test_a_survey_refuses_it_before_any_block_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(zoo.entry("llama").build())
    monkeypatch.setattr("bathyscope.wavefront.engine.Wavefront.run_convoy", lambda *_, **__: pytest.fail("a block ran"))
    with pytest.raises(ModelError, match=r"Comparing the logits of one token .* memory= leaves .* allow more"):
        survey(model, zoo.prompts(model.hf, (2,)), ["lens"], progress=False, memory=6000)


class OneRow(nn.Module):
    """A head that takes no more than one row's tokens."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.linear, self.most = head(), most

    def forward(self, normed_ND: Tensor) -> Tensor:
        if len(normed_ND) > self.most:
            raise ValueError(f"this head takes {self.most} vectors at most")
        return self.linear(normed_ND)


def test_a_head_that_refuses_several_rows_is_given_one_at_a_time_with_a_note(recwarn: pytest.WarningsRecorder) -> None:
    reference, rows = states(0), [states(1), states(2)]
    reader = Reader(Readout(None, OneRow(40)), VOCABULARY)
    got = [compare(reader, reference, rows, ("l2", "rank")) for _ in range(2)][-1]
    notes = [str(one.message) for one in recwarn if "unembedding" in str(one.message)]
    assert notes == [
        "The unembedding does not take several rows in one product (this head takes 40 vectors at most); "
        "rows are read one at a time."
    ]
    for row, values in zip(rows, got["l2"]):
        p, q = ((vectors @ head().weight.T).double().softmax(-1) for vectors in (reference, row))
        torch.testing.assert_close(values, (p - q).norm(dim=-1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("apart", [False, True])
def test_rows_have_a_product_of_their_own_where_that_is_asked_for(apart: bool) -> None:
    tokens_by_product: list[int] = []

    class Noting(nn.Linear):
        def forward(self, normed_ND: Tensor) -> Tensor:
            tokens_by_product.append(len(normed_ND))
            return super().forward(normed_ND)

    noting = Noting(WIDTH, VOCABULARY, bias=False).requires_grad_(False)
    rows = [states(seed, tokens=2) for seed in range(3)]
    values = compare(Reader(Readout(None, noting), VOCABULARY), rows[0], rows[1:], ["l2"], apart=apart)["l2"]
    assert tokens_by_product == ([2, 2, 2] if apart else [6])
    p = [noting(row).double().softmax(-1) for row in rows]
    torch.testing.assert_close(values, torch.stack([(q - p[0]).norm(dim=-1) for q in p[1:]]), rtol=1e-5, atol=1e-6)


def test_a_head_that_refuses_a_single_row_says_why() -> None:
    reader = Reader(Readout(None, OneRow(4)), VOCABULARY)
    with pytest.raises(ValueError, match="takes 4 vectors at most"):
        compare(reader, states(0), [states(1)], ("l2",))


def test_many_vectors_are_read_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    resid_ND, seen = states(0), []
    readout = Readout(None, head(), softcap=3.0, multiplier=0.5)
    monkeypatch.setattr(Reader, "product_tokens", lambda self, device: 15)
    monkeypatch.setattr(Reader, "slice_tokens", lambda self, device: 4)
    Reader(readout, VOCABULARY).read_in_slices(resid_ND, lambda first, logits_NV: seen.append((first, logits_NV)))
    assert [first for first, _ in seen][:5] == [0, 4, 8, 12, 13]
    assert max(len(logits_NV) for _, logits_NV in seen) == 4
    torch.testing.assert_close(torch.cat([logits_NV for _, logits_NV in seen]), readout(resid_ND))


_FAULTS = """
import resource
import torch
from bathyscope.model.anatomy.readout import Readout
from bathyscope.wavefront.compare import compare
from bathyscope.wavefront.reader import Reader

torch.set_num_threads(1)
head = torch.nn.Linear(4, 131_072, bias=False).requires_grad_(False)
reader = Reader(Readout(None, head), 131_072)
reference, row = torch.randn(2, 40, 4)
for _ in range(2):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    compare(reader, reference, [row], ["kl_from_reference", "entropy"])
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other limits")
def test_slices_are_compared_in_memory_that_is_there_already() -> None:
    """A slice's arrays of 2 MiB come from what earlier ones have freed; only products are new memory."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    output = subprocess.run([sys.executable, "-c", _FAULTS], env=variables, capture_output=True, text=True, check=True)
    product_pages = 2 * 40 * 131_072 * 4 // resource.getpagesize()
    # 20 slices have ten arrays of 512 pages each, which would be 100,000
    assert int(output.stdout) < 1.25 * product_pages + 5_000
