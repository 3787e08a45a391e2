"""Every metric against numpy and scipy in float64, written from its definition."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.special import log_softmax, rel_entr
from torch import Tensor

from bathyscope.wavefront import compare as module
from bathyscope.wavefront.compare import METRICS, TOP, compare

TOKENS, VOCABULARY, ROWS, K, TOP_P = 23, 150, 3, 4, 0.7
TARGETS = torch.tensor([*np.random.default_rng(7).integers(0, VOCABULARY, TOKENS - 1), -1])
ALL = tuple(METRICS)


def draw(seed: int, ties: bool = False) -> Tensor:
    values = torch.randn(TOKENS, VOCABULARY, generator=torch.Generator().manual_seed(seed)) * 2
    return values.round() if ties else values


def measured(reference: Tensor, rows: list[Tensor], metrics: tuple[str, ...] = ALL) -> dict[str, Tensor]:
    return compare(
        lambda logits: logits,
        reference,
        rows,
        metrics,
        vocabulary=VOCABULARY,
        targets_N=TARGETS,
        k=K,
        top_p=TOP_P,
    )


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
        found["loss"].append(-log_q[TARGETS[t]] if TARGETS[t] >= 0 else np.nan)
        best = [set(np.argsort(-values, kind="stable")[:K].tolist()) for values in (ref, own)]
        found["overlap"].append(len(best[0] & best[1]) / K)
        found["rank"].append(1 + (own > own[np.argmax(ref)]).sum())
        likeliest = np.argsort(-own, kind="stable")[:TOP]
        found["top_ids"].append(likeliest)
        found["top_probabilities"].append(q[likeliest])
        found["kl_top_p"].append(terms[inside].sum())
        found["kl_tail"].append(np.delete(terms, inside).sum())
    return {name: np.array(values) for name, values in found.items()}


def test_every_metric_by_its_definition() -> None:
    reference, rows = draw(0), [draw(1), draw(0) + 0.1 * draw(2), draw(3) * 4]
    got = measured(reference, rows)
    assert set(got) == set(METRICS)
    for index, row in enumerate(rows):
        for name, values in expected(reference, row).items():
            np.testing.assert_allclose(got[name][index].numpy(), values, rtol=1e-10, atol=1e-12, err_msg=name)


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


@pytest.mark.parametrize("tokens_a_chunk", [1, 2, 5, 22])
def test_chunks_do_not_change_results(monkeypatch: pytest.MonkeyPatch, tokens_a_chunk: int) -> None:
    reference, rows = draw(0), [draw(1), draw(2)]
    whole = measured(reference, rows)
    sizes: list[int] = []

    def read(logits: Tensor) -> Tensor:
        sizes.append(len(logits))
        return logits

    monkeypatch.setattr(module, "_CHUNK_BYTES", 8 * 8 * VOCABULARY * tokens_a_chunk)
    monkeypatch.setattr(module, "_FEWEST_TOKENS", 1)
    got = compare(read, reference, rows, ALL, vocabulary=VOCABULARY, targets_N=TARGETS, k=K, top_p=TOP_P)
    assert max(sizes) <= tokens_a_chunk
    assert sum(sizes) == TOKENS * (1 + len(rows))
    for name in ALL:
        assert torch.equal(got[name].nan_to_num(-1), whole[name].nan_to_num(-1)), name


def test_rows_may_be_read_otherwise_than_the_reference() -> None:
    reference, row = draw(0), draw(1)
    halved = compare(
        lambda logits: logits,
        reference,
        [row],
        ("l2",),
        vocabulary=VOCABULARY,
        read_row=lambda own, ref: (own + ref) / 2,
    )
    torch.testing.assert_close(halved["l2"], measured(reference, [(row + reference) / 2], ("l2",))["l2"])


def test_small_differences_keep_their_digits() -> None:
    """A change of one part in a million in a probability near one is lost in float32."""
    reference = torch.zeros(1, 2, dtype=torch.float64)
    reference[0, 0] = 20.0
    row = reference.clone()
    row[0, 1] = 1e-6
    got = compare(lambda x: x, reference, [row], ("l2",), vocabulary=2)["l2"].item()
    p = np.exp(log_softmax(reference.numpy(), axis=-1))[0, 1]
    assert got == pytest.approx(np.sqrt(2) * p * (1 - p) * 1e-6, rel=1e-5)


def test_loss_needs_targets() -> None:
    with pytest.raises(ValueError, match="loss needs the next tokens"):
        compare(lambda x: x, draw(0), [draw(1)], ("loss",), vocabulary=VOCABULARY)


@pytest.mark.parametrize("by_row", [False, True])
def test_rows_that_are_read_together_are_those_read_alone(by_row: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """On an accelerator all rows of a chunk go into one product; the reference itself is not read again."""
    reference, one, other = (draw(seed) for seed in range(3))
    rows = [one, other, reference, other]
    read: list[int] = []

    def logits(vectors: Tensor, of_reference: Tensor | None = None) -> Tensor:
        read.append(len(vectors))
        return vectors if of_reference is None else vectors + of_reference

    def found(chunk: int) -> dict[str, Tensor]:
        monkeypatch.setattr(module, "_read_at_once", lambda vocabulary, device: chunk)
        given = {"vocabulary": VOCABULARY, "targets_N": TARGETS, "k": K, "top_p": TOP_P}
        return compare(logits, reference, rows, ALL, read_row=logits if by_row else None, **given)

    alone = found(TOKENS)
    assert read == [TOKENS] * (5 if by_row else 4)
    monkeypatch.setattr(module, "is_accelerator", lambda device: True)
    for chunk, calls in (
        (4 * TOKENS, [1, 4] if by_row else [1, 2, 1]),
        (2 * TOKENS, [1, 2, 2] if by_row else [1, 2, 1]),
    ):
        read.clear()
        together = found(chunk)
        assert read == [TOKENS * rows for rows in calls]
        for name in ALL:
            assert torch.equal(together[name].nan_to_num(), alone[name].nan_to_num()), name
    few = found(7)
    assert all(torch.equal(few[name].nan_to_num(), alone[name].nan_to_num()) for name in ALL)
