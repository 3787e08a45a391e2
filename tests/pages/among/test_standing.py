"""Where a run's model is among others: its own depths, whose numbers are next to them, and what is said of it."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bathyscope
from bathyscope.cli import main
from bathyscope.errors import OptionError
from bathyscope.extend import bundled_model
from bathyscope.extend.prompts import bundled_prompts
from bathyscope.pages.among.records import CURVES, HALF, DepthRecord, columns
from bathyscope.pages.among.standing import Standing, alike, is_same_data
from bathyscope.runs.depth_rows import effective_depth_rows
from bathyscope.runs.run import Run

MEASURES = ["residual", "lens", "skip", "effective_depth"]


@pytest.fixture(scope="module")
def run() -> Run:
    prompts = f"{bundled_prompts()}:4"
    return bathyscope.survey(
        str(bundled_model()), prompts, measures=MEASURES, loading={"dtype": "float32"}, progress=False
    )


def own(standing: Standing) -> dict[str, DepthRecord]:
    return {record.quantity: record for record in standing.records if record.kind == "run"}


def record(kind: str, share: float, low: float, high: float, quantity: str = HALF, **changes: object) -> DepthRecord:
    fields = {
        "model": "m",
        "kind": kind,
        "quantity": quantity,
        "share": share,
        "low": low,
        "high": high,
        "blocks": 10,
        "data": "mine.jsonl",
    }
    return DepthRecord(**{**fields, "prompts": 4, "weights": "float32", "source": "bathyscope", **changes})  # type: ignore[arg-type]


def test_the_depths_are_those_of_the_run(run: Run) -> None:
    found, head = own(run.among()), run.verdict.head.tokens
    half = found[HALF]
    assert [half.share, half.low, half.high] == [depth / 12 for depth in (head.value, head.low, head.high)]
    rows = {row["estimator"]: row for row in effective_depth_rows(run)}
    for name in CURVES:
        assert found[name].share == rows[name]["ratio"]
    assert {(one.blocks, one.prompts, one.data) for one in found.values()} == {(12, 4, "prompts.jsonl:4")}


def test_thresholds_of_the_run_do_not_count(run: Run) -> None:
    """Papers have theirs, and depths by other criteria could not stand next to them."""
    prompts = f"{bundled_prompts()}:4"
    other = bathyscope.survey(
        str(bundled_model()),
        prompts,
        measures=MEASURES,
        effective_depth={"overlap_threshold": 0.9},
        loading={"dtype": "float32"},
        progress=False,
    )
    rows = {id(each): {row["estimator"]: row["ratio"] for row in effective_depth_rows(each)} for each in (run, other)}
    assert rows[id(other)]["overlap"] != rows[id(run)]["overlap"]
    assert own(other.among())["overlap"].share == own(run.among())["overlap"].share == rows[id(run)]["overlap"]


def test_a_run_without_the_stream_has_the_depths_of_its_lens(run: Run) -> None:
    found = own(run.select(variables="kl_lens_final,overlap,prediction_depth,settle_depth").among())
    assert math.isnan(found["cosine"].share)
    assert math.isnan(found[HALF].share)
    assert found["kl"].share == own(run.among())["kl"].share


def test_a_part_and_a_run_without_depths_are_refused(run: Run) -> None:
    with pytest.raises(OptionError, match="of all blocks"):
        run.select(blocks="0-3").among()
    with pytest.raises(OptionError, match=r"no depth to set among others .*'residual', 'lens'"):
        run.select(variables="effect_future").among()


def test_the_same_model_in_another_precision_is_no_other_model(run: Run) -> None:
    """The bundled model's record is in bfloat16, and a demo in float32, whose weights have another hash."""
    model = replace(bathyscope.load(bundled_model(), dtype="float32"), name="bundled model")
    demo = bathyscope.survey(model, [[5, 6, 7, 8], [9, 8, 7]], measures=["lens"], progress=False)
    trained = {id(each): {one.model for one in each.among().records if one.kind == "trained"} for each in (run, demo)}
    assert trained[id(run)] - trained[id(demo)] == {"bundled model"}


def test_data_of_a_paper_are_compared_with_the_same_alone(run: Run) -> None:
    rows = run.among().records
    others = [each for each in rows if each.kind == "published"]
    standing = Standing((record("run", 0.5, 0.4, 0.6, "kl", data="gsm8k:5@test.jsonl"), *others))
    assert {each.data for each in alike(standing.records, "kl")} == {"gsm8k"}
    assert "from 10 other prompts of these data" in standing.text
    assert "12 models on gsm8k (" in standing.text
    elsewhere = run.among()
    assert {each.data for each in alike(elsewhere.records, "kl")} == {"hellaswag", "gsm8k", "aime2024"}
    assert "prompts of other data and weights in 8 bits (LLM.int8)" in elsewhere.text


def test_every_row_says_what_it_is_of(run: Run) -> None:
    frame = run.among().to_dataframe()
    assert list(frame) == list(columns())
    assert (frame[["model", "data", "weights", "source"]] != "").all(axis=None)
    assert (frame["prompts"] > 0).all()
    assert set(frame["kind"]) == {"run", "trained", "untrained", "published"}
    assert not frame.loc[frame["kind"] != "published", "source"].str.contains("Table").any()
    assert frame.loc[frame["kind"] == "published", "source"].str.contains("Table").all()


ENDS = st.lists(st.floats(0, 1), min_size=3, max_size=3).map(sorted)


@given(mine=ENDS, trained=st.lists(ENDS, max_size=6), untrained=st.lists(ENDS, min_size=1, max_size=4))
def test_counts_are_of_intervals_that_lie_apart(
    mine: list[float], trained: list[list[float]], untrained: list[list[float]]
) -> None:
    def one(kind: str, ends: list[float]) -> DepthRecord:
        return record(kind, ends[1], ends[0], ends[2])

    others = [one("trained", ends) for ends in trained] + [one("untrained", ends) for ends in untrained]
    text = Standing((one("run", mine), *others)).text
    before = sum(high < mine[0] for _, _, high in trained)
    behind = sum(low > mine[2] for low, _, _ in trained)
    numbers = re.search(
        r"Of (\d+) trained.*?, (\d+) keep theirs from less .*?, (\d+) from more, .* of (\d+) over", text
    )
    assert numbers is not None
    assert list(map(int, numbers.groups())) == [len(trained), before, behind, len(trained) - before - behind]
    least, most = (f"{100 * end(share for _, share, _ in untrained):.0f}" for end in (min, max))
    assert (
        f"untrained models of their shapes read {least} %" in text
        or f"untrained models of their shapes read {least} to {most} %" in text
    )


def test_a_single_prompt_has_no_place_between_intervals() -> None:
    alone = record("run", 0.5, math.nan, math.nan)
    text = Standing((alone, record("trained", 0.2, 0.1, 0.3), record("untrained", 0.9, 0.8, 1.0))).text
    assert "from 50 % of the 10 blocks on" in text
    assert "(one prompt tells no interval)" in text
    assert "overlap" not in text


def test_data_sets_are_the_same_whatever_is_taken_of_them() -> None:
    assert is_same_data("gsm8k:10", "GSM8K.jsonl")
    assert is_same_data("aime2024", "AIME_2024.jsonl:3")
    assert not is_same_data("gsm8k", "hellaswag")
    assert not is_same_data("mine.jsonl", "mine.jsonl")


def test_the_strip_shows_every_model_and_the_run(run: Run) -> None:
    standing = run.among()
    (ax,) = standing.picture().axes
    places = {line.get_label(): np.asarray(line.get_xdata(), float) for line in ax.get_lines()}
    frame = standing.to_dataframe()
    mine = set(frame.loc[(frame["kind"] == "run") & frame["share"].notna(), "quantity"])
    known = frame[frame["share"].notna() & frame["quantity"].isin(mine)]
    for kind, label in (("run", "this run"), ("published", "printed in papers")):
        assert sorted(places[label]) == sorted(known.loc[known["kind"] == kind, "share"])
    assert ax.get_xlabel().startswith("blocks done")


def test_the_command_prints_writes_and_refuses(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run.save(tmp_path / "run")
    shown = ["show", str(tmp_path / "run"), "--among"]
    assert main([*shown, "--out", str(tmp_path / "strip.svg")]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Half of the tokens keep")
    assert "hu2025, Table 1" in printed
    assert "this run" in printed
    assert (tmp_path / "strip.svg").read_bytes().startswith(b"<?xml")
    assert main([*shown, "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == ",".join(columns())
    assert len(lines) == 1 + len(run.among().records)
    assert main([*shown, "--measure", "lens"]) == 2
    assert "--among is a table of its own" in capsys.readouterr().err
