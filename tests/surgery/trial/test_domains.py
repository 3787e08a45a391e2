"""How sure a choice is, and domains of calibration: a model with a block for each domain, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import waves, zoo
from transformers import LlamaConfig, LlamaForCausalLM

import bathyscope
from bathyscope import OptionError, PromptError
from bathyscope.statistics.sampling import Sampling
from bathyscope.statistics.strata import Strata
from bathyscope.surgery.choosing import judging, pruning
from bathyscope.surgery.choosing.removable import kinds_of
from bathyscope.surgery.choosing.stability import JOINT, transfer_table
from bathyscope.surgery.plan.opening import open_plan
from bathyscope.surgery.plan.plan import Plan
from bathyscope.surgery.trial.domains import Domains, domains_of
from bathyscope.surgery.trial.ledger import Ledger

CODE, PROSE = 1, 2
Ids = list[list[int]]


def model_with_a_block_for_each() -> LlamaForCausalLM:
    """Block 0 writes what follows the token of code, block 1 what follows that of prose; nothing else is written."""
    config = LlamaConfig(
        vocab_size=8,
        hidden_size=8,
        intermediate_size=2,
        num_hidden_layers=2,
        num_attention_heads=1,
        num_key_value_heads=1,
        tie_word_embeddings=False,
        # texts are made of tokens 1 and 2, which begin and end none
        bos_token_id=None,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.ones_like(parameter) if "norm" in name else torch.zeros_like(parameter))
        # tokens that are neither stand on channels that no block reads
        model.model.embed_tokens.weight.copy_(torch.eye(8))
        for block, token in zip(model.model.layers, (CODE, PROSE)):
            block.mlp.gate_proj.weight[0, token] = 4.0
            block.mlp.up_proj.weight[0, token] = 4.0
            block.mlp.down_proj.weight[token + 5, 0] = 1.0
            model.lm_head.weight[token, token + 5] = 1.0
    return model


def texts(token: int, seed: int, count: int = 12) -> Ids:
    """Texts that are mostly one token, with a few others in between."""
    rng = np.random.default_rng([token, seed])
    return [
        [token if rng.random() < 0.95 else int(rng.integers(3, 6)) for _ in range(int(rng.integers(20, 60)))]
        for _ in range(count)
    ]


CALIBRATION = {"code": texts(CODE, 1), "prose": texts(PROSE, 1)}
TEST = {"code": texts(CODE, 2), "prose": texts(PROSE, 2)}


def pruned(calibration: Any, test: Any, model: Any = None, **options: Any) -> Plan:
    hf = model_with_a_block_for_each() if model is None else model
    arguments: dict[str, Any] = {"drop": 1, "random": 2, "resamples": 200, "progress": False, **options}
    return bathyscope.prune(hf, calibration, test, **arguments)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return pruned(CALIBRATION, TEST)


def test_domains_that_need_different_blocks_are_told(plan: Plan) -> None:
    table = plan.table.set_index("candidate")
    assert table["subset"]["choice from code"] == "drop:1"
    assert table["subset"]["choice from prose"] == "drop:0"
    transfer = plan.transfer.set_index(["chosen_on", "domain"])
    assert transfer["transfer"]["code", "code"] == transfer["transfer"]["prose", "prose"] == 0
    for chosen_on, domain in (("code", "prose"), ("prose", "code")):
        cell = transfer.loc[chosen_on, domain]
        assert cell["transfer_low"] > 0.5
        costs = plan.data["cost"].sel(candidate=[f"choice from {chosen_on}", f"choice from {domain}"]).values
        members = [str(name).startswith(f"{domain}/") for name in plan.data["prompt_id"].values]
        assert cell["transfer"] == pytest.approx((costs[0] - costs[1])[members].mean())
        assert f"The choice from {chosen_on} costs" in plan.text or f"the choice from {chosen_on} costs" in plan.text
    assert set(plan.transfer["chosen_on"]) == {"code", "prose", JOINT}


def test_a_domain_split_in_two_agrees() -> None:
    halves = {"one": texts(CODE, 3), "two": texts(CODE, 4)}
    plan = pruned(halves, {"one": texts(CODE, 5), "two": texts(CODE, 6)})
    assert plan.left_out == "drop:1"
    assert plan.chosen_again == 1
    assert (plan.transfer["transfer"] == 0).all()
    assert "No choice is shown to cost more on a domain than that domain's own choice." in plan.text
    assert "In 100% of bootstraps of the calibration prompts the same set is best." in plan.text


@pytest.mark.parametrize("joint", ["mean", "worst"])
def test_a_joint_choice_counts_domains_alike(joint: Any) -> None:
    """Of nine texts of code and three of prose; random weights, so that domains differ in what they need."""
    ids = zoo.prompts(zoo.build("llama"), (12, 9, 12, 10) * 6, 1)
    calibration, test = {"a": ids[:9], "b": ids[9:12]}, {"a": ids[12:18], "b": ids[18:]}
    plan = pruned(calibration, test, waves.loaded("llama"), joint=joint, drop=2)
    alone = {name: pruned(calibration[name], test[name], waves.loaded("llama"), drop=2) for name in "ab"}
    for name, own in alone.items():
        assert plan.table.set_index("candidate")["subset"][f"choice from {name}"] == own.left_out
    combine = np.mean if joint == "mean" else np.max
    by_domain = plan.transfer[plan.transfer["chosen_on"] == JOINT]["domain_cost"]
    assert plan.table["test_cost"][0] == pytest.approx(combine(by_domain))
    assert plan.record()["transfer"][0].keys() >= {"chosen_on", "domain", "transfer", "transfer_low"}
    # what is said next to the cost is of the same prompts
    forwards = [forwards_of(waves.loaded("llama"), schedule, test) for schedule in ("standard", plan.left_out)]
    losses = [[np.mean([loss for loss, _ in forward[name]]) for name in "ab"] for forward in forwards]
    changed = [
        np.mean([np.mean(full[1] != left[1]) for full, left in zip(forwards[0][name], forwards[1][name])])
        for name in "ab"
    ]
    worst = int(np.subtract(*losses[::-1]).argmax())
    expected = [np.mean(row) if joint == "mean" else row[worst] for row in (*losses, changed)]
    assert (plan.price.before, plan.price.after, plan.price.changed) == pytest.approx(expected, abs=1e-5)
    where = "as the mean over domains" if joint == "mean" else f"on {'ab'[worst]}, the worst domain"
    assert f"nats per token {where} (" in plan.text


def forwards_of(model: Any, schedule: str, prompts: Mapping[str, Ids]) -> dict[str, list[tuple[float, Any]]]:
    """The loss of every prompt under a schedule, and its most likely tokens, by domain."""
    result: dict[str, list[tuple[float, Any]]] = {name: [] for name in prompts}
    with bathyscope.scheduled(model, schedule) as hf, torch.no_grad():
        for name, ids in prompts.items():
            for prompt in ids:
                logits = hf(input_ids=torch.tensor([prompt])).logits[0, :-1].double()
                loss = torch.nn.functional.cross_entropy(logits, torch.tensor(prompt[1:]))
                result[name].append((float(loss), logits.argmax(-1).numpy()))
    return result


def test_shares_are_those_of_bootstraps_of_the_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is run for them."""
    ids = zoo.prompts(zoo.build("llama"), (12, 9, 12, 10) * 6, 1)
    taken: dict[str, Any] = {}
    calls: list[object] = []
    shares_again, compute = judging.shares_again, Ledger._compute

    def counted(self: Ledger, *arguments: Any) -> Any:
        calls.append(arguments)
        return compute(self, *arguments)

    def watched(candidates: Any, search: Any, *arguments: Any) -> Any:
        before = len(calls)
        shares = shares_again(candidates, search, *arguments)
        taken.update(run=len(calls) - before, pool=candidates.pool, losses=search.losses(candidates.pool))
        return shares

    monkeypatch.setattr(Ledger, "_compute", counted)
    monkeypatch.setattr(judging, "shares_again", watched)
    plan = pruned(ids[:12], ids[12:], waves.loaded("llama"), drop=2)
    assert taken["run"] == 0
    assert calls
    rng = np.random.default_rng(7)
    winners = [taken["pool"][int(taken["losses"][:, rng.integers(12, size=12)].mean(1).argmin())] for _ in range(4000)]
    choice = {f"drop:{unit.block}" for unit in next(s for s in taken["pool"] if _text(s) == plan.left_out)}
    assert choice == set(plan.left_out.split(","))
    again = np.mean([_text(winner) == plan.left_out for winner in winners])
    # 200 resamples of the plan: three standard errors of a share
    assert plan.chosen_again == pytest.approx(float(again), abs=3 * 0.5 / 200**0.5)
    for unit, share, left_out in plan.blocks_again.itertuples(index=False):
        expected = np.mean([unit in _text(winner).split(",") for winner in winners])
        assert share == pytest.approx(float(expected), abs=3 * 0.5 / 200**0.5)
        assert left_out == (unit in choice)
    assert plan.blocks_again["chosen_again"].sum() == pytest.approx(2)


def _text(subset: frozenset[Any]) -> str:
    return ",".join(str(unit) for unit in sorted(subset))


def test_domains_cost_a_candidate_each_and_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all subsets are measured, calibration takes the calls of the same prompts without domains."""
    ids = zoo.prompts(zoo.build("llama"), (12, 9, 12, 10) * 6, 1)
    histories: dict[str, set[Any]] = {}
    compute = Ledger._compute

    def noted(self: Ledger, role: Any, asked: Any, *arguments: Any) -> Any:
        histories.setdefault(role, set()).update(asked)
        return compute(self, role, asked, *arguments)

    monkeypatch.setattr(Ledger, "_compute", noted)
    by_domain = pruned({"a": ids[:6], "b": ids[6:12]}, {"a": ids[12:18], "b": ids[18:]}, waves.loaded("llama"), drop=2)
    with_domains, histories = histories, {}
    union = pruned(ids[:12], ids[12:], waves.loaded("llama"), drop=2)
    assert by_domain.data.attrs["calibration_calls"] == union.data.attrs["calibration_calls"]
    assert with_domains["calibration"] == histories["calibration"]
    further = len(with_domains["test"] - histories["test"])
    subsets = by_domain.table.set_index("candidate")["subset"]
    own = {subsets["choice from a"], subsets["choice from b"]} - set(union.table["subset"])
    assert further <= len(own) + 1  # the joint choice may be another one than that of all prompts


def test_a_stored_plan_says_the_same(tmp_path: Path) -> None:
    plan = pruned(CALIBRATION, TEST, out=tmp_path / "plan")
    stored = open_plan(tmp_path / "plan")
    assert stored.text == plan.text
    assert stored.transfer.equals(plan.transfer)
    with pytest.raises(bathyscope.StoreError):
        pruned(CALIBRATION, TEST, out=tmp_path / "plan", joint="worst")


def test_a_plan_of_an_earlier_version_has_no_shares(plan: Plan) -> None:
    earlier = Plan(plan.data.drop_vars([name for name in plan.data if "again" in str(name) or "transfer" in str(name)]))
    assert np.isnan(earlier.chosen_again)
    assert earlier.blocks_again.empty
    assert "bootstraps" not in earlier.text
    with pytest.raises(OptionError, match=r"This plan has no domains; name several"):
        _ = earlier.transfer
    assert "chosen_again" not in earlier.table


def without(domain: str, source: Mapping[str, Ids]) -> dict[str, Ids]:
    return {name: ids for name, ids in source.items() if name != domain}


@pytest.mark.parametrize(
    ("calibration", "test", "options", "error", "message"),
    [
        (CALIBRATION, TEST["code"], {}, OptionError, r"test prompts no domains. Every domain chooses and judges"),
        (CALIBRATION["code"], TEST, {}, OptionError, r"Calibration prompts have no domains and test prompts the dom"),
        (
            CALIBRATION,
            without("code", TEST),
            {},
            OptionError,
            r"the domains code, prose and test prompts the domains p",
        ),
        (without("code", CALIBRATION), without("code", TEST), {}, OptionError, r"Only one domain, 'prose'; give two"),
        (CALIBRATION["code"], TEST["code"], {"joint": "worst"}, OptionError, r"joint='worst' is for several domains"),
        ({**CALIBRATION, "": []}, {**TEST, "": []}, {}, OptionError, r"'' names no domain"),
        (
            {**CALIBRATION, "code": texts(CODE, 1, 1)},
            TEST,
            {},
            PromptError,
            r"Domain 'code' has 1 calibration prompt; at",
        ),
        (
            CALIBRATION,
            {**TEST, "code": texts(CODE, 2, 1)},
            {},
            PromptError,
            r"Domain 'code' has 1 test prompt; at least",
        ),
        (
            {**CALIBRATION, "prose": CALIBRATION["code"]},
            TEST,
            {},
            PromptError,
            r"is in domain 'code' too, by its tokens",
        ),
        (CALIBRATION, {**TEST, "prose": CALIBRATION["code"]}, {}, PromptError, r"test prompts stand among the calibra"),
        (CALIBRATION, {**TEST, "prose": texts(PROSE, 2, 1) * 2}, {}, PromptError, r"Domain 'prose' has 1 test prompts"),
    ],
)
def test_what_cannot_choose_or_judge_is_refused_before_any_compute(
    calibration: Any,
    test: Any,
    options: dict[str, Any],
    error: type[Exception],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pruning, "choose", None)
    with pytest.raises(error, match=message):
        pruned(calibration, test, **options)


def coverage_of_transfer(draws: int, prompts: int, resamples: int) -> float:
    """Share of transfer tables all of whose intervals hold the truth, of skewed costs that go with each other."""
    rng = np.random.default_rng(0)
    domains, strata = Domains(("a", "b", "c")), Strata(np.repeat([0, 1, 2], prompts))
    candidates = ("choice", *(f"choice from {name}" for name in "abc"))
    means = rng.normal(size=(4, 3))
    holds = []
    for seed in range(draws):
        common = rng.exponential(size=3 * prompts)
        costs = {
            name: np.repeat(means[row], prompts) + common + rng.exponential(size=3 * prompts)
            for row, name in enumerate(candidates)
        }
        table = transfer_table(domains, costs, strata, Sampling(resamples, seed=seed))
        truth = np.stack([[means[row][j] - means[j + 1][j] for j in range(3)] for row in (1, 2, 3, 0)])
        holds.append(bool(((table.excess_low <= truth + 1e-9) & (truth - 1e-9 <= table.excess_high)).all()))
    return float(np.mean(holds))


@pytest.mark.thorough
@pytest.mark.parametrize("prompts", [10, 40])
def test_intervals_of_a_transfer_table_hold_together(prompts: int) -> None:
    assert coverage_of_transfer(400, prompts, 1000) >= 0.93


def test_intervals_of_a_few_transfer_tables_hold_together() -> None:
    # 60 tables of 95 % fall below 51 in one case of a thousand
    assert coverage_of_transfer(60, 20, 500) >= 0.85


def test_a_part_or_a_domain_that_is_none_is_refused_as_any_other_that_is_unknown() -> None:
    with pytest.raises(OptionError, match=r"^parts: None is unknown\."):
        kinds_of([None])  # type: ignore[list-item]
    named = {None: [[1, 2]], "prose": [[2, 1]]}
    with pytest.raises(OptionError, match=r"^None names no domain"):
        domains_of(named, named, None)


def test_calibration_prompts_cannot_be_none() -> None:
    with pytest.raises(OptionError, match=r"^calibration=None: give the prompts that"):
        bathyscope.prune("no/such/model", None, [[1, 2]], drop=1)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"^calibration=None: give the prompts that"):
        bathyscope.repair("no/such/model", "drop:1", calibration=None, test=[[1, 2]])  # type: ignore[arg-type]
