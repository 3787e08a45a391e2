"""The full model and a schedule on the same documents, against numbers by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bathyscope.statistics.bootstrap import mean_interval
from bathyscope.statistics.sampling import Sampling
from bathyscope.statistics.shares import share_difference_interval, share_interval
from bathyscope.surgery.benchmarks.result import against_full, assemble
from bathyscope.surgery.benchmarks.variants import variants
from bathyscope.surgery.plan.tables import task_table
from bathyscope.surgery.plan.task_table import task_sentences

FULL = ([1, 1, 1, 0, 1, 0], [-1.0, -2.0, -0.5, -3.0, -1.5, -2.5])
PRUNED = ([1, 0, 1, 0, 0, 0], [-1.5, -2.5, -0.5, -3.5, -2.0, -3.5])


def score(schedule: str, right: list[int], logs: list[float]) -> dict[str, Any]:
    documents = [
        {"document": n, "acc": float(one), "perplexity": log, "loglikelihoods": [log], "right": 0}
        for n, (one, log) in enumerate(zip(right, logs))
    ]
    metrics = {
        "acc": {"value": float(np.mean(right)), "stderr": 0.1},
        "perplexity": {"value": math.exp(-np.mean(logs)), "stderr": 0.1},
        "loglikelihood": {"value": float(np.mean(logs)), "stderr": 0.1},
    }
    return {"schedule": schedule, "task": "recall", "metrics": metrics, "documents": documents}


def test_rows_hold_both_models_and_their_paired_difference() -> None:
    found = assemble(variants(["drop:2"], 5), [score("standard", *FULL), score("drop:2", *PRUNED)], {"model": "m"})
    data = against_full(found, "drop:2", resamples=300, level=0.9, seed=1)
    rows = data.to_dataframe().set_index("metric")
    assert list(rows["documents"]) == [6, 6, 6]
    assert tuple(rows.loc["acc", ["full", "full_low", "full_high"]]) == (4 / 6, *share_interval(FULL[0], level=0.9))
    assert rows.loc["acc", "difference"] == pytest.approx(-2 / 6)
    ends = share_difference_interval(PRUNED[0], FULL[0], level=0.9)
    assert tuple(rows.loc["acc", ["difference_low", "difference_high"]]) == ends
    gaps = np.subtract(PRUNED[1], FULL[1])
    wanted = mean_interval(gaps, Sampling(300, level=0.9, seed=1))
    assert tuple(rows.loc["loglikelihood", ["difference_low", "difference_high"]]) == wanted
    assert rows.loc["perplexity", ["full_low", "difference", "difference_high"]].isna().all()
    assert rows.loc["perplexity", "pruned"] == pytest.approx(math.exp(13.5 / 6))
    low, high = (f"{end:+.3g}" for end in ends)
    said = f"On recall (6 documents) acc is 0.333 without them and 0.667 with them: -0.333 ({low} to {high})."
    assert task_sentences(data) == [said]
    rows = task_table(data, "drop:2").cells()
    assert rows[1][-1] == "–"
    assert rows[0][:3] == ["recall", "acc", "6"]
    assert rows[0][-1] == f"-0.333 ({low} to {high})"


def test_shares_of_cut_answers_stand_with_the_task_that_was_written() -> None:
    """One task of two is written: its share of either model, and nothing for the other."""
    scores = []
    for schedule, numbers, cut in (("standard", FULL, [1, 0, 0, 0, 0, 0]), ("drop:2", PRUNED, [1, 1, 1, 0, 0, 0])):
        chosen, written = score(schedule, *numbers), score(schedule, *numbers) | {"task": "sums"}
        for document, is_cut in zip(written["documents"], cut):
            document["cut_off"] = bool(is_cut)
        scores += [chosen, written]
    data = against_full(
        assemble(variants(["drop:2"], 5), scores, {"model": "m"}), "drop:2", resamples=50, level=0.9, seed=1
    )
    table = task_table(data, "drop:2")
    assert list(table.headings)[-2:] == ["cut off, full", "cut off, pruned"]
    ends = {row[0]: row[-2:] for row in table.cells()}
    assert ends == {"recall": ["–", "–"], "sums": ["16.7%", "50.0%"]}
    assert table.caption == ["cut off: share of answers that the limit of tokens ended."]
    assert data["full_cut_off"].sel(row=data["task"] == "sums").values.tolist() == [1 / 6] * 3
    # a plan of given answers alone, or of an earlier version, has no such columns
    given = assemble(variants(["drop:2"], 5), [one for one in scores if one["task"] == "recall"], {"model": "m"})
    plain = against_full(given, "drop:2", resamples=50, level=0.9, seed=1)
    assert "full_cut_off" not in plain
    assert list(task_table(plain, "drop:2").headings)[-1] == "difference (interval)"
