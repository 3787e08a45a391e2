"""Estimates against real models: torch's own count of operations, their weights, and plain arithmetic."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support import valueless, waves, zoo
from support.live_bytes import LiveBytes
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM

import bathyscope
import bathyscope.measures.residual
import bathyscope.surveying.asking
import bathyscope.surveying.cost
import bathyscope.wavefront.calls
from bathyscope import Prompt
from bathyscope.errors import ModelError, OptionError
from bathyscope.measures.positions import sample_positions
from bathyscope.model.anatomy.anatomy import config_of
from bathyscope.surveying.cost import CostEstimate, estimate
from bathyscope.surveying.execution import carry_out
from bathyscope.surveying.outlining import outline
from bathyscope.surveying.rates import Rates, measure_rates
from bathyscope.surveying.work import key_width

RATES = Rates(matrix=1e9, compared=1e6, device="cpu")


def given(name: str, folder: Path, *, tokens: int = 24, count: int = 1, measures: str = "residual") -> CostEstimate:
    zoo.entry(name).config().save_pretrained(folder)
    return estimate(folder.as_posix(), tokens=tokens, count=count, measures=measures, rates=lambda *_: RATES)


@pytest.mark.parametrize("name", ["llama", "gpt2", "gpt_neox", "opt"])
def test_one_forward_of_the_blocks_is_what_torch_counts(name: str, tmp_path: Path) -> None:
    tokens = 24
    found = given(name, tmp_path, tokens=tokens)
    model = zoo.build(name, attn="eager")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(input_ids=torch.full((1, tokens), 5), use_cache=False)
    operations = counter.get_flop_counts()["Global"]
    attention = sum(flops for kind, flops in operations.items() if "bmm" in str(kind))
    head = 2 * tokens * found.width * found.vocabulary
    # eager attention multiplies all pairs of tokens, half of them causal; rotary tables are products too
    rotary = 2 * tokens * 16 // 2
    weights = counter.get_total_flops() - attention - head
    assert found.block_flops == pytest.approx(weights + (attention - rotary) / 2, rel=2e-3)
    assert found.parameters == sum(p.numel() for p in model.parameters())
    assert sum(found.parameters_per_block) < found.parameters


@pytest.mark.parametrize("name", ["reformer", "xlnet"])
def test_streams_in_other_forms_are_estimated(name: str, tmp_path: Path) -> None:
    found = given(name, tmp_path)
    model = zoo.build(name)
    assert found.width == zoo.entry(name).config().hidden_size * (2 if name == "reformer" else 1)
    assert found.parameters == sum(p.numel() for p in model.parameters())


def test_only_chosen_experts_count(tmp_path: Path) -> None:
    found = given("mixtral", tmp_path, tokens=2)
    config = zoo.entry("mixtral").config()
    heads, size = config.num_attention_heads, config.hidden_size // config.num_attention_heads
    attention = config.hidden_size * size * 2 * (heads + config.num_key_value_heads)
    expert = 3 * config.hidden_size * config.intermediate_size
    router = config.hidden_size * config.num_local_experts
    one = 2 * (attention + router + config.num_experts_per_tok * expert)
    pairs = 2 * 2 * heads * size
    assert found.block_flops == pytest.approx(2 * found.blocks * (one + pairs))


def test_only_chosen_experts_of_attention_count(tmp_path: Path) -> None:
    found = given("moeut", tmp_path, tokens=2)
    config = zoo.entry("moeut").config()
    heads, size, width = config.num_attention_heads, config.head_dim, config.hidden_size
    queries_and_keys = 2 * width * heads * size
    values_and_outputs = 2 * width * heads * size * config.attention_experts_per_tok
    routers = width * (2 * heads * config.attention_experts + config.num_experts)
    expert = 2 * width * config.moe_intermediate_size
    one = 2 * (queries_and_keys + values_and_outputs + routers + config.num_experts_per_tok * expert)
    pairs = 2 * 2 * heads * size
    assert found.block_flops == pytest.approx(2 * found.blocks * (one + pairs))


def test_entries_that_differ_from_block_to_block_are_read_of_each(tmp_path: Path) -> None:
    """Transformers refuses to read them from the whole configuration."""
    name = "gemma4_experts"
    model = waves.loaded(name)
    config = config_of(model.anatomy.model)
    with pytest.raises(RuntimeError, match="per-layer attribute"):
        _ = config.num_key_value_heads
    widths = [block.self_attn.k_proj.out_features for block in model.anatomy.blocks]
    assert len(set(widths)) == 2
    assert key_width(model.anatomy) == max(widths)
    run = bathyscope.survey(model, [[5, 6, 7]], "residual", progress=False)
    assert run["residual"].norm_resid.notnull().all()
    assert given(name, tmp_path).block_flops > given("gemma4_plain", tmp_path).block_flops


def test_rows_readouts_time_and_memory_add_up(tmp_path: Path) -> None:
    plain = given("llama", tmp_path, tokens=24, count=3)
    drop = given("llama", tmp_path, tokens=24, count=3, measures="drop")
    # five dropped blocks: on average half a forward each, after a baseline and a control
    assert drop.rows == {"drop": 2.5}
    assert drop.block_flops == pytest.approx(plain.block_flops * (2 + 2.5))
    assert (plain.tokens, plain.prompts, plain.longest) == (72, 3, 24)
    assert drop.readout_flops == 5 * 72 * 2 * 64 * 120
    assert plain.readout_flops == 0
    assert drop.floor_seconds == pytest.approx(drop.flops / 1e9)
    # what comes on top of products, and around a survey
    assert drop.seconds == pytest.approx(0.15 + 1.1 * drop.block_flops / 1e9 + 5 * 72 * 120 / 1e6)
    assert drop.weight_bytes == 4 * drop.parameters
    assert drop.peak_bytes > drop.weight_bytes + drop.workspace_bytes
    # Python and its libraries are in memory before free memory is looked up, so that they are no part of the peak;
    # the C library keeps 96 MiB of freed arrays, and what compared predictions take while blocks run
    assert 720_000_000 + (96 << 20) < drop.process_bytes < 720_000_000 + (97 << 20)


def test_nobody_is_told_of_copies_of_prompts_that_were_not_given(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    given("llama", tmp_path, tokens=24, count=3)
    assert [str(one.message) for one in recwarn] == []


def test_a_notebook_shows_work_memory_and_time_in_a_line(tmp_path: Path) -> None:
    found = given("llama", tmp_path, tokens=24, count=3)
    shown = repr(
        replace(
            found, model="m", seconds=200.0, free_bytes=None, weight_bytes=(3 << 29) + (1 << 26), block_flops=1.54e12
        )
    )
    assert shown == "<CostEstimate of m: 1.54 TFLOP, about 1.6 GiB at the peak, about 3 min here; fits>"


def test_the_lens_is_read_out_at_every_boundary(tmp_path: Path) -> None:
    zoo.entry("llama").config().save_pretrained(tmp_path)
    found = estimate(
        str(tmp_path),
        tokens=10,
        count=1,
        measures="lens",
        rates=lambda *_: RATES,
        lens={"norm": ["recompute", "frozen"]},
    )
    assert found.readouts == {"lens": 12.0}
    assert found.block_flops == given("llama", tmp_path, tokens=10).block_flops


def test_the_lens_compares_in_more_ways_than_others(tmp_path: Path) -> None:
    zoo.entry("llama").config().save_pretrained(tmp_path)
    slower = replace(RATES, in_all_ways=RATES.compared / 4)
    for measures, own, others in (("lens", 6, 0), ("drop", 0, 5), ("lens,drop", 6, 5)):
        plain, slow = (
            estimate(str(tmp_path), tokens=10, count=1, measures=measures, rates=lambda *_, rates=rates: rates)
            for rates in (RATES, slower)
        )
        entries = 10 * plain.vocabulary
        blocks = 1.1 * plain.block_flops / 1e9
        assert plain.seconds == pytest.approx(0.15 + blocks + (1.15 * own + others) * entries / 1e6)
        assert slow.seconds == pytest.approx(0.15 + blocks + (4 * 1.15 * own + others) * entries / 1e6)


def test_dtype_decides_the_size_of_weights(tmp_path: Path) -> None:
    zoo.entry("llama").config().save_pretrained(tmp_path)
    sizes = {
        dtype: estimate(str(tmp_path), tokens=9, measures="drop", dtype=dtype, rates=lambda *_: RATES).weight_bytes
        for dtype in ("float32", "bfloat16")
    }
    assert sizes["float32"] == 2 * sizes["bfloat16"]


def test_measures_that_look_at_weights_are_counted_too(tmp_path: Path) -> None:
    found = given("llama", tmp_path, measures="all")
    assert {"attention_locality", "neurons", "stages", "residual"} <= set(found.rows)
    assert found.rows["attention_locality"] == pytest.approx(0.2 + 24 / 2000)


def test_any_number_of_prompts_is_counted(tmp_path: Path) -> None:
    few = given("llama", tmp_path, count=8, measures="drop")
    many = given("llama", tmp_path, count=1_000_000_000, measures="drop")
    assert (many.prompts, many.tokens) == (1_000_000_000, 24_000_000_000)
    assert many.flops == pytest.approx(few.flops / 8 * 1e9)
    assert many.rows == few.rows
    assert many.peak_bytes == few.peak_bytes
    assert given("llama", tmp_path, count=11).tokens == 11 * 24


def test_prompts_that_a_measure_leaves_out_cost_it_nothing(tmp_path: Path) -> None:
    """Of four prompts erasure measures the two that are short; the long one without an answer is nobody's."""
    zoo.entry("llama").config().save_pretrained(tmp_path)
    lengths = (12, 16, 60, 80)
    prompts = [Prompt(ids=[7] * n + [n], answer_tokens=2, labels={"steps": n % 3}) for n in lengths]
    prompts.append(Prompt(ids=[5] * 14))
    options: dict[str, Any] = {"max_tokens": 20}

    def flops(given: list[Prompt], measure: str) -> float:
        return estimate(str(tmp_path), given, measure, rates=lambda *_: RATES, **{measure: options}).block_flops

    def plain(given: list[Prompt]) -> float:
        return estimate(str(tmp_path), given, "residual", rates=lambda *_: RATES).block_flops

    for measure in ("erasure", "integrated_gradients"):
        with pytest.warns(UserWarning, match="3 of 5 prompts are not measured"):
            found = flops(prompts, measure)
        assert found == pytest.approx(flops(prompts[:2], measure) + plain(prompts[2:]))


def test_patching_costs_the_pairs_that_are_patched(tmp_path: Path) -> None:
    zoo.entry("llama").config().save_pretrained(tmp_path)
    lengths = (10, 10, 40, 40)
    prompts = [Prompt(ids=[7] * n + [i], answer_tokens=1, labels={"pair": n}) for i, n in enumerate(lengths)]
    alone = [Prompt(ids=[5] * 11)]

    def flops(given: list[Prompt], measure: str = "patching") -> float:
        own = {"patching": {"max_tokens": 20, "pairs": "pair"}} if measure == "patching" else {}
        return estimate(str(tmp_path), given, measure, rates=lambda *_: RATES, **own).block_flops

    with pytest.warns(UserWarning, match="2 of 4 prompts are not patched"):
        found = flops([*prompts, *alone])
    assert found == pytest.approx(flops(prompts[:2]) + flops([*prompts[2:], *alone], "residual"))


def test_skip_effects_cost_the_positions_that_are_given(tmp_path: Path) -> None:
    zoo.entry("llama").config().save_pretrained(tmp_path)
    ids = [[3 + n] * 40 for n in range(2)]
    found = {
        count: estimate(
            str(tmp_path), ids, "skip", rates=lambda *_: RATES, skip={"positions": [list(range(8, 8 + count))] * 2}
        ).rows["skip"]
        for count in (0, 2)
    }
    blocks = 5
    # only what is behind a position is computed again
    later = (32 + 31) / 40
    assert found == {0: blocks / 2, 2: pytest.approx(blocks / 2 * (1 + later))}


def test_prompts_beyond_the_context_are_said_and_timed_within_it(tmp_path: Path) -> None:
    config = zoo.entry("llama").build().config
    config.save_pretrained(tmp_path)
    context, timed = config.max_position_embeddings, []

    def rates(model: Any, tokens: int, device: Any) -> Rates:
        timed.append(tokens)
        return RATES

    with pytest.warns(UserWarning, match=f"tokens={context + 9} is more than the {context} tokens of context") as said:
        beyond = estimate(str(tmp_path), tokens=context + 9, measures="lens", rates=rates)
    assert (timed, beyond.longest, len(said)) == ([context], context + 9, 1)
    zoo.entry("gpt2").build().config.save_pretrained(tmp_path / "table")
    with pytest.raises(OptionError, match=r"looks positions up in a table of (\d+); allowed: 2 to \1\."):
        estimate(str(tmp_path / "table"), tokens=5000, rates=rates)


def test_warnings_count_the_prompts_that_are_asked_for(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="skip: 30 of 30 prompts are too short"):
        given("llama", tmp_path, tokens=9, count=30, measures="skip")


def test_refusals(tmp_path: Path) -> None:
    refused = zoo.entries(refused=True)[0]
    refused.config().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="cannot be measured"):
        estimate(str(tmp_path), tokens=9, rates=lambda *_: RATES)
    with pytest.raises(OptionError, match="either prompts"):
        estimate(str(tmp_path))
    with pytest.raises(OptionError, match="tokens=1000000000000 is out of range; allowed: 2 to 1000000"):
        estimate(str(tmp_path), tokens=10**12)
    with pytest.raises(OptionError, match=r"tokens takes a whole number; 20\.5 given"):
        estimate(str(tmp_path), tokens=20.5)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"count takes a whole number; True given"):
        estimate(str(tmp_path), tokens=9, count=True)
    with pytest.raises(ModelError, match=r"estimate\(\) reads a configuration, .*; LlamaForCausalLM was given"):
        estimate(zoo.build("llama"), tokens=9)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="count=0 is out of range; allowed: 1 to 1000000000"):
        estimate(str(tmp_path), tokens=9, count=0)
    with pytest.raises(OptionError, match="either prompts"):
        estimate(str(tmp_path), "gsm8k:10", tokens=9)


@pytest.mark.filterwarnings("error")
def test_made_up_prompts_are_told_apart_and_a_path_is_a_folder(tmp_path: Path) -> None:
    zoo.entry("llama").config().save_pretrained(tmp_path)
    asked: Any = {"tokens": 9, "measures": "lens", "rates": lambda *_: RATES}
    assert estimate(tmp_path, **asked).flops == estimate(str(tmp_path), **asked).flops


@pytest.mark.parametrize("name", ["llama", "gpt2", "qwen3_next"])
def test_rates_of_this_machine_are_measured_on_blocks_of_random_numbers(name: str, tmp_path: Path) -> None:
    zoo.entry(name).config().save_pretrained(tmp_path)
    outlined = outline(str(tmp_path), None, None)
    found = measure_rates(outlined, 12, torch.device("cpu"))
    # between a slow single core and any CPU
    assert 1e8 < found.matrix < 1e14
    assert found.blocks is not None
    assert 1e5 < found.blocks < found.matrix, "a tiny block is slower than a large product"
    assert 1e3 < found.compared < 1e12
    assert found.in_all_ways is not None
    assert 1e2 < found.in_all_ways < found.compared
    assert all(p.is_meta for p in outlined.hf.parameters()), "the outline is as it was"


def test_rates_of_a_loaded_model_are_measured_on_its_own_blocks() -> None:
    model = waves.loaded("llama")
    with LiveBytes([*model.hf.parameters(), *model.hf.buffers()]) as live:
        found = measure_rates(model, 12, torch.device("cpu"))
    assert found.blocks is not None
    assert 1e5 < found.blocks < found.matrix
    assert live.peak < 100 << 20


FIVE = "residual,lens,skip,drop,swap"
SHAPES = {
    "8B": (4096, 14336, 32, 32),
    "70B": (8192, 28672, 80, 64),
    "405B": (16384, 53248, 126, 128),
}


def large(size: str, tokens: int, folder: Path, monkeypatch: pytest.MonkeyPatch, free: float = 1e15) -> CostEstimate:
    """The estimate of a Llama of that size on an accelerator with so many bytes free."""
    width, inner, blocks, heads = SHAPES[size]
    LlamaConfig(
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=blocks,
        num_attention_heads=heads,
        num_key_value_heads=8,
        vocab_size=128256,
        max_position_embeddings=131072,
        tie_word_embeddings=False,
        dtype="bfloat16",
    ).save_pretrained(folder)
    monkeypatch.setattr(bathyscope.surveying.cost, "as_device", lambda device: torch.device("cuda"))
    monkeypatch.setattr(bathyscope.surveying.cost, "free_bytes", lambda device: int(free))
    rates = Rates(matrix=5e14, compared=1e12, device="cuda")
    return estimate(str(folder), tokens=tokens, count=1, measures=FIVE, rates=lambda *_: rates)


WITHOUT_VALUES = {("8B", 300): 3.50, ("8B", 2000): 8.25, ("8B", 8000): 19.32, ("70B", 300): 10.62, ("405B", 300): 23.0}
"""Gigabytes beyond the weights of a survey on tensors without values: one prompt, 32,768 tokens a call."""


@pytest.mark.parametrize(("size", "tokens"), WITHOUT_VALUES)
def test_the_peak_beyond_weights_is_that_of_a_run_without_values(
    size: str, tokens: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = large(size, tokens, tmp_path, monkeypatch)
    assert (found.peak_bytes - found.weight_bytes) / 1e9 == pytest.approx(WITHOUT_VALUES[size, tokens], rel=0.1)


@pytest.mark.thorough
@pytest.mark.parametrize(("size", "tokens"), WITHOUT_VALUES)
def test_a_run_without_values_takes_what_was_written_down(
    size: str, tokens: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large(size, tokens, tmp_path, monkeypatch)
    found = valueless.peak_bytes(str(tmp_path), tokens, FIVE, 32768)
    assert found / 1e9 == pytest.approx(WITHOUT_VALUES[size, tokens], rel=0.01)


def test_at_8000_tokens_the_rows_of_five_measures_and_a_call_take_more_than_13_gigabytes() -> None:
    """What no count may leave out: the states in which the rows end, and a call's share of an 8B's block."""
    tokens, blocks = 8000, 32
    (starts,) = sample_positions([tokens], seed=0)
    everywhere = 1 + blocks + blocks + (blocks - 1)  # the control; skip, which keeps the first token; drop; swap
    tails = sum(blocks * (1 - start / tokens) for start in starts)  # the last block has none, and each has a control
    rows = 2 * 4096 * tokens * (everywhere + tails)
    call = 2 * (3 * 14336 + 4 * 4096) * (32768 // tokens * tokens)
    assert rows / 1e9 == pytest.approx(10.6, abs=0.05)
    assert (rows + call) / 1e9 > 14


@pytest.mark.parametrize(
    ("blocks", "tokens", "prompts", "lent", "rows"), [(12, 160, 1, 1, None), (12, 80, 2, 1, None), (16, 32, 1, 4, 4)]
)
def test_the_peak_is_that_of_the_tensors_that_live_at_once(
    blocks: int,
    tokens: int,
    prompts: int,
    lent: int,
    rows: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last case has long prompts beside its calls, and as many heads of keys as of queries: rows lend, others not.

    Args:
        lent: heads of keys and values.
        rows: in a call; None = as many as a CPU takes.
    """
    if rows is not None:
        monkeypatch.setattr(bathyscope.wavefront.calls, "default_tokens", lambda device: rows * tokens)
    config = LlamaConfig(
        hidden_size=64,
        intermediate_size=224,
        num_hidden_layers=blocks,
        num_attention_heads=4,
        num_key_value_heads=lent,
        vocab_size=150,
        max_position_embeddings=512,
    )
    hf = LlamaForCausalLM(config).eval()
    hf.save_pretrained(tmp_path)
    ids = [[(7 * token + 3 * prompt) % 150 for token in range(tokens)] for prompt in range(prompts)]
    monkeypatch.setattr(bathyscope.surveying.cost, "_WORKSPACE", 0)  # of large vocabularies and kernels
    found = estimate(str(tmp_path), ids, FIVE, rates=lambda *_: RATES)
    plan = bathyscope.surveying.asking.Survey(FIVE).plan(hf, ids)
    with LiveBytes([*hf.parameters(), *hf.buffers()]) as live:
        carry_out(plan, None, progress=False)
    assert found.peak_bytes - found.weight_bytes == pytest.approx(live.peak, rel=0.2)


@pytest.mark.parametrize("measures", ["residual", "lens", "drop", "direct", "swap_cosine"])
def test_the_peak_of_a_few_measures_is_theirs_alone(
    measures: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In low precision, where a control rides in every call; a boundary is kept by those that need it."""
    blocks, tokens, width = 16, 96, 128
    monkeypatch.setattr(bathyscope.wavefront.calls, "default_tokens", lambda device: 4 * tokens)
    monkeypatch.setattr(bathyscope.measures.residual, "_ANGULAR_TOKENS", 1)  # in float64, beside a narrow stream
    monkeypatch.setattr(bathyscope.surveying.cost, "_WORKSPACE", 0)
    config = LlamaConfig(
        hidden_size=width,
        intermediate_size=448,
        num_hidden_layers=blocks,
        num_attention_heads=4,
        num_key_value_heads=1,
        vocab_size=150,
        dtype="bfloat16",
    )
    hf = LlamaForCausalLM(config).bfloat16().eval()
    hf.save_pretrained(tmp_path)
    ids = [[7 * token % 150 for token in range(tokens)]]
    found = estimate(str(tmp_path), ids, measures, rates=lambda *_: RATES)
    plan = bathyscope.surveying.asking.Survey(measures).plan(hf, ids)
    with LiveBytes([*hf.parameters(), *hf.buffers()]) as live:
        carry_out(plan, None, progress=False)
    assert found.peak_bytes - found.weight_bytes == pytest.approx(live.peak, rel=0.25)


def test_what_fits_what_streams_and_what_does_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = large("70B", 300, tmp_path, monkeypatch)
    assert (whole.fit, whole.readings) == ("fits", 1)
    assert whole.peak_bytes == pytest.approx(141e9 + 10.6e9, rel=0.02)
    streamed = large("70B", 300, tmp_path, monkeypatch, free=24e9)
    assert (streamed.fit, streamed.readings) == ("streams", 2)
    # embedding and unembedding of 128,256 words, and three blocks
    assert streamed.streamed_weight_bytes == pytest.approx(2 * (2 * 128256 * 8192 + 3 * 0.856e9), rel=0.01)
    assert large("70B", 300, tmp_path, monkeypatch, free=12e9).fit == "does not fit"
    assert whole.dominates == "blocks"


@pytest.mark.parametrize("name", zoo.swept(zoo.names(), frozenset(("llama", "deepseek_v4", "gemma3n", "inkling2"))))
def test_a_state_is_as_wide_without_weights_as_with_them(name: str, tmp_path: Path) -> None:
    """All streams count where there are several."""
    entry, anatomy = zoo.entry(name), waves.loaded(name).anatomy
    if anatomy.loops is not None:
        pytest.skip("what loops fold behind the stream is not known without numbers")
    entry.config().save_pretrained(tmp_path)
    if entry.config().model_type.startswith("musicgen"):
        # a decoder of its own is made in memory alone: of a folder the library knows the whole model
        with pytest.raises(ModelError, match="no causal language model alone"):
            outline(str(tmp_path), None, None)
        return
    with entry.within():
        without = outline(str(tmp_path), None, None).anatomy
    assert (without.width, without.n_streams, without.n_blocks) == (anatomy.width, anatomy.n_streams, anatomy.n_blocks)
    sizes = [[sum(p.numel() for p in block.parameters()) for block in side.blocks] for side in (without, anatomy)]
    assert sizes[0] == sizes[1]
