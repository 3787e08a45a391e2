"""Maps between models: against a regression for every pair of boundaries on the models' own states."""

from __future__ import annotations

import functools
import re
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support import naive, waves, zoo
from support.altered import answering
from support.idle import after_each, behind_all, with_idle_blocks
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedModel, PreTrainedTokenizerFast

import bathyscope
from bathyscope.analysis.between import streams
from bathyscope.analysis.between.map_results import encode_maps, open_maps
from bathyscope.analysis.between.streams import Streams
from bathyscope.errors import OptionError, PromptError, StoreError
from bathyscope.measures.normal_equations import NormalEquations
from bathyscope.model import Model
from bathyscope.pages.figures.of import maps
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.statistics.least_squares import RIDGE
from bathyscope.statistics.splits import split

LENGTHS = (12, 19, 26, 15, 22) * 5
Array = np.ndarray


@functools.cache
def small() -> PreTrainedModel:
    """A GPT-2 of 3 blocks and width 24 with the vocabulary of the zoo's Llama, in double precision."""
    config = zoo.build("gpt2").config.__class__(n_layer=3, n_embd=24, n_head=2, vocab_size=120)
    torch.manual_seed(3)
    return type(zoo.build("gpt2"))(config).double().eval()


@functools.cache
def source() -> Model:
    return waves.load(small())


@functools.cache
def target() -> Model:
    return waves.load(zoo.entry("llama").build().double())


def ids(lengths: Sequence[int] = LENGTHS) -> list[list[int]]:
    return zoo.prompts(zoo.build("llama"), tuple(lengths))


def mapped(one: Any = None, other: Any = None, prompts: Any = None, **options: Any) -> xr.Dataset:
    given = {"resamples": 50, "progress": False, **options}
    return bathyscope.maps(one or source(), other or target(), prompts or ids(), **given).data


@functools.cache
def found() -> xr.Dataset:
    return mapped()


def states(model: PreTrainedModel, numbers: Sequence[int]) -> list[Array]:
    """[L+1, tokens, width] of each prompt run alone by the model itself, without position 0."""
    return [naive.boundaries(model, naive.blocks_of(model), ids()[n]).double().numpy()[:, 1:] for n in numbers]


def regression(x: Array, y: Array, penalty: float) -> tuple[Array, Array]:
    """(W, b) of ridge regression on standardised features by lstsq, with rows for the penalty."""
    extra = np.sqrt(penalty * len(x)) * np.diag(x.std(0))
    design, aim = np.vstack([x - x.mean(0), extra]), np.vstack([y - y.mean(0), np.zeros((x.shape[1], y.shape[1]))])
    weights = np.linalg.lstsq(design, aim)[0]
    return weights, y.mean(0) - x.mean(0) @ weights


def test_equals_a_regression_for_every_pair_of_boundaries() -> None:
    """Maps, the choice of penalties, and the three metrics, pair by pair on all tokens at once."""
    got, deal = found(), split(len(LENGTHS), 0.1, 0.2, 0)
    sides = [[states(m, part) for part in (deal.fit, deal.choose, deal.test)] for m in (small(), target().hf)]
    for s, t in np.ndindex(4, 6):
        x, y = (
            [np.concatenate([one[boundary] for one in part]) for part in side] for side, boundary in zip(sides, (s, t))
        )
        maps = [regression(x[0], y[0], penalty) for penalty in RIDGE]
        chosen = int(np.argmin([((y[1] - x[1] @ w - b) ** 2).sum() for w, b in maps]))
        assert float(got["ridge"][s, t]) == RIDGE[chosen]
        weights, bias = maps[chosen]
        error, size = np.linalg.norm(y[2] - x[2] @ weights - bias, axis=1), np.linalg.norm(y[2], axis=1)
        spread = np.linalg.norm(y[2] - y[0].mean(0), axis=1)
        assert float(got["relative_error"][s, t]) == pytest.approx((error / size).mean(), abs=1e-6)
        assert float(got["summed_error"][s, t]) == pytest.approx(error.sum() / size.sum(), abs=1e-6)
        assert float(got["r2"][s, t]) == pytest.approx(1 - (error**2).sum() / (spread**2).sum(), abs=1e-6)
        assert float(got["mean_error"][t]) == pytest.approx((spread / size).mean(), abs=1e-6)


def test_intervals_are_of_resampled_test_prompts() -> None:
    got = found()
    for name in ("relative_error", "summed_error", "r2"):
        assert (got[f"{name}_low"] < got[name]).all()
        assert (got[name] < got[f"{name}_high"]).all()
    wide, narrow = (mapped(level=level)["relative_error_high"] for level in (0.99, 0.5))
    assert (wide > narrow).all()


def test_a_model_gives_its_own_boundaries_exactly() -> None:
    got = mapped(target(), target(), sources_per_pass=6)
    error = got["relative_error"].values
    assert np.diagonal(error).max() < 1e-9
    assert error[~np.eye(6, dtype=bool)].min() > 1e-2
    np.testing.assert_allclose(np.diagonal(got["r2"].values), 1, atol=1e-12)
    np.testing.assert_array_equal(got["best_target"], range(6))
    np.testing.assert_array_equal(got["best_source"], range(6))
    np.testing.assert_allclose(got["slope"], 1)
    np.testing.assert_allclose(got["deviation"], 0)


@pytest.mark.parametrize(("order", "factor"), [(after_each, 1.0), (behind_all, 0.5)])
def test_idle_blocks_put_the_diagonal_where_they_are(order: Any, factor: float) -> None:
    """Behind each block: the same relative depth. Behind all blocks: the same boundary, at half the relative depth."""
    model = zoo.entry("llama").build().double()
    planted = bathyscope.load(with_idle_blocks(model, order(5)))
    got = mapped(target(), planted, sources_per_pass=6)
    # of equal boundaries the first is taken: 2b − 1 of 2b − 1 and 2b, L of L … 2L
    expected = [0, 1, 3, 5, 7, 9] if factor == 1 else range(6)
    np.testing.assert_array_equal(got["best_target"], expected)
    own = np.arange(6) / 5
    assert float(got["slope"][0]) == pytest.approx(np.polyfit(own, np.array(expected) / 10, 1)[0])
    assert float(got["slope"][0]) == pytest.approx(factor, abs=0.1)
    assert float(got["deviation"][0]) == pytest.approx(np.abs(np.array(expected) / 10 - own).mean())
    assert float(got["rank_correlation"][0]) == pytest.approx(1)
    within = got["slope_low"] - 1e-9 <= got["slope"]
    assert (within & (got["slope"] <= got["slope_high"] + 1e-9)).all()
    back = np.repeat(range(6), 2)[1:] if factor == 1 else np.minimum(range(11), 5)
    np.testing.assert_array_equal(got["best_source"], back)


@pytest.mark.parametrize("block", [1, 3])
def test_blocks_of_sources_change_nothing(block: int) -> None:
    got = mapped(sources_per_pass=block)
    assert got.attrs["passes"] == -(-4 // block)
    assert_same(got, found())


def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompt by prompt against all that fit in a call."""
    monkeypatch.setattr(streams, "_STATE_BYTES", 1)
    assert_same(mapped(), found())


def assert_same(one: xr.Dataset, other: xr.Dataset) -> None:
    for name in other.data_vars:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-9, atol=1e-12, err_msg=str(name))


def test_every_prompt_is_run_once_in_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    run: list[int] = []
    states_of = Streams.states

    def counted(self: Streams, picked: Sequence[int], sources: range) -> Any:
        run.extend(picked)
        return states_of(self, picked, sources)

    monkeypatch.setattr(Streams, "states", counted)
    mapped()
    assert sorted(run) == list(range(len(LENGTHS)))
    run.clear()
    mapped(sources_per_pass=2)
    assert sorted(run) == sorted([*range(len(LENGTHS))] * 2)


def test_sums_take_no_more_than_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    one = NormalEquations.bytes(6, (24, 64))
    made: list[int] = []
    kept: list[weakref.ref[NormalEquations]] = []
    begin = NormalEquations.__init__

    def counted(self: NormalEquations, sources: int, *rest: Any) -> None:
        begin(self, sources, *rest)
        kept.append(weakref.ref(self))
        alive = [own for own in (one() for one in kept) if own is not None]
        made.append(sum(values.nbytes for own in alive for values in (own.xx_SDD, own.xy_STDE)))

    monkeypatch.setattr(NormalEquations, "__init__", counted)
    for sources, blocks in ((1, 4), (3, 2), (100, 1)):
        made.clear()
        got = mapped(memory=(2 * sources + 1) * one / 2**30)
        assert got.attrs["passes"] == blocks
        assert len(made) == 2 * blocks
        assert max(made) == 2 * min(sources, 4) * one
    with pytest.warns(
        UserWarning, match=r"a single source take 0\.000146 GiB, more than memory=1e-05; .* one at a time"
    ):
        assert mapped(memory=1e-5).attrs["passes"] == 4


def test_position_0_plays_no_part() -> None:
    """A massive value there, put in behind the last block so that no other token sees it."""
    hf = zoo.entry("llama").build().double()
    model = waves.load(hf)

    def planted(_args: Any, output: Any) -> Any:
        stream = (output[0] if isinstance(output, tuple) else output).clone()
        stream[:, 0] += 1e7
        return (stream, *output[1:]) if isinstance(output, tuple) else stream

    tokenized = [TokenizedPrompt("p", tuple(ids()[0]))]
    with answering(hf.model.layers[-1], planted):
        assert float(naive.boundaries(hf, naive.blocks_of(hf), ids()[0])[-1, 0].abs().max()) > 1e6
        seen = Streams(source(), model, tokenized).states([0], range(4))
        assert [len(one) for one in (*seen.source, *seen.target)] == [len(ids()[0]) - 1] * 10
        assert_same(mapped(other=model), found())


def test_the_same_again_and_another_split_with_another_seed() -> None:
    xr.testing.assert_identical(mapped(), found())
    other = mapped(seed=1)
    assert not np.allclose(other["relative_error"], found()["relative_error"], rtol=1e-6)


def test_in_bfloat16_sums_are_still_in_double() -> None:
    """The model with itself: states are rounded, the maps between equal states are exact."""
    model = waves.load(zoo.entry("llama").build().to(torch.bfloat16))
    assert np.diagonal(mapped(model, model)["relative_error"].values).max() < 1e-9


def test_names_dimensions_and_documentation() -> None:
    got = found()
    page = (Path(__file__).parents[3] / "docs" / "comparing.md").read_text(encoding="utf-8")
    section = re.search(r"^## Maps between models$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert section is not None
    rows = re.findall(r"^\| (`[^|]*`) \| ([^|]*) \|", section[1], re.MULTILINE)
    listed = {name: dims.strip() for names, dims in rows for name in re.findall(r"`(\w+)`", names)}
    assert listed == {str(name): ", ".join(map(str, values.dims)) for name, values in got.data_vars.items()}
    np.testing.assert_allclose(got["relative_depth_source"], np.arange(4) / 3)
    np.testing.assert_allclose(got["relative_depth_target"], np.arange(6) / 5)
    assert got["direction"].values.tolist() == ["best_target", "best_source"]
    deal = split(len(LENGTHS), 0.1, 0.2, 0)
    assert got.attrs["fit_tokens"] == sum(LENGTHS[n] - 1 for n in deal.fit)
    assert (got.attrs["source_model"], got.attrs["target_model"]) == ("GPT2LMHeadModel", "LlamaForCausalLM")


def test_copies_in_clusters_are_dealt_out_and_resampled_as_one_prompt_each() -> None:
    copies = [bathyscope.Prompt(ids=one, labels={"book": f"b{n}"}) for n, one in enumerate(ids()) for _ in range(2)]
    together, apart = mapped(prompts=copies, cluster="book"), mapped(prompts=copies)
    for name in found().data_vars:
        np.testing.assert_allclose(together[name], found()[name], rtol=1e-6, atol=1e-9, err_msg=str(name))
        np.testing.assert_allclose(apart[name], found()[name], rtol=1e-6, atol=1e-9, err_msg=str(name))
    assert (together.attrs["cluster"], together.attrs["test_prompts"]) == ("book", 2 * found().attrs["test_prompts"])
    books = [bathyscope.Prompt(ids=one, labels={"book": f"b{n // 2}"}) for n, one in enumerate(ids())]
    dealt = mapped(prompts=books, cluster="book")
    assert not np.allclose(dealt["relative_error"], found()["relative_error"], rtol=1e-3)
    notes = [maps.drawing(one).note for one in (together, apart)]
    assert "intervals resample clusters of prompts by book" in notes[0]
    assert "intervals resample prompts." in notes[1]
    with pytest.raises(OptionError, match="have no label 'page'"):
        mapped(prompts=copies, cluster="page")


def test_saved_and_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "maps.nc"
    path.write_bytes(encode_maps(found()))
    xr.testing.assert_identical(open_maps(path).data, found())
    path.write_bytes(b"something else")
    with pytest.raises(StoreError, match="is no whole file of results"):
        open_maps(path)
    with pytest.raises(StoreError, match="cannot be read as a file of maps"):
        open_maps(tmp_path / "none.nc")


def test_other_tokens_are_refused() -> None:
    texts = ["the old house", "a light was seen", "in the old house", "at the edge"] * 5
    models = [with_words(shift) for shift in (0, 1)]
    with pytest.raises(
        PromptError, match=r"^The two models see other tokens: prompt '0' is 3 tokens for .* ids differ"
    ):
        mapped(*models, prompts=texts)


def with_words(shift: int, *further: str) -> Model:
    """A model whose tokenizer gives words, and further ones after all others, numbers from ``shift`` on."""
    words = ("the", "old", "house", "a", "light", "was", "seen", "in", "at", "edge")
    vocabulary = {word: number + shift for number, word in enumerate([*words, "<unk>", *further])}
    backend = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = Whitespace()
    return waves.load(zoo.entry("llama").build(), tokenizer=PreTrainedTokenizerFast(tokenizer_object=backend))


def test_ids_that_mean_something_else_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Streams, "states", lambda *_: pytest.fail("computed"))
    models = [with_words(shift) for shift in (0, 1)]
    with pytest.raises(
        PromptError,
        match=r"though the ids are the same: token id 3 is 'a' for \w+ and 'house' for \w+\. A map goes from token to "
        r"token: give models of one vocabulary\. \(A tokenizer that was not found can be given: load\(",
    ):
        mapped(*models, prompts=[[3, 4, 5]] * 20)
    with pytest.raises(PromptError, match=r"token id 11 is no token for \w+ and 'more' for"):
        mapped(models[0], with_words(0, "more"), prompts=[[3, 4, 11]] * 20)
    other = type(small())(small().config.__class__(n_layer=3, n_embd=24, n_head=2, vocab_size=121)).double()
    message = "Llama.* has a vocabulary of 120 token ids and GPT2.* one of 121, and their tokenizers, .* not both known"
    with pytest.raises(PromptError, match=message):
        mapped(models[0], other.eval())


def test_ids_that_mean_the_same_where_they_are_used_are_mapped() -> None:
    prompts = [[number % 10 for number in own] for own in ids()]
    with_more = mapped(with_words(0), with_words(0, "more"), prompts=prompts, sources_per_pass=6)
    # a tokenizer that is not known says nothing against one that is
    without = mapped(with_words(0), waves.load(zoo.entry("llama").build()), prompts=prompts, sources_per_pass=6)
    assert_same(with_more, without)


def test_few_tokens_are_refused_and_not_many_are_warned_of() -> None:
    with pytest.raises(PromptError) as caught:
        mapped(prompts=ids((5,) * 9))
    assert str(caught.value) == (
        "There are 24 tokens to fit maps to (of 6 prompts, position 0 left out), and a map from a residual stream of "
        "width 24 has 25 values for every channel of its target: it would give these tokens exactly. Give at least 5 "
        "times as much text."
    )
    with pytest.warns(UserWarning, match="fitted to 66 tokens with 25 values for every channel, fewer than 4 tokens"):
        mapped(prompts=ids((12,) * 9))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"ridge": ()}, OptionError, "ridge=[] names no penalty; give one or more, such as"),
        ({"ridge": (0.1, -1)}, OptionError, "ridge=-1.0 is out of range; allowed: 0 or more."),
        ({"choose_share": 0.0}, OptionError, "choose_share=0.0 is out of range; allowed: above 0 and below 1"),
        ({"test_share": 0.95}, OptionError, "choose_share=0.1 and test_share=0.95 leave no prompts to fit maps to"),
        ({"memory": 0}, OptionError, "memory=0.0 is out of range; allowed: above 0."),
        ({"sources_per_pass": 5}, OptionError, "sources_per_pass=5 is out of range; allowed: 1 to 4"),
        ({"level": 1.0}, OptionError, "level=1.0 is out of range; allowed: 0.01 to 0.9999"),
        ({"resamples": 0}, OptionError, "resamples=0 is out of range; allowed: 20 to"),
        ({"memory": "4"}, OptionError, "memory takes a number; '4' given."),
        ({"ridge": "1"}, OptionError, "ridge takes a number; '1' given."),
        ({"seed": 1.5}, OptionError, "seed takes a whole number; 1.5 given."),
        ({"prompts": [[4, 5, 6], [4, 5], [6, 5]]}, PromptError, "Maps need at least 4 prompts"),
        ({"prompts": [[4, 5, 6]] * 9}, PromptError, "Maps need at least 4 different prompts"),
    ],
)
def test_errors_before_any_compute(
    options: dict[str, Any], error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Streams, "states", lambda *_: pytest.fail("computed"))
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        mapped(**options)


@pytest.mark.parametrize(("prompts", "sizes"), [(4, (1, 1, 2)), (5, (2, 1, 2)), (10, (7, 1, 2)), (100, (70, 10, 20))])
def test_splits_are_of_whole_prompts(prompts: int, sizes: tuple[int, int, int]) -> None:
    deal = split(prompts, 0.1, 0.2, 7)
    assert (len(deal.fit), len(deal.choose), len(deal.test)) == sizes
    assert sorted((*deal.fit, *deal.choose, *deal.test)) == list(range(prompts))
    assert len(split(prompts, 0.1, 0.89, 7).fit) >= 1


def test_a_rank_correlation_of_one_partner_is_missing_and_said_to_be() -> None:
    """Blocks that add nothing: all boundaries are one, and rounding chooses none of them."""
    hf = zoo.entry("llama").build()
    with torch.no_grad():
        for block in hf.model.layers:
            block.self_attn.o_proj.weight.zero_()
            block.mlp.down_proj.weight.zero_()
    prompts = zoo.prompts(hf, (16,) * 30, seed=4)
    result = bathyscope.maps(hf, hf, prompts, resamples=20, progress=False)
    for direction in ("best_target", "best_source"):
        assert not result.data[direction].values.any()
    assert result.data["rank_correlation"].isnull().all()
    assert result.text.count("slope 0.00 (0.00 to 0.00)") == 2
    assert result.text.count("rank correlation missing (all have the same best one)") == 2
    assert "nan" not in result.text
