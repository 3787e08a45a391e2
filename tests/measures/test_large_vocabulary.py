"""Surveys of models whose vocabulary is as large as real ones', and whose logits are capped or scaled at the end.

Large vocabularies are read out in products and compared in slices, and looked at by segments. The oracle reads nothing
out itself: the model's own logits are taken while its last block answers with an earlier boundary.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.special import log_softmax, rel_entr
from support import naive
from support.altered import answering
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

from bathyscope import load, survey

VOCABULARY, TOP_P = 20_011, 0.9
SIZES: dict[str, Any] = {
    **{"vocab_size": VOCABULARY, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2},
    **{"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "pad_token_id": 0},
}
KINDS: dict[str, dict[str, Any]] = {
    "gemma2": {"final_logit_softcapping": 12.0, "query_pre_attn_scalar": 8},
    "granite": {"logits_scaling": 0.25},
    "cohere": {"logit_scale": 3.0},
}
IDS = np.random.default_rng(5).integers(3, VOCABULARY, 7).tolist()


def build(kind: str) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        hf = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **SIZES, **KINDS[kind])).eval()
        for parameter in hf.parameters():
            parameter.data.normal_(std=0.5)
    return hf


def read_boundary(hf: Any, boundary_TD: Tensor) -> Tensor:
    """The model's own logits [T, V] behind a boundary."""
    last = naive.blocks_of(hf)[-1]

    def answer(_: Any, output: Any) -> Any:
        return (boundary_TD[None], *output[1:]) if isinstance(output, tuple) else boundary_TD[None]

    with answering(last, answer):
        return naive.logits(hf, IDS)


def lens_of(final: np.ndarray, early: np.ndarray, target: int | None) -> dict[str, float]:
    """The lens of one token by its definitions."""
    log_p, log_q = log_softmax(final.astype(np.float64)), log_softmax(early.astype(np.float64))
    p, q = np.exp(log_p), np.exp(log_q)
    order, row_order = np.argsort(-final, kind="stable"), np.argsort(-early, kind="stable")
    inside = order[: int(np.searchsorted(np.cumsum(p[order]), TOP_P) + 1)]
    terms = rel_entr(q, p)
    return {
        "kl_lens_final": terms.sum(),
        "kl_final_lens": rel_entr(p, q).sum(),
        "jsd": jensenshannon(p, q, base=2) ** 2,
        "entropy": -(q * log_q).sum() / np.log(2),
        "overlap": len(set(order[:5].tolist()) & set(row_order[:5].tolist())) / 5,
        "top1_agreement": float(order[0] == row_order[0]),
        "mrr": 1 / (1 + (early > early[order[0]]).sum()),
        "cross_entropy": np.nan if target is None else -log_q[target],
        "kl_top_p": terms[inside].sum(),
        "kl_tail": np.delete(terms, inside).sum(),
    }


@pytest.mark.parametrize("kind", ["gemma2", "granite", pytest.param("cohere", marks=pytest.mark.thorough)])
def test_capped_and_scaled_logits_of_a_large_vocabulary(kind: str) -> None:
    hf = build(kind)
    blocks = naive.blocks_of(hf)
    boundaries, final = naive.boundaries(hf, blocks, IDS), naive.logits(hf, IDS)
    run = survey(load(hf), [IDS], ["lens", "skip"], progress=False, skip={"positions": [[4]]})
    lens = run["lens"].isel(prompt=0)
    for number, boundary_TD in enumerate(boundaries):
        early = read_boundary(hf, boundary_TD)
        targets = [*IDS[1:], None]
        tokens = [lens_of(f.numpy(), e.numpy(), target) for f, e, target in zip(final, early, targets)]
        for name in tokens[0]:
            expected = np.nanmean([token[name] for token in tokens])
            np.testing.assert_allclose(lens[name].values[number], expected, rtol=1e-4, atol=1e-6, err_msg=name)
    effects = run["skip"].sel(part="block").isel(prompt=0)
    for block in range(2):
        for changed, name in (
            (naive.skip_all(hf, blocks, IDS, block), "output_all"),
            (naive.skip_future(hf, blocks, IDS, block, 4), "output_future"),
        ):
            first = 4 if name == "output_future" else 0
            expected = naive.output_change(final, changed[1])[first:].max()
            np.testing.assert_allclose(effects[name].sel(reduction="max").values[block], expected, rtol=1e-4, atol=1e-6)


def test_the_final_step_shows() -> None:
    """The oracle tells capped and scaled logits from plain ones."""
    for kind in KINDS:
        hf = build(kind)
        plain = hf.get_output_embeddings()(hf.base_model(torch.tensor([IDS])).last_hidden_state)[0]
        assert (plain - naive.logits(hf, IDS)).abs().max() > 1
