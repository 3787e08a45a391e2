"""The head of a plan's page against the plan's numbers: proved, not proved, and nothing that can go."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from html import unescape
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from bathyscope.errors import OptionError
from bathyscope.pages.acts.plan_head import (
    _alike_sentence,
    draw_plan,
    left_out_blocks,
    plan_basis,
    plan_head,
    plan_headline,
)
from bathyscope.pages.acts.sections import act_section
from bathyscope.pages.figures.arguments import split_acts
from bathyscope.pages.figures.of.plan import CandidateRow, candidate_rows
from bathyscope.pages.head.layouts import NARROW, WIDE, ProfileLayout
from bathyscope.pages.head.svg import print_svg
from bathyscope.surgery.plan.arrays import result
from bathyscope.surgery.plan.plan import Plan
from bathyscope.surgery.plan.task_table import CUT_OFF, task_rows
from bathyscope.surgery.scheduled.speed import Speeds

SVG = "{http://www.w3.org/2000/svg}"
DATA: Final = {
    f"{role}_{name}": value
    for role in ("calibration", "test")
    for name, value in {"data": "/home/her/mine.jsonl:3", "hash": "a" * 64, "prompts": 3, "tokens": 30}.items()
}
"""What a plan says of its prompts."""


def planned(
    costs: tuple[float, ...] = (0.2, 0.3),
    *,
    subset: str = "drop:4,drop:7",
    alike: tuple[bool, ...] = (True, False),
    n_blocks: int = 12,
    names: tuple[str, ...] = ("search", "block <i>influence"),
    full_loss: float | None = None,
    **attrs: Any,
) -> Plan:
    """A plan of two candidates at these costs, with intervals of 0.05 around them."""
    cost = np.array(costs)
    values = {
        "subset": np.array([subset, "drop:8"][: len(costs)], dtype=object),
        **dict.fromkeys(("calibration_cost", "test_cost"), cost),
        "test_cost_low": cost - 0.05,
        "test_cost_high": cost + 0.05,
        "p_value": np.where(alike[: len(costs)], 1.0, 0.01),
        "indistinguishable": np.array(alike[: len(costs)]),
        "test_kl": cost,
        "test_agreement": np.full(len(costs), 0.9),
        "cost": cost[:, None] * np.ones((1, 30)),
    }
    if full_loss is not None:
        values["full_loss"] = np.full(30, full_loss)
    standard = {"model": "m", "size": subset.count(":"), "n_units": n_blocks, "n_blocks": n_blocks, "parts": "block"}
    return Plan(result(names[: len(costs)], values, {}, {**standard, "level": 0.95, "how": "all pairs tried", **attrs}))


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (
            planned(),
            "Leaving out blocks 4, 7 costs +0.200 nats per token (10 % of the top-1 predictions change); nothing "
            "tried is shown to cost less",
        ),
        (
            planned(full_loss=0.8),
            "Leaving out blocks 4, 7 costs +0.200 nats per token (the loss rises from 0.8 to 1, +25 %; 10 % of the "
            "top-1 predictions change); nothing tried is shown to cost less",
        ),
        (
            planned((0.02, 0.3)),
            "Leaving out blocks 4, 7 costs +0.020 nats per token, which cannot be told from 0 (10 % of the top-1 "
            "predictions change); nothing tried is shown to cost less",
        ),
        (
            planned(max_cost=0.3, names=("search", "random"), alike=(True, True)),
            "Blocks 4, 7 can go within 0.3 nats per token: that costs +0.200 nats per token (10 % of the top-1 "
            "predictions change); nothing tried is shown to cost less",
        ),
        (
            planned(max_cost=0.3, max_share=0.025, names=("search", "random"), alike=(True, True)),
            "Blocks 4, 7 can go within 2.5 % of the loss (0.3 nats): that costs +0.200 nats per token (10 % of the "
            "top-1 predictions change); nothing tried is shown to cost less",
        ),
        (
            planned(subset="drop:4", fits=0, max_cost=0.05, max_share=0.02),
            "Not shown that anything can go: the choice of the calibration prompts, block 4, costs +0.200 nats per "
            "token (10 % of the top-1 predictions change), over the limit of 2 % of the loss (0.05 nats), and no other "
            "was put to this test",
        ),
        (
            planned((0.3, 0.1), alike=(False, True)),
            "Not proved: leaving out blocks 4, 7 costs +0.300 nats per token (10 % of the top-1 predictions change), "
            "and block <i>influence is better at +0.100",
        ),
        (
            planned((-0.2, 0.3)),
            "Not proved: without blocks 4, 7 the loss changes by −0.200 nats per token (10 % of the top-1 predictions "
            "change); this text may be foreign to the model, or what is left out may harm it: measure on text like its "
            "training text before you decide",
        ),
        (
            planned(names=("search", "random"), alike=(True, True)),
            "Not proved: leaving out blocks 4, 7 costs +0.200 nats per token (10 % of the top-1 predictions change), "
            "which cannot be told from what random subsets cost on these prompts",
        ),
        (
            planned(subset="drop:4", fits=0, max_cost=0.05),
            "Not shown that anything can go: the choice of the calibration prompts, block 4, costs +0.200 nats per "
            "token (10 % of the top-1 predictions change), over the limit of 0.05, and no other was put to this test",
        ),
        (
            planned(subset="drop:4", fits=0, max_cost=0.22),
            "Not shown that anything can go: the choice of the calibration prompts, block 4, costs +0.200 nats per "
            "token (10 % of the top-1 predictions change), not proved to be within the limit of 0.22, and no other "
            "was put to this test",
        ),
    ],
)
def test_the_headline_says_what_is_proved(plan: Plan, expected: str) -> None:
    assert plan_headline(plan) == expected
    assert plan_headline(plan).startswith(("Leaving out", "Blocks")) == plan.proved
    assert (" can go within " in plan_headline(plan)) == (plan.proved and bool(plan.data.attrs.get("max_cost")))
    choice = candidate_rows(plan.data)[0]
    low, high = (f"{end:+.3f}".replace("-", "−") for end in (choice.low, choice.high))
    assert f"95 % interval {low} to {high} on 30 test prompts" in plan_basis(plan)


def test_costs_and_blocks_are_drawn_at_their_places() -> None:
    plan = planned()
    picture = ElementTree.fromstring(print_svg(draw_plan(plan, WIDE), ""))
    tiles = [tile.get("fill") for tile in picture.iter(f"{SVG}rect") if tile.get("fill")]
    assert [block for block, fill in enumerate(tiles) if fill == "#c4501b"] == left_out_blocks(plan) == [4, 7]
    assert len(tiles) == 12
    dots = [float(dot.get("cx", "")) for dot in picture.iter(f"{SVG}circle") if dot.get("r") == "5"]
    zero_line = next(path for path in picture.iter(f"{SVG}path") if path.get("class") == "bp-muted-line")
    zero = float(re.findall(r"M([\d.]+) ", zero_line.get("d", ""))[0])
    assert (dots[1] - zero) / (dots[0] - zero) == pytest.approx(0.3 / 0.2, rel=0.01)
    # the numbers of the axis stand where a cost of that size is drawn
    foot = max(float(text.get("y", "")) for text in picture.iter(f"{SVG}text") if "line: 0" in "".join(text.itertext()))
    numbers = [
        (float("".join(text.itertext())), float(text.get("x", "")))
        for text in picture.iter(f"{SVG}text")
        if float(text.get("y", "")) == pytest.approx(foot - 22)
    ]
    assert numbers[0] == (0, pytest.approx(zero, abs=0.1))
    assert len(numbers) >= 3
    for cost, x in numbers[1:]:
        assert (x - zero) / (dots[0] - zero) == pytest.approx(cost / 0.2, rel=0.01)
    assert "+0.200" in " ".join("".join(text.itertext()) for text in picture.iter(f"{SVG}text"))


@pytest.mark.parametrize("n_blocks", [1, 12, 126])
@pytest.mark.parametrize("layout", [NARROW, WIDE])
def test_plans_of_any_size_are_drawn(n_blocks: int, layout: ProfileLayout) -> None:
    plan = planned(subset="drop:0", n_blocks=n_blocks)
    text = print_svg(draw_plan(plan, layout), "")
    ElementTree.fromstring(text)
    assert "<i>" not in text


def test_a_plan_alone_has_its_command_and_one_candidate_is_enough() -> None:
    html = plan_head(planned((0.2,), alike=(True,)))
    # a line ends at no hyphen of a flag
    assert '<code>bathyscope export PLAN <span class="flag">--out</span> SMALLER</code>' in html
    assert 'aria-label="Plan"' in html
    parts = planned(subset="drop:4.attention", parts="attention")
    assert plan_headline(parts).startswith("Leaving out drop:4.attention costs ")
    assert "as well" not in html
    assert math.isnan(candidate_rows(planned((math.nan,), alike=(True,)).data)[0].cost)


@pytest.mark.parametrize("kind", [list, tuple, iter])
def test_plans_need_no_run_beside_them_and_nothing_is_still_refused(kind: Any) -> None:
    plan = planned()
    assert split_acts(plan) == ([], [plan])
    assert split_acts(kind([plan, plan])) == ([], [plan, plan])
    with pytest.raises(OptionError, match="A report needs at least one run, plan or repair"):
        split_acts(kind([]))


def test_candidates_that_are_the_choice_itself_are_not_set_beside_it() -> None:
    plan = planned((0.2, 0.2), alike=(True, True), names=("search", "random"))
    plan.data["subset"][:] = "drop:4,drop:7"
    assert "The same blocks as the choice: random." in plan_head(plan)
    assert "no difference from the best" not in plan_head(plan)


def test_a_choice_that_random_subsets_do_not_reach_is_said_to_be_better_than_chance() -> None:
    assert "top-1 predictions change), less than random subsets; nothing" in plan_headline(
        planned(names=("search", "random"))
    )


@pytest.mark.parametrize(("low", "high"), [(-0.05, 0.25), (-0.3, 0.1), (0.0, 1.3), (-2.0, 5.0), (0.0, 0.004)])
def test_the_axis_of_costs_has_a_few_round_numbers_and_a_plain_zero(low: float, high: float) -> None:
    picture = ElementTree.fromstring(print_svg(draw_plan(planned((low, high), alike=(True, False)), WIDE), ""))
    texts = [("".join(text.itertext()), float(text.get("y", ""))) for text in picture.iter(f"{SVG}text")]
    assert "−0" not in dict(texts)
    # blocks have a 0 too, above
    axis = max(y for words, y in texts if words == "0")
    numbers = [float(words.replace("−", "-")) for words, y in texts if y == axis]
    steps = {round(after - before, 9) for before, after in itertools.pairwise(numbers)}
    assert 2 <= len(numbers) <= 6
    assert len(steps) == 1
    assert f"{steps.pop():.0e}"[0] in "125"


def test_a_stored_plan_is_exported_from_its_folder_and_no_path_of_this_machine_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan's folder keeps the evidence; ``export MODEL --schedule`` would not."""
    monkeypatch.chdir(tmp_path)
    for stored, written in (
        (Path("runs/choice"), "runs/choice"),
        (tmp_path / "runs" / "my choice", "'runs/my choice'"),
        (Path("/elsewhere/choice"), "PLAN"),
        (Path("../choice"), "PLAN"),
        (None, "PLAN"),
    ):
        plan = dataclasses.replace(planned(model=str(tmp_path / "model")), stored_in=stored)
        section = act_section(plan, "plan")
        text = unescape(re.sub(r"<[^>]*>", "", section["head"]))
        assert f"bathyscope export {written} --out SMALLER" in text
        assert str(tmp_path) not in text
        assert section["heading"] == "What leaving out costs: model"


def test_the_page_has_one_figure_for_speed() -> None:
    speeds = Speeds.from_record(
        {"before": 100.0, "after": 136.0, "ratio": 1.19, "ratio_low": 1.1, "ratio_high": 1.5, "tokens": 9, "repeats": 5}
    )
    plan = dataclasses.replace(planned(**DATA), speeds=speeds)
    assert plan.record()["speed"]["ratio"] == pytest.approx(1.36)
    rate = plan.before_after.set_index("quantity").loc["tokens per second"]
    assert rate["after"] / rate["before"] == plan.record()["speed"]["ratio"]
    page = plan_head(plan)
    for text in (page, plan.evidence):
        assert "1.36 times as fast (1.1 to 1.5 in 5 pairs" in text
        assert "1.19" not in text


def test_a_card_names_files_and_not_the_folders_they_lie_in() -> None:
    assert "Chosen on 3 prompts, 30 tokens (mine.jsonl:3)." in planned(**DATA).evidence
    assert "/home" not in planned(**DATA).evidence


@given(st.floats(-0.4, 0.4).filter(lambda cost: abs(cost) > 1e-3), st.floats(0.5, 5))
def test_a_page_has_one_sign_for_what_is_below_0(cost: float, loss: float) -> None:
    plan = planned((cost, 0.45), full_loss=loss)
    said = f"{plan_headline(plan)} {plan_basis(plan)}"
    assert re.search(r"(?<!\w)-[\d.]", said) is None
    assert (re.search(r"−[\d.]+ %", said) is not None) == (cost < 0)
    assert "top-1" in said


def answered(full_cut: float, pruned_cut: float) -> xr.Dataset:
    """What a task of written answers says: 10 % right without the blocks and 20 % with them."""
    numbers = {"full": 0.2, "pruned": 0.1, "difference": -0.1}
    ends = {f"{name}_{end}": value for name, value in numbers.items() for end in ("low", "high")}
    cut_off = dict(zip(CUT_OFF, (full_cut, pruned_cut)))
    values = {name: np.array([value]) for name, value in {**numbers, **ends, **cut_off}.items()}
    return task_rows([("mine", "acc,none")], {"documents": np.array([30]), **values}, {"level": 0.95})


def test_a_head_names_tasks_and_answers_that_no_longer_end() -> None:
    plan = dataclasses.replace(planned(**DATA), tasks_data=answered(0.033, 1.0))
    lost = "; but the limit of tokens ends 100 % of the answers of mine (3 % with the blocks)"
    assert plan_headline(plan).endswith(lost)
    page = unescape(re.sub(r"<[^>]*>", "", plan_head(plan)))
    assert "On mine (30 documents) acc,none is 0.1 without them and 0.2 with them: −0.1 (−0.1 to −0.1)." in page
    assert "To write the smaller model all the same:" in page
    sentence = "The limit of tokens ended 100% of these answers without them and 3% with them."
    assert sentence in plan.text
    assert sentence in plan.evidence
    # a limit that cuts both alike is too small, and says nothing of what is left out
    alike = dataclasses.replace(planned(), tasks_data=answered(0.5, 0.52))
    assert "; but" not in plan_headline(alike)
    assert "ended 52% of these answers without them and 50% with them." in alike.text
    whole = dataclasses.replace(planned(), tasks_data=answered(0.03, 0.04))
    assert "The limit" not in whole.text
    assert "To write the smaller model:" in unescape(re.sub(r"<[^>]*>", "", plan_head(whole)))


def test_a_head_says_of_what_tokens_costs_are_and_which_answers_no_longer_end() -> None:
    plan = planned(over="answer", test_ended=20)
    plan = dataclasses.replace(plan, data=plan.data.assign(ends_kept=("candidate", [0.25, 1.0])))
    assert "costs +0.200 nats per answer token (" in plan_headline(plan)
    assert plan_headline(plan).endswith("; but 15 of the 20 test answers that the full model ends no longer end")
    limited = planned(over="answer", max_cost=0.3)
    assert "can go within 0.3 nats per answer token: that costs +0.200 nats per answer token" in plan_headline(limited)
    assert plan.tables()[0].title == "Costs in nats per answer token"
    assert plan.before_after["quantity"].tolist() == ["blocks"]
    assert planned(over="answer", full_loss=1.0).before_after["quantity"][1] == "loss (nats per answer token)"
    assert "0.2 nats per answer token (95% interval" in plan.text
    # one of twenty may be lost by chance
    nearly = dataclasses.replace(plan, data=plan.data.assign(ends_kept=("candidate", [0.95, 1.0])))
    assert "; but" not in plan_headline(nearly)
    assert planned(over="tokens").tables()[0].title == "Costs in nats per token"
    for over, unit in (("answer", "nats per answer token"), ("tokens", "nats per token")):
        assert f">loss added on the test prompts, {unit}<" in print_svg(draw_plan(planned(over=over), WIDE), "")


def with_random(plan: Plan, cheaper: float, count: float = 12) -> Plan:
    """The plan with a candidate of random subsets, of which so many cost less than the choice."""
    shape = plan.data.sizes["candidate"]
    columns = {
        "subsets": count,
        "subset_median": 0.1,
        "subset_min": 0.01,
        "subset_max": 7.0,
        "subsets_cheaper": cheaper,
    }
    filled = {name: ("candidate", np.full(shape, value)) for name, value in columns.items()}
    return dataclasses.replace(plan, data=plan.data.assign(filled))


@pytest.mark.parametrize(
    ("cheaper", "expected"),
    [
        (0, "less than random subsets; "),
        (1, "less than the mean of random subsets, of which 1 of 12 costs less; "),
        (3, "less than the mean of random subsets, of which 3 of 12 cost less; "),
    ],
)
def test_a_mean_that_one_block_carries_is_no_proof_against_random_subsets(cheaper: float, expected: str) -> None:
    plan = planned((0.2, 0.6), names=("search", "random"), alike=(True, False))
    assert expected in plan_headline(with_random(plan, cheaper))


def test_a_candidate_that_costs_less_within_chance_is_named_in_the_head() -> None:
    plan = planned((0.011, 0.004), alike=(True, True), names=("search", "block influence"), max_cost=0.1)
    assert plan.proved
    assert plan_headline(plan).endswith(
        "nothing tried is shown to cost less, though block influence costs +0.004, within chance"
    )
    page = unescape(plan_head(plan))
    assert "block influence costs least (+0.004); the choice is not shown to differ from it." in page
    assert "block influence: no difference from the best is shown" not in page


def test_the_best_is_not_said_to_be_like_itself_next_to_others() -> None:
    rows = [
        CandidateRow("search", "drop:1", 0.02, 0.01, 0.03, True),
        CandidateRow("last", "drop:3", 0.01, 0.0, 0.02, True),
        CandidateRow("greedy", "drop:2", 0.015, 0.0, 0.03, True),
    ]
    assert _alike_sentence(rows, ["last", "greedy"]) == (
        "last costs least (+0.010); greedy: no difference from the best is shown."
    )


@pytest.mark.parametrize("layout", [WIDE, NARROW])
@pytest.mark.parametrize(("random", "is_far"), [(0.15, False), (1.07, True), (7.0, True)])
def test_an_expensive_mean_of_random_subsets_does_not_hide_the_others(
    random: float, is_far: bool, layout: ProfileLayout
) -> None:
    """The others and the limit keep their places on an axis of their own; the number stays next to the arrow."""
    plan = planned((0.02, random), names=("search", "random"), alike=(True, False), max_cost=0.1)
    print_of = print_svg(draw_plan(plan, layout), "")
    dots = [dot for dot in ElementTree.fromstring(print_of).iter(f"{SVG}circle") if dot.get("r") == "5"]
    text = " ".join("".join(ElementTree.fromstring(print_of).itertext()).split())
    assert len(dots) == (1 if is_far else 2)
    assert ("beyond the axis" in text) == is_far
    assert f"+{random:.3f}" in text or f"+{random:.2f}" in text
    if is_far:
        only = planned((0.02,), alike=(True,), max_cost=0.1)
        alone = ElementTree.fromstring(print_svg(draw_plan(only, layout), ""))
        (dot,) = [dot for dot in alone.iter(f"{SVG}circle") if dot.get("r") == "5"]
        assert dots[0].get("cx") == dot.get("cx")
