"""What a plan says against what its arrays say, in made cases and in generated ones: ties, copies, few prompts, NaN."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from html import unescape
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import bathyscope
from bathyscope.errors import ModelError, OptionError
from bathyscope.pages.acts.plan_head import draw_plan, plan_headline
from bathyscope.pages.head.layouts import NARROW
from bathyscope.statistics.best import compared_with_best
from bathyscope.statistics.sampling import Sampling
from bathyscope.surgery.choosing.search import Candidates, place_of_cheapest
from bathyscope.surgery.choosing.stability import shares_again
from bathyscope.surgery.plan.plan import Plan
from bathyscope.surgery.plan.stability_text import stability_sentences
from bathyscope.surgery.plan.tables import again_table
from bathyscope.wavefront.histories import Unit


def planned(
    costs: dict[str, float],
    alike: Sequence[str],
    agreement: float = 0.9,
    full_loss: float | None = None,
    **attrs: object,
) -> str:
    """The text of a plan with these candidates."""
    return plan_of(costs, alike, agreement, full_loss, **attrs).text


def plan_of(
    costs: dict[str, float],
    alike: Sequence[str],
    agreement: float = 0.9,
    full_loss: float | None = None,
    **attrs: object,
) -> Plan:
    """A plan with these candidates."""
    values = np.array(list(costs.values()))
    data = xr.Dataset(
        {
            "subset": ("candidate", [f"drop:{place}" for place in range(len(costs))]),
            "calibration_cost": ("candidate", values),
            "test_cost": ("candidate", values),
            "test_cost_low": ("candidate", values - 0.01),
            "test_cost_high": ("candidate", values + 0.01),
            "p_value": ("candidate", np.where([name in alike for name in costs], 1.0, 0.009)),
            "indistinguishable": ("candidate", [int(name in alike) for name in costs]),
            "p_against_choice": (
                "candidate",
                np.where([(name in alike) == (next(iter(costs)) in alike) for name in costs], 1.0, 0.009),
            ),
            "test_kl": ("candidate", np.abs(values)),
            "test_agreement": ("candidate", np.full(len(costs), agreement)),
            "cost": (("candidate", "prompt"), np.tile(values[:, None], 4)),
        },
        {"candidate": list(costs)},
        {"parts": "block", "n_units": 12, "size": 3, "level": 0.95, "how": "all were measured", "model": "m", **attrs},
    )
    if full_loss is not None:
        data["full_loss"] = ("prompt", np.full(4, full_loss))
    return Plan(data)


def test_a_notebook_shows_the_text_and_the_table_of_a_plan() -> None:
    plan = plan_of({"choice": 0.1, "last <b>": 0.4}, ["choice"])
    html = plan._repr_html_()
    assert plan.text in unescape(html)
    assert "<table" in html
    assert "<b>" not in html
    assert "last &lt;b&gt;" in html


def test_a_plan_in_the_place_of_its_model_is_told_so() -> None:
    plan = plan_of({"choice": 0.1, "last": 0.4}, ["choice"])
    with pytest.raises(
        OptionError, match=r"^export\(\) takes the model first; a plan given\. Write export\(model, plan, folder\)\.$"
    ):
        bathyscope.export(plan, "folder")  # type: ignore[arg-type]


def test_the_text_leads_with_the_cost_and_whether_it_is_proved() -> None:
    assert planned({"choice": 0.1, "last": 0.4}, ["choice"]).startswith(
        "Measured on 4 test prompts: leaving out drop:0, 3 of 12 blocks, costs 0.1 nats per token (95% interval 0.09 "
        "to 0.11): 10% of the top-1 predictions change; no candidate costs less. It costs 0.1 on the calibration "
        "prompts that chose it; all were measured."
    )
    lost = planned({"choice": 0.4, "pair surrogate": 0.1}, ["pair surrogate"])
    assert lost.startswith(
        "Not proved on 4 test prompts: the choice (drop:0, 3 of 12 blocks) does not carry over, since pair surrogate "
        "(drop:1) is better (0.1 (0.09 to 0.11); p = 0.009)."
    )
    assert "Proved" not in lost
    bounded = planned({"choice": 0.1, "last": 0.4}, ["choice"], max_cost=0.2)
    assert bounded.startswith(
        "Proved on 4 test prompts: 3 of 12 blocks can go within 0.2 nats, drop:0, at a cost of 0.1 nats per token (95% "
        "interval 0.09 to 0.11): 10% of the top-1 predictions change; no candidate costs less."
    )


def test_the_cost_has_its_base_and_per_cent() -> None:
    text = planned({"choice": 0.255, "last": 0.4}, ["choice"], full_loss=0.734, agreement=0.83)
    assert (
        "costs 0.255 nats per token (95% interval 0.245 to 0.265): the loss rises from 0.734 to 0.989, +35%, and 17% "
        "of the top-1 predictions change"
    ) in text


def test_a_candidate_that_costs_less_is_never_called_no_better() -> None:
    """Two test prompts tell nothing apart, whatever candidates cost on them."""
    chance = planned({"choice": 0.4, "greedy": 0.1, "last": 0.3}, ["choice", "greedy", "last"])
    assert "no candidate costs less" not in chance
    assert (
        "; no candidate is shown to cost less: greedy (drop:1) costs 0.1 (0.09 to 0.11), a difference within "
        "chance (p = 1)."
    ) in chance
    assert "Dropping the last cannot be told from the choice here: 0.3" in chance
    tied = planned({"choice": 0.1, "last": 0.1}, ["choice", "last"])
    assert "; no candidate costs less." in tied
    assert "Dropping the last cannot be told from the choice here: 0.1" in tied


@pytest.mark.parametrize(
    ("cost", "remedy"),
    [
        (0.055, "Allow a higher cost, or give more test prompts."),
        (0.061, "Its whole interval lies above the bound, where more test prompts do not help; allow a higher cost."),
        (0.2, "Its whole interval lies above the bound, where more test prompts do not help; allow a higher cost."),
    ],
)
def test_more_prompts_are_advised_only_where_they_could_help(cost: float, remedy: str) -> None:
    text = planned({"choice": cost, "last": 0.4}, ["choice"], max_cost=0.05, fits=0)
    assert f" on 4 test prompts; no other was put to this test. {remedy} It costs" in text


def test_a_bound_that_is_a_share_of_the_loss_is_said_as_one() -> None:
    bound = {"max_cost": 0.05, "max_share": 0.02}
    fitting = planned({"choice": 0.03, "last": 0.4}, ["choice"], **bound)
    assert ": 3 of 12 blocks can go within 2% of the loss (0.05 nats), drop:0, at a cost of " in fitting
    plan = plan_of({"choice": 0.061, "last": 0.045, "block influence": 0.02}, ["choice"], fits=0, **bound)
    # what lies above the bound has an interval of its own, since the loss is not known exactly
    ends = {"over_bound": (0.01, -0.005, -0.03), "over_bound_low": (0.0, -0.01, -0.04)}
    ends["over_bound_high"] = (0.02, -0.001, 0.001)
    plan.data.update({name: ("candidate", list(values)) for name, values in ends.items()})
    assert plan.text.startswith("Not shown to stay below max_cost=2% of the loss (0.05 nats): the choice of ")
    assert "Its whole interval lies above the bound" in plan.text
    assert (
        "Below it on these test prompts, though not chosen by the calibration prompts: dropping the last" in plan.text
    )
    assert "block influence (drop:2), 0.02" not in plan.text
    plan.data["over_bound_low"] = ("candidate", [-0.001, -0.01, -0.04])
    assert "Allow a higher cost, or give more test prompts." in plan.text


def test_a_choice_like_random_ones_is_not_proved() -> None:
    """The prompts cannot tell a search from chance, so that they prove nothing of it; a bound on the cost they may."""
    text = planned({"choice": 0.1, "random": 0.12, "last": 0.4}, ["choice", "random"])
    assert text.startswith(
        "Not proved on 4 test prompts: the choice (drop:0, 3 of 12 blocks) cannot be told from random subsets there "
        "(0.12 (0.11 to 0.13); p = 1). Give more test prompts. It costs 0.1 nats per token (95% interval 0.09 to 0.11)"
    )
    assert "A random subset" not in text
    same = planned({"choice": 0.1, "random": 0.1 + 1e-17, "last": 0.4}, ["choice", "random"])
    assert "p = 1). Both cost the same on every prompt, so that more prompts like these would not tell them" in same
    assert "Give more test prompts" not in same
    assert planned({"choice": 0.1, "random": 0.4}, ["choice"]).startswith("Measured on")
    bounded = planned({"choice": 0.1, "random": 0.12}, ["choice", "random"], max_cost=0.5)
    assert bounded.startswith("Proved on 4 test prompts: 3 of 12 blocks can go within 0.5 nats")
    assert "A random subset cannot be told from the choice here" in bounded


def judged(names: Sequence[str], means: Sequence[float], spreads: Sequence[float], **attrs: object) -> Plan:
    """A plan of costs on twelve prompts with these means, judged as ``prune`` judges them."""
    noise = np.random.default_rng(0).normal(size=(len(names), 12)) * np.array(spreads)[:, None]
    cost = noise - noise.mean(1, keepdims=True) + np.array(means)[:, None]
    compared = compared_with_best(cost, Sampling(200))
    values = {
        "subset": ("candidate", [f"drop:{place}" for place in range(len(names))]),
        "calibration_cost": ("candidate", compared.mean),
        "test_cost": ("candidate", compared.mean),
        "test_cost_low": ("candidate", compared.low),
        "test_cost_high": ("candidate", compared.high),
        "p_value": ("candidate", compared.p_value),
        "indistinguishable": ("candidate", compared.indistinguishable.astype(int)),
        "p_against_choice": ("candidate", compared.p_against_first),
        "test_kl": ("candidate", compared.mean),
        "test_agreement": ("candidate", np.full(len(names), 0.9)),
        "cost": (("candidate", "prompt"), cost),
    }
    about = {"parts": "block", "n_units": 6, "n_blocks": 6, "size": 1, "level": 0.95, "how": "all", "model": "m"}
    return Plan(xr.Dataset(values, {"candidate": list(names)}, about | attrs))


def test_random_subsets_are_compared_with_the_choice_and_not_with_the_best() -> None:
    """They cost much more than another candidate, and as much as the choice: nothing of the search is proved."""
    plan = judged(("choice", "random", "greedy"), (0.29, 0.3, 0.2), (0.2, 0.02, 0.02))
    assert plan.data["test_cost"][1] > plan.data["test_cost"][0]
    assert plan.data["indistinguishable"].values.tolist() == [True, False, True]
    for each in (plan, Plan(plan.data.drop_vars("p_against_choice"))):
        assert not each.proved
        assert each.text.startswith("Not proved on 12 test prompts: the choice (drop:0, 1 of 6 blocks) cannot be told")
        assert "less than random" not in plan_headline(each)
        assert "nan" not in each.text


def test_a_candidate_that_is_better_than_the_choice_need_not_be_the_best() -> None:
    """The one that costs least is unsure, and another costs less than the choice for sure: it does not carry over."""
    plan = judged(("choice", "greedy", "last"), (0.3, 0.25, 0.2), (0.01, 0.01, 0.5))
    assert plan.data["indistinguishable"].values.all()
    assert plan.data["p_against_choice"][1] < 0.05
    for max_cost in (0.0, 0.4):
        plan.data.attrs["max_cost"] = max_cost
        assert not plan.proved
        assert plan.text.startswith("Not proved on 12 test prompts: the choice (drop:0, 1 of 6 blocks")
        assert "does not carry over, since greedy (drop:1) is better (0.25 (" in plan.text
        assert f"p = {float(plan.data['p_against_choice'][1]):.2g})" in plan.text
        assert "Dropping the last (drop:2) costs least here: 0.2 (" in plan.text
        assert plan_headline(plan).endswith("and greedy is better at +0.250")
    chance = judged(("choice", "random", "last"), (0.3, 0.25, 0.2), (0.01, 0.01, 0.5))
    assert "since a random subset (drop:1) is better" in chance.text
    assert "cannot be told from random" not in chance.text + plan_headline(chance)


def test_cheap_rules_are_compared_with_the_choice_and_not_with_the_best() -> None:
    """One that surely costs more is no tie, however unsure the candidate is that costs least."""
    plan = judged(("choice", "one-shot loss", "last", "greedy"), (0.25, 0.3, 0.251, 0.2), (0.01, 0.01, 0.01, 0.5))
    against_choice = plan.data["p_against_choice"].values
    assert plan.data["indistinguishable"].values.all()
    assert against_choice[1] < 0.05 < against_choice[2]
    assert "One-shot loss cannot be told" not in plan.text
    assert "Worse than the choice: one-shot loss (0.3)." in plan.text
    tie = re.search(r"Dropping the last cannot be told from the choice here: .*?, p = ([\d.e-]+)\.", plan.text)
    assert tie
    assert float(tie[1]) == pytest.approx(against_choice[2], rel=0.01)
    # how far candidates of older plans are from a choice that is not the best is unknown
    older = Plan(plan.data.drop_vars("p_against_choice")).text
    assert "Dropping the last cannot be told from greedy here" in older
    assert "told from the choice" not in older


def test_the_better_candidate_is_not_said_to_be_untold_from_itself() -> None:
    lost = planned({"choice": 0.4, "block influence": 0.1, "last": 0.12}, ["block influence", "last"])
    assert "since block influence (drop:1) is better" in lost
    assert "Block influence cannot be told" not in lost
    assert "Dropping the last cannot be told from block influence here: 0.12" in lost


def test_a_loss_that_falls_is_a_warning_and_no_success() -> None:
    text = planned({"choice": -0.05}, ["choice"], agreement=0.56, max_cost=0.01)
    assert text.startswith(
        "Not proved on 4 test prompts: without the choice (drop:0, 3 of 12 blocks within 0.01 nats) the loss falls; "
        "this text may be foreign to the model, or what is left out may harm it: measure on text like its training "
        "text before you decide. It costs -0.05 nats per token (95% interval -0.06 to -0.04): "
    )
    assert "44% of the top-1 predictions change" in text
    assert "can go" not in text
    unsure = planned({"choice": -0.005}, ["choice"])
    assert unsure.startswith("Measured on")
    assert "costs -0.005 nats per token (95% interval -0.015 to 0.005), which cannot be told from 0: " in unsure
    assert "better" not in unsure
    assert "cannot be told from 0" not in planned({"choice": 0.05}, ["choice"])


NAMES = ("choice", "block influence", "greedy", "last", "random")


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Plans of costs by prompt that agree, repeat each other, are skewed, are all of one cluster, or lack a loss."""
    n_candidates, n_prompts = draw(st.integers(1, len(NAMES))), draw(st.integers(2, 12))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    kinds = {
        "alike": lambda: np.full(n_prompts, draw(st.sampled_from([0.0, 0.25, -0.125]))),
        "normal": lambda: rng.normal(draw(st.sampled_from([-0.3, 0.0, 0.3])), 0.2, n_prompts),
        "skewed": lambda: rng.exponential(0.5, n_prompts) ** 3 - 0.1,
        "copied": lambda: np.repeat(rng.normal(0.2, 0.3, (n_prompts + 1) // 2), 2)[:n_prompts],
    }
    cost = np.stack([kinds[draw(st.sampled_from(sorted(kinds)))]() for _ in range(n_candidates)])
    if n_candidates > 1 and draw(st.booleans()):
        cost[1] = cost[0]
    cluster = np.zeros(n_prompts, dtype=np.int64) if draw(st.integers(0, 5)) == 0 else None
    compared = compared_with_best(cost, Sampling(60, cluster=cluster))
    max_cost = draw(st.sampled_from([0.0, 0.05, 0.4, 3.0]))
    values: dict[str, Any] = {
        "subset": ("candidate", [f"drop:{place}" for place in range(n_candidates)]),
        "calibration_cost": ("candidate", cost.mean(1)),
        "test_cost": ("candidate", compared.mean),
        "test_cost_low": ("candidate", compared.low),
        "test_cost_high": ("candidate", compared.high),
        "p_value": ("candidate", compared.p_value),
        "indistinguishable": ("candidate", compared.indistinguishable.astype(int)),
        "test_kl": ("candidate", np.abs(compared.mean)),
        "test_agreement": ("candidate", rng.uniform(size=n_candidates)),
        "cost": (("candidate", "prompt"), cost),
    }
    if draw(st.booleans()):  # older plans lack it
        values["p_against_choice"] = ("candidate", compared.p_against_first)
    names = NAMES[:n_candidates]
    if n_candidates > 1 and draw(st.booleans()):
        names = (*names[:-1], "random")
    if draw(st.booleans()):
        values["full_loss"] = ("prompt", rng.uniform(0.5, 4, n_prompts))
    attrs = {"parts": "block", "n_units": 6, "n_blocks": 6, "size": 1, "level": 0.95, "how": "all were measured"}
    attrs["one cluster"] = int(cluster is not None)
    fits = int(max_cost == 0 or compared.high[0] < max_cost)
    return Plan(
        xr.Dataset(
            values,
            {"candidate": list(names)},
            {**attrs, "model": "m", "max_cost": max_cost, "fits": fits},
        )
    )


def _is_random_dearer(data: xr.Dataset) -> bool:
    """Whether random subsets cost more than the choice, judged by these two alone, as no corrected p is smaller."""
    if "random" not in data["candidate"]:
        return False
    cost = data["cost"].sel(candidate=[data["candidate"].values[0], "random"]).values
    cluster = np.zeros(cost.shape[1], dtype=np.int64) if data.attrs["one cluster"] else None
    compared = compared_with_best(cost, Sampling(60, cluster=cluster))
    return bool(compared.mean[1] > compared.mean[0] and compared.p_value[1] < 1 - data.attrs["level"])


@pytest.mark.contract
@settings(deadline=None, max_examples=150)
@given(plan=plans())
def test_no_sentence_says_more_than_the_arrays(plan: Plan) -> None:
    data, text, headline = plan.data, plan.text, plan_headline(plan)
    cost, low, high = (float(data[f"test_cost{end}"][0]) for end in ("", "_low", "_high"))
    limit = float(data.attrs["max_cost"])
    both = f"{text} {headline}"
    # the page says of the proof what the terminal says
    assert text.startswith("Not proved ") == headline.startswith("Not proved: ")
    assert text.startswith("Not shown ") == headline.startswith("Not shown ")
    # something can go within a bound that was given, and under nothing else
    assert (" can go within " in text) == (" can go within " in headline) == (plan.proved and limit > 0)
    if not limit:
        assert "can go" not in both
        assert "Proved" not in text.replace("Not proved", "")
    elif plan.proved:
        assert high < limit
    # a choice is called worse than another where that is shown, and the loss falls where all of the interval lies below
    shown_better = ~data["indistinguishable"][0].astype(bool)
    if "p_against_choice" in data:
        told = (data["p_against_choice"] < 1 - data.attrs["level"]) & (data["test_cost"] < data["test_cost"][0])
        shown_better = shown_better | told.any()
        assert plan.proved <= (not bool(shown_better))
    assert ("is better" in both) <= bool(shown_better)
    assert ("no candidate" in text) <= (not bool(shown_better))
    # no tie with the choice where the two are told apart
    for name, p_value in re.findall(r"(\S+) cannot be told from the choice here: .*?, p = ([\d.e-]+|–)[.,]", text):
        assert p_value == "–" or float(p_value) >= 0.99 * (1 - data.attrs["level"]), name
    if "the loss rises" in both:
        assert low > 0
    if "the loss falls" in both:
        assert high < 0
    # a loss that falls does not tell whether the text or a block is the reason
    both_reasons = "may be foreign to the model, or what is left out may harm it"
    assert text.count(both_reasons) == headline.count(both_reasons) == int(plan.fits and high < 0)
    if low <= 0 <= high:
        assert "cannot be told from 0" in text
        assert "predicts this text better" not in both
    else:
        assert "cannot be told from 0" not in both
    # the base, and the difference as a share of it
    full = float(data["full_loss"].mean()) if "full_loss" in data else math.nan
    bases = re.findall(r"the loss (?:rises|falls|goes) from (\S+) to ([^\s,)]+), ([+-][\d.e+]+) ?%", both)
    assert bool(bases) == (not math.isnan(full))
    for before, after, share in bases:
        assert float(before) == pytest.approx(full, rel=1e-3)
        assert float(after) == pytest.approx(full + cost, rel=1e-3, abs=1e-3)
        assert float(share) == pytest.approx(100 * cost / full, rel=0.06, abs=0.51)
    assert f"{1 - float(data['test_agreement'][0]):.0%} of the top-1 predictions change" in text
    assert "nan" not in both
    # what is said of random subsets compares them with the choice, and not with a candidate that is better than both
    dearer = _is_random_dearer(data)
    assert ("less than random subsets" in headline) <= dearer
    if "random" in data["candidate"] and not limit:
        assert plan.proved <= dearer
    if not plan.fits:
        assert "no other was put to this test" in text
        assert "no other was put to this test" in headline
        for name, upper in zip(data["candidate"].values[1:], data["test_cost_high"].values[1:]):
            listed = re.search(r"Below it on these test prompts.*?\.", text)
            assert (upper < limit and name != "random") <= (listed is not None)
    # whoever is worse than the best, or as good, is so beside a best one that is named with what it costs
    best = data.isel(candidate=int(np.nanargmin(data["test_cost"].values)))
    if best["candidate"].item() != data["candidate"].values[0]:
        assert f"{float(best['test_cost']):.4g}" in text.partition(" Worse than the best: ")[0]
        named = {"last": "dropping the last", "random": "random subset"}.get(best["candidate"].item())
        assert (named or best["candidate"].item()) in text.partition(" Worse than the best: ")[0].lower()
    draw_plan(plan, NARROW)


UNITS = tuple(Unit(block, "block") for block in range(4))


def again(losses: np.ndarray, ids: Sequence[int], size: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Shares of all subsets of a size, which have these losses by prompt, and of the blocks."""
    pool = tuple(frozenset(units) for units in combinations(UNITS, size))
    candidates = Candidates({str(n): (subset,) for n, subset in enumerate(pool)}, "all", True, pool)
    search: Any = SimpleNamespace(units=UNITS, losses=lambda subsets: losses)
    calibration: Any = [SimpleNamespace(ids=(number,)) for number in ids]
    values = shares_again(candidates, search, calibration, Sampling(200), None, None)
    return values["chosen_again"], values["blocks_again"]


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 9), st.integers(1, 8), st.integers(1, 3), st.integers(0, 10**6), st.sampled_from([0.0, 1e-7, 0.3])
)
def test_shares_add_up_whatever_repeats(distinct: int, copies: int, size: int, seed: int, spread: float) -> None:
    """Copies of a prompt say nothing new; blocks that cost the same have the same share."""
    rng = np.random.default_rng(seed)
    subsets = math.comb(len(UNITS), size)
    losses = rng.normal(0, spread, (subsets, distinct)) + rng.normal(0, 1, distinct)
    shares, blocks = again(np.tile(losses, copies), list(range(distinct)) * copies, size)
    if distinct < 5:
        assert np.isnan(shares).all()
        assert np.isnan(blocks).all()
        return
    assert shares.sum() == pytest.approx(1)
    assert blocks.sum() == pytest.approx(size)
    np.testing.assert_allclose(shares, again(losses, list(range(distinct)), size)[0])
    if spread < 1e-6:  # what float32 rounds
        np.testing.assert_allclose(shares, 1 / subsets)
        np.testing.assert_allclose(blocks, size / len(UNITS))


def test_too_few_distinct_prompts_have_no_share_and_a_reason() -> None:
    text = planned({"choice": 0.1}, ["choice"], calibration_distinct=1)
    assert "bootstraps" not in text
    data = xr.Dataset(
        {"chosen_again": ("candidate", [np.nan]), "blocks_again": ("unit", [np.nan]), "unit": ["drop:0"]},
        attrs={"calibration_distinct": 1},
    )
    assert stability_sentences(data) == [
        "How often other calibration prompts would choose the same is unknown: 1 distinct prompt cannot tell, at least "
        "5 can."
    ]
    data["subset"] = ("candidate", ["drop:0"])
    table = again_table(data)
    assert table is not None
    assert table.cells() == [["drop:0", "–", "yes"]]


def test_a_cost_that_is_not_a_number_is_never_the_cheapest() -> None:
    assert place_of_cheapest(np.array([math.nan, 2.0, 1.0, 1.0])) == 2
    with pytest.raises(ModelError, match=r"not a number without any of the 2 subsets that were tried.*float32"):
        place_of_cheapest(np.array([math.nan, math.nan]))
