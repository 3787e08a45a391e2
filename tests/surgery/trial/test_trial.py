"""A trial: what it refuses, and what results and folders say of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support import waves, zoo

from bathyscope.errors import OptionError, PromptError, StoreError
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import Prompts
from bathyscope.statistics.sampling import Sampling
from bathyscope.surgery.plan.opening import PRUNING
from bathyscope.surgery.trial.trial import read_trial

IDS = zoo.prompts(zoo.build("llama"), (12, 9, 12, 10, 11, 8))
SAMPLING = Sampling(resamples=50, level=0.9, seed=3)


def labelled(books: str) -> Prompts:
    """A prompt for every letter, which is the label of its book."""
    items = [TokenizedPrompt(str(n), tuple(IDS[n]), 2, {"book": book}) for n, book in enumerate(books)]
    return Prompts(tuple(items), "books")


def test_prompts_have_roles_and_results_say_how_intervals_were_made() -> None:
    model = waves.loaded("llama")
    trial = read_trial(model, IDS[:2], IDS[2:], sampling=SAMPLING)
    lists = {role: [list(prompt.ids) for prompt in prompts] for role, prompts in trial.samples.items()}
    assert lists == {"calibration": IDS[2:], "test": IDS[:2]}
    assert trial.attrs == {
        "model": model.name,
        "weight_hash": model.weight_hash,
        "config_hash": trial.attrs["config_hash"],
        "precision": "float32",
        "n_blocks": 5,
        "resamples": 50,
        "level": 0.9,
        "seed": 3,
    }
    assert set(read_trial(model, IDS, sampling=SAMPLING).samples) == {"test"}


def test_clusters_are_those_of_the_prompts_that_judge() -> None:
    trial = read_trial(waves.loaded("llama"), labelled("aabbc"), IDS[5:], sampling=SAMPLING, cluster="book")
    assert trial.sampling.cluster is not None
    numbers = trial.sampling.cluster.tolist()
    assert numbers[0] == numbers[1] != numbers[2] == numbers[3] != numbers[4]
    assert (trial.attrs["cluster"], trial.attrs["clusters"], trial.identity["cluster"]) == ("book", 3, "book")
    # of some of the prompts their own clusters
    last = trial.sampling.take(np.array([False, False, False, True, True])).cluster
    assert last is not None
    assert last.tolist() == numbers[3:]
    with pytest.raises(OptionError, match="chapter"):
        read_trial(waves.loaded("llama"), labelled("aabbc"), sampling=SAMPLING, cluster="chapter")


def test_what_cannot_judge_is_refused() -> None:
    model = waves.loaded("llama")
    with pytest.raises(PromptError, match="1 of 2 test prompts stand among the calibration prompts too"):
        read_trial(model, IDS[:2], IDS[1:3], sampling=SAMPLING)
    with pytest.raises(PromptError, match="Only one verify prompt: an interval needs at least two"):
        read_trial(model, IDS[:1], sampling=SAMPLING, title="verify prompts")
    with pytest.raises(PromptError, match="over='answer' counts the tokens of answers, and 4 of 4 calibration prompts"):
        read_trial(model, labelled("ab"), IDS[2:], sampling=SAMPLING, over="answer")


def test_copies_are_counted_after_the_prompts_were_prepared() -> None:
    def shorten(prompts: Prompts) -> Prompts:
        items = tuple(TokenizedPrompt(prompt.id, prompt.ids[:-1]) for prompt in prompts)
        return replace(prompts, items=items, record=None)

    ids = [[*IDS[0], 5], [*IDS[0], 6], IDS[1]]
    with pytest.warns(UserWarning, match="1 of 3 prompts have the tokens of others and are left out"):
        trial = read_trial(waves.loaded("llama"), ids, sampling=SAMPLING, title="prompts", prepare=shorten)
    assert [list(prompt.ids) for prompt in trial.test] == [IDS[0], IDS[1][:-1]]


def test_a_folder_is_resumed_by_the_same_trial_alone(tmp_path: Path) -> None:
    trial = read_trial(waves.loaded("llama"), IDS[:2], IDS[2:], sampling=SAMPLING, folder=tmp_path / "out")
    with trial.pieces(PRUNING, {"drop": 1}) as pieces:
        assert pieces is not None
        pieces.put("costs.nc", b"some")
    with trial.pieces(PRUNING, {"drop": 1}) as pieces:
        assert pieces is not None
        assert pieces.find("costs.nc") == b"some"
    other = replace(trial, sampling=replace(SAMPLING, seed=4))
    for changed, settings, message in ((trial, {"drop": 2}, "drop: pruning has 1"), (other, {"drop": 1}, "seed: prun")):
        with pytest.raises(StoreError, match=message), changed.pieces(PRUNING, settings):
            pass
    with replace(trial, folder=None).pieces(PRUNING, {}) as nothing:
        assert nothing is None
