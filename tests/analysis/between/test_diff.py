"""Where two models part: exact zeros, brute force, planted changes, and what is refused."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from support import zoo
from torch import Tensor, nn

import bathyscope
from bathyscope.analysis.between.diff_text import parting_tokens
from bathyscope.analysis.between.sides import part_drift, require_same_shape
from bathyscope.wavefront import histories

IDS = [[5, 9, 3, 44, 17, 8], [7, 2, 90, 31, 6, 11], [61, 4, 4, 23, 70, 12]]
N = 5


def changed(hf: Any, *blocks: int, scale: float = 0.05) -> Any:
    """Return a copy whose matrices of some blocks have moved."""
    other = copy.deepcopy(hf)
    generator = torch.Generator().manual_seed(3)
    for block in blocks:
        for parameter in bathyscope.load(other).anatomy.blocks[block].parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.data.add_(scale * parameter.detach().std().nan_to_num(0.1) * noise)
    return other


def parted(a: Any, b: Any, **options: Any) -> Any:
    return bathyscope.diff(a, b, IDS, resamples=50, **options)


def log_p(hf: Any) -> Tensor:
    with torch.no_grad():
        values: Tensor = hf(torch.tensor(IDS), use_cache=False).logits.double().log_softmax(-1)
    return values


def kl(full: Tensor, changed: Tensor) -> Tensor:
    return (full.exp() * (full - changed)).sum(-1)


def brute_kl(hf: Any, other: Any, *blocks: int) -> list[float]:
    """KL of a model from itself with some blocks of the other in its list, by whole forwards."""
    holder, new = (next(m for m in h.modules() if isinstance(m, nn.ModuleList) and len(m) == N) for h in (hf, other))
    own = list(holder)
    full = log_p(hf)
    for block in blocks:
        holder[block] = new[block]
    graft = log_p(hf)
    for block in blocks:
        holder[block] = own[block]
    return [float(value) for value in kl(full, graft)[:, :-1].mean(1)]


def test_blocks_of_two_families_are_said_to_be_paired_by_place() -> None:
    result = parted(zoo.build("llama"), zoo.build("qwen2"))
    assert result.text.startswith("These are models of two families (llama and qwen2), whose blocks are paired by")
    assert result.record()["other_family"] == "qwen2"


def test_a_model_and_itself_do_not_part() -> None:
    hf = zoo.build("llama")
    result = parted(hf, copy.deepcopy(hf))
    for name in (
        *("drift", "graft", "graft_back", "cumulative", "cumulative_back", "unexplained", "weight_change"),
        *("drift_high", "output", "part_drift"),
    ):
        assert not result[name].values.any(), name
    for name in ("token_drift", "token_kl"):
        assert not result[name].fillna(0).values.any(), name
    assert parting_tokens(result.data).empty
    assert result.first is None
    assert "are equal up to rounding on these prompts; all weights are equal." in result.text


@pytest.mark.parametrize("block", [0, 2, 4])
def test_one_changed_block_is_named_and_the_others_are_zero(block: int) -> None:
    hf = zoo.build("llama")
    result = parted(hf, changed(hf, block))
    assert result.first == block
    assert not result["drift"].values[:, : block + 1].any()
    assert (result["drift"].values[:, block + 1 :] > 0).all()
    others = [other for other in range(N) if other != block]
    for name in ("graft", "graft_back"):
        assert not result[name].values[:, others].any()
        assert (result[name].values[:, block] > 0).all()
    assert np.flatnonzero(result["weight_change"].values).tolist() == [block]
    assert result["graft_low"].values[block] <= result["graft_mean"].values[block] <= result["graft_high"].values[block]


@pytest.mark.parametrize(
    "name",
    zoo.swept(("llama", "gpt2", "gemma2", "gpt_neox", "opt", "mixtral"), frozenset(("llama", "gpt_neox", "mixtral"))),
)
def test_grafts_are_whole_forwards(name: str) -> None:
    hf = zoo.build(name).eval()
    other = changed(hf, 1, 3).eval()
    result = parted(hf, other)
    for block in (1, 3):
        np.testing.assert_allclose(result["graft"].values[:, block], brute_kl(hf, other, block), atol=1e-5)
        np.testing.assert_allclose(result["graft_back"].values[:, block], brute_kl(other, hf, block), atol=1e-5)
    for block in range(N):
        upto = range(block + 1)
        np.testing.assert_allclose(result["cumulative"].values[:, block], brute_kl(hf, other, *upto), atol=1e-5)
        np.testing.assert_allclose(result["cumulative_back"].values[:, block], brute_kl(other, hf, *upto), atol=1e-5)
    by_token = kl(log_p(hf), log_p(other))
    np.testing.assert_allclose(result["token_kl"].values, by_token.numpy(), atol=1e-5)
    np.testing.assert_allclose(result["output"].values, by_token[:, :-1].mean(1).numpy(), atol=1e-5)
    for variable, model in (("predicted", hf), ("other", other)):
        assert (result[variable].values.astype(int) == log_p(model).argmax(-1).numpy()).all()


def test_drift_is_that_of_hidden_states() -> None:
    hf = zoo.build("llama").eval()
    other = changed(hf, 1).eval()
    drift = parted(hf, other)["drift"].values
    with torch.no_grad():
        left, right = (m(torch.tensor(IDS), output_hidden_states=True).hidden_states for m in (hf, other))
    for boundary in range(N):
        expected = ((right[boundary] - left[boundary]).norm(dim=-1) / left[boundary].norm(dim=-1)).mean(1)
        np.testing.assert_allclose(drift[:, boundary], expected.numpy(), atol=1e-5)


def test_drift_of_parts_is_that_of_what_they_add() -> None:
    """In gpt2 both parts add their module's output as it is."""
    hf = copy.deepcopy(zoo.build("gpt2")).eval()
    other = changed(hf, 1).eval()
    drift = parted(hf, other)["part_drift"]
    added: dict[tuple[int, str], list[Tensor]] = {}
    for model in (hf, other):
        for block, module in enumerate(model.transformer.h):
            for part, inner in (("attention", module.attn), ("mlp", module.mlp)):

                def note(_: Any, __: Any, out: Any, key: tuple[int, str] = (block, part)) -> None:
                    added.setdefault(key, []).append(out[0] if isinstance(out, tuple) else out)

                inner.register_forward_hook(note)
        log_p(model)
    for (block, part), (left, right) in added.items():
        expected = ((right - left).norm(dim=-1) / left.norm(dim=-1)).mean(1)
        np.testing.assert_allclose(drift.sel(part=part).values[:, block], expected.numpy(), atol=1e-5)
    assert not drift.values[:, 0].any()


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("zeroed", ["what it writes", "all weights"])
def test_a_block_that_did_nothing_has_no_share_by_which_it_changed(zeroed: str) -> None:
    """New blocks of a model that grew write zeros before they are trained: nothing is no unit of a change."""
    tuned = zoo.build("llama")
    grown = copy.deepcopy(tuned)
    block = grown.model.layers[2]
    written = [block.self_attn.o_proj.weight, block.mlp.down_proj.weight]
    for parameter in written if zeroed == "what it writes" else block.parameters():
        parameter.data.zero_()
    result = parted(grown, tuned)
    assert result.first == 2
    drift, change = result["part_drift"].values, result["weight_change"].values
    assert np.isnan(drift[:, 2]).all()
    assert np.isnan(result["part_drift_mean"].values[2]).all()
    assert np.isfinite(np.delete(drift, 2, axis=1)).all()
    assert np.isnan(change[2]) if zeroed == "all weights" else 0 < change[2] < np.inf
    assert np.delete(change, 2).tolist() == [0.0] * (N - 1)
    # the other way round the block is taken away, which is as large as it was
    back = parted(tuned, grown)
    assert np.allclose(back["part_drift"].values[:, 2], 1)
    assert zeroed != "all weights" or back["weight_change"].values[2] == 1


def test_tokens_at_which_a_part_did_nothing_are_left_out_of_its_drift() -> None:
    """One block, two prompts, three tokens, of which the second prompt has two."""
    reference = torch.tensor([[[0.0, 0], [3, 4], [0, 0]], [[0, 0], [0, 0], [9, 9]]], dtype=torch.float64)
    other = torch.tensor([[[1.0, 0], [3, 9], [0, 0]], [[2, 2], [0, 1], [9, 9]]], dtype=torch.float64)
    # the first token of the first prompt has no ratio, the second one 5 / 5, and the third one stays nothing
    assert np.array_equal(part_drift([other], [reference], [3, 2]), [[0.5], [np.nan]], equal_nan=True)


def test_prompts_of_other_lengths_do_not_touch_each_other() -> None:
    hf = zoo.build("llama")
    other = changed(hf, 2)
    ids = [IDS[0], IDS[1][:3], IDS[2][:5]]
    together = bathyscope.diff(hf, other, ids, resamples=50)
    for row, prompt in enumerate(ids):
        alone = bathyscope.diff(hf, other, [prompt], resamples=50)
        for name in ("drift", "part_drift", "graft", "cumulative_back", "output"):
            np.testing.assert_allclose(together[name].values[row], alone[name].values[0], atol=1e-5)
        shown = np.isfinite(together["token_kl"].values[row])
        assert shown.sum() == len(prompt)
        np.testing.assert_allclose(
            together["token_drift"].values[row][:, shown], alone["token_drift"].values[0], atol=1e-5
        )


def test_tokens_at_which_predictions_part_are_listed_by_size() -> None:
    hf = zoo.build("llama")
    result = parted(hf, changed(hf, 0, 1, 2, 3, 4, scale=1.0))
    table = parting_tokens(result.data, 3)
    assert len(table) == 3
    assert table["kl"].is_monotonic_decreasing
    assert (table["predicted"] != table["other"]).all()
    places = {prompt: row for row, prompt in enumerate(result["prompt"].values)}
    for row in table.itertuples():
        assert int(row.piece) == IDS[places[row.prompt]][row.token]
    assert result.record()["tokens"][0]["kl"] == table["kl"][0]


class TestAdapters:
    """Adapters are switched off for the second side of a diff; brute force by PEFT's own switch."""

    @pytest.fixture
    def tuned(self) -> Any:
        peft = pytest.importorskip("peft")
        config = peft.LoraConfig(r=2, target_modules=["q_proj", "down_proj"], layers_to_transform=[1, 3])
        torch.manual_seed(4)
        wrapped = peft.get_peft_model(copy.deepcopy(zoo.build("llama")), config)
        for name, parameter in wrapped.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.1)
        return wrapped.eval()

    def test_off_is_the_base(self, tuned: Any) -> None:
        learning = {name: p.requires_grad for name, p in tuned.named_parameters()}
        result = bathyscope.diff(tuned, None, IDS, resamples=50)
        on = log_p(tuned)
        with tuned.disable_adapter():
            off = log_p(tuned)
        np.testing.assert_allclose(result["token_kl"].values, kl(on, off).numpy(), atol=1e-5)
        assert result["drift_mean"].values[2] > 0
        for name in ("graft", "graft_back"):
            assert not result[name].values[:, [0, 2, 4]].any()
            assert (result[name].values[:, [1, 3]] > 0).all()
        assert not result["drift"].values[:, :2].any()
        assert {name: p.requires_grad for name, p in tuned.named_parameters()} == learning
        assert result.attrs["other"].endswith(" without adapters")

    def test_grafts_are_those_of_two_models(self, tuned: Any) -> None:
        base = zoo.build("llama").eval()
        apart = bathyscope.diff(tuned, base, IDS, resamples=50)
        result = bathyscope.diff(tuned, None, IDS, resamples=50)
        for name in ("graft", "graft_back", "cumulative", "cumulative_back", "drift", "output"):
            np.testing.assert_allclose(result[name].values, apart[name].values, atol=1e-5)

    def test_without_adapters_there_is_nothing_to_switch(self) -> None:
        with pytest.raises(bathyscope.ModelError, match=r"no adapters to switch off\. Give two models"):
            bathyscope.diff(zoo.build("llama"), None, IDS)

    def test_merged_adapters_are_refused(self, tuned: Any) -> None:
        tuned.merge_adapter()
        with pytest.raises(bathyscope.ModelError, match=r"merged into its weights .* Unmerge them"):
            bathyscope.diff(tuned, None, IDS)


def test_changes_that_cancel_show_in_what_grafts_leave_unexplained() -> None:
    """What block 1's MLP adds more, block 2's attention-free stand-in takes away: only together they change nothing."""
    hf = zoo.entry("gpt2").build()
    other = copy.deepcopy(hf)
    shift = torch.linspace(-3, 3, hf.config.n_embd)
    blocks = bathyscope.load(other).anatomy.blocks
    blocks[N - 2].mlp.c_proj.bias.data += shift
    # The last block sees the shifted stream; with its own parts silent in both models it passes it on as it is.
    for model in (hf, other):
        last = bathyscope.load(model).anatomy.blocks[N - 1]
        for matrix in (last.mlp.c_proj, last.attn.c_proj):
            matrix.weight.data.zero_()
    blocks[N - 1].mlp.c_proj.bias.data -= shift
    result = parted(hf, other)
    graft = result["graft_mean"].values
    assert graft[N - 2] > 0.01
    assert graft[N - 1] > 0.01
    assert float(result["cumulative_mean"][-1]) < 1e-6
    np.testing.assert_allclose(float(result["unexplained_mean"]), -graft.sum(), atol=1e-6)


def test_single_grafts_take_half_of_the_square_of_calls() -> None:
    full = histories.grafted(N, (), "b")
    tree = histories.Tree([full, *(histories.grafted(N, (block,), "b") for block in range(N))])
    assert tree.calls - N == N * (N + 1) // 2


def test_other_precision_is_compared() -> None:
    hf = zoo.build("llama")
    half = copy.deepcopy(hf).to(torch.bfloat16)
    result = parted(hf, half)
    assert (result["graft"].values > 0).all()
    assert np.isfinite(result["graft_back"].values).all()
    assert result["drift"].values[:, -1].max() < 0.1


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"num_hidden_layers": 4}, "blocks differ"), ({"hidden_size": 128}, "width differs")],
)
def test_other_shapes_are_refused(changes: dict[str, int], name: str) -> None:
    hf = zoo.build("llama")
    config = copy.deepcopy(hf.config)
    for key, value in changes.items():
        setattr(config, key, value)
    if "num_hidden_layers" in changes and getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:4]
    models = [bathyscope.load(model) for model in (hf, type(hf)(config))]
    with pytest.raises(bathyscope.ModelError, match=f"one shape, and their {name} .* Use cka or maps"):
        require_same_shape(*models)


def test_no_block_is_named_for_its_change_where_weights_are_equal() -> None:
    """Weights of few digits are the same in either precision; only the computing differs."""
    half = zoo.build("llama", dtype=torch.bfloat16)
    result = parted(copy.deepcopy(half).to(torch.float32), half)
    assert not result["weight_change"].values.any()
    assert result["graft"].values.any()
    assert result.record()["large_change_small_effect"] == []
    assert result.record()["small_change_large_effect"] == []


def test_tables_of_equal_numbers_in_two_precisions_do_not_differ() -> None:
    hf = copy.deepcopy(zoo.build("llama")).eval()
    wide = copy.deepcopy(hf).double()
    assert torch.equal(hf.model.rotary_emb.inv_freq.double(), wide.model.rotary_emb.inv_freq)
    assert parted(hf, wide).text.endswith("all weights are equal, and the precision differs.")
    wide.model.rotary_emb.inv_freq[1] *= 1 + 1e-9
    assert "all weights are equal, and model.rotary_emb.inv_freq and the precision differ." in parted(hf, wide).text
    # in one precision the dtype of a table alone changes what is computed
    other = copy.deepcopy(hf)
    other.model.rotary_emb.inv_freq = other.model.rotary_emb.inv_freq.double()
    assert "all weights are equal, and model.rotary_emb.inv_freq differs." in parted(hf, other).text


def test_embeddings_that_differ_are_named_and_no_block_is() -> None:
    hf = zoo.build("llama").eval()
    other = copy.deepcopy(hf)
    other.model.embed_tokens.weight.data.mul_(1.01)
    result = parted(hf, other)
    assert not result["graft"].values.any()
    assert result.text.startswith(
        "The streams part before block 0, in the embedding; the weights of the embedding differ. "
        "No block differs by itself"
    )
    assert result.record()["embedding"] is True


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_models_that_part_behind_the_last_block_are_not_called_the_same(name: str) -> None:
    """Their streams and blocks are equal to the bit, and their predictions are not."""
    hf = zoo.build(name).eval()
    other = copy.deepcopy(hf)
    bathyscope.load(other).anatomy.readout.norm.weight.data.mul_(1.5)
    result = parted(hf, other)
    assert result.first is None
    with torch.no_grad():
        left, right = (m(torch.tensor(IDS)).logits.double().log_softmax(-1) for m in (hf, other))
    expected = (left.exp() * (left - right)).sum(-1)[:, :-1].mean(1)
    np.testing.assert_allclose(result["output"].values, expected.numpy(), rtol=1e-4)
    assert "do not part beyond rounding" in result.text
    assert f"their predictions differ by {float(result['output_mean']):.4g} nats a token" in result.text


def test_a_constant_changed_in_memory_is_a_changed_block() -> None:
    """It stands in no weight and in no configuration."""
    hf = zoo.build("llama").eval()
    other = copy.deepcopy(hf)
    other.model.layers[2].self_attn.scaling *= 1.5
    result = parted(hf, other)
    assert result.first == 2
    np.testing.assert_allclose(result["graft"].values[:, 2], brute_kl(hf, other, 2), atol=1e-5)
    assert (result["graft"].values[:, 2] > 0).all()
