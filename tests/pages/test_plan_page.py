"""The head of a plan's page against the plan's numbers: proved, not proved, and nothing that can go."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from bathyscope.pages.plan_page import candidate_rows, draw_plan, left_out_blocks, plan_basis, plan_headline, plan_html
from bathyscope.surgery.plan import Plan, result

SVG = "{http://www.w3.org/2000/svg}"


def planned(
    costs: tuple[float, ...] = (0.2, 0.3),
    *,
    subset: str = "drop:4,drop:7",
    alike: tuple[bool, ...] = (True, False),
    n_blocks: int = 12,
    names: tuple[str, ...] = ("search", "block <i>influence"),
    p_values: tuple[float, ...] = (1.0, 0.01),
    **attrs: Any,
) -> Plan:
    """A plan of two candidates at these costs, with intervals of 0.05 around them."""
    cost = np.array(costs)
    values = {
        "subset": np.array([subset, "drop:8"][: len(costs)], dtype=object),
        **dict.fromkeys(("calibration_cost", "test_cost"), cost),
        "test_cost_low": cost - 0.05,
        "test_cost_high": cost + 0.05,
        "p_value": np.array(p_values[: len(costs)]),
        "indistinguishable": np.array(alike[: len(costs)]),
        "test_kl": cost,
        "test_agreement": np.full(len(costs), 0.9),
        "cost": cost[:, None] * np.ones((1, 30)),
    }
    standard = {"model": "m", "size": subset.count(":"), "n_units": n_blocks, "n_blocks": n_blocks, "parts": "block"}
    return Plan(result(names[: len(costs)], values, {}, {**standard, "level": 0.95, "how": "all pairs tried", **attrs}))


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (
            planned(),
            "Leaving out blocks 4, 7 costs +0.200 nats per token; nothing tried is shown to cost less",
        ),
        (
            planned((0.3, 0.1), alike=(False, True)),
            "Not proved: leaving out blocks 4, 7 costs +0.300 nats, and block <i>influence is better at +0.100",
        ),
        (
            planned((-0.2, 0.3)),
            "Not proved: without blocks 4, 7 the loss changes by −0.200 nats, so this text is foreign to the model",
        ),
        (
            planned(names=("search", "random"), alike=(True, True)),
            "Not proved: leaving out blocks 4, 7 costs +0.200 nats, and chance does as well on these prompts",
        ),
        (
            planned(subset="drop:4", fits=0, max_cost=0.05),
            "Nothing can go: the cheapest choice, block 4, costs +0.200 nats, over the limit of 0.05",
        ),
        (
            planned(subset="drop:4", fits=0, max_cost=0.22),
            "Nothing can go: the cheapest choice, block 4, costs +0.200 nats, not proved to be within the limit of "
            "0.22",
        ),
    ],
)
def test_the_headline_says_what_is_proved(plan: Plan, expected: str) -> None:
    assert plan_headline(plan) == expected
    assert plan_headline(plan).startswith("Leaving out") == plan.proved
    choice = candidate_rows(plan)[0]
    low, high = (f"{end:+.3f}".replace("-", "−") for end in (choice.low, choice.high))
    assert f"95 % interval {low} to {high} on 30 test prompts" in plan_basis(plan)


def test_costs_and_blocks_are_drawn_at_their_places() -> None:
    plan = planned()
    picture = ElementTree.fromstring(draw_plan(plan, 1000.0))
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
@pytest.mark.parametrize("width", [400.0, 1000.0])
def test_plans_of_any_size_are_drawn(n_blocks: int, width: float) -> None:
    plan = planned(subset="drop:0", n_blocks=n_blocks)
    text = draw_plan(plan, width)
    ElementTree.fromstring(text)
    assert "<i>" not in text


def test_a_plan_alone_has_its_command_and_one_candidate_is_enough() -> None:
    html = plan_html(planned((0.2,), alike=(True,)), "bathyscope export m --schedule drop:4,drop:7 --out SMALLER")
    # a line ends at no hyphen of a flag
    flags = [f'<span class="flag">--{name}</span>' for name in ("schedule", "out")]
    assert f"<code>bathyscope export m {flags[0]} drop:4,drop:7 {flags[1]} SMALLER</code>" in html
    assert 'aria-label="Plan"' in html
    parts = planned(subset="drop:4.attention", parts="attention")
    assert plan_headline(parts).startswith("Leaving out drop:4.attention costs ")
    assert "as well" not in html
    assert math.isnan(candidate_rows(planned((math.nan,), alike=(True,)))[0].cost)


def test_candidates_that_are_the_choice_itself_are_not_set_beside_it() -> None:
    plan = planned((0.2, 0.2), alike=(True, True), names=("search", "random"))
    plan.data["subset"][:] = "drop:4,drop:7"
    assert "The same blocks as the choice: random." in plan_html(plan, "")
    assert "no difference from the best" not in plan_html(plan, "")


def test_a_choice_that_random_subsets_do_not_reach_is_said_to_be_better_than_chance() -> None:
    assert "+0.200 nats per token, less than random subsets; nothing" in plan_headline(
        planned(names=("search", "random"))
    )


@pytest.mark.parametrize(("low", "high"), [(-0.05, 0.25), (-0.3, 0.1), (0.0, 1.3), (-2.0, 5.0), (0.0, 0.004)])
def test_the_axis_of_costs_has_a_few_round_numbers_and_a_plain_zero(low: float, high: float) -> None:
    picture = ElementTree.fromstring(draw_plan(planned((low, high), alike=(True, False)), 1000.0))
    texts = [("".join(text.itertext()), float(text.get("y", ""))) for text in picture.iter(f"{SVG}text")]
    assert "−0" not in dict(texts)
    # blocks have a 0 too, above
    axis = max(y for words, y in texts if words == "0")
    numbers = [float(words.replace("−", "-")) for words, y in texts if y == axis]
    steps = {round(after - before, 9) for before, after in itertools.pairwise(numbers)}
    assert 2 <= len(numbers) <= 6
    assert len(steps) == 1
    assert f"{steps.pop():.0e}"[0] in "125"
