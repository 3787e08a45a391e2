"""The time left is true on a clock that follows the work that is done, whatever the vocabulary and the length."""

from __future__ import annotations

from dataclasses import replace
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
from bathyscope.model import Model
from bathyscope.surveying import computing
from bathyscope.surveying.advancing import ConvoyProgress, Weights
from bathyscope.surveying.asking import Survey
from bathyscope.surveying.rates import NOMINAL, Rates
from bathyscope.surveying.work import weight_flops
from bathyscope.wavefront.reader import Reader

RATES = NOMINAL[False]


class Clock:
    """Seconds of blocks that were called and of vectors that were read out, at the rates of the cost model."""

    def __init__(self) -> None:
        self.now = 0.0
        self.by_kind = {"blocks": 0.0, "readouts": 0.0}
        self.in_all_ways = False
        self.bars: dict[ProgressBar, list[tuple[float, float, float]]] = {}

    def monotonic(self) -> float:
        return self.now

    def spend(self, kind: str, seconds: float) -> None:
        self.now += seconds
        self.by_kind[kind] += seconds


def build(vocabulary: int, blocks: int = 6) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=blocks,
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
    model, clock = bathyscope.load(build(vocabulary)), Clock()
    seen = run_by(clock, RATES, model, monkeypatch)
    rng = np.random.default_rng(0)
    prompts = rng.integers(2, 64, (8, tokens)).tolist()
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


QUICK_BLOCKS = Rates(matrix=4e11, compared=5e6, in_all_ways=2e6, blocks=4e11, device="cpu")
"""Of a machine whose blocks are ten times as fast as the cost model thinks, and readouts five times as slow."""
QUICK_READOUTS = Rates(matrix=1e10, compared=2e8, in_all_ways=1e8, blocks=1e10, device="cpu")
SHAPES = {
    "small vocabulary, shallow": (64, 3, ["drop"], QUICK_BLOCKS),
    "large vocabulary, deep, no lens": (8000, 12, ["drop"], QUICK_BLOCKS),
    "large vocabulary, shallow, lens": (8000, 3, ["lens"], QUICK_BLOCKS),
    "large vocabulary, deep, lens": (8000, 12, ["lens", "skip"], QUICK_BLOCKS),
    "large vocabulary, quick readouts": (8000, 6, ["lens", "drop"], QUICK_READOUTS),
}


SEVERAL, AT_ONCE = (192, 0.03), (1000, 0.1)
CASES = [(shape, SEVERAL) for shape in SHAPES] + [
    # not those of which the plan counts twice the readouts that are made: nothing corrects it within a single batch
    (shape, AT_ONCE)
    for shape in SHAPES
    if shape not in ("small vocabulary, shallow", "large vocabulary, deep, lens")
]


@pytest.mark.parametrize(("shape", "batches"), CASES)
def test_time_left_is_true_from_a_tenth_on_machines_unlike_the_cost_model(
    shape: str, batches: tuple[int, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch_tokens, near_end = batches
    vocabulary, blocks, measures, rates = SHAPES[shape]
    model, clock = bathyscope.load(build(vocabulary, blocks)), Clock()
    # a measurement errs by a tenth in either direction
    measured = replace(rates, compared=1.1 * rates.compared, blocks=rates.blocks and 0.9 * rates.blocks)
    monkeypatch.setattr(computing, "_WORTH_MEASURING", 0.0)
    monkeypatch.setattr(computing, "measure_rates", lambda *_: measured)
    run_by(clock, rates, model, monkeypatch)
    prompts = np.random.default_rng(0).integers(2, 64, (6, 96)).tolist()
    bathyscope.survey(model, prompts, measures, batch_tokens=batch_tokens)
    assert len(clock.bars) == 1
    for bar, entries in clock.bars.items():
        begin, end = bar._began, entries[-1][0]
        late = [entry for entry in entries if entry[0] - begin >= 0.1 * (end - begin)]
        assert len(late) > 3
        for now, _, left in late:
            truth = end - now
            # plans count too many readouts of short prompts, which nothing corrects before the first batch is done
            slack = near_end * (end - begin)
            allowed = 2 * truth + slack, truth / 2 - slack
            assert allowed[1] <= left <= allowed[0], ((now - begin) / (end - begin), left, truth)


def run_by(
    clock: Clock, rates: Rates, model: Model, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[float, float, float]]:
    """Let time pass by what is computed alone; return what bars say: (now, share, seconds left) as they move."""
    vocabulary, flops = model.vocabulary, weight_flops(model.anatomy) / model.n_blocks
    forward = LlamaDecoderLayer.forward

    def count_block(block: LlamaDecoderLayer, hidden_states: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        clock.spend("blocks", hidden_states.shape[:-1].numel() * flops / float(rates.blocks or 1))
        return forward(block, hidden_states, *arguments, **options)

    product, finish = Reader.product, LensProbe.finish

    def count_product(reader: Reader, normed_ND: torch.Tensor, device: torch.device) -> torch.Tensor:
        rate = rates.in_all_ways if clock.in_all_ways else rates.compared
        clock.spend("readouts", len(normed_ND) * vocabulary / float(rate or 1))
        return product(reader, normed_ND, device)

    def finish_lens(probe: LensProbe, final: Any) -> None:
        clock.in_all_ways = True
        finish(probe, final)
        clock.in_all_ways = False

    seen: list[tuple[float, float, float]] = []
    advance_to = ProgressBar.advance_to

    def note(bar: ProgressBar, done: float, seconds_left: float | None = None) -> None:
        advance_to(bar, done, seconds_left)
        if bar.seconds_left is not None:
            seen.append((clock.now, done / bar._total, bar.seconds_left))
            clock.bars.setdefault(bar, []).append(seen[-1])

    monkeypatch.setattr(progress.time, "monotonic", clock.monotonic)
    monkeypatch.setattr(Reader, "product", count_product)
    monkeypatch.setattr(LensProbe, "finish", finish_lens)
    monkeypatch.setattr(ProgressBar, "advance_to", note)
    monkeypatch.setattr(LlamaDecoderLayer, "forward", count_block)
    clock.now = 0.0
    return seen


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
    bar.advance_to = lambda done, **_: seen.append(done)  # type: ignore[method-assign]
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
