"""Values of single tokens: equal to a naive recomputation, to the means of their measures, and free of compute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray as xr
from support import naive, waves, zoo
from support.piece_tokenizer import VOCABULARY, piece_tokenizer

import bathyscope
from bathyscope.errors import OptionError
from bathyscope.measures.of.tokens import Tokens
from bathyscope.model.anatomy.readout import Readout

LENGTHS = (14, 9, 17)
ALL = {"residual": None, "lens": None, "drop": None}


def measured(name: str, measures: dict[str, object] | None = None, **options: int) -> dict[str, xr.Dataset]:
    ids = zoo.prompts(zoo.build(name), LENGTHS)
    return waves.run(waves.loaded(name), ids, {**(measures or ALL), "tokens": options})


@pytest.fixture(scope="module")
def found() -> dict[str, xr.Dataset]:
    return measured("llama", prompts=2, length=12)


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2_sink"])
def test_the_lens_of_each_token_equals_a_naive_one(name: str) -> None:
    """Streams and readout by the model's own modules, one prompt at a time, softmax by torch in float64."""
    model, tokens = zoo.build(name), measured(name, prompts=2, length=12)["tokens"]
    norm = model.transformer.ln_f if name == "gpt2_sink" else model.model.norm
    for prompt, ids in enumerate(zoo.prompts(model, LENGTHS)[:2]):
        own = min(len(ids), 12)
        with torch.no_grad():
            states = naive.boundaries(model, naive.blocks_of(model), ids)
            logits = [model.lm_head(norm(state)).double() for state in states]
        log_p = torch.stack([one.log_softmax(-1) for one in logits])[:, :own]
        one = tokens.isel(prompt=prompt, token=slice(own))
        best = log_p.topk(5, dim=-1)
        np.testing.assert_array_equal(one.top_id.transpose("boundary", "token", "top"), best.indices)
        np.testing.assert_allclose(
            one.top_probability.transpose("boundary", "token", "top"), best.values.exp(), rtol=2e-5
        )
        entropy = -(log_p.exp() * log_p).sum(-1) / np.log(2)
        np.testing.assert_allclose(one.entropy, entropy, rtol=1e-5)
        kl = (log_p[-1].exp() * (log_p[-1] - log_p)).sum(-1)
        np.testing.assert_allclose(one.kl_final_lens, kl, rtol=1e-3, atol=1e-6)
        following = torch.tensor(ids[1 : own + 1])
        told = log_p[:, : len(following)].gather(-1, following.expand(len(log_p), -1)[..., None])[..., 0].exp()
        np.testing.assert_allclose(one.next_probability[:, : len(following)], told, rtol=2e-5)


def test_means_over_tokens_are_those_of_the_measures(found: dict[str, xr.Dataset]) -> None:
    tokens = measured("llama", prompts=9, length=99)["tokens"]
    lens, drop, residual = found["lens"], found["drop"], found["residual"]
    for name in ("kl_final_lens", "entropy", "settle_depth", "prediction_depth"):
        np.testing.assert_allclose(tokens[name].mean("token"), lens[name], rtol=1e-5, atol=1e-7, err_msg=name)
    loss = -np.log(tokens.next_probability)
    np.testing.assert_allclose(loss.mean("token"), lens.cross_entropy, rtol=1e-5)
    for name in ("norm_resid", "norm_attn", "norm_mlp", "norm_block"):
        np.testing.assert_allclose(tokens[name].mean("token"), residual[name], rtol=1e-5, err_msg=name)
    np.testing.assert_allclose(tokens.added_loss.mean("token"), drop.loss - drop.baseline_loss, rtol=1e-4, atol=1e-6)
    with_next = tokens.added_loss.notnull()
    assert [int(own.sum()) for own in with_next.isel(dropped=0)] == [length - 1 for length in LENGTHS]
    np.testing.assert_allclose(tokens.added_kl.where(with_next).mean("token"), drop.kl, rtol=1e-5)


def test_only_the_first_tokens_of_the_first_prompts_are_kept(found: dict[str, xr.Dataset]) -> None:
    tokens = found["tokens"]
    assert dict(tokens.sizes) == {"prompt": 2, "boundary": 6, "top": 5, "token": 12, "block": 5, "dropped": 5}
    assert tokens.prompt.values.tolist() == [0, 1]
    assert (tokens.top_id.isel(prompt=1, token=slice(9, None)) == -1).all()
    assert tokens.entropy.isel(prompt=1, token=slice(9, None)).isnull().all()
    assert tokens.entropy.isel(prompt=0).notnull().all()
    assert tokens.top_id.dtype == np.int32
    assert tokens.entropy.dtype == np.float32


def test_nothing_else_changes(found: dict[str, xr.Dataset]) -> None:
    without = waves.run(waves.loaded("llama"), zoo.prompts(zoo.build("llama"), LENGTHS), ALL)
    for name, dataset in without.items():
        xr.testing.assert_identical(found[name], dataset)


def test_without_drop_and_residual_it_holds_what_the_lens_gives() -> None:
    tokens = measured("gpt2", {"lens": {"norm": ["frozen", "recompute"], "k": 2}}, prompts=1, length=3)["tokens"]
    lens_alone = {"top_id", "top_probability", "kl_final_lens", "entropy", "next_probability"}
    assert set(tokens) == {*lens_alone, "settle_depth", "prediction_depth"}
    assert tokens.sizes["top"] == 5
    plain = measured("gpt2", {"lens": None}, prompts=1, length=3)["tokens"]
    xr.testing.assert_identical(tokens, plain)


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """How many rows go through the readout, and how often the likeliest tokens of some are looked for."""
    counts = {"read": 0, "sorted": 0}
    read, ordered = Readout.product, torch.Tensor.topk

    def reading(self: Readout, normed: torch.Tensor) -> torch.Tensor:
        counts["read"] += normed.shape[0]
        return read(self, normed)

    def ordering(self: torch.Tensor, *args: object, **kwargs: object) -> object:
        counts["sorted"] += 1
        return ordered(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Readout, "product", reading)
        patch.setattr(torch.Tensor, "topk", ordering)
        yield counts


def test_no_vector_is_read_out_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = zoo.prompts(zoo.build("llama"), LENGTHS)
    with counted(monkeypatch) as before:
        waves.run(waves.loaded("llama"), ids, ALL)
    with counted(monkeypatch) as after:
        waves.run(waves.loaded("llama"), ids, {**ALL, "tokens": None})
    assert before == after
    assert before["read"] > 0
    assert before["sorted"] > 0


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> bathyscope.Run:
    """Five prompts in shards of two, of which three are kept."""
    ids = zoo.prompts(zoo.build("llama"), (9, 6, 8, 7, 5))
    folder = tmp_path_factory.mktemp("tokens") / "run"
    options = {"tokens": {"prompts": 3, "length": 7}}
    bathyscope.survey(waves.loaded("llama"), ids, ["lens", "tokens"], out=folder, batch_tokens=14, **options)
    return bathyscope.open(folder)


def test_a_run_holds_them_for_some_prompts(run: bathyscope.Run) -> None:
    assert run.identity.plan != [[0, 5]]
    tokens = run["tokens"]
    assert tokens.sizes["prompt"] == 3
    assert tokens.prompt_id.values.tolist() == run["lens"].prompt_id.values[:3].tolist()
    assert tokens.n_tokens.values.tolist() == [9, 6, 8]
    assert run["lens"].sizes["prompt"] == 5
    assert len(run.prompts) == 5
    np.testing.assert_allclose(tokens.entropy[1].mean("token"), run["lens"].entropy[1], rtol=1e-5)


@pytest.mark.parametrize("options", [{"prompts": 0}, {"length": 0}])
def test_none_are_kept_where_none_are_wanted(options: dict[str, int]) -> None:
    ids = zoo.prompts(zoo.build("llama"), (5, 4))
    run = bathyscope.survey(waves.loaded("llama"), ids, ["lens", "tokens"], tokens=options)
    assert run["tokens"].top_id.size == 0
    assert "lens" in run


def test_pieces_say_what_ids_mean_and_only_where_texts_are_kept() -> None:
    """A token decoded alone would lose the space before it."""
    facts = replace(waves.facts(waves.loaded("llama")), tokenizer=piece_tokenizer())
    ids = [VOCABULARY["one"], VOCABULARY["ka"], -1]
    merged = xr.Dataset({"top_id": ("top", np.array(ids, dtype=np.int32))})
    found = Tokens().summarise(facts, merged, seed=0)
    assert found is not None
    assert dict(zip(found.id.values.tolist(), found.piece.values.tolist())) == {ids[0]: " one", ids[1]: " ka"}
    assert Tokens().summarise(replace(facts, keeps_text=False), merged, seed=0) is None


def test_options_are_checked() -> None:
    with pytest.raises(OptionError, match=r"tokens: prompts=-1 is out of range; allowed: 0 or more"):
        Tokens({"prompts": -1})
