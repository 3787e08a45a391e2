"""Advice on exits: against models cut short by hand, on planted models, and what is refused."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from support import waves, zoo
from support.cut_short import first_blocks, next_token

import bathyscope
from bathyscope import ModelError, PromptError
from bathyscope.pages.figures.kind import arrange
from bathyscope.pages.figures.of.exits import drawing
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import Prompts
from bathyscope.statistics.sampling import Sampling
from bathyscope.surgery.exits import times, verifying
from bathyscope.surgery.exits.advice import decide
from bathyscope.surgery.exits.drafting import counts
from bathyscope.surgery.exits.generating import Generated, generated
from bathyscope.surgery.exits.leaving import find_threshold
from bathyscope.surgery.exits.reading import Trace
from bathyscope.surgery.exits.result import TABLE
from bathyscope.surgery.exits.times import Times, Timings

NEW = 8


def exactly(n_blocks: int, tokens: int, step: float = 0.0, round_: float = 0.0) -> Timings:
    """A block takes a second on any number of tokens, the rest of a forward a quarter of one."""
    return Timings.exact(Times(n_blocks, np.ones(tokens), np.full(tokens, 0.25), np.array(step), np.array(round_)))


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """A machine whose times are known: a block takes a second."""
    around = {"step": 0.0, "round": 0.0}

    def known(model: bathyscope.Model, ids: object, longest: int) -> Timings:
        return exactly(model.n_blocks, longest + 1, around["step"], around["round"])

    monkeypatch.setattr(times, "measured", known)
    return around


def asked(model: object, seed: int, count: int = 6, **options: object) -> bathyscope.extend.ExitAdvice:
    ids = zoo.prompts(zoo.build("llama"), (9, 7) * (count // 2), seed)
    return bathyscope.exit_advice(model, ids, new_tokens=NEW, progress=False, **{"longest": 3, **options})  # type: ignore[arg-type]


def test_numbers_are_those_of_models_cut_short() -> None:
    """Every exit and draft length, by full forwards without caches."""
    whole, questions = zoo.build("llama"), zoo.prompts(zoo.build("llama"), (9, 7, 9), 1)
    advice = bathyscope.exit_advice(waves.loaded("llama"), questions, new_tokens=NEW, longest=2, progress=False)
    right = np.zeros(4)
    passes, drafted = np.zeros((2, 4, 2))
    for ids in questions:
        end = [*ids]
        for _ in range(NEW):
            end.append(next_token(whole, end))
        for exit_ in range(1, 5):
            short = first_blocks("llama", exit_)
            said = [next_token(short, end[: len(ids) + place]) for place in range(NEW)]
            right[exit_ - 1] += sum(one == other for one, other in zip(said, end[len(ids) :]))
            for draft in (1, 2):
                at = len(ids)
                while at < len(end):
                    tried = [*end[:at]]
                    for _ in range(min(draft, len(end) - at - 1)):
                        tried.append(next_token(short, tried))
                    drafted[exit_ - 1, draft - 1] += len(tried) - at
                    while at < len(tried) and tried[at] == end[at]:
                        at += 1
                    at, passes[exit_ - 1, draft - 1] = at + 1, passes[exit_ - 1, draft - 1] + 1
    assert advice.data.attrs["tokens"] == 3 * NEW
    np.testing.assert_allclose(advice.data["acceptance"], right / (3 * NEW))
    np.testing.assert_allclose(advice.data["tokens_per_pass"], 3 * NEW / passes)
    plain, one = 3 * NEW * 5.25, np.arange(1, 5)[:, None] + 0.25
    np.testing.assert_allclose(advice.data["speed"], plain / (drafted * one + passes * 5.25))
    assert (advice.data["acceptance_low"] <= advice.data["acceptance"]).all()
    assert (advice.data["acceptance_high"] >= advice.data["acceptance"]).all()


def idle_after(block: int) -> bathyscope.Model:
    """A Llama whose blocks from this one on add nothing."""
    hf = zoo.entry("llama").build()
    with torch.no_grad():
        for own in hf.model.layers[block:]:
            own.self_attn.o_proj.weight.zero_()
            own.mlp.down_proj.weight.zero_()
    return bathyscope.load(hf)


def test_blocks_that_do_nothing_need_not_be_waited_for() -> None:
    advice = asked(idle_after(2), 1)
    assert (advice.data["acceptance"].values[1:] == 1).all()
    assert advice.data["acceptance"].values[0] < 1
    assert (advice.exit, advice.draft) == (2, 3)
    # 8 tokens in two passes, and drafts of 3 and 3 tokens
    assert float(advice.data["speed"].sel(exit=2, draft=3)) == pytest.approx(8 * 5.25 / (6 * 2.25 + 2 * 5.25))
    assert advice.text.startswith(
        "Draft with the first 2 of 5 blocks (assistant_early_exit=2, drafts of 3 tokens): 1 ("
    )
    assert "verify" not in advice.text


def test_an_untrained_model_is_told_not_to() -> None:
    advice = asked(waves.loaded("llama"), 1)
    assert advice.exit is advice.draft is None
    assert advice.text.startswith("Not recommended: no exit and draft length is reliably faster than plain generate().")
    assert repr(advice).endswith("don't>")


def test_what_generate_takes_around_drafts_counts(clock: dict[str, float]) -> None:
    model = idle_after(2)
    fast = asked(model, 1)
    clock["step"], clock["round"] = 0.5, 40.0
    slow = asked(model, 1)
    np.testing.assert_array_equal(slow.data["bare_speed"], fast.data["bare_speed"])
    assert float(slow.data["speed"].sel(exit=2, draft=3)) == pytest.approx(8 * 5.75 / (6 * 2.75 + 2 * (5.25 + 40)))
    assert slow.exit is None
    assert "Blocks and head alone would be 1.75 times as fast at exit 2 with drafts of 3" in slow.text


def test_generate_eats_nothing_up_where_drafts_are_faster_with_it() -> None:
    """What speaks against the exit is then its interval, or the run."""
    advice = asked(idle_after(2), 1)
    assert advice.exit == 2
    data = advice.data.copy(deep=True)
    data["speed_low"].values[:] = 0.9
    unsure = bathyscope.extend.ExitAdvice(data)
    assert unsure.text.startswith("Not recommended: no exit and draft length is reliably faster")
    assert "eats that up" not in unsure.text


def test_a_busy_machine_is_said_and_nothing_is_advised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain decoding that seems faster than the forward in it made drafts seem to pay."""
    busy = replace(exactly(5, 4), plain=np.array([4.0]))
    monkeypatch.setattr(times, "measured", lambda *_: busy)
    advice = asked(idle_after(2), 1)
    assert advice.exit is advice.draft is None
    assert advice.text.startswith(
        "Too busy to time: plain generate() took 4e+03 ms for each token, less than the bare forward in it (5.25e+03"
    )
    assert repr(advice).endswith("too busy to time>")
    record = advice.record()
    assert (record["proved"], record["timing"]["busy"], "advice" in record) == (False, True, False)


def test_settings_that_change_greedy_decoding_are_named() -> None:
    """They are set aside, and ``generate`` with the advised arguments would go by them."""
    model = idle_after(2)
    settings: Any = model.hf.generation_config
    settings.repetition_penalty = 1.0
    settings.no_repeat_ngram_size = 0
    settings.suppress_tokens = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = asked(model, 1)
    settings.repetition_penalty = 5.0
    settings.suppress_tokens = [7]
    settings.temperature = 0.6  # of sampling, which is off
    with pytest.warns(UserWarning, match=r"decoding: repetition_penalty=5\.0, suppress_tokens=\[7\] of the "):
        advice = asked(model, 1)
    assert advice.text == plain.text
    assert settings.repetition_penalty == 5.0


def test_no_speed_is_above_its_tokens_per_pass_on_a_machine_of_any_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks that jump at random: neither the estimate nor the upper end of its interval promises the impossible."""
    rng = np.random.default_rng(0)
    wild = Timings(
        5, rng.exponential(1, (9, 4)), rng.exponential(1, (9, 4)), rng.exponential(9, 9), rng.exponential(9, 9)
    )
    monkeypatch.setattr(times, "measured", lambda *_: wild)
    data = asked(idle_after(2), 1).data
    assert (data["speed"] <= data["tokens_per_pass"] + 1e-12).all()
    assert (data["bare_speed"] <= data["tokens_per_pass"] + 1e-12).all()
    assert (data["speed_high"] <= data["tokens_per_pass_high"] + 1e-12).all()
    # a pass gives at least one token, and at most those of its draft and one more: so do the ends of intervals
    assert (data["tokens_per_pass_low"] >= 1).all()
    assert (data["tokens_per_pass_high"] <= data["draft"] + 1).all()
    # the scatter of the clocks is in the interval: with exact ones it is narrower
    monkeypatch.setattr(times, "measured", lambda *_: Timings.exact(wild.settled))
    exact = asked(idle_after(2), 1).data
    np.testing.assert_allclose(exact["speed"], data["speed"])
    assert float((data["speed_high"] - data["speed_low"] - exact["speed_high"] + exact["speed_low"]).mean()) > 0


def test_a_run_is_set_beside_what_was_foretold() -> None:
    model, held_out = waves.loaded("llama"), zoo.prompts(zoo.build("llama"), (8, 10) * 3, 2)
    advice = asked(model, 1, verify=held_out)
    assert set(advice.data.data_vars) == set(TABLE)
    assert (advice.data["identical"] == 1).all()
    # the same prompts asked for advice foretell what their run gives
    same = bathyscope.exit_advice(model, held_out, new_tokens=NEW, longest=3, progress=False)
    for exit_, draft in zip(advice.data["exit"].values, advice.table["draft"]):
        foretold = float(same.data["tokens_per_pass"].sel(exit=exit_, draft=draft))
        assert float(advice.data["measured_tokens_per_pass"].sel(exit=exit_)) == pytest.approx(foretold)
    np.testing.assert_array_equal(advice.data["own_share"], advice.data["measured_share"])
    one = advice.data.sel(exit=4)
    assert float(one["measured_low"]) <= float(one["measured_share"]) <= float(one["measured_high"])
    assert "Run on 6 other prompts: the share of right drafts is as predicted at" in advice.text
    assert "it is at most 0 away), and all runs gave the tokens of plain decoding. Wall time at exit" in advice.text
    made = drawing(advice.data)
    figure = arrange(made.note, made.panels)
    [left, right] = figure.axes
    assert left.get_ylabel() == "share"
    drawn = {line.get_label(): line for line in right.lines}
    np.testing.assert_allclose(drawn["measured wall time"].get_ydata(), advice.data["measured_speed"])
    np.testing.assert_allclose(drawn["in transformers' generate"].get_ydata(), advice.table["speed"])


def test_what_was_not_faster_when_it_was_run_is_not_advised(monkeypatch: pytest.MonkeyPatch) -> None:
    model, held_out = idle_after(2), zoo.prompts(zoo.build("llama"), (8, 10), 2)
    seconds = {"plain": 1.0, "drafted": 0.5}

    def timed(model: bathyscope.Model, ids: list[int], new: int, exit_: int | None = None, draft: int = 1) -> Generated:
        own = generated(model, ids, new, exit_, draft)
        return replace(own, seconds=seconds["plain" if exit_ is None else "drafted"])

    monkeypatch.setattr(verifying, "generated", timed)
    faster = asked(model, 1, verify=held_out)
    assert faster.exit == 2
    np.testing.assert_allclose(faster.data["measured_speed"], 2.0)
    assert "Wall time at exit 2: 0.5 s a prompt, plain 1 s (2 times as fast)." in faster.text
    seconds["drafted"] = 1.25
    slower = asked(model, 1, verify=held_out)
    assert slower.exit is slower.draft is None
    assert slower.text.startswith("Not recommended: predicted to be faster, but slower when measured. Nearest: exit 2")


def test_the_fastest_exit_is_sought_among_those_that_are_reliably_faster() -> None:
    """One that is faster still, but by chance perhaps, stands in nobody's way: none was advised then."""
    data = asked(idle_after(2), 1).data.copy(deep=True)
    speeds = {1: (1.1, 1.05), 2: (1.3, 1.2), 3: (1.6, 0.8), 4: (0.5, 0.4)}
    for exit_, (speed, low) in speeds.items():
        data["speed"].loc[{"exit": exit_}] = [speed - 0.02, speed, speed - 0.01]
        data["speed_low"].loc[{"exit": exit_}] = low
    # within an exit too: a longer draft seems faster, and is not surely so
    data["speed"].loc[{"exit": 2, "draft": 3}] = 1.4
    data["speed_low"].loc[{"exit": 2, "draft": 3}] = 0.9
    advice = bathyscope.extend.ExitAdvice(data)
    assert (advice.exit, advice.draft) == (2, 2)
    assert advice.text.startswith("Draft with the first 2 of 5 blocks")
    assert advice.table["draft"].tolist() == [2, 2, 2, 2]
    # what was slower when it was run is passed over for what was not
    ran = bathyscope.extend.ExitAdvice(data.assign(measured_speed=("exit", [1.2, 0.9, 1.5, 0.4])))
    assert (ran.exit, ran.draft) == (1, 2)


def test_a_threshold_needs_prompts_and_keeps_its_bound() -> None:
    few = asked(idle_after(2), 1)
    assert np.isnan(few.data.attrs["threshold"])
    assert "it takes 68 prompts to test with, and there are 3." in few.text
    many = asked(idle_after(2), 1, count=40, changed=0.3, longest=1)
    assert many.data.attrs["threshold_exit"] == 2
    assert many.data.attrs["threshold_ready"] > 0.9
    assert many.data.attrs["threshold_changed"] == 0
    assert "Leaving for good at exit 2 where its likeliest token has a probability of" in many.text


def test_no_threshold_is_given_that_no_token_reaches() -> None:
    """Where the surest tokens are wrong, what keeps the bound is to let none of them leave."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(200):
        agrees, probability = rng.random((2, 20)) < 0.5, rng.uniform(0.2, 0.7, (2, 20))
        agrees[:, 0], probability[:, 0] = False, 0.999
        made.append(Trace(agrees, probability, np.ones(20, dtype=bool)))
    found = find_threshold(made, 0.05, Sampling(level=0.95, seed=0))
    assert found.prompts > found.fewest
    assert np.isnan(found.probability)
    assert (found.ready, found.changed) == (0.0, 0.0)


def test_answers_are_no_part_of_what_is_continued() -> None:
    model = waves.loaded("llama")
    ids = zoo.prompts(model.hf, (9, 9))
    items = [TokenizedPrompt(str(n), tuple(own), 4) for n, own in enumerate(ids)]
    advice = bathyscope.exit_advice(model, Prompts(tuple(items), "sums"), new_tokens=4, longest=1, progress=False)
    short = bathyscope.exit_advice(model, [own[:5] for own in ids], new_tokens=4, longest=1, progress=False)
    np.testing.assert_array_equal(advice.data["acceptance"], short.data["acceptance"])
    assert generated(model, ids[0][:5], 4).tokens != generated(model, ids[0], 4).tokens


def test_what_cannot_be_done_is_refused_before_it_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        pytest.fail("it computed")

    monkeypatch.setattr("bathyscope.surgery.exits.advice.traces", never)
    model, ids = waves.loaded("llama"), zoo.prompts(zoo.build("llama"), (9, 7))
    for given, options, said in (
        (ids[:1], {}, "Only one prompt: an interval needs at least two"),
        (ids[:1] * 5, {}, r"Only one prompt \(5 copies of it were given\)"),
        (ids, {"verify": [ids[1], [5, 6, 7]]}, "1 prompts of verify are among the prompts that give the advice"),
        (ids, {"verify": [[5, 6, 7]]}, "Only one verify prompt"),
        (ids, {"new_tokens": 250}, "has 9 tokens, and 250 more go beyond the context of 256"),
    ):
        with pytest.raises(PromptError, match=said):
            bathyscope.exit_advice(model, given, progress=False, **options)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="transformers cannot stop a gpt2 model early"):
        bathyscope.exit_advice(waves.loaded("gpt2"), ids, progress=False)


def test_a_question_asked_again_counts_once() -> None:
    """With another answer too: what is continued is the question."""
    model, ids = waves.loaded("llama"), zoo.prompts(zoo.build("llama"), (9, 7, 8))
    options: dict[str, Any] = {"new_tokens": 4, "longest": 1, "progress": False}
    once = bathyscope.exit_advice(model, ids, **options)
    again = [*ids, *([*ids[0], token] for token in (5, 6, 7))]
    items = [TokenizedPrompt(str(n), tuple(own), 1 if n > 2 else None) for n, own in enumerate(again)]
    with pytest.warns(UserWarning, match="3 of 6 prompts have the tokens of others and are left out"):
        copied = bathyscope.exit_advice(model, Prompts(tuple(items), "sums"), **options)
    assert once.data.identical(copied.data.assign_attrs(data=once.data.attrs["data"]))


def test_prompts_of_one_document_count_as_one() -> None:
    """Three windows a document that come out alike are three documents of one window, and fewer than nine."""
    model = waves.loaded("llama")
    rows = np.random.default_rng(0).integers(0, 2, (3, 4, NEW)).astype(bool)
    made = [Trace(own, own * 0.9, np.ones(NEW, dtype=bool)) for own in rows]
    numbers = np.repeat(np.arange(3), 3)
    known = exactly(model.n_blocks, 3)

    def decided(traces: list[Trace], cluster: np.ndarray | None) -> dict[str, np.ndarray]:
        counted = [
            [[counts(trace.agrees[place], draft, NEW) for trace in traces] for draft in (1, 2)] for place in range(4)
        ]
        return decide(traces, known, counted, Sampling(300, 0.95, 0, cluster))

    wanted, copied = decided(made, None), [trace for trace in made for _ in range(3)]
    together, apart = decided(copied, numbers), decided(copied, None)
    for name in ("tokens_per_pass_low", "tokens_per_pass_high", "speed_low", "speed_high"):
        np.testing.assert_allclose(together[name], wanted[name])
    assert (
        together["acceptance_high"] - together["acceptance_low"] > apart["acceptance_high"] - apart["acceptance_low"]
    ).all()
    halved, alone = (find_threshold(copied, 0.05, Sampling(level=0.95, cluster=cluster)) for cluster in (numbers, None))
    assert (halved.prompts, alone.prompts) == (1, 4)


def test_advice_without_prompts_is_refused() -> None:
    with pytest.raises(
        PromptError, match=r"^exit_advice\(\) needs prompts\. Give a data set's name, a file or a list of"
    ):
        bathyscope.exit_advice("model", None)  # type: ignore[arg-type]
