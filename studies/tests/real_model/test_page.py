"""Claims are decided by their bounds, and what is not measured is never filled in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from bathyscope.errors import OptionError
from studies.real_model.claims import CLAIMS, Claim
from studies.real_model.deciding import asked_for, decisions_table, times_more
from studies.real_model.figure import draw
from studies.real_model.jobs import JOBS, UNTRAINED, job
from studies.real_model.judged import decision, rows_of, summary, untrained_passes
from studies.real_model.models import GEMMA3, SMOLLM2
from studies.real_model.observations import behind_the_claims
from studies.real_model.page import BEGIN, END, load_results, markdown, with_results
from studies.real_model.quantities import read
from studies.real_model.reading import QUANTITIES, Reading, decide

BLOCKS = 10
CLAIM = Claim("key", "hu2025", "Fig. 1", "It is so.", "a number", "stream", low=1.0, high=2.0)


@pytest.mark.parametrize(
    ("reading", "decision"),
    [
        (Reading(1.5, 1.0, 2.0), "holds"),
        (Reading(1.5, 0.9, 2.0), "cannot be decided"),
        (Reading(2.5, 2.0, 3.0), "cannot be decided"),
        (Reading(2.5, 2.1, 3.0), "does not hold"),
        (Reading(0.5, 0.1, 0.9), "does not hold"),
    ],
)
def test_an_interval_is_compared_with_the_bound(reading: Reading, decision: str) -> None:
    assert decide(CLAIM, reading) == decision


def stream(prompts: int = 6, noise: float = 0.0) -> xr.Dataset:
    """Curves whose criteria are known: cosine turns behind block 5, KL halves at boundary 7, overlap comes at 8."""
    place = np.arange(BLOCKS + 1)
    jitter = noise * np.random.default_rng(0).standard_normal((prompts, 1))
    boundary = {
        "lens.kl_lens_final": np.where(place < 7, 10.0, 10.0 - 3 * (place - 6)).clip(0),
        "lens.overlap": np.where(place < 8, 0.1, 0.5),
        "lens.entropy": np.where(place < 5, 12.0, 12.0 - 2 * (place - 4)),
        "residual.largest": place + 1.0,
    }
    cosine = np.where(place[:-1] <= 5, -0.2, 0.2)
    block = {f"residual.cos_{part}": cosine for part in ("block", "attn", "mlp")}
    block |= {"residual.ratio_block": np.array([9, 2, 2, 2, 2, 1, 1, 1, 3, 3.0])}
    block |= {"residual.norm_mlp_rest": np.array([1.0] * 8 + [4.0] * 2), "residual.norm_block_max": place[1:] * 1.0}
    variables = {name: (("prompt", "boundary"), curve + jitter) for name, curve in boundary.items()}
    variables |= {name: (("prompt", "block"), curve + jitter) for name, curve in block.items()}
    attributes = {
        "blocks": BLOCKS,
        "prompts": prompts,
        "cpu_seconds": 90.0,
        "peak_bytes": 2e9,
        "versions": '{"a": "1"}',
    }
    variables["n_tokens"] = (("prompt",), np.full(prompts, 100))
    return xr.Dataset(variables, attrs=attributes)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("contribution_falls", (1 + 1 + 1 + 3 + 3) / 5 / 2),
        ("contribution_ends", 3.0),
        ("cosine_rises", 4 * 0.2 * 2 / 5),
        ("phase_transition", 0.6),
        ("criterion_cosine", 0.6),
        ("criterion_kl", 0.9),
        ("criterion_overlap", 0.9),
        ("criteria_order", 0.0),
        ("lens_kl_late", 1.0),
        ("lens_overlap_late", 0.1),
        ("entropy_falls", 10 / 12),
        ("mlp_grows", 4.0),
    ],
)
def test_quantities_are_those_of_known_curves(key: str, value: float) -> None:
    reading = read(key, {"stream": stream()})
    assert reading.value == pytest.approx(value)
    # readings in whole blocks are known to half a block
    step = {"phase_transition": 0.05, "criteria_order": 0.5}.get(key, 0.05 if key.startswith("criterion") else 0.0)
    assert reading.low == pytest.approx(value - step)
    assert reading.high == pytest.approx(value + step)


def test_a_quantity_without_a_value_decides_nothing() -> None:
    data = stream()
    data["lens.entropy"] = data["lens.entropy"] * 0 + np.arange(BLOCKS + 1)
    reading = read("entropy_falls", {"stream": data})
    assert np.isnan(reading).all()
    claim = next(claim for claim in CLAIMS if claim.key == "entropy_falls")
    assert decision(claim, {"smollm2": reading}) == "cannot be decided, because the quantity is undefined"


def test_an_interval_is_wider_where_prompts_differ() -> None:
    reading = read("lens_overlap_late", {"stream": stream(noise=0.05)})
    assert reading.low < reading.value < reading.high


def test_every_quantity_has_a_claim_and_every_claim_a_quantity_or_no_survey() -> None:
    claims = {claim.key: claim for claim in CLAIMS}
    assert set(QUANTITIES) <= set(claims)
    for key, claim in claims.items():
        assert (key in QUANTITIES) == all(job(name) is not None for name in claim.job.split(" and ")), key


def test_the_page_says_what_is_not_measured(tmp_path: Path) -> None:
    for model in ("smollm2", "untrained_0"):
        stream().to_netcdf(tmp_path / f"stream__{model}.nc", engine="h5netcdf")
    (tmp_path / "stream__shuffled.partial").write_bytes(b"half")
    text = markdown({"smollm2": load_results(tmp_path)})
    rows = {line.split(" | ")[0]: line for line in text.splitlines() if line.startswith("| ")}
    middle = next(line for name, line in rows.items() if "most predictions stay" in name)
    assert middle.endswith("| – | – | – | – | **not measured yet** |")
    first = next(line for name, line in rows.items() if "appear in the second half only" in name)
    assert first.endswith("| SmolLM2 | at most 0.2 | 0.10 (0.10 to 0.10) | 0.10 | all of 1 | – | **holds** |")
    assert "| `drop` | WikiText-2, windows of 160 letters | not measured yet |" in text
    assert "| `stream` | GSM8K, first of test, with rationale and answer | smollm2, untrained_0 | 6, 6 |" in text
    measured = [claim for claim in CLAIMS if set(claim.job.split(" and ")) == {"stream"}]
    assert f"and {len(CLAIMS) - len(measured)} are not measured yet." in text


def test_claims_that_hold_together_are_counted_too() -> None:
    """An interval of 36 together is wider than one by itself: what holds by a hair alone is open with the others."""
    rows = rows_of(SMOLLM2, {"smollm2": {"stream": stream(prompts=6, noise=0.05)}})
    [row] = [row for row in rows if row.claim.key == "lens_overlap_late"]
    alone, together = row.by_model["smollm2"], row.corrected
    assert together is not None
    assert alone.value == together.value
    quantiles = [float(stats.t.ppf(1 - error / 2, 5)) for error in (0.05, 0.05 / len(CLAIMS))]
    assert (together.high - together.value) / (alone.high - alone.value) == pytest.approx(
        quantiles[1] / quantiles[0], rel=0.1
    )
    text = next(summary({"smollm2": rows, "gemma3": rows}))
    counts = [row.corrected_decision for row in rows]
    assert (
        f"With intervals that hold for all {len(CLAIMS)} claims together (Bonferroni), "
        f"{counts.count('holds')} hold and {counts.count('does not hold')} do not hold." in text
    )


@pytest.mark.parametrize(
    ("reading", "rounding", "factor"),
    [
        pytest.param(Reading(1.8, 1.4, 2.2), 0.0, 4.0, id="inside"),
        pytest.param(Reading(2.1, 1.8, 2.4), 0.0, 9.0, id="outside-above"),
        pytest.param(Reading(0.8, 0.5, 1.4), 0.0, 9.0, id="outside-below"),
        pytest.param(Reading(1.5, 0.5, 2.5), 0.0, 4.0, id="both-ends"),
        pytest.param(Reading(1.4, 0.6, 3.0), 0.0, 16 / 2.25, id="the-worse-end"),
        pytest.param(Reading(1.8, 1.3, 2.3), 0.1, 16.0, id="rounded"),
        pytest.param(Reading(1.95, 1.75, 2.15), 0.1, np.inf, id="rounded-over-the-bound"),
        pytest.param(Reading(2.0, 1.9, 2.1), 0.0, np.inf, id="at-the-bound"),
    ],
)
def test_what_a_decision_asks_for(reading: Reading, rounding: float, factor: float) -> None:
    """With so many times the prompts the narrowed interval just touches the bound, by brute force."""
    assert decide(CLAIM, reading) == "cannot be decided"
    assert times_more(CLAIM, reading, rounding) == pytest.approx(factor)
    if np.isfinite(factor):
        for more, decision in ((1.001, True), (0.999, False)):
            narrower = np.sqrt(factor * more)
            above = rounding + (reading.high - reading.value - rounding) / narrower
            below = rounding + (reading.value - reading.low - rounding) / narrower
            narrowed = Reading(reading.value, reading.value - below, reading.value + above)
            assert (decide(CLAIM, narrowed) != "cannot be decided") == decision


def test_claims_that_are_not_decided_say_what_they_ask_for() -> None:
    stored = {"smollm2": {"smollm2": {"stream": stream(prompts=6, noise=0.15)}}}
    rows = {"smollm2": rows_of(SMOLLM2, stored["smollm2"]), "gemma3": rows_of(GEMMA3, {})}
    table = [line.split(" | ") for line in decisions_table(rows, stored) if line.startswith("| ")][1:]
    undecided = {
        row.claim.text for row in rows["smollm2"] if row.decision.startswith("cannot be decided, because the in")
    }
    assert undecided
    assert {cells[0].removeprefix("| ") for cells in table} == undecided
    for cells in table:
        row = next(row for row in rows["smollm2"] if row.claim.text == cells[0].removeprefix("| "))
        asked = asked_for(row, stored["smollm2"]["smollm2"])
        assert asked is not None
        assert cells[4] == "6"
        if np.isfinite(asked.needed):
            assert asked.needed > 6
            # 90 seconds for 6 prompts
            assert asked.hours * 3600 == pytest.approx((asked.needed - 6) * 15, abs=15)
    assert list(decisions_table({"gemma3": rows["gemma3"]}, {})) == []


def test_what_claims_rest_on_is_said() -> None:
    """Cosine −0.2 and +0.2, MLPs of 4 at the last two blocks and 1 before; an entropy that falls by 10 bits of 12."""
    said = list(behind_the_claims({"stream": stream()}))
    assert "is -0.200 in the first half of the blocks and +0.120 in the second." in said[0]
    assert "the last block's MLP writes 4.0 times the norm of the middle ones; without that block" in said[1]
    assert "is 10.00 bits at half the depth and 0.00 at the end, a change of -10.00 (-10.00 to -10.00)." in said[2]
    rising = stream()
    rising["lens.entropy"] = 12.0 - rising["lens.entropy"]
    assert "It is largest at the end" in list(behind_the_claims({"stream": rising}))[2]
    easy = stream()
    easy["lens.kl_lens_final"] = easy["lens.kl_lens_final"].copy(deep=True)
    easy["lens.kl_lens_final"][:, 0] = 30.0
    [kl] = [text for text in behind_the_claims({"stream": stream(), "commonsense": easy}) if "KL criterion" in text]
    assert "at boundaries 8 and 1 on GSM8K and HellaSwag, and at 8 and 8 where boundary 0 is left out" in kl


def test_untrained_models_pass_all_some_or_none() -> None:
    """Between 1 and 2, both included; a number that is undefined meets nothing."""
    assert untrained_passes(CLAIM, [1.0, 1.5, 2.0]) == "all"
    assert untrained_passes(CLAIM, [1.0, 2.5, 1.5]) == "some"
    assert untrained_passes(CLAIM, [1.5, np.nan, 1.5]) == "some"
    assert untrained_passes(CLAIM, [0.5, 2.5, np.nan]) == "none"
    assert untrained_passes(CLAIM, [np.nan] * 3) == "undefined"
    assert untrained_passes(CLAIM, []) == "–"
    assert untrained_passes(CLAIM, [1.5]) == "all of 1"
    assert untrained_passes(CLAIM, [2.5, 0.5]) == "none of 2"


def test_each_model_is_judged_by_its_own_bounds_next_to_its_own_controls() -> None:
    """The stand-ins of SmolLM2 hold what those of Gemma 3 do not, and one untrained model is like its neighbour."""
    late = stream()
    late["lens.overlap"] = late["lens.overlap"] + 0.3
    stored = {
        "smollm2": {"smollm2": {"stream": stream()}, **{name: {"stream": late} for name in UNTRAINED}},
        "gemma3": {
            "gemma3": {"stream": late},
            **{name: {"stream": late} for name in UNTRAINED},
            "untrained_1": {"stream": stream()},
        },
    }
    lines = markdown(stored).splitlines()
    place = next(number for number, line in enumerate(lines) if "appear in the second half only" in line)
    assert lines[place].endswith("| SmolLM2 | at most 0.2 | 0.10 (0.10 to 0.10) | 0.40 | none | – | **holds** |")
    assert lines[place + 1] == (
        "|  |  | Gemma 3 | at most 0.2 | 0.40 (0.40 to 0.40) | 0.10 to 0.40 | some | – | **does not hold** |"
    )
    assert lines[0].startswith("**SmolLM2.** Of 36 claims ")
    assert lines[2].startswith("**Gemma 3.** Of 36 claims ")
    counts = {
        real.key: [row.passes for row in rows_of(real, stored[real.key]) if row.decision == "holds"]
        for real in (SMOLLM2, GEMMA3)
    }
    for line, passes in zip((lines[0], lines[2]), counts.values(), strict=True):
        met = [passes.count(words) for words in ("all", "some", "none")]
        assert f" {met[0]} are met by all three untrained models too, so that meeting the bound says nothing" in line
        assert f" {met[1]} by some, {met[2]} by none; the rest: fewer than three untrained models 0, " in line
    assert counts["smollm2"] != counts["gemma3"]
    # of the claims of H alone: both decide the criteria alike, and the overlap of the second is met at once
    paper = next(line for line in lines if line.startswith("| H | "))
    words = [
        tuple(row.decision for row in pair)
        for pair in zip(rows_of(SMOLLM2, stored["smollm2"]), rows_of(GEMMA3, stored["gemma3"]), strict=True)
        if pair[0].claim.paper == "hu2025"
    ]
    alone = words.count(("holds", "does not hold"))
    assert alone > 0
    assert paper.split(" | ")[2] == str(alone)
    assert sum(int(cell.strip(" |")) for cell in paper.split(" | ")[1:]) == len(words)


def test_a_bound_that_untrained_models_meet_does_not_hide_that_they_read_another_value() -> None:
    """Of MLP contributions that grow fourfold, bound 1: next to controls of 1.5 and of 4; one control is not three."""
    even = stream()
    even["residual.norm_mlp_rest"] = even["residual.norm_mlp_rest"] * 0 + np.array([1.0] * 8 + [1.5] * 2)
    apart = {"smollm2": {"stream": stream()}, **{name: {"stream": even} for name in UNTRAINED}}
    alike = {"smollm2": {"stream": stream()}, **{name: {"stream": stream()} for name in UNTRAINED}}
    fewer = {"smollm2": apart["smollm2"], "untrained_0": {"stream": even}}
    rows = [{row.claim.key: row for row in rows_of(SMOLLM2, stored)}["mlp_grows"] for stored in (apart, alike, fewer)]
    assert [(row.decision, row.passes) for row in rows] == [("holds", "all"), ("holds", "all"), ("holds", "all of 1")]
    assert [row.stands_apart for row in rows] == [True, False, True]
    first, second, third = (markdown({"smollm2": stored}).splitlines()[0] for stored in (apart, alike, fewer))
    assert "in 1 of them every untrained model reads a value outside of the interval" in first
    assert "in 0 of them every untrained model reads a value outside of the interval" in second
    holding = [row for row in rows_of(SMOLLM2, fewer) if row.decision == "holds"]
    few, absent = (sum(word in row.passes for row in holding) for word in (" of 1", "–"))
    assert few > 0
    rest = f"fewer than three untrained models {few}, undefined in them 0, no untrained model {absent}."
    assert f"the rest: {rest}" in third


def test_the_best_probe_is_said_with_its_interval_and_among_how_many() -> None:
    """Right in 3 and in 6 of 10 rows: Wilson's interval of the second."""
    correct = np.zeros((10, 2))
    correct[:3, 0], correct[4:, 1] = 1.0, 1.0
    probe = xr.Dataset(
        {"wic.correct": (("prompt", "boundary"), correct), "n_tokens": (("prompt",), np.ones(10, int))},
        attrs={"blocks": 1, "majority": 0.5, "cpu_seconds": 1.0, "peak_bytes": 1.0, "versions": "{}"},
    )
    text = markdown({"smollm2": {"smollm2": {"wic": probe}}})
    assert (
        "The best WiC probe of 2 boundaries, picked by the rows that judge it, classifies 60 % (31 to 83 %) of 10 rows "
        "correctly, where the majority label does 50 %."
    ) in text


def test_margins_in_blocks_are_judged_by_the_share_of_the_depth() -> None:
    rows = {real.key: {row.claim.key: row.claim.bound for row in rows_of(real, {})} for real in (SMOLLM2, GEMMA3)}
    assert rows["smollm2"]["hops_mquake"] == "-0.75 to 0.75"
    assert rows["gemma3"]["hops_mquake"] == "-0.45 to 0.45"
    assert rows["gemma3"]["drop_middle"] == rows["smollm2"]["drop_middle"] == "at least 0.72"


def test_a_massive_activation_is_named_where_there_is_one() -> None:
    """The largest value grows by a tenth a block, and twentyfold at block 3 of one model."""
    grown = stream()
    grown["residual.largest"] = grown["residual.largest"] * 0 + 1.1 ** np.arange(BLOCKS + 1)
    sudden = grown.copy()
    sudden["residual.largest"] = grown["residual.largest"] * np.where(np.arange(BLOCKS + 1) > 3, 20.0, 1.0)
    text = markdown({"smollm2": {"smollm2": {"stream": sudden}}, "gemma3": {"gemma3": {"stream": grown}}})
    assert "Block 3 writes a massive activation: on GSM8K" in text
    assert text.count("writes a massive activation") == 1
    assert "grows over many blocks, from 1 to 3 at boundary 10, and is 3 at the end." in text


def test_the_page_is_rewritten_between_its_marks() -> None:
    page = with_results(f"before {BEGIN} old {END} after", {})
    assert page.startswith("before ")
    assert page.endswith(f"{END} after")
    assert " old " not in page
    assert with_results(page, {}) == page
    with pytest.raises(OptionError, match="The page has no place for the results"):
        with_results(page + BEGIN, {})


def test_every_survey_names_prompts_and_variables() -> None:
    assert all(chosen.variables.keys() == set(chosen.measures) for chosen in JOBS)
    assert all((chosen.source is None) != (chosen.compute is None) for chosen in JOBS)


def test_slopes_and_shares_are_those_of_known_numbers() -> None:
    """A score of 3 + 2 × hops; an effect of 4 that falls to 1 in the last third of boundaries."""
    hops = np.array([2, 3, 4, 2, 3, 4])
    scores = xr.Dataset(
        {
            "depth_score.prompt_score_layer": (("prompt",), 3.0 + 2 * hops),
            "hops": (("prompt",), hops),
            "n_tokens": (("prompt",), np.array([10, 30, 20, 15, 25, 40])),
        },
        attrs={"blocks": BLOCKS},
    )
    assert read("hops_mquake", {"hops": scores}) == pytest.approx((2.0, 2.0, 2.0))
    effect = np.zeros((3, 12, 16))
    effect[:, :8, 7], effect[:, 8:, 12], effect[:, :, 15] = 4.0, 1.0, 9.0
    maps = xr.Dataset(
        {"erasure.effect": (("prompt", "boundary", "token"), effect), "n_tokens": (("prompt",), np.full(3, 16))},
        attrs={"blocks": 11},
    )
    assert read("erasure_operands", {"erasure": maps}).value == pytest.approx(0.25)


def test_ticks_of_a_figure_are_plain_numbers_and_whole_blocks() -> None:
    """Between powers of ten a logarithmic axis would write formulas, which pictures here show as they are."""
    figure = draw({"gemma3": {"stream": stream()}}, GEMMA3)
    figure.draw_without_rendering()
    for axes in figure.axes:
        labels = [text.get_text() for axis in (axes.xaxis, axes.yaxis) for text in axis.get_ticklabels(which="both")]
        assert not [label for label in labels if "$" in label]
        assert all(
            float(text.get_text().replace("\N{MINUS SIGN}", "-")).is_integer() for text in axes.get_xticklabels()
        )
    assert figure.axes[0].get_legend().get_texts()[0].get_text() == "Gemma 3"
