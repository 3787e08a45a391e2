"""The time left is true on a clock that follows the work that is done, whatever the vocabulary and the length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer

import bathyscope
from bathyscope.core import progress
from bathyscope.core.progress import ProgressBar
from bathyscope.measures.lens import LensProbe
from bathyscope.surveying.advancing import ConvoyProgress, Weights
from bathyscope.surveying.asking import Survey
from bathyscope.surveying.rates import NOMINAL
from bathyscope.surveying.work import weight_flops
from bathyscope.wavefront.reader import Reader

RATES = NOMINAL[False]


class Clock:
    """Seconds of blocks that were called and of vectors that were read out, at the rates of the cost model."""

    def __init__(self) -> None:
        self.now = 0.0
        self.by_kind = {"blocks": 0.0, "readouts": 0.0}
        self.in_all_ways = False

    def monotonic(self) -> float:
        return self.now

    def spend(self, kind: str, seconds: float) -> None:
        self.now += seconds
        self.by_kind[kind] += seconds


def build(vocabulary: int) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=6,
        num_attention_heads=4,
        max_position_embeddings=256,
        eos_token_id=None,
    )
    return LlamaForCausalLM(config).eval()


@pytest.mark.parametrize("measures", [["lens", "skip"], ["drop"]])
@pytest.mark.parametrize("tokens", [16, 80])
@pytest.mark.parametrize("vocabulary", [64, 8000])
def test_time_left_is_true_within_a_factor_of_two(
    vocabulary: int, tokens: int, measures: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hf, clock = build(vocabulary), Clock()
    model = bathyscope.load(hf)
    flops = weight_flops(model.anatomy) / model.n_blocks

    forward = LlamaDecoderLayer.forward

    def count_block(block: LlamaDecoderLayer, hidden_states: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        clock.spend("blocks", hidden_states.shape[:-1].numel() * flops / float(RATES.blocks or 1))
        return forward(block, hidden_states, *arguments, **options)

    product, finish = Reader.product, LensProbe.finish

    def count_product(reader: Reader, normed_ND: torch.Tensor, device: torch.device) -> torch.Tensor:
        rate = RATES.in_all_ways if clock.in_all_ways else RATES.compared
        clock.spend("readouts", len(normed_ND) * vocabulary / float(rate or 1))
        return product(reader, normed_ND, device)

    def finish_lens(probe: LensProbe, final: Any) -> None:
        clock.in_all_ways = True
        finish(probe, final)
        clock.in_all_ways = False

    seen: list[tuple[float, float, float]] = []
    advance_to = ProgressBar.advance_to

    def note(bar: ProgressBar, done: float) -> None:
        advance_to(bar, done)
        if bar.seconds_left is not None:
            seen.append((clock.now, done / bar._total, bar.seconds_left))

    monkeypatch.setattr(progress.time, "monotonic", clock.monotonic)
    monkeypatch.setattr(Reader, "product", count_product)
    monkeypatch.setattr(LensProbe, "finish", finish_lens)
    monkeypatch.setattr(ProgressBar, "advance_to", note)
    rng = np.random.default_rng(0)
    prompts = rng.integers(2, 64, (8, tokens)).tolist()
    monkeypatch.setattr(LlamaDecoderLayer, "forward", count_block)
    clock.now = 0.0
    bathyscope.survey(model, prompts, measures, batch_tokens=2 * tokens)
    end = clock.now
    assert (np.diff([share for _, share, _ in seen]) > -1e-9).all(), "it never goes back"
    assert seen[-1][1] == pytest.approx(1)
    if vocabulary > 1000:
        assert clock.by_kind["readouts"] > clock.by_kind["blocks"]
    for wanted in (0.25, 0.5, 0.75):
        now, _, left = next(entry for entry in seen if entry[1] >= wanted - 1e-9)
        truth = end - now
        # near the end a single product is most of what is left
        assert truth / 2 <= left <= truth * 2 or max(left, truth) < 0.1 * end, (wanted, left, truth, end)


def test_the_weights_of_a_plan_are_the_seconds_of_its_cost_model() -> None:
    model = bathyscope.load(build(8000))
    plan = Survey(["lens", "skip", "gradient"]).plan(model, [list(range(2, 40)), list(range(3, 20))])
    weights = plan.weights_of(range(2), plan.measures)
    work = plan.work_of(range(2), plan.measures)
    assert weights.seconds == pytest.approx(sum(RATES.seconds_of(prompt, 8000) for prompt in work))
    assert weights.after > 0
    assert sum(plan.weights_of(range(2), [measure]).after for measure in plan.measures) == pytest.approx(weights.after)
    assert sum(plan.work) == pytest.approx(weights.seconds)


def test_more_readouts_than_were_planned_do_not_run_ahead() -> None:
    bar = ProgressBar("surveying", 10, quiet=True)
    seen: list[float] = []
    bar.advance_to = seen.append  # type: ignore[method-assign]
    moving = ConvoyProgress(bar, 2.0, Weights(blocks=1.0, readouts=4.0, after=1.0, vectors=10))
    reader: Any = type("Reader", (), {"on_read": None})()
    with moving.watch(reader):
        moving.visit(1, 2)
        reader.on_read(5)
        reader.on_read(50)
        moving.visit(2, 2)
        moving.compute_after(3.0)
    assert seen == [2.5, 4.5, 6.5, 7.0, 8.0]
    assert reader.on_read is None
