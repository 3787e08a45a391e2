"""What a plan with domains says of its losses: those of the prompts that its cost is of, in generated cases."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from bathyscope.pages.acts.plan_head import plan_headline
from bathyscope.statistics.best import compared_with_best
from bathyscope.statistics.sampling import Sampling
from bathyscope.statistics.strata import Strata
from bathyscope.surgery.plan.plan import Plan

DOMAINS = ("code", "prose", "code/old")
BASE = re.compile(
    r"([+-−]?[\d.e-]+) nats per token([^(:;]*?)(?: \([^()]*?\))?(?:, which cannot be told from 0)?"
    r"(?:: | \()(the (?:mean )?loss.*?) (?:goes|rises|falls) from (\S+) to ([^\s,]+?)(?:, ([+-−][\d.e+]+) ?%|[,;)])"
)
CALLED = {None: "the loss", "mean": "the mean loss over domains"}


@st.composite
def plans(draw: st.DrawFn) -> tuple[Plan, list[str]]:
    """Plans of domains of other sizes, losses and costs, and the domain of each prompt."""
    joint = draw(st.sampled_from([None, "mean", "worst"]))
    names = list(DOMAINS[: draw(st.integers(2, 3))])
    sizes = [draw(st.integers(2, 5)) for _ in names]
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    number_P = np.repeat(np.arange(len(names)), sizes)
    levels = np.array([draw(st.sampled_from([-1.0, 0.0, 0.5, 2.0])) for _ in names])
    spread = draw(st.sampled_from([0.0, 0.3]))
    cost = np.stack([levels[number_P] + spread * rng.normal(size=len(number_P)), rng.normal(1, 0.2, len(number_P))])
    losses = np.array([draw(st.sampled_from([1.5, 6.0, 20.0])) for _ in names])[number_P] + rng.random(len(number_P))
    strata = None if joint is None else Strata(number_P, joint == "worst")
    compared = compared_with_best(cost, Sampling(40), strata)
    max_cost = draw(st.sampled_from([0.0, 1.0]))
    domains = [names[number] for number in number_P]
    values: dict[str, Any] = {
        "subset": ("candidate", ["drop:0", "drop:1"]),
        "calibration_cost": ("candidate", compared.mean),
        "test_cost": ("candidate", compared.mean),
        "test_cost_low": ("candidate", compared.low),
        "test_cost_high": ("candidate", compared.high),
        "p_value": ("candidate", compared.p_value),
        "indistinguishable": ("candidate", compared.indistinguishable.astype(int)),
        "test_kl": ("candidate", np.abs(compared.mean)),
        "test_agreement": ("candidate", rng.uniform(size=2)),
        "cost": (("candidate", "prompt"), cost),
        "full_loss": ("prompt", losses),
    }
    coords: dict[str, Any] = {"candidate": ["choice", "greedy"]}
    attrs = {"parts": "block", "n_units": 6, "n_blocks": 6, "size": 1, "level": 0.95, "how": "all", "model": "m"}
    for role in ("calibration", "test"):
        attrs |= {f"{role}_data": role, f"{role}_hash": "h", f"{role}_prompts": 9, f"{role}_tokens": 99}
    if joint is not None:
        attrs["joint"] = joint
        values["prompt_domain"] = ("prompt", domains)
        coords |= {"prompt_id": ("prompt", [f"{name}/{place}" for place, name in enumerate(domains)])}
        coords |= {"domain": names, "chosen_on": [*names, "all domains"]}
        own = np.array([[row[number_P == number].mean() for number in range(len(names))] for row in cost])
        values["domain_cost"] = (("chosen_on", "domain"), np.vstack([own[:1]] * (len(names) + 1)))
        for end in ("_low", "_high"):
            values[f"domain_cost{end}"] = (("chosen_on", "domain"), np.full((len(names) + 1, len(names)), np.nan))
    fits = int(max_cost == 0 or compared.high[0] < max_cost)
    plan = Plan(xr.Dataset(values, coords, {**attrs, "max_cost": max_cost, "fits": fits}))
    return plan, domains


def expected(plan: Plan, domains: list[str]) -> tuple[float, float, str]:
    """Losses before and after, and their name."""
    joint, cost, full = plan.data.attrs.get("joint"), plan.data["cost"].values[0], plan.data["full_loss"].values
    if joint is None:
        return full.mean(), (full + cost).mean(), "the loss"
    rows = [np.array([name == domain for name in domains]) for domain in dict.fromkeys(domains)]
    before, after = ([values[row].mean() for row in rows] for values in (full, full + cost))
    if joint == "mean":
        return float(np.mean(before)), float(np.mean(after)), "the mean loss over domains"
    worst = int(np.argmax([cost[row].mean() for row in rows]))
    return before[worst], after[worst], f"the loss on {list(dict.fromkeys(domains))[worst]}"


def number(text: str) -> float:
    return float(text.replace("−", "-"))


@pytest.mark.contract
@settings(deadline=None, max_examples=100)
@given(drawn=plans())
def test_the_losses_of_a_sentence_differ_by_its_cost(drawn: tuple[Plan, list[str]]) -> None:
    plan, domains = drawn
    before, after, called = expected(plan, domains)
    assert plan.price.after - plan.price.before == pytest.approx(plan.price.cost, abs=1e-9)
    assert (plan.price.before, plan.price.after) == (pytest.approx(before), pytest.approx(after))
    stated = json.dumps(plan.record()["conclusion"], ensure_ascii=False)
    for sentence in (plan.text, stated, plan.evidence, plan_headline(plan)):
        bases = BASE.findall(sentence)
        assert bases, sentence
        for cost, where, name, first, last, share in bases:
            assert name == called
            assert (where == "") == ("joint" not in plan.data.attrs)
            assert number(first) == pytest.approx(before, rel=1e-3)
            assert number(last) == pytest.approx(after, rel=1e-3, abs=1e-3)
            assert number(cost) == pytest.approx(after - before, rel=1e-2, abs=1e-3)
            assert number(share) == pytest.approx(100 * (after - before) / before, rel=0.06, abs=0.51)
    losses = plan.before_after.set_index("quantity").loc[f"{called.removeprefix('the ')} (nats per token)"]
    assert (losses["before"], losses["after"]) == (pytest.approx(before), pytest.approx(after))


@pytest.mark.contract
@settings(deadline=None, max_examples=60)
@given(drawn=plans())
def test_what_is_unknown_of_an_older_plan_is_not_said(drawn: tuple[Plan, list[str]]) -> None:
    """Older plans name domains in the names of prompts alone, and count all prompts of their agreement alike."""
    plan, domains = drawn
    if "joint" not in plan.data.attrs:
        return
    price = Plan(plan.data.drop_vars("prompt_domain")).price
    assert math.isnan(price.changed)
    if "code/old" in domains:  # begins as prompts of code do
        assert (price.base, price.change) == ("", "")
    else:
        assert (price.before, price.after) == (plan.price.before, plan.price.after)
    nameless = Plan(plan.data.drop_vars(["prompt_domain", "prompt_id"]))
    assert nameless.price.base == ""
    assert "the loss" not in nameless.price.text
    where = {"mean": " as the mean over domains", "worst": " on the worst domain"}
    assert nameless.price.where == where[plan.data.attrs["joint"]]
    assert "nan" not in nameless.text + plan_headline(nameless)


@settings(deadline=None, max_examples=50)
@given(drawn=plans())
def test_costs_of_single_domains_are_said(drawn: tuple[Plan, list[str]]) -> None:
    plan, domains = drawn
    cost = plan.data["cost"].values[0]
    for domain in dict.fromkeys(domains) if "joint" in plan.data.attrs else ():
        mean = cost[[name == domain for name in domains]].mean()
        listed = plan.text.partition("By domain the choice costs: ")[2]
        assert re.search(rf"(^|; ){re.escape(domain)} {re.escape(f'{mean:.4g}')}[;.]", listed)
