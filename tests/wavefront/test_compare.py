"""Every metric against numpy and scipy in float64, written from its definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.special import log_softmax, rel_entr
from torch import Tensor, nn

from bathyscope.model.anatomy.readout import Readout
from bathyscope.wavefront import reader as module
from bathyscope.wavefront.compare import compare
from bathyscope.wavefront.distribution import Distribution
from bathyscope.wavefront.metrics import METRICS, TOP, Pair
from bathyscope.wavefront.reader import Reader

TOKENS, VOCABULARY, ROWS, K, TOP_P = 23, 150, 3, 4, 0.7
TARGETS = torch.tensor([*np.random.default_rng(7).integers(0, VOCABULARY, TOKENS - 1), -1])
ALL = tuple(METRICS)


def draw(seed: int, ties: bool = False) -> Tensor:
    values = torch.randn(TOKENS, VOCABULARY, generator=torch.Generator().manual_seed(seed)) * 2
    return values.round() if ties else values


def measured(reference: Tensor, rows: list[Tensor], metrics: tuple[str, ...] = ALL) -> dict[str, Tensor]:
    return compare(read_as_it_is(), reference, rows, metrics, targets_N=TARGETS, k=K, top_p=TOP_P)


def read_as_it_is(head: nn.Module | None = None, vocabulary: int = VOCABULARY) -> Reader:
    """A reader of vectors that are logits already."""
    return Reader(Readout(None, head or nn.Identity()), vocabulary)


class Recorder(nn.Module):
    """Notes how many vectors each product holds."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def forward(self, vectors_ND: Tensor) -> Tensor:
        self.sizes.append(len(vectors_ND))
        return vectors_ND


def expected(reference: Tensor, row: Tensor) -> dict[str, np.ndarray]:
    """The definitions, one token at a time."""
    found: dict[str, list[float | np.ndarray]] = {name: [] for name in ALL}
    for t in range(TOKENS):
        ref, own = reference[t].double().numpy(), row[t].double().numpy()
        log_p, log_q = log_softmax(ref), log_softmax(own)
        p, q = np.exp(log_p), np.exp(log_q)
        order = np.argsort(-ref, kind="stable")
        inside = order[: int(np.searchsorted(np.cumsum(p[order]), TOP_P) + 1)]
        terms = rel_entr(q, p)
        found["kl_from_reference"].append(rel_entr(p, q).sum())
        found["kl_to_reference"].append(terms.sum())
        found["jsd"].append(jensenshannon(p, q, base=2) ** 2)
        found["l2"].append(np.sqrt(((p - q) ** 2).sum()))
        found["entropy"].append(-(q * np.log2(q)).sum())
        found["top1_agreement"].append(float(np.argmax(ref) == np.argmax(own)))
        found["top1_id"].append(float(np.argmax(own)))
        found["top1_probability"].append(q[np.argmax(own)])
        found["loss"].append(-log_q[TARGETS[t]] if TARGETS[t] >= 0 else np.nan)
        best = [set(np.argsort(-values, kind="stable")[:K].tolist()) for values in (ref, own)]
        found["overlap"].append(len(best[0] & best[1]) / K)
        found["rank"].append(1 + (own > own[np.argmax(ref)]).sum())
        likeliest = np.argsort(-own, kind="stable")[:TOP]
        found["top_ids"].append(likeliest)
        found["top_probabilities"].append(q[likeliest])
        found["kl_top_p"].append(terms[inside].sum())
        found["kl_tail"].append(np.delete(terms, inside).sum())
        second, first = np.sort(p)[-2:]
        found["final_margin"].append(first - second)
    return {name: np.array(values) for name, values in found.items()}


def test_every_metric_by_its_definition() -> None:
    reference, rows = draw(0), [draw(1), draw(0) + 0.1 * draw(2), draw(3) * 4]
    got = measured(reference, rows)
    assert set(got) == set(METRICS)
    for index, row in enumerate(rows):
        for name, values in expected(reference, row).items():
            np.testing.assert_allclose(got[name][index].numpy(), values, rtol=1e-10, atol=1e-12, err_msg=name)


def test_logits_in_float64_stay_as_they_are() -> None:
    logits = draw(0).double()
    before = logits.clone()
    assert torch.isfinite(Distribution(logits).neg_entropy).all()
    torch.testing.assert_close(logits, before, rtol=0, atol=0)


@pytest.mark.parametrize("name", [n for n in ALL if n not in ("overlap", "kl_top_p", "kl_tail", "top_ids")])
def test_ties_do_not_change_what_is_defined(name: str) -> None:
    reference, rows = draw(0, ties=True), [draw(1, ties=True), draw(0, ties=True)]
    got = measured(reference, rows, (name,))[name]
    for index, row in enumerate(rows):
        np.testing.assert_allclose(
            got[index].numpy(), expected(reference, row)[name], rtol=1e-10, atol=1e-12, equal_nan=True
        )


def test_equal_logits_with_ties_agree_wholly() -> None:
    reference = torch.zeros(TOKENS, VOCABULARY)
    got = measured(reference, [reference.clone()])
    for name in ("kl_from_reference", "kl_to_reference", "jsd", "l2", "kl_top_p", "kl_tail"):
        assert (got[name] == 0).all(), name
    for name in ("overlap", "top1_agreement", "rank"):
        assert (got[name] == 1).all(), name
    torch.testing.assert_close(got["entropy"], torch.full((1, TOKENS), np.log2(VOCABULARY)).double())


def test_a_top_set_wider_than_the_first_look() -> None:
    """A nearly flat reference needs more tokens than the 64 that are looked at first."""
    reference, row = draw(0) * 0.01, draw(1)
    got, wanted = measured(reference, [row]), expected(reference, row)
    np.testing.assert_allclose(got["kl_top_p"][0].numpy(), wanted["kl_top_p"], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose((got["kl_top_p"] + got["kl_tail"])[0].numpy(), wanted["kl_to_reference"], rtol=1e-10)


@pytest.mark.parametrize(
    ("tokens_a_product", "tokens_a_slice"), [(2, 1), (3, 2), (7, 3), (24, 24), (1000, 5), (69, 50)]
)
def test_products_and_slices_do_not_change_results(
    monkeypatch: pytest.MonkeyPatch, tokens_a_product: int, tokens_a_slice: int
) -> None:
    reference = draw(0)
    rows = [draw(1), reference, draw(2)]
    whole, recorder = measured(reference, rows), Recorder()
    monkeypatch.setattr(Reader, "product_tokens", lambda self, device: tokens_a_product)
    monkeypatch.setattr(Reader, "slice_tokens", lambda self, device: tokens_a_slice)
    got = compare(read_as_it_is(recorder), reference, rows, ALL, targets_N=TARGETS, k=K, top_p=TOP_P)
    assert max(recorder.sizes) <= tokens_a_product
    # the reference once in each product with rows; it is not read again for itself
    assert sum(recorder.sizes) == TOKENS * (3 if tokens_a_product >= 3 else 4)
    for name in ALL:
        np.testing.assert_array_equal(got[name].numpy(), whole[name].numpy(), err_msg=name)


def test_rows_may_be_normed_otherwise_than_the_reference() -> None:
    reference, rows = draw(0), [draw(1), draw(2)]
    halved = compare(read_as_it_is(), reference, rows, ("l2",), norm_row=lambda row, ref: (row + ref) / 2)["l2"]
    expected_rows = [(row + reference) / 2 for row in rows]
    torch.testing.assert_close(halved, measured(reference, expected_rows, ("l2",))["l2"])


def test_small_differences_keep_their_digits() -> None:
    """A change of one part in a million in a probability near one is lost in float32."""
    reference = torch.zeros(1, 2, dtype=torch.float64)
    reference[0, 0] = 20.0
    row = reference.clone()
    row[0, 1] = 1e-6
    got = compare(read_as_it_is(vocabulary=2), reference, [row], ("l2",))["l2"].item()
    p = np.exp(log_softmax(reference.numpy(), axis=-1))[0, 1]
    assert got == pytest.approx(np.sqrt(2) * p * (1 - p) * 1e-6, rel=1e-5)


def test_loss_needs_targets() -> None:
    with pytest.raises(ValueError, match="loss needs the next tokens"):
        compare(read_as_it_is(), draw(0), [draw(1)], ("loss",))


def test_an_accelerator_reads_all_rows_in_one_product(monkeypatch: pytest.MonkeyPatch) -> None:
    reference, rows = draw(0), [draw(1), draw(2)]
    alone, recorder = measured(reference, rows), Recorder()
    monkeypatch.setattr(module, "is_accelerator", lambda device: True)
    together = compare(read_as_it_is(recorder), reference, rows, ALL, targets_N=TARGETS, k=K, top_p=TOP_P)
    assert recorder.sizes == [3 * TOKENS]
    for name in ALL:
        np.testing.assert_array_equal(together[name].numpy(), alone[name].numpy(), err_msg=name)


def wide_logits(seed: int, vocabulary: int) -> Tensor:
    """Logits with many equal ones, the largest among them."""
    values = torch.randn(3, 5, vocabulary, generator=torch.Generator().manual_seed(seed)) * 3
    return values.round().clamp_max(7)


@pytest.mark.parametrize("vocabulary", [511, 512, 2048, 2051, 2111])
def test_looking_at_segments_finds_what_looking_at_every_value_finds(vocabulary: int) -> None:
    """Whether or not the last segment is a whole one; the first of equal values is the most probable."""
    logits = wide_logits(0, vocabulary)
    # largest in the last few values, alone
    logits[0, 0, -1] = 9.0
    logits[0, 1] = -torch.inf
    distribution = Distribution(logits)
    assert torch.equal(distribution.top1, torch.from_numpy(logits.numpy().argmax(-1)))
    assert torch.equal(distribution.largest, logits.max(-1, keepdim=True).values)
    tops = logits.gather(-1, distribution.top_k(5))
    assert torch.equal(tops, logits.sort(-1, descending=True).values[..., :5])
    for place in (0, vocabulary // 2, vocabulary - 1):
        for values in (logits[..., place], distribution.largest[..., 0], distribution.largest[..., 0] - 0.5):
            counts = (logits.numpy() > values.numpy()[..., None]).sum(-1)
            assert torch.equal(distribution.count_above(values[..., None]), torch.from_numpy(counts))


def test_nan_is_more_probable_than_anything_as_for_torch() -> None:
    logits = wide_logits(1, 2051)
    logits[1, 2, 700] = logits[1, 2, 1900] = torch.nan
    logits[2, 2, 2050] = torch.nan
    assert torch.equal(Distribution(logits).top1, logits.argmax(-1))


def test_a_token_without_numbers_does_not_keep_others_from_theirs() -> None:
    """What is not finite is refused once all of it is known, by the measure that asked."""
    reference, row = (torch.randn(4, 2111, generator=torch.Generator().manual_seed(seed)) for seed in (3, 4))
    alone = Pair(Distribution(reference[:3]), Distribution(row[:3]), None).kl_top
    reference[3, 5] = torch.inf
    together = Pair(Distribution(reference), Distribution(row), None).kl_top
    torch.testing.assert_close(together[:3], alone)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("sharpness", [0.05, 1.0, 8.0])
def test_sets_of_any_size_hold_their_share(sharpness: float, ties: bool) -> None:
    """From one token to nearly the whole vocabulary: as few of the most probable as reach the share."""
    reference, row = (torch.randn(4, 2111, generator=torch.Generator().manual_seed(seed)) for seed in (3, 4))
    if ties:
        reference = reference.mul(4).round().div(4)
    reference *= sharpness
    pair = Pair(Distribution(reference), Distribution(row), None, top_p=TOP_P)
    for token in range(4):
        log_p, log_q = log_softmax(reference[token].double().numpy()), log_softmax(row[token].double().numpy())
        descending = np.sort(np.exp(log_p))[::-1]
        size = int(np.searchsorted(np.cumsum(descending), TOP_P) + 1)
        terms = np.exp(log_q) * (log_q - log_p)
        certain, possible = np.exp(log_p) > descending[size - 1] * (1 + 1e-12), np.exp(log_p) >= descending[size - 1]
        missing = size - certain.sum()
        # any of the equally probable tokens may be the last ones
        border = np.sort(terms[possible & ~certain])
        least, most = (
            terms[certain].sum() + part.sum() for part in (border[:missing], border[len(border) - missing :])
        )
        assert least - 1e-9 <= float(pair.kl_top[token]) <= most + 1e-9


@pytest.mark.parametrize("spread", [0.01, 1.0, 4.0])
def test_equal_distributions_over_a_large_vocabulary_do_not_diverge(spread: float) -> None:
    """Sums over hundreds of thousands of tokens round, which is no divergence."""
    logits = torch.randn(2, 262_144, generator=torch.Generator().manual_seed(2)) * spread
    pair = Pair(Distribution(logits), Distribution(logits.clone()), None)
    assert (METRICS["jsd"](pair) == 0).all()
