"""Patching: exact properties, one forward per patch, what is refused, what it costs, and runs on disk."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support import naive, naive_patching, waves, zoo
from support.altered import counted_tokens
from support.interrupting import interrupted_after
from support.rounding import bound_of_differences
from transformers import AutoModelForCausalLM

import bathyscope
from bathyscope.errors import ModelError, OptionError, PromptError
from bathyscope.measures.patching import Patching
from bathyscope.prompts.prompt import Prompt
from bathyscope.statistics.operand_depth import operand_trend
from bathyscope.wavefront.engine import Wavefront

BRUTE_FORCE = ("test_equals_one_forward_per_patch",)
"""What test_looped_parity.py asks of looped models too."""

CLOSE = 1e-5
PARTS = ("block", "attention", "mlp")
LENGTH, ANSWER = 8, 2
QUICK = ("llama", "gpt2", "gemma4", "lfm2", "gpt2_sink")
# whose stored streams its own reference knows (tests/measures/test_streams_parity.py)
STORED = ("inkling2",)
THOROUGH = [name for name in zoo.names() if name not in QUICK]
WITH_PARTS = [entry.name for entry in zoo.entries() if entry.parts]


def ids_of(name: str, length: int = LENGTH, seed: int = 0) -> list[list[int]]:
    return zoo.prompts(zoo.build(name), (length, length), seed)


def paired(ids: Sequence[Sequence[int]], answer: int = ANSWER, names: Sequence[str] = ("to", "from")) -> list[Prompt]:
    return [Prompt(ids=own, answer_tokens=answer, id=name) for own, name in zip(ids, names)]


def surveyed(model: Any, prompts: Any, **options: Any) -> xr.Dataset:
    given = {"pairs": [["to", "from"]], **options}
    return bathyscope.survey(model, prompts, "patching", patching=given, progress=False)["patching"]


def found(name: str, **options: Any) -> xr.Dataset:
    """The first prompt of a tiny model, patched from the second."""
    return surveyed(waves.loaded(name), paired(ids_of(name)), **options).isel(prompt=0)


def by_hand(name: str, part: str) -> tuple[dict[str, np.ndarray], float]:
    """Every variable [boundary, token, …] and [boundary, …] from one forward for each patch; and the way."""
    model = zoo.build(name)
    blocks, (target, source) = naive.blocks_of(model), ids_of(name)
    read = LENGTH - ANSWER - 1
    answers = [target[read + 1], source[read + 1]]
    given = naive_patching.held(model, blocks, source, part)

    def log_p(logits: torch.Tensor) -> torch.Tensor:
        return logits[read].double().log_softmax(-1)

    def numbers(boundary: int, tokens: Sequence[int]) -> np.ndarray:
        patched = log_p(naive_patching.patched_logits(model, blocks, target, given, boundary, tokens, part))
        change = (patched - own)[answers]
        return np.array([float(change[1] - change[0]) / way, *change, float((own.exp() * (own - patched)).sum())])

    own = log_p(naive.logits(model, target))
    way = float((own - log_p(naive.logits(model, source)))[answers] @ torch.tensor([1.0, -1.0], dtype=own.dtype))
    boundaries = range(len(blocks) + (part == "block"))
    single = np.array([[numbers(b, [t]) for t in range(read + 1)] for b in boundaries])
    everywhere = np.array([numbers(b, range(read + 1)) for b in boundaries])
    names = {"recovered": 0, "change": slice(1, 3), "kl": 3}
    found = {f"{n}{end}": v[..., at] for end, v in (("", single), ("_all", everywhere)) for n, at in names.items()}
    return found, way


def assert_equal_to_one_forward_per_patch(name: str) -> None:
    parts = PARTS if name in WITH_PARTS else PARTS[:1]
    got = found(name, parts=parts)
    for part in parts:
        wanted, way = by_hand(name, part)
        for variable, expected in wanted.items():
            values = got[variable].sel(part=part).values
            dims = got[variable].dims
            if "token" in dims:
                assert np.isnan(values[:, LENGTH - ANSWER :]).all()
                values = values[:, : LENGTH - ANSWER]
            if part != "block":
                assert np.isnan(values[-1]).all()
                values = values[:-1]
            gap = np.abs(values - expected) / np.maximum(1, np.abs(expected))
            # two readouts lie behind a change, and the difference of two changes is a share of a way that may be short
            close = bound_of_differences(zoo.build(name), CLOSE / 2) * 2
            allowed = max(close, 2 * CLOSE) / min(1, abs(way)) if variable.startswith("recovered") else close
            assert gap.max() < allowed, (part, variable)
            # four codebooks share what one token decides
            assert np.abs(expected).max() > (1e-4 if name == "musicgen_melody" else 1e-3)


@pytest.mark.each
@pytest.mark.parametrize("name", QUICK)
def test_equals_one_forward_per_patch(name: str) -> None:
    assert_equal_to_one_forward_per_patch(name)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in THOROUGH if name not in STORED])
def test_equals_one_forward_per_patch_in_every_family(name: str) -> None:
    assert_equal_to_one_forward_per_patch(name)


PASSING_ON = ("gemma3n", "zaya", "gemma4", "gemma4_multimodal", "zamba2")
"""Models whose blocks pass keys, values or a router's state on, or read embeddings once more."""


def passes_on_more(name: str) -> bool:
    """Whether blocks of a model get more than the stream; of Gemma 4 those that share and embed nothing do not."""
    return name in PASSING_ON or name.startswith("gemma3n")


def furthest_from_the_source(name: str) -> float:
    """How far all tokens, patched at any boundary, are at most from giving the source's log-probabilities."""
    got = found(name)
    to, source = got["log_p"].sel(read_in="target"), got["log_p"].sel(read_in="source")
    assert float(np.abs(source - to).max()) > 1e-3
    return float(np.abs(got["change_all"].sel(part="block") - (source - to)).max())


@pytest.mark.parametrize("name", ["llama", "gpt2", "qwen3_moe"])
def test_all_tokens_give_the_other_prompts_answer(name: str) -> None:
    assert furthest_from_the_source(name) < CLOSE
    np.testing.assert_allclose(found(name)["recovered_all"], 1, atol=CLOSE)


def test_all_tokens_of_the_stream_alone_do_not_where_blocks_pass_on_more() -> None:
    """The page says so: keys, values and embeddings of these are still the target's own."""
    assert furthest_from_the_source("gemma4") > 100 * CLOSE


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in THOROUGH if name not in ("llama", "gpt2", "qwen3_moe")])
def test_all_tokens_give_it_in_every_family_that_passes_on_the_stream_alone(name: str) -> None:
    assert (furthest_from_the_source(name) < CLOSE) != passes_on_more(name)


def test_at_the_last_boundary_the_answers_token_has_the_sources_readout_and_no_other_matters() -> None:
    got = found("llama").sel(part="block")
    read = int(got["read_at"])
    last = got.isel(boundary=-1, token=slice(0, read + 1))
    assert float(last["recovered"][read]) == pytest.approx(1, abs=CLOSE)
    model, (target, source) = zoo.build("llama"), ids_of("llama")
    own, other = (naive.logits(model, ids)[read] for ids in (target, source))
    assert float(last["kl"][read]) == pytest.approx(float(naive.kl(own, other)), abs=CLOSE)
    assert (last["kl"][:read] == 0).all()
    assert (last["recovered"][:read] == 0).all()


def test_both_answers_are_read_in_both_prompts() -> None:
    got, model = found("llama"), zoo.build("llama")
    target, source = ids_of("llama")
    read = LENGTH - ANSWER - 1
    for name, ids in (("target", target), ("source", source)):
        log_p = naive.logits(model, ids)[read].double().log_softmax(-1)
        expected = log_p[[target[read + 1], source[read + 1]]]
        np.testing.assert_allclose(got["log_p"].sel(read_in=name), expected, atol=CLOSE)


def test_a_prompt_patched_with_itself_is_unchanged() -> None:
    (ids,) = zoo.prompts(zoo.build("llama"), (LENGTH,))
    got = surveyed(waves.loaded("llama"), paired([ids, ids]), parts=PARTS, pairs=[["to", "to"], ["from", "to"]])
    for variable in ("change", "kl", "change_all", "kl_all"):
        assert (got[variable].fillna(0) == 0).all()
    # nowhere to go from one answer to the same
    assert got["recovered"].isnull().all()


def test_a_common_beginning_is_not_computed_and_changes_nothing() -> None:
    target, source = ids_of("llama")
    source = [*target[:4], *source[4:]]
    got = surveyed(waves.loaded("llama"), paired([target, source])).isel(prompt=0)
    assert (got["kl"][:, :, :4] == 0).all()
    assert (got["kl"].sel(part="block")[:-1, 4 : LENGTH - ANSWER] > 0).all()
    # a quotient of differences, which are small
    np.testing.assert_allclose(got["recovered_all"], 1, atol=10 * CLOSE)


def test_the_prediction_is_read_where_the_answers_differ() -> None:
    target, source = ids_of("llama")
    same_begin = [*source[: LENGTH - ANSWER], target[LENGTH - ANSWER], source[-1]]
    got = surveyed(waves.loaded("llama"), paired([target, same_begin]))
    assert got["read_at"].values.tolist() == [LENGTH - 2, -1]
    same_answer = [*source[: LENGTH - ANSWER], *target[LENGTH - ANSWER :]]
    got = surveyed(waves.loaded("llama"), paired([target, same_answer]))
    assert got["read_at"].values.tolist() == [LENGTH - ANSWER - 1, -1]
    assert got["recovered"].isnull().all()
    assert float(got["kl"].max()) > 1e-4


def test_a_label_makes_pairs_that_are_patched_both_ways() -> None:
    ids = zoo.prompts(zoo.build("llama"), (8, 9, 8, 9, 7))
    labels: list[dict[str, Any]] = [{"pair": "a"}, {"pair": 2}, {"pair": "a"}, {"pair": 2}, {}]
    prompts = [Prompt(ids=own, answer_tokens=1, labels=label) for own, label in zip(ids, labels)]
    double = waves.load(zoo.entry("llama").build().double())
    run = bathyscope.survey(double, prompts, "patching", progress=False)["patching"]
    assert run["source"].values.tolist() == [2, 3, 0, 1, -1]
    alone = surveyed(double, paired([ids[3], ids[1]], 1)).isel(prompt=0)
    np.testing.assert_allclose(run["kl"][3, :, :, :9], alone["kl"], atol=1e-9)
    assert run["kl"][4].isnull().all()


@pytest.mark.parametrize("batch_tokens", [1, 20, 10_000])
def test_shards_and_batches_are_cut_without_regard_to_pairs(batch_tokens: int) -> None:
    double = waves.load(zoo.entry("llama").build().double())
    ids = zoo.prompts(double.hf, (8, 12, 9, 9, 12, 8))
    prompts = [Prompt(ids=own, answer_tokens=2, labels={"pair": len(own)}) for own in ids]

    def measured(size: int) -> xr.Dataset:
        return bathyscope.survey(double, prompts, "patching", batch_tokens=size, progress=False)["patching"]

    xr.testing.assert_allclose(measured(batch_tokens), measured(37), rtol=0, atol=1e-10)


def test_interrupted_and_resumed(tmp_path: Path) -> None:
    prompts = [
        Prompt(ids=own, answer_tokens=2, labels={"pair": len(own)})
        for own in zoo.prompts(zoo.build("llama"), (8, 6, 6, 8))
    ]

    def measured(**options: Any) -> xr.Dataset:
        model = waves.loaded("llama")
        return bathyscope.survey(model, prompts, "patching", batch_tokens=8, progress=False, **options)["patching"]

    whole = measured()
    with interrupted_after(5):
        measured(out=tmp_path / "run")
    resumed = measured(out=tmp_path / "run")
    xr.testing.assert_identical(resumed, whole)
    xr.testing.assert_identical(bathyscope.open(tmp_path / "run")["patching"], whole)


@pytest.mark.parametrize("part", PARTS)
def test_it_costs_at_most_a_third_of_one_forward_per_patch(part: str) -> None:
    """Tokens that blocks are given, against tokens · blocks of a forward for each row."""
    config = zoo.entry("llama").config()
    config.num_hidden_layers = 12
    hf = AutoModelForCausalLM.from_config(config).eval()
    model, length = waves.load(hf), 48
    prompts = paired(zoo.prompts(hf, (length, length)), answer=1)
    with counted_tokens(model) as calls:
        surveyed(model, prompts, parts=[part])
    tokens = sum(calls)
    read = length - 1
    patches = (12 + (part == "block")) * (read + 1)  # single tokens and all together
    assert tokens < patches * 12 * read / 3
    measure = Patching({"parts": (part,)})
    rows = measure.rows_after(waves.facts(model), length)
    assert rows / 1.5 < tokens / (12 * length) < rows * 1.5


def test_noise_is_the_controls() -> None:
    model = waves.loaded("llama")
    run = bathyscope.survey(model, paired(ids_of("llama")), "patching", patching={"pairs": [[0, 1]]}, progress=False)
    assert 0 <= float(run["noise"].floor.sel(measure="patching")) < 1e-5


# --- what is refused -------------------------------------------------------------------------------------


def of(*lengths: int, answers: Sequence[int | None] = (), **labels: Sequence[Any]) -> list[Prompt]:
    ids = zoo.prompts(zoo.build("llama"), lengths)
    return [
        Prompt(
            ids=own,
            answer_tokens=answers[n] if answers else 1,
            id="abcdef"[n],
            labels={name: values[n] for name, values in labels.items() if values[n] is not None},
        )
        for n, own in enumerate(ids)
    ]


@pytest.mark.parametrize(
    ("prompts", "options", "kind", "message"),
    [
        (
            of(9, 8),
            {"pairs": [["a", "b"]]},
            PromptError,
            "patching: prompts 'a' and 'b' have 9 and 8 tokens; a token is put into the place of the same number, so "
            "give prompts of one length in tokens, answers included.",
        ),
        (
            of(9, 9, answers=(1, 2)),
            {"pairs": [["a", "b"]]},
            PromptError,
            "patching: prompts 'a' and 'b' have answers of 1 and 2 tokens, so that they begin at different ones; give "
            "answers of one length in tokens.",
        ),
        (
            of(9, 9, answers=(1, None)),
            {"pairs": [["a", "b"]]},
            PromptError,
            "patching: prompt 'b' has no answer, whose prediction is measured; give answer= with text=, or "
            "answer_tokens= with ids=.",
        ),
        (
            of(9, 9),
            {"pairs": [["a", "b"], ["b", "a"], [0, "b"]]},
            PromptError,
            "patching: pairs has prompt 'a' patched from 'b' twice; give each pair once.",
        ),
        (
            of(9, 9, 9),
            {"pairs": [["a", "b"], ["a", "c"]]},
            PromptError,
            "patching: prompt 'a' is to be patched from both 'b' and 'c'; give each prompt one source, and the prompt "
            "twice where it has two.",
        ),
        (
            of(9, 9, 9, pair=(1, 1, 1)),
            {},
            PromptError,
            "patching: pair=1 stands at 3 prompts ('a', 'b', 'c'); a pair is two prompts. Give exactly two the same "
            "value.",
        ),
        (
            of(9, 9, pair=(1, 2)),
            {},
            PromptError,
            "patching: pair=1 stands at 1 prompt ('a'); a pair is two prompts. Give exactly two the same value.",
        ),
        (
            of(9, 9, pairs=(1, 1)),
            {},
            PromptError,
            "patching: no prompt has the label 'pair', whose equal values make pairs. Did you mean 'pairs'? Give both "
            "prompts of a pair one value of it, or name a label or the pairs themselves (patching.pairs).",
        ),
        (
            of(9, 9),
            {"pairs": [["a", "z"]]},
            PromptError,
            "patching: pairs names the prompt 'z', which is not among the 2 of the survey. Give ids, or numbers from 0 "
            "to 1.",
        ),
        (of(9, 9), {"pairs": [["a", 2]]}, PromptError, "patching: pairs names the prompt 2, which is not among the 2"),
        (
            of(9, 9),
            {"pairs": [["a", "b", "c"]]},
            OptionError,
            "patching: pairs takes a label's name or pairs of prompts; ['a', 'b', 'c'] is no pair. Give [target, "
            "source], each a prompt's id or its number in the survey.",
        ),
        (of(9, 9), {"pairs": []}, OptionError, "patching: pairs is an empty list; give [target, source] at least once"),
        (of(9, 9), {"pairs": '[["a",'}, OptionError, "patching: pairs='[[\"a\",' is no JSON ("),
        (
            of(9, 9),
            {"pairs": [["a", "b"]], "max_tokens": 8},
            PromptError,
            "patching: all 1 prompts to be patched are longer than max_tokens=8 (the shortest has 9 tokens); give "
            "shorter prompts or a larger max_tokens. Its cost grows with the square of the length.",
        ),
        (of(9, 9), {"parts": ["head"]}, OptionError, "Allowed: block, attention, mlp."),
    ],
)
def test_refused_before_any_compute(
    prompts: list[Prompt],
    options: dict[str, Any],
    kind: type[Exception],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Wavefront, "run_convoy", lambda *_: pytest.fail("computed"))
    with pytest.raises(kind) as caught:
        bathyscope.survey(waves.loaded("llama"), prompts, "patching", patching=options, progress=False)
    assert message in str(caught.value)


def test_parts_need_separable_contributions() -> None:
    name = next(entry.name for entry in zoo.entries() if not entry.parts)
    with pytest.raises(ModelError, match="patching of attention or mlp needs attention and MLP contributions"):
        found(name, parts=["mlp"])


def test_longer_pairs_are_left_out_with_a_warning() -> None:
    prompts = of(9, 9, 12, 12, pair=(1, 1, 2, 2))
    with pytest.warns(UserWarning, match=r"patching: 2 of 4 prompts are not patched \(longer than max_tokens=10\)"):
        run = bathyscope.survey(waves.loaded("llama"), prompts, "patching", patching={"max_tokens": 10}, progress=False)
    assert run["patching"]["kl"][2:].isnull().all()
    assert run["patching"].sizes["token"] == 9


def test_of_all_measures_it_is_left_out_where_nothing_is_paired() -> None:
    measure, facts = Patching(), waves.facts(waves.loaded("llama"))
    reason = measure.unavailable(facts, waves.of_lengths(9, 9))
    assert reason == "no prompt has an answer; give prompts with answers (answer=…, or a data set that has them)"


def test_a_shell_gives_pairs_as_json_and_names_come_before_numbers() -> None:
    prompts = paired(ids_of("llama"), names=("1", "0"))
    got = surveyed(waves.loaded("llama"), prompts, pairs=json.dumps([["1", "0"]]))
    assert got["source"].values.tolist() == [1, -1]
    got = surveyed(waves.loaded("llama"), prompts, pairs=[[1, 0]])
    assert got["source"].values.tolist() == [-1, 0]


# --- operands --------------------------------------------------------------------------------------------


def with_operands(*operands: Any) -> list[Prompt]:
    ids = zoo.prompts(zoo.build("llama"), (9,) * len(operands))
    labels: list[dict[str, Any]] = [{} if one is None else {"operands": one} for one in operands]
    return [Prompt(ids=own, answer_tokens=1, labels=label) for own, label in zip(ids, labels)]


def test_operands_are_left_where_the_map_fades() -> None:
    """The tokens that a label names, by the definition on the maps themselves."""
    prompts, pairs = with_operands("2 5", "6, 1", 3, None), [[0, 1], [1, 2], [2, 3], [3, 0]]
    measured: dict[str, Any] = {"patching": {"pairs": pairs}, "erasure": {"future": False}, "progress": False}
    run = bathyscope.survey(waves.loaded("llama"), prompts, ["erasure", "patching"], **measured)
    for measure, effect in (("patching", run["patching"]["kl"].sel(part="block")), ("erasure", run["erasure"].effect)):
        got = run[measure]["operand_left"]
        assert got.dims == ("prompt", "operand")
        for prompt, tokens in enumerate(((2, 5), (6, 1), (3,), ())):
            for step in range(2):
                left = np.nan
                if step < len(tokens):
                    column = effect[prompt, :, tokens[step]].values
                    left = 1 + max(b for b in range(6) if column[b] >= 0.1 * column.max())
                np.testing.assert_equal(float(got[prompt, step]), left)
        assert np.isnan(float(run[measure]["operand_slope"]))  # two problems of two steps are too few for an interval


def test_two_prompts_that_are_patched_from_each_other_are_one_of_the_interval() -> None:
    prompts = with_operands(*["1 3 5"] * 8)
    both_ways = [[n, n ^ 1] for n in range(6)]
    got = surveyed(waves.loaded("llama"), prompts, pairs=[*both_ways, [6, 7], [7, 0]])
    wanted = operand_trend(got["operand_left"].values, cluster=np.array([0, 0, 2, 2, 4, 4, 6, 7]))
    assert float(got["operand_slope_low"]) == wanted.ci_low
    assert wanted.ci_low != operand_trend(got["operand_left"].values).ci_low


@pytest.mark.parametrize("given", ["2 x", "9", -1, 2.5])
def test_operands_that_are_no_tokens_are_refused(given: Any) -> None:
    for measure in ("patching", "erasure"):
        options: dict[str, Any] = {"patching": {"pairs": [[0, 1]]}} if measure == "patching" else {}
        with pytest.raises(PromptError) as caught:
            bathyscope.survey(waves.loaded("llama"), with_operands(given, None), measure, progress=False, **options)
        assert str(caught.value) == (
            f"{measure}: prompt '0' has operands={given!r}, which names no tokens of its 9; give their numbers, from 0 "
            'to 8, in the order of its steps, such as "3 5 7".'
        )


def test_a_prompt_patched_from_itself_is_said_to_change_nothing() -> None:
    """Its answer is its own, which no other source of it would mend."""
    with pytest.warns(UserWarning, match=r"patching: .*is patched from itself, which changes nothing") as warned:
        got = surveyed(waves.loaded("llama"), paired(ids_of("llama")), pairs=[["to", "to"]])
    assert [str(one.message) for one in warned if "have the answer of the prompt" in str(one.message)] == []
    assert (got["kl"].fillna(0) == 0).all()


def test_two_prompts_of_one_answer_are_a_warning() -> None:
    prompts = [
        Prompt(ids=[3, 4, 5, 9, 7], answer_tokens=1, id="to"),
        Prompt(ids=[3, 8, 5, 9, 7], answer_tokens=1, id="from"),
    ]
    with pytest.warns(
        UserWarning, match="patching: 1 of 1 prompts have the answer of the prompt that they are patched from"
    ):
        got = surveyed(waves.loaded("llama"), prompts)
    assert got["recovered"].isnull().all()
