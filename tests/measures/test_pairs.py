"""Pairs: costs and interactions against one forward of the real model for each, and intervals over prompts."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from support import naive, waves, zoo

import bathyscope
from bathyscope.errors import ModelError, OptionError
from bathyscope.statistics.bootstrap import mean_interval
from bathyscope.statistics.sampling import Sampling

IDS = zoo.prompts(zoo.build("llama"), (14, 9, 17, 11))


@pytest.fixture(scope="module")
def run() -> bathyscope.Run:
    return bathyscope.survey(waves.loaded("llama"), IDS, ["pairs", "drop"], progress=False)


def one_by_one(ids: list[int], dropped: tuple[int, ...], name: str = "llama") -> tuple[float, float, float]:
    """Cost, KL and agreement of a prompt, by one forward of the real model."""
    hf = zoo.build(name)
    blocks = naive.blocks_of(hf)
    full = naive.logits(hf, ids)
    changed, _ = naive.run_schedule(hf, blocks, ids, [b for b in range(len(blocks)) if b not in dropped])
    cost = naive.loss(changed, ids) - naive.loss(full, ids)
    kl, agreement = naive.kl(full, changed)[:-1], naive.agreement(full, changed)[:-1]
    return float(cost.mean()), float(kl.mean()), float(agreement.mean())


@pytest.mark.parametrize("name", ["llama", "gemma3", "gpt2_sink"])
def test_every_pair_is_that_of_one_forward(name: str) -> None:
    prompts = IDS if name == "llama" else IDS[:1]
    data = bathyscope.survey(waves.loaded(name), prompts, ["pairs"], progress=False)["pairs"]
    for prompt, ids in enumerate(prompts):
        alone = [one_by_one(ids, (block,), name)[0] for block in range(data.sizes["dropped"])]
        for a, b in combinations(range(data.sizes["dropped"]), 2):
            costs = one_by_one(ids, (a, b), name)
            for variable, value in zip(("cost", "kl", "top1_agreement"), costs):
                assert data[variable].values[prompt, a, b] == pytest.approx(value, abs=1e-5)
                assert data[variable].values[prompt, b, a] == data[variable].values[prompt, a, b]
            extra = costs[0] - alone[a] - alone[b]
            assert data["interaction"].values[prompt, a, b] == pytest.approx(extra, abs=3e-5)


def test_the_diagonal_is_each_block_alone(run: bathyscope.Run) -> None:
    data, drop = run["pairs"], run["drop"]
    alone = np.diagonal(data["cost"].values, axis1=1, axis2=2)
    np.testing.assert_allclose(alone, drop["loss"] - drop["baseline_loss"], atol=1e-5)
    np.testing.assert_allclose(np.diagonal(data["kl"].values, axis1=1, axis2=2), drop["kl"], atol=1e-5)
    assert np.isnan(np.diagonal(data["interaction"].values, axis1=1, axis2=2)).all()
    np.testing.assert_allclose(data["baseline_loss"], drop["baseline_loss"], atol=1e-5)


def test_intervals_resample_prompts(run: bathyscope.Run) -> None:
    data = run["pairs"]
    values = data["interaction"].values[:, 1, 3]
    wanted = mean_interval(values, Sampling(1000))
    assert (data["interaction_low"].values[1, 3], data["interaction_high"].values[3, 1]) == pytest.approx(wanted)
    assert data["interaction_mean"].values[1, 3] == pytest.approx(values.mean())


def test_clusters_are_resampled_as_one() -> None:
    prompts = [
        bathyscope.Prompt(ids=ids, labels={"book": book})
        for ids, book in zip([*IDS, *(ids[::-1] for ids in IDS[:2])], ("a", "a", "b", "c", "b", "b"))
    ]
    options = {"cluster": "book"}
    data = bathyscope.survey(waves.loaded("llama"), prompts, ["pairs"], pairs=options, progress=False)["pairs"]
    values = data["interaction"].values[:, 0, 2]
    wanted = mean_interval(values, Sampling(cluster=np.array([0, 0, 1, 2, 1, 1])))
    ends = (data["interaction_low"].values[2, 0], data["interaction_high"].values[0, 2])
    assert ends == pytest.approx(wanted)
    assert abs(ends[0] - mean_interval(values).low) > 1e-6
    assert data["interaction_mean"].values[0, 2] == pytest.approx(values.mean())


def test_some_blocks_alone() -> None:
    found = waves.run(waves.loaded("llama"), IDS, {"pairs": {"blocks": (3, 1)}})["pairs"]
    assert found["dropped"].values.tolist() == found["other"].values.tolist() == [1, 3]
    assert found["cost"].values[0, 0, 1] == pytest.approx(one_by_one(IDS[0], (1, 3))[0], abs=1e-5)


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(OptionError, match=r"pairs: block 5 is out of range; allowed: 0 to 4\."):
        bathyscope.survey(waves.loaded("llama"), IDS, ["pairs"], pairs={"blocks": (0, 5)})
    with pytest.raises(
        OptionError, match=r"pairs: blocks=\[1\] is a single block, and a pair has two; give two or more"
    ):
        bathyscope.survey(waves.loaded("llama"), IDS, ["pairs"], pairs={"blocks": (1,)})
    with pytest.raises(OptionError, match="have no label 'book'"):
        bathyscope.survey(waves.loaded("llama"), IDS, ["pairs"], pairs={"cluster": "book"})
    with pytest.raises(ModelError, match="pairs needs at least three blocks, one of which stays; this model has 2"):
        bathyscope.survey(two_blocks(), IDS, ["pairs"])


def two_blocks() -> object:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig.from_dict({**zoo.build("llama").config.to_dict(), "num_hidden_layers": 2})
    return LlamaForCausalLM(config).eval()
