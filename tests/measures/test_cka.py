"""CKA of a model's boundaries, and of two models: against loops over the definition on the models' own states."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support import naive, waves, zoo
from support.rounding import assert_same_bits
from support.stand_ins import checkpoint
from transformers import PreTrainedModel

import bathyscope
from bathyscope.errors import OptionError, StoreError
from bathyscope.measures.of.cka import TOKENS, Cka, CkaOptions, CkaProbe, Minibatch, minibatches
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.statistics import hsic
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.engine import Wavefront

BRUTE_FORCE = ("test_equals_loops_over_the_models_own_states",)
"""What test_looped_parity.py asks of looped models too."""

LENGTHS = (14, 9, 17, 5, 8, 20, 11, 13, 6, 7, 9, 10, 12)
LOOPED = frozenset(("llama", "llama_longrope", "gemma4", "moeut", "gpt2_sink"))
OPTIONS = {"batch": 7, "tokens_batch": 25}
Array = np.ndarray


def ids(lengths: Sequence[int] = LENGTHS) -> list[list[int]]:
    return zoo.prompts(zoo.build("llama"), tuple(lengths))


def surveyed(model: Any = None, prompts: Any = None, **options: Any) -> xr.Dataset:
    chosen = {"cka": OPTIONS, **options}
    return bathyscope.survey(model or waves.loaded("llama"), prompts or ids(), ["cka"], progress=False, **chosen)["cka"]


def tokenized(prompts: Sequence[Sequence[int]]) -> list[TokenizedPrompt]:
    return [TokenizedPrompt(str(n), tuple(own)) for n, own in enumerate(prompts)]


def drawn(prompts: Sequence[Sequence[int]], seed: int = 0, **options: int) -> list[Minibatch]:
    return minibatches(tokenized(prompts), CkaOptions(**{**OPTIONS, **options}), seed)


def states(model: PreTrainedModel, minibatch: Minibatch, tokens: str) -> Array:
    """[L+1, points, d], each prompt run alone by the model itself."""
    found = []
    for prompt, positions in zip(minibatch.prompts, minibatch.sampled):
        stream = naive.boundaries(model, naive.blocks_of(model), prompt.ids).double().numpy()
        kept = {"last": [len(prompt) - 1], "all": positions, "rest": [p for p in positions if p]}[tokens]
        found.append(stream[:, list(kept)])
    return np.concatenate(found, axis=1)


def loops(one: Sequence[Array], other: Sequence[Array]) -> Array:
    """CKA [A, B] of minibatches [A, N, d] and [B, N, d′], pair by pair from the definition."""

    def naive_hsic(x: Array, y: Array) -> float:
        k, m = x @ x.T, y @ y.T
        np.fill_diagonal(k, 0)
        np.fill_diagonal(m, 0)
        n, ones = len(x), np.ones(len(x))
        mixed = np.trace(k @ m) + (ones @ k @ ones) * (ones @ m @ ones) / ((n - 1) * (n - 2))
        return float(mixed - 2 / (n - 2) * (ones @ k @ m @ ones)) / (n * (n - 3))

    found = np.empty((len(one[0]), len(other[0])))
    for a, b in np.ndindex(found.shape):
        pair = sum(naive_hsic(x[a], y[b]) for x, y in zip(one, other))
        own = sum(naive_hsic(x[a], x[a]) for x in one) * sum(naive_hsic(y[b], y[b]) for y in other)
        found[a, b] = pair / np.sqrt(own)
    return found


@pytest.mark.parametrize(
    "name",
    zoo.swept(
        ("llama", "gpt2", "gemma3", "gemma4", "llama_longrope", "jamba", "universal", "moeut", "gpt2_sink"), LOOPED
    ),
)
def test_equals_loops_over_the_models_own_states(name: str) -> None:
    got = surveyed(waves.loaded(name))
    for tokens in TOKENS:
        points = []
        for minibatch in drawn(ids()):
            if "dynamic" in name:
                # the tables stay as long as the longest forward made them; a short one puts them back
                naive.logits(zoo.build(name), ids()[0][:4])
            points.append(states(zoo.build(name), minibatch, tokens))
        np.testing.assert_allclose(got["cka"].sel(tokens=tokens), loops(points, points), atol=2e-5)


def test_in_double_precision_to_ten_digits() -> None:
    hf = zoo.entry("llama").build().double()
    got = surveyed(waves.load(hf))["cka"]
    for tokens in TOKENS:
        points = [states(hf, minibatch, tokens) for minibatch in drawn(ids())]
        np.testing.assert_allclose(got.sel(tokens=tokens), loops(points, points), atol=1e-10)


def test_names_dimensions_and_labels() -> None:
    got = surveyed()
    pairs = ("tokens", "boundary", "boundary_other")
    assert {str(name): values.dims for name, values in got.data_vars.items()} == {
        "hsic": pairs,
        "hsic_covariance": ("term", *pairs),
        "cka": pairs,
        "ci_low": pairs,
        "ci_high": pairs,
    }
    assert got["tokens"].values.tolist() == ["last", "all", "rest"]
    assert got["boundary"].values.tolist() == got["boundary_other"].values.tolist() == list(range(6))
    np.testing.assert_allclose(got["cka"], got["cka"].transpose("tokens", "boundary_other", "boundary"), atol=1e-12)
    assert got["ci_low"].attrs["long_name"] == "lower end of the 95 % interval of the CKA"
    assert (got["ci_low"] <= got["cka"]).all()
    assert float((got["ci_high"] - got["ci_low"]).sel(tokens="last", boundary=1, boundary_other=3)) > 1e-3


def test_minibatches_are_of_nearly_equal_size_and_neighbours() -> None:
    for prompts, batch, sizes in ((13, 7, [7, 6]), (129, 128, [65, 64]), (7, 4, [7]), (4, 128, [4]), (8, 4, [4, 4])):
        made = drawn([[1, 2, 3, 4, 5, 6, 7, 8, number] for number in range(prompts)], batch=batch, tokens_batch=16)
        assert [len(one.prompts) for one in made] == sizes
        assert [one.first for one in made] == np.cumsum([0, *sizes[:-1]]).tolist()
        numbers = [int(prompt.id) for one in made for prompt in one.prompts]
        assert numbers == list(range(prompts))


def test_tokens_are_drawn_once_each_and_alike_from_all_places() -> None:
    everyone = drawn(ids(), tokens_batch=8192)
    assert [own for one in everyone for own in one.sampled] == [tuple(range(n)) for n in LENGTHS]
    counts = np.zeros((4, 10))
    for seed in range(400):
        (one,) = drawn([[number] * 10 for number in range(4)], seed, tokens_batch=16)
        assert sum(len(set(own)) for own in one.sampled) == sum(len(own) for own in one.sampled) == 16
        for prompt, own in enumerate(one.sampled):
            counts[prompt, list(own)] += 1
    assert (abs(counts / 400 - 0.4) < 0.1).all()
    assert drawn(ids(), seed=3) == drawn(ids(), seed=3) != drawn(ids(), seed=4)


@pytest.mark.parametrize("batch_tokens", [1, 33, 60, 10_000])
def test_shards_change_nothing(batch_tokens: int) -> None:
    """Not a bit: minibatches are the same prompts in the same calls, whatever shard they begin in."""
    whole, cut = surveyed(), surveyed(batch_tokens=batch_tokens)
    for name in ("hsic", "hsic_covariance", "cka", "ci_low", "ci_high"):
        np.testing.assert_array_equal(whole[name].values, cut[name].values, err_msg=name)


def test_interrupted_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the shard where the second minibatch begins."""
    whole, after = surveyed(batch_tokens=33), CkaProbe.after

    def interrupted(probe: CkaProbe, *arguments: Any) -> None:
        if any(minibatch.first > 0 for minibatch in probe._minibatches):
            raise KeyboardInterrupt
        after(probe, *arguments)

    monkeypatch.setattr(CkaProbe, "after", interrupted)
    with pytest.raises(KeyboardInterrupt):
        surveyed(batch_tokens=33, out=tmp_path / "run")
    with pytest.raises(StoreError, match="is not finished"):
        bathyscope.open(tmp_path / "run")
    monkeypatch.undo()
    xr.testing.assert_identical(surveyed(batch_tokens=33, out=tmp_path / "run"), whole)


def test_no_interval_from_four_prompts() -> None:
    got = surveyed(prompts=ids(LENGTHS[:4]))
    assert got["ci_low"].sel(tokens="last").isnull().all()
    assert got["cka"].notnull().all()
    assert got["ci_low"].sel(tokens="all").notnull().all()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 30), min_size=4, max_size=60), st.integers(4, 24))
def test_minibatches_are_those_of_the_prompts_without_copies(numbers: list[int], batch: int) -> None:
    different = list(dict.fromkeys(numbers))
    assume(len(different) >= 4)
    made, once = (
        drawn([[5, 9, 8, 7, number] for number in listed], batch=batch, tokens_batch=16)
        for listed in (numbers, different)
    )
    assert [[prompt.ids for prompt in one.prompts] for one in made] == [
        [prompt.ids for prompt in one.prompts] for one in once
    ]
    assert [one.sampled for one in made] == [one.sampled for one in once]
    assert [one.first for one in made] == [numbers.index(different[one.first]) for one in once]


def test_copies_of_prompts_say_nothing_that_the_prompts_do_not() -> None:
    """A copy in another minibatch would be one more draw, and in the same one a likeness between two points."""
    own = ids()
    whole = surveyed()
    verb = bathyscope.cka(waves.loaded("llama"), waves.loaded("gemma2"), own, **OPTIONS)
    for order in ([*own, *own], [prompt for prompt in own for _ in range(3)], [*own, *own[:1] * 20]):
        copied = surveyed(prompts=order)
        of_two = bathyscope.cka(waves.loaded("llama"), waves.loaded("gemma2"), order, **OPTIONS)
        for name in ("cka", "ci_low", "ci_high"):
            assert_same_bits(copied[name].values, whole[name].values, name)
            assert_same_bits(of_two[name].values, verb[name].values, name)
    assert float((whole.ci_high - whole.ci_low).max()) > 0.01


def test_what_is_one_prompt_to_either_model_is_one_of_both(tmp_path: Path) -> None:
    """The second tokenizer knows no word for road and for house: two texts are one prompt to it."""
    folders = [checkpoint(tmp_path / str(seed), seed=seed) for seed in (0, 1)]
    texts = [f"the old house {word} where the road turned" for word in ("stood", "at", "seen", "village", "hills")]
    file = folders[1] / "tokenizer.json"
    plain = file.read_text(encoding="utf-8")
    file.write_text(plain.replace('"stood"', '"stoood"').replace('"at"', '"aat"'), encoding="utf-8")
    read = [bathyscope.load(folder).tokenizer(texts)["input_ids"] for folder in folders]
    assert [len({tuple(ids) for ids in prompts}) for prompts in read] == [5, 4]
    for pair in (folders, folders[::-1]):
        both = bathyscope.cka(*pair, texts)
        left = bathyscope.cka(*pair, [text for text in texts if " at " not in text])
        for name in ("cka", "ci_low", "ci_high"):
            assert_same_bits(both[name].values, left[name].values, name)


@pytest.mark.parametrize("copies", [6, 200])
def test_copies_of_three_prompts_are_three(copies: int) -> None:
    prompts = [*ids()[:2], *ids()[2:3] * copies]
    words = rf"needs at least 4 prompts; 3 different of {copies + 2} given"
    with pytest.raises(OptionError, match=f"last tokens and {words}. Give more prompts, or leave cka out"):
        surveyed(prompts=prompts)
    with pytest.raises(OptionError, match=words):
        bathyscope.cka(waves.loaded("llama"), waves.loaded("llama"), prompts)
    facts = waves.facts(waves.loaded("llama"))
    assert Cka(CkaOptions()).unavailable(facts, tokenized(prompts)) == f"it {words}"


def test_last_tokens_that_are_all_the_same() -> None:
    """Without positions in the embedding there is nothing at boundary 0 that could differ."""
    got = surveyed(prompts=[[*own, 7] for own in ids()])["cka"]
    missing = got.isnull()
    assert missing.sel(tokens="last", boundary=0).all()
    assert missing.sel(tokens="last", boundary_other=0).all()
    assert not missing.sel(tokens="last").isel(boundary=slice(1, None), boundary_other=slice(1, None)).any()
    assert not missing.sel(tokens=["all", "rest"]).any()


def test_two_models_equal_loops() -> None:
    """Of different depth and width."""
    config = zoo.build("gpt2").config.__class__(n_layer=3, n_embd=32, n_head=2, vocab_size=120)
    small = type(zoo.build("gpt2"))(config).eval()
    found = bathyscope.cka(waves.loaded("llama"), small, ids(), **OPTIONS)
    assert found["cka"].sizes == {"tokens": 3, "boundary": 6, "boundary_other": 4}
    assert found.attrs == {"model": "LlamaForCausalLM", "other": "GPT2LMHeadModel"}
    for tokens in TOKENS:
        one, other = ([states(m, part, tokens) for part in drawn(ids())] for m in (zoo.build("llama"), small))
        np.testing.assert_allclose(found["cka"].sel(tokens=tokens), loops(one, other), atol=2e-5)


def test_a_model_beside_itself_is_the_measure() -> None:
    found, own = bathyscope.cka(waves.loaded("llama"), waves.loaded("llama"), iter(ids()), **OPTIONS), surveyed()
    for name in ("cka", "ci_low", "ci_high"):
        np.testing.assert_allclose(found[name], own[name], atol=1e-7, err_msg=name)


def test_models_of_other_tokens_are_compared_by_last_tokens(tmp_path: Path) -> None:
    folders = [checkpoint(tmp_path / str(seed), seed=seed) for seed in (0, 1)]
    texts = [f"the old house {word} where the road turned" for word in ("stood", "at", "seen", "village", "hills")]
    same = bathyscope.cka(*folders, texts)
    assert same["tokens"].values.tolist() == ["last", "all", "rest"]
    file = folders[1] / "tokenizer.json"
    file.write_text(file.read_text(encoding="utf-8").replace('"road"', '"rood"'), encoding="utf-8")
    other = bathyscope.cka(*folders, texts)
    assert other["tokens"].values.tolist() == ["last"]
    assert other["cka"].notnull().any()


def refusal(prompts: int, options: Mapping[str, Any]) -> str:
    with pytest.raises(OptionError) as caught:
        Cka(CkaOptions(**options)).prepare(waves.facts(waves.loaded("llama")), waves.of_lengths(*[9] * prompts), 0)
    return str(caught.value)


def test_of_gram_matrices_of_all_boundaries_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be the largest arrays of a survey of states: here those of one kind of points are 3.7 MB."""
    model, prompts = waves.loaded("llama"), ids([20] * 24)
    monkeypatch.setattr(hsic, "_ROWS_BYTES", 1 << 18)
    measure = Cka(CkaOptions(tokens_batch=277))
    facts = waves.facts(model)
    measure.prepare(facts, tokenized(prompts), 0)
    wave = Wavefront(model.anatomy, tails=model.checks.tails)
    probe = measure.probe(facts, Batch.of(prompts), range(24))
    tracemalloc.start()
    probe.after(wave, lambda share: None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 21


@pytest.mark.parametrize(
    ("prompts", "options", "message"),
    [
        (
            3,
            {},
            "cka compares prompts by their last tokens and needs at least 4 prompts; 3 given. Give more prompts, or "
            "leave cka out.",
        ),
        (9, {"batch": 3}, "cka: batch=3 is out of range; allowed: 4 to 4096."),
        (9, {"tokens_batch": 15}, "cka: tokens_batch=15 is out of range; allowed: 16 to 8192."),
        (9, {"level": 1.0}, "cka: level=1.0 is out of range; allowed: 0.01 to 0.9999."),
    ],
)
def test_errors(prompts: int, options: Mapping[str, Any], message: str) -> None:
    assert refusal(prompts, options) == message


def test_of_all_measures_it_is_left_out_where_prompts_are_few() -> None:
    model, prompts = waves.loaded("llama"), ids(LENGTHS[:3])
    options: Any = {"repeat": {"length": 2}, "progress": False}
    with pytest.warns(UserWarning, match=r"^cka is left out: it needs at least 4 prompts; 3 given\.$"):
        run = bathyscope.survey(model, prompts, "all", **options)
    assert "cka" not in run.measures
    assert "swap_cosine" in run.measures
    with pytest.raises(OptionError, match="needs at least 4 prompts; 3 given"):
        bathyscope.survey(model, prompts, "all", cka={"batch": 8}, **options)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_points_that_do_not_differ_have_no_cka_and_are_told_so() -> None:
    """Where no block attends, a last token knows nothing of those before."""
    hf = zoo.entry("llama").build()
    for block in hf.model.layers:
        block.self_attn.o_proj.weight.data.zero_()
    model = bathyscope.load(hf)
    with pytest.warns(
        UserWarning, match=r"no boundary has a CKA \(tokens: last\), because the compared points are all"
    ):
        equal = bathyscope.cka(model, model, [[5, 9, 7, number, 8] for number in range(30, 35)])
    assert equal["cka"].sel(tokens="last").isnull().all()
    assert equal["cka"].sel(tokens="all").notnull().any()
    assert equal.text == (
        "No CKA of LlamaForCausalLM and LlamaForCausalLM is defined (tokens: last): states that are alike in all "
        "prompts have none."
    )
