"""Choosing what can go, on a small trained model: against all subsets one by one, its proof, and what is refused."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import naive, waves, zoo
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

import bathyscope
from bathyscope import Model, ModelError, OptionError, PromptError, StoreError
from bathyscope.errors import PruningError
from bathyscope.runs import folder as folder_module
from bathyscope.statistics.best import compared_with_best
from bathyscope.statistics.bootstrap import mean_intervals
from bathyscope.statistics.sampling import Sampling
from bathyscope.surgery.benchmarks.result import Evaluation
from bathyscope.surgery.choosing.repeats import RepeatScan
from bathyscope.surgery.exits.result import ExitAdvice
from bathyscope.surgery.plan.opening import open_plan
from bathyscope.surgery.plan.plan import Plan
from bathyscope.surgery.repairing.repaired import Repaired
from bathyscope.surgery.scheduled.timing import measure_speeds
from bathyscope.surgery.trial import ledger as ledger_module
from bathyscope.surgery.trial.ledger import Ledger, Role
from bathyscope.wavefront.histories import History

LENGTHS = (12, 9, 12, 10)


@pytest.fixture(scope="module")
def model() -> Model:
    return waves.loaded("llama")


def prompts(seed: int) -> list[list[int]]:
    return zoo.prompts(zoo.build("llama"), LENGTHS * 3, seed)


CALIBRATION, TEST = prompts(1), prompts(2)


@pytest.fixture(scope="module")
def plan(model: Model) -> Plan:
    """Two of five blocks left out."""
    return pruned(model, drop=2)


def pruned(model: Model | LlamaForCausalLM, **options: object) -> Plan:
    return bathyscope.prune(model, CALIBRATION, TEST, **{"random": 3, "progress": False, **options})  # type: ignore[arg-type]


def one_by_one(given: Sequence[list[int]], dropped: Sequence[int]) -> np.ndarray:
    """Costs of prompts by one forward each of the real model."""
    hf = zoo.build("llama")
    blocks = naive.blocks_of(hf)
    order = [block for block in range(len(blocks)) if block not in dropped]
    found = []
    for ids in given:
        changed, _ = naive.run_schedule(hf, blocks, ids, order)
        found.append(float(naive.loss(changed, ids).mean() - naive.loss(naive.logits(hf, ids), ids).mean()))
    return np.array(found)


def test_the_choice_is_the_cheapest_of_all_subsets(model: Model, plan: Plan) -> None:
    every = {own: one_by_one(CALIBRATION, own).mean() for own in combinations(range(model.n_blocks), 2)}
    cheapest = min(every, key=lambda own: every[own])
    assert plan.left_out == ",".join(f"drop:{block}" for block in cheapest)
    assert plan.schedule == bathyscope.Schedule.parse(plan.left_out, model.n_blocks)
    table = plan.table.set_index("candidate")
    assert table["calibration_cost"]["choice"] == pytest.approx(every[cheapest], abs=1e-5)
    np.testing.assert_allclose(plan.data["cost"].values[0], one_by_one(TEST, cheapest), atol=1e-5)
    last = one_by_one(TEST, (model.n_blocks - 2, model.n_blocks - 1)).mean()
    assert table["test_cost"]["last"] == pytest.approx(last, abs=1e-5)
    assert table["calibration_cost"].min() == table["calibration_cost"]["choice"]
    assert list(table.index) == [
        *("choice", "block influence", "angular distance", "one-shot loss", "greedy"),
        *("pair surrogate", "last", "random"),
    ]


def test_random_subsets_are_told_one_by_one(model: Model) -> None:
    """Their mean is carried by the few that hold an expensive block."""
    plan = pruned(model, drop=2, random=4)
    rng = np.random.default_rng([0, 2])
    drawn = {frozenset(rng.choice(model.n_blocks, 2, replace=False).tolist()) for _ in range(4)}
    costs = np.array([one_by_one(TEST, sorted(subset)).mean() for subset in drawn])
    choice = one_by_one(TEST, sorted(set(range(model.n_blocks)) - set(plan.schedule))).mean()
    random = plan.table.set_index("candidate").loc["random"]
    assert random["subsets"] == len(drawn)
    assert random["subset_median"] == pytest.approx(np.median(costs), abs=1e-5)
    assert random["subset_min"] == pytest.approx(costs.min(), abs=1e-5)
    assert random["subset_max"] == pytest.approx(costs.max(), abs=1e-5)
    # the choice may be one of them, which is not cheaper than itself
    cheaper = int((costs < choice - 1e-6).sum())
    assert random["subsets_cheaper"] == cheaper
    sentence = f"(rank {cheaper + 1} of {len(drawn) + 1})"
    assert sentence in plan.text
    assert plan.tables()[0].caption[0].endswith(f"{sentence}.")
    assert sentence in plan.evidence
    alone = plan.table.set_index("candidate").loc["last"]
    assert alone["subset_median"] == alone["subset_max"] == pytest.approx(alone["test_cost"])


def test_baselines_are_what_their_papers_say(model: Model, plan: Plan) -> None:
    hf = zoo.build("llama")
    streams = [naive.boundaries(hf, naive.blocks_of(hf), ids).double() for ids in CALIBRATION]
    cosine = torch.nn.functional.cosine_similarity
    by_token = torch.cat([cosine(s[1:], s[:-1], dim=-1) for s in streams], dim=1)
    wanted = sorted((1 - by_token.mean(1)).argsort()[:2].tolist())
    angles = [
        sum(float(cosine(s[a, -1], s[a + 2, -1], dim=0).arccos()) for s in streams) for a in range(len(by_token) - 1)
    ]
    start = int(np.argmin(angles))
    singles = np.array([one_by_one(CALIBRATION, [block]).mean() for block in range(model.n_blocks)])
    first = int(singles.argmin())
    second = {b: one_by_one(CALIBRATION, [first, b]).mean() for b in range(model.n_blocks) if b != first}
    greedy = sorted([first, min(second, key=lambda block: second[block])])
    subsets = plan.table.set_index("candidate")["subset"]
    assert subsets["block influence"] == named(wanted)
    assert subsets["angular distance"] == named([start, start + 1])
    assert subsets["one-shot loss"] == named(sorted(singles.argsort()[:2].tolist()))
    assert subsets["greedy"] == named(greedy)
    assert subsets["last"] == named([model.n_blocks - 2, model.n_blocks - 1])


def named(blocks: Sequence[int]) -> str:
    return ",".join(f"drop:{block}" for block in blocks)


def test_beyond_the_budget_pairs_lead_the_search(model: Model) -> None:
    torch.manual_seed(0)
    config = replace_blocks(zoo.build("llama").config, 8)
    deeper = bathyscope.load(LlamaForCausalLM(config).eval())
    exact = pruned(deeper, drop=4)
    assert exact.data.attrs["exhaustive"] == 1
    plan = pruned(deeper, drop=4, budget=92, measured=6)
    assert plan.data.attrs["exhaustive"] == 0
    assert "chosen by the costs of pairs" in plan.text
    behind = plan.table["calibration_cost"][0] - exact.table["calibration_cost"][0]
    # costs come from batches of other sizes: no better but by rounding
    assert -1e-6 <= behind <= 0.01
    assert "the costs of single ones" in pruned(deeper, drop=4, budget=91, measured=6).text


def test_candidates_share_their_common_beginnings(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that is known to be looked at runs in one tree: exchanges alone depend on what was found there."""
    trees: list[tuple[str, str]] = []
    compute = Ledger._compute

    def noted(ledger: Ledger, role: Role, histories: Sequence[History], metrics: Any, title: str) -> Any:
        trees.append((role, title))
        return compute(ledger, role, histories, metrics, title)

    monkeypatch.setattr(Ledger, "_compute", noted)
    plan = pruned(model, drop=2, budget=0, measured=3)
    assert plan.data.attrs["exhaustive"] == 0
    assert [role for role, _ in trees].count("test") == 1
    titles = [title for role, title in trees if role == "calibration" and "exchanges" not in title]
    assert len(titles) == 2, titles
    assert titles[0] == f"measuring {model.n_blocks} alone"


def replace_blocks(config: LlamaConfig, blocks: int) -> LlamaConfig:
    return LlamaConfig.from_dict({**config.to_dict(), "num_hidden_layers": blocks, "initializer_range": 0.2})


def test_parts_can_go_alone(model: Model) -> None:
    plan = pruned(model, drop=1, parts=("attention", "mlp"))
    hf = zoo.build("llama")
    blocks = naive.blocks_of(hf)
    costs = {}
    for part in ("attention", "mlp"):
        for block in range(model.n_blocks):
            gaps = []
            for ids in CALIBRATION:
                with naive.skipping(hf, blocks, block, range(len(ids)), part):
                    changed = naive.logits(hf, ids)
                gaps.append(float((naive.loss(changed, ids) - naive.loss(naive.logits(hf, ids), ids)).mean()))
            costs[f"{part}:{block}"] = np.mean(gaps)
    assert plan.left_out == min(costs, key=lambda name: costs[name])
    assert plan.table["calibration_cost"][0] == pytest.approx(min(costs.values()), abs=1e-5)
    with pytest.raises(OptionError, match=r"leaves out parts of blocks .* which no schedule can say"):
        _ = plan.schedule
    assert plan.record()["parts_left_out"] == [plan.left_out]
    assert "schedule" not in plan.record()


def test_a_plan_of_parts_is_exported_with_weights_that_write_nothing(model: Model, tmp_path: Path) -> None:
    plan = pruned(model, drop=2, parts=("attention", "mlp"))
    plan.export(tmp_path / "out")
    hf, ids = zoo.build("llama"), torch.tensor(TEST[:1])
    copy = LlamaForCausalLM.from_pretrained(tmp_path / "out").eval()
    blocks = naive.blocks_of(hf)
    with ExitStack() as stack, torch.no_grad():
        for unit in plan.left_out.split(","):
            part, _, block = unit.partition(":")
            stack.enter_context(naive.skipping(hf, blocks, int(block), range(len(TEST[0])), part))
        wanted = naive.logits(hf, TEST[0])
    with torch.no_grad():
        torch.testing.assert_close(copy(ids, use_cache=False).logits[0], wanted, atol=1e-5, rtol=1e-5)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "save those listed as changed" in card
    assert f"parts that add nothing: {plan.left_out}" in card


def test_parts_that_no_checkpoint_can_leave_out_are_named_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger_module, "tree_costs", None)
    ids = zoo.prompts(zoo.build("mixtral"), (9, 8), 1), zoo.prompts(zoo.build("mixtral"), (9, 8), 2)
    with (
        pytest.warns(
            UserWarning,
            match=r"prune: the choice can be measured, but not exported. mixtral: mlp:0 cannot be written as a",
        ),
        pytest.raises(TypeError),
    ):
        bathyscope.prune(waves.loaded("mixtral"), *ids, drop=1, parts=("mlp",), random=1, progress=False)


def test_one_block_has_to_keep_its_only_attention(model: Model) -> None:
    hf = LlamaForCausalLM(replace_blocks(model.hf.config, 1)).eval()  # type: ignore[arg-type]
    for much in ({"drop": "25%"}, {"max_cost": 5.0}):
        with pytest.raises(ModelError, match="No attention of this model can be left out: it has one, and one has to"):
            bathyscope.prune(hf, CALIBRATION, TEST, parts=("attention",), progress=False, **much)  # type: ignore[arg-type]


def test_max_cost_takes_as_many_as_its_bound_allows(model: Model) -> None:
    uppers = [pruned(model, drop=size).table["test_cost_high"][0] for size in range(1, model.n_blocks)]
    bound = max(uppers[:2]) + 1e-6
    plan = pruned(model, max_cost=bound)
    fitting = next((size for size, upper in enumerate(uppers) if upper >= bound), len(uppers))
    assert plan.data.attrs["size"] == fitting >= 2
    assert f"{fitting} of 5 blocks can go within {bound:g} nats, {plan.left_out}" in plan.text


def few_carry(monkeypatch: pytest.MonkeyPatch, calibration: int = 1, test: int = 1) -> None:
    """Let so many prompts of a role make up all that anything costs, as answers do that few of them need it for."""
    expensive = {"calibration": calibration, "test": test}
    values = Ledger.values

    def carried(ledger: Ledger, role: Role, *options: Any, **more: Any) -> Any:
        costs = values(ledger, role, *options, **more)
        share = np.where(np.arange(costs["loss"].shape[1]) < expensive[role], 4.0, 0.01)
        return {**costs, "loss": np.abs(costs["loss"]) * share}

    monkeypatch.setattr(Ledger, "values", carried)


def test_a_cost_that_few_prompts_carry_proves_no_bound(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    few_carry(monkeypatch)
    plan = pruned(model, drop=1)
    assert plan.data.attrs["few_carry"] == 1
    assert np.isnan(plan.table[["test_cost_low", "test_cost_high"]].iloc[0]).all()
    assert "(without an interval: few prompts carry it, and 40 test prompts or clusters would bound it)" in plan.text
    [plain] = mean_intervals(plan.data["cost"].values[:1].T, Sampling())
    with pytest.raises(PruningError, match=r"costs .* nats \(without an interval: few prompts carry it, and 40 "):
        pruned(model, max_cost=2 * plain.high)


def test_a_share_of_the_loss_that_few_prompts_carry_proves_no_bound(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_carry(monkeypatch)
    plan = fitting_or_refused(model, "500%")
    choice = plan.data.isel(candidate=0)
    assert float(choice["over_bound"]) < 0
    assert np.isnan(choice[["over_bound_low", "over_bound_high"]].to_array()).all()
    assert not plan.fits


def test_calibration_prompts_tell_that_few_carry_a_cost(
    model: Model, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no test prompt is one of the few."""
    assert "few_carry" not in plan.data.attrs
    few_carry(monkeypatch, test=0)
    cheap = pruned(model, drop=1)
    assert cheap.data.attrs["few_carry"] == 1
    assert np.isnan(cheap.table["test_cost_high"].iloc[0])


def test_three_test_prompts_bound_no_cost(model: Model) -> None:
    plan = bathyscope.prune(model, CALIBRATION, TEST[:3], drop=1, random=1, progress=False)
    assert "(without an interval: that of a cost needs 4 test prompts or clusters)" in plan.text
    assert np.isnan(plan.table["test_cost_high"].iloc[0])
    four = bathyscope.prune(model, CALIBRATION, TEST[:4], drop=1, random=1, progress=False)
    assert "(95% interval " in four.text


def test_forty_test_prompts_bound_what_few_of_them_carry(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    few_carry(monkeypatch, test=2)
    test = zoo.prompts(zoo.build("llama"), LENGTHS * 10, 3)
    plan = bathyscope.prune(model, CALIBRATION, test, drop=1, random=1, progress=False)
    [plain] = mean_intervals(plan.data["cost"].values[:1].T, Sampling(seed=int(plan.data.attrs["seed"])))
    low, high = plan.table[["test_cost_low", "test_cost_high"]].iloc[0]
    assert low < plain.low < plain.high < high
    assert plan.data.attrs["few_carry"] == 1
    assert "without an interval" not in plan.text


def test_max_cost_may_be_a_share_of_the_loss_which_is_resampled_with_the_costs(model: Model) -> None:
    hf = zoo.build("llama")
    full_P = np.array([float(naive.loss(naive.logits(hf, ids), ids).mean()) for ids in TEST])
    choices = [[int(part.removeprefix("drop:")) for part in pruned(model, drop=n).left_out.split(",")] for n in (1, 2)]
    costs = [one_by_one(TEST, choice) for choice in choices]

    def upper(cost_P: np.ndarray, share: float) -> float:
        return float(compared_with_best([cost_P - share * full_P]).high[0])

    # at a share between these two, the same bound in nats decides otherwise, as if the loss were known exactly
    paired = next(share for share in np.arange(-0.02, 0.5, 1e-4) if upper(costs[0], share) < 0)
    fixed = upper(costs[0], 0.0) / full_P.mean()
    assert abs(paired - fixed) > 3e-4
    for share in ((paired + fixed) / 2, paired + 2e-4, max(paired, fixed) + 0.02):
        assert share > 0
        fitting = next((n for n, cost_P in enumerate(costs) if not upper(cost_P, share) < 0), len(costs))
        text = f"{100 * share:.6f}%"
        plan = fitting_or_refused(model, text)
        assert min(int(plan.data.attrs["size"]) * plan.fits, len(costs)) == fitting
        assert plan.data.attrs["max_cost"] == pytest.approx(share * full_P.mean(), rel=1e-4)
        first = plan.data.isel(candidate=0)
        mean = float(first["cost"].mean()) - share * full_P.mean()
        assert float(first["over_bound"]) == pytest.approx(mean, abs=1e-5)
        assert (float(first["over_bound_high"]) < 0) == plan.fits
        assert f"{float(text[:-1]):g}% of the loss ({share * full_P.mean():.4g} nats)" in plan.text
        assert plan.record()["settings"]["max_share"] == pytest.approx(share, rel=1e-4)


def fitting_or_refused(model: Model, max_cost: str) -> Plan:
    """The plan of a bound, also where nothing stays within it."""
    try:
        return pruned(model, max_cost=max_cost)
    except PruningError as error:
        plan: Any = error.plan
        return plan


def test_a_bound_that_was_typed_is_the_same_plan(model: Model, tmp_path: Path) -> None:
    plan = pruned(model, max_cost=5.0, out=tmp_path / "plan")
    assert pruned(model, max_cost="5", out=tmp_path / "plan").text == plan.text
    with pytest.raises(StoreError, match=r"max_cost: pruning has 5\.0, asked for '?5%"):
        pruned(model, max_cost="5%", out=tmp_path / "plan")


def test_the_choice_is_exported_with_what_was_found(model: Model, plan: Plan, tmp_path: Path) -> None:
    plan.export(tmp_path / "smaller")
    config = json.loads((tmp_path / "smaller" / "config.json").read_text())
    assert config["num_hidden_layers"] == model.n_blocks - 2
    card = (tmp_path / "smaller" / "README.md").read_text()
    assert plan.text in card
    tokens = sum(map(len, CALIBRATION))
    assert f"Chosen on 12 prompts, {tokens} tokens (given). Judged on 12 prompts, " in card
    assert f"| block influence | {plan.table['subset'][1]} |" in card


def test_the_choice_does_not_know_the_test_prompts(model: Model, plan: Plan) -> None:
    other = bathyscope.prune(model, CALIBRATION, prompts(7), drop=2, random=3)
    names = ["candidate", "subset", "calibration_cost"]
    assert plan.table[names].equals(other.table[names])
    assert not np.isclose(plan.table["test_cost"], other.table["test_cost"]).any()


def test_costs_are_never_written_beside_other_weights(tmp_path: Path) -> None:
    hf = zoo.entry("llama").build()
    hf.save_pretrained(tmp_path / "model")
    in_memory = pruned(hf, drop=1)
    bathyscope.prune(tmp_path / "model", CALIBRATION, TEST, drop=1, random=1, out=tmp_path / "plan", progress=False)
    assert "test prompts" in (open_plan(tmp_path / "plan").export(tmp_path / "same") / "README.md").read_text()
    with torch.no_grad():
        hf.model.layers[0].mlp.down_proj.weight *= 2
    hf.save_pretrained(tmp_path / "model")
    for plan in (in_memory, open_plan(tmp_path / "plan")):
        with pytest.raises(ModelError, match=r"has other weights now than when drop:\d was chosen"):
            plan.export(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_plan_finds_its_model_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zoo.entry("llama").build().save_pretrained(tmp_path / "here" / "model")
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    bathyscope.prune("model", CALIBRATION, TEST, drop=1, random=1, out=tmp_path / "plan", progress=False)
    monkeypatch.chdir(tmp_path / "there")
    out = open_plan(tmp_path / "plan").export("smaller")
    assert (tmp_path / "there" / "smaller" / "model.safetensors").is_file()
    card = (out / "README.md").read_text()
    assert 'base_model: "model"' in card
    assert str(tmp_path) not in card


def test_where_no_block_can_go_it_says_so_and_holds_the_numbers(model: Model, tmp_path: Path) -> None:
    """In the error, and in the folder, which is finished: the same call says the same and computes nothing."""
    for _ in range(2):
        with pytest.raises(
            PruningError,
            match=r"^Not shown to stay below max_cost=1e-09: the choice of the calibration prompts, drop:\d, costs .* "
            r"nats \(95% interval .*\) on \d+ test prompts; no other was put to this test\. .*[aA]llow a higher cost",
        ) as caught:
            pruned(model, max_cost=1e-9, out=tmp_path / "plan")
    assert PruningError.exit_code == 6
    singles = [one_by_one(CALIBRATION, [block]).mean() for block in range(model.n_blocks)]
    for plan in (caught.value.plan, open_plan(tmp_path / "plan")):
        assert isinstance(plan, Plan)
        assert plan.left_out == f"drop:{int(np.argmin(singles))}"
        assert (plan.fits, plan.proved, plan.schedule.is_standard) == (False, False, True)
        assert plan.text.startswith("Not shown to stay below max_cost=1e-09: ")
        assert plan.record()["schedule"] == "standard"
        assert plan.table["test_cost"][0] == pytest.approx(one_by_one(TEST, [int(np.argmin(singles))]).mean(), abs=1e-5)
        with pytest.raises(PruningError, match="Not shown to stay below"):
            plan.export(tmp_path / "out")
        with pytest.raises(PruningError, match="Not shown to stay below"):
            bathyscope.repair(model, plan, CALIBRATION, test=TEST)
    assert not (tmp_path / "out").exists()


def test_the_record_has_one_head_and_a_table_of_each_kind(model: Model, plan: Plan) -> None:
    record = plan.record()
    assert list(record) == [
        *("kind", "conclusion", "proved", "model", "data", "schedule", "settings", "bathyscope"),
        *("before_after", "speed", "candidates", "chosen_again", "blocks_again"),
    ]
    assert record["schedule"] == str(plan.schedule) == plan.left_out
    assert bathyscope.Schedule.parse(record["schedule"], model.n_blocks) == plan.schedule
    assert record["model"]["weight_hash"] == model.weight_hash
    assert record["data"]["test"]["prompts"] == len(TEST)
    assert record["data"]["calibration"]["tokens"] == sum(map(len, CALIBRATION))
    assert {len(entry["hash"]) for entry in record["data"].values()} == {64}
    json.dumps(record, allow_nan=False)


def test_every_result_of_acting_can_be_printed_alike() -> None:
    for kind in (Plan, Repaired, RepeatScan, ExitAdvice, Evaluation):
        assert all(hasattr(kind, name) for name in ("text", "to_dataframe", "record")), kind


def test_before_and_after_are_those_of_the_model(model: Model, plan: Plan) -> None:
    hf, rows = zoo.build("llama"), plan.before_after.set_index("quantity")
    full = np.mean([float(naive.loss(naive.logits(hf, ids), ids).mean()) for ids in TEST])
    dropped = [block for block in range(model.n_blocks) if block not in plan.schedule]
    assert rows["before"]["loss (nats per token)"] == pytest.approx(full, abs=1e-5)
    assert rows["after"]["loss (nats per token)"] == pytest.approx(full + one_by_one(TEST, dropped).mean(), abs=1e-5)
    gone = sum(value.numel() for block in dropped for value in hf.model.layers[block].parameters())
    assert rows["before"]["parameters"] - rows["after"]["parameters"] == gone > 0
    assert rows["after"]["blocks"] == model.n_blocks - 2
    assert rows["before"]["tokens per second"] > 0


def test_tables_by_block_shrink_with_the_blocks(tmp_path: Path) -> None:
    """Gemma 4's embeddings by block, of which a checkpoint of fewer blocks holds fewer."""
    plan = bathyscope.prune(
        zoo.build("gemma4"), CALIBRATION[:2], TEST[:2], drop=1, random=1, resamples=100, progress=False
    )
    exported = AutoModelForCausalLM.from_pretrained(plan.export(tmp_path / "lesser"))
    after = plan.before_after.set_index("quantity")["after"]["parameters"]
    assert after == sum(value.numel() for value in exported.parameters())


def test_parts_are_chosen_where_blocks_take_the_keys_of_others() -> None:
    plan = bathyscope.prune(
        zoo.build("gemma4"),
        CALIBRATION[:2],
        TEST[:2],
        drop=1,
        parts=["attention"],
        random=1,
        resamples=100,
        progress=False,
    )
    assert plan.left_out.startswith("attention:")


def test_speeds_are_tokens_over_seconds_of_forwards_in_turn(model: Model) -> None:
    ticks = iter([0.0, 2.0, 0.0, 1.0, 0.0, 3.0, 0.0, 1.0, *([0.0, 2.0, 0.0, 1.0] * 3)])
    speeds = measure_speeds(model, bathyscope.Schedule.standard(5).drop(1), TEST[0], clock=lambda: next(ticks))
    assert (speeds.before, speeds.after) == (len(TEST[0]) / 2, len(TEST[0]))
    assert (speeds.ratio, speeds.ratio_min, speeds.ratio_max) == (2, 2, 3)


@pytest.mark.parametrize("file", ["plan.nc", "prune.json"])
def test_a_full_disk_at_the_last_write_is_a_sentence(
    file: str, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = folder_module.write_atomically

    def full(path: Path, content: bytes, inside: Path | None = None) -> None:
        if path.name == file and (file == "plan.nc" or path.exists()):
            raise OSError(errno.ENOSPC, "No space left on device")
        plain(path, content, inside)

    monkeypatch.setattr(folder_module, "write_atomically", full)
    with pytest.raises(
        StoreError, match=rf"{file}' of the pruning cannot be written \(No space left on device\). Free"
    ):
        pruned(model, drop=1, out=tmp_path / "plan")


def test_an_interrupted_search_goes_on_to_the_same_bits(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pruned(model, drop=2, out=tmp_path / "whole")
    plain, made = ledger_module.tree_costs, []

    def ending(*args: object, **options: object) -> object:
        if len(made) == 3:
            raise KeyboardInterrupt
        made.append(1)
        return plain(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ledger_module, "tree_costs", ending)
    with pytest.raises(KeyboardInterrupt):
        pruned(model, drop=2, out=tmp_path / "part")
    with pytest.raises(StoreError, match=r"is not finished\. Give the same command again"):
        open_plan(tmp_path / "part")
    made.clear()
    monkeypatch.setattr(ledger_module, "tree_costs", lambda *a, **o: (made.append(1), plain(*a, **o))[1])
    resumed = pruned(model, drop=2, out=tmp_path / "part")
    pieces = len(list((tmp_path / "whole").rglob("costs/*/*.nc")))
    assert len(made) == pieces - 3
    assert resumed.data.identical(whole.data)
    for file in (tmp_path / "whole").rglob("*.nc"):
        assert (tmp_path / "part" / file.relative_to(tmp_path / "whole")).read_bytes() == file.read_bytes()
    made.clear()
    again = pruned(model, drop=2, out=tmp_path / "part")
    assert not made
    assert again.data.identical(whole.data)
    assert open_plan(tmp_path / "part").text == whole.text
    with pytest.raises(StoreError, match=r"belongs to another configuration(.|\n)*drop: pruning has 2, asked for 1"):
        pruned(model, drop=1, out=tmp_path / "part")


def test_what_chooses_may_not_judge(model: Model) -> None:
    with pytest.raises(PromptError, match="1 of 12 test prompts stand among the calibration prompts too"):
        bathyscope.prune(model, CALIBRATION, [*TEST[:-1], CALIBRATION[3]], drop=1)
    with pytest.raises(PromptError, match="12 of 12 test prompts stand among"):
        bathyscope.prune(model, CALIBRATION, CALIBRATION, drop=1)
    with pytest.raises(PromptError, match="Only one test prompt: an interval needs at least two"):
        bathyscope.prune(model, CALIBRATION, TEST[:1], drop=1)
    with pytest.raises(PromptError, match="over='answer' counts the tokens of answers, and 12 of 12 calibration"):
        pruned(model, drop=1, over="answer")


@pytest.mark.parametrize(
    ("options", "wording"),
    [
        ({}, "drop=6, drop='25%', or max_cost=0.05 in nats per token or '2%' of the loss; neither was given"),
        ({"drop": 1, "max_cost": 0.1}, "both were given"),
        ({"drop": 5}, "drop=5 is out of range: 5 blocks may be left out, and one has to stay; allowed: 1 to 4"),
        ({"drop": 0}, "drop=0 is out of range"),
        ({"drop": "some"}, "drop='some' is neither a number of blocks nor a share such as '25%'"),
        (
            {"drop": "1%"},
            r"drop='1%' of 5 blocks rounds to none. Give '11%' or more, which is at least one, or a number",
        ),
        ({"drop": "100%"}, "a share lies between 0 % and 100 %"),
        ({"max_cost": -1.0}, "max_cost=-1 is out of range; give nats per token above 0"),
        ({"max_cost": "0%"}, "max_cost=0% is out of range; give a share of the loss above 0 %, such as '2%'"),
        ({"max_cost": "inf"}, "max_cost=inf is out of range; give nats per token above 0"),
        ({"max_cost": "little"}, "max_cost='little' is neither a number of nats per token, such as 0.05, nor a share"),
        ({"max_cost": True}, "max_cost=True is neither a number of nats per token"),
        ({"drop": 1, "parts": ("block", "mlp")}, "a block is both of its parts, and would be counted twice"),
        ({"drop": 1, "parts": ("heads",)}, "heads"),
        ({"drop": 1, "measured": 0}, "measured=0 is out of range; allowed: 1 or more"),
        ({"drop": 1, "level": 1.5}, "level=1.5 is out of range"),
        ({"drop": 1, "limit": 5}, "limit=5 is of tasks; give evaluate="),
        ({"drop": 1, "batch_size": 3}, "batch_size=3 is of tasks; give evaluate="),
        ({"drop": 1, "allow_code": True}, "allow_code=True is of tasks; give evaluate="),
    ],
)
def test_what_cannot_be_done_is_refused(model: Model, options: dict[str, object], wording: str) -> None:
    with pytest.raises(OptionError, match=wording.replace("(", r"\(")):
        pruned(model, **options)


@pytest.mark.parametrize(
    ("share", "blocks", "count"),
    [("12%", 6, 1), ("12%", 24, 3), ("25%", 6, 1), ("25%", 12, 3), ("50%", 5, 2), ("50%", 12, 6), ("99%", 4, 3)],
)
def test_a_share_is_taken_to_the_nearest_number(share: str, blocks: int, count: int) -> None:
    from bathyscope.surgery.choosing.removable import size_of

    assert size_of(share, blocks, "blocks") == count


@settings(max_examples=100, deadline=None)
@given(share=st.one_of(st.integers(1, 99), st.floats(0.001, 99.9)), units=st.integers(2, 200))
def test_a_share_of_no_block_is_refused_with_one_that_is_some(share: float, units: int) -> None:
    from bathyscope.surgery.choosing.removable import size_of

    exact = units * share / 100
    try:
        count = size_of(f"{share}%", units, "blocks")
    except OptionError as error:
        assert exact <= 0.5 + 1e-9
        enough = re.search(r"Give '(\d+)%' or more", str(error))
        assert enough is not None
        assert size_of(f"{enough[1]}%", units, "blocks") >= 1
        assert int(enough[1]) == 1 or units * (int(enough[1]) - 1) / 100 <= 0.5
    else:
        assert count == units - 1 or abs(count - exact) <= 0.5 + 1e-9
        assert 1 <= count < units


def test_an_unknown_task_is_refused_before_a_model_is_loaded() -> None:
    with pytest.raises(OptionError, match=r"lm-evaluation-harness has no task 'arc_easi'\. Did you mean 'arc_easy'\?"):
        bathyscope.prune("no/such/model", CALIBRATION, TEST, drop=1, evaluate=["arc_easi"])


@pytest.mark.parametrize("draws", [1, 4, 16])
def test_random_subsets_are_counted_once_each(draws: int) -> None:
    """Of three blocks there are three subsets of one, however many are drawn."""
    small = bathyscope.load(LlamaForCausalLM(replace_blocks(zoo.build("llama").config, 3)))
    plan = bathyscope.prune(small, CALIBRATION[:2], TEST[:2], drop=1, random=draws, progress=False)
    text = str(plan.data["subset"].sel(candidate="random").item())
    rng = np.random.default_rng([int(plan.data.attrs["seed"]), 1])
    different = len({int(rng.choice(3, 1, replace=False)[0]) for _ in range(draws)})
    expected = f"{different} subset{'s' if different > 1 else ''}"
    assert text == (expected if different == draws else f"{expected} in {draws} draws")
    assert different < 16


@pytest.mark.parametrize("calibration", [CALIBRATION[:1], CALIBRATION[:1] * 8, CALIBRATION[:4] * 3])
def test_copies_of_calibration_prompts_do_not_make_a_choice_sure(model: Model, calibration: list[list[int]]) -> None:
    plan = bathyscope.prune(model, calibration, TEST, drop=1, random=1, resamples=100, progress=False)
    distinct = len({tuple(ids) for ids in calibration})
    assert np.isnan(plan.chosen_again)
    assert plan.blocks_again["chosen_again"].isna().all()
    assert f"is unknown: {distinct} distinct prompt{'s' * (distinct > 1)} cannot tell, at least 5 can." in plan.text
    assert "of bootstraps" not in plan.text
    assert "chosen_again" not in plan.record()


@pytest.mark.parametrize(("clusters", "unlabelled"), [(1, 0), (2, 0), (4, 0), (1, 3), (5, 0)])
def test_few_clusters_do_not_make_a_choice_sure(model: Model, clusters: int, unlabelled: int) -> None:
    """One book in ten windows says no more than a few books do; a prompt without the label stands for itself."""
    calibration = [
        bathyscope.Prompt(ids=ids, labels={} if n < unlabelled else {"book": n % clusters})
        for n, ids in enumerate(CALIBRATION)
    ]
    test = [bathyscope.Prompt(ids=ids, labels={"book": n % 3}) for n, ids in enumerate(TEST)]
    plan = bathyscope.prune(model, calibration, test, drop=1, random=1, resamples=100, cluster="book", progress=False)
    distinct = clusters + unlabelled
    assert np.isnan(plan.chosen_again) == (distinct < 5)
    sentence = f"is unknown: {distinct} distinct cluster{'s' * (distinct > 1)} by book cannot tell, at least 5 can."
    assert (sentence in plan.text) == (distinct < 5)
    assert ("of bootstraps" in plan.text) == (distinct >= 5)


def test_idle_blocks_share_the_bootstraps() -> None:
    """Three blocks that add nothing cost the same; which of them is left out is of no account."""
    hf = LlamaForCausalLM(replace_blocks(zoo.build("llama").config, 6)).eval()  # type: ignore[arg-type]
    idle = (1, 3, 4)
    with torch.no_grad():
        for block in idle:
            hf.model.layers[block].self_attn.o_proj.weight.zero_()
            hf.model.layers[block].mlp.down_proj.weight.zero_()
    plan = pruned(hf, drop=2, resamples=100)
    shares = plan.blocks_again.set_index("unit")["chosen_again"]
    assert shares.sum() == pytest.approx(2)
    of_idle = [shares[f"drop:{block}"] for block in idle]
    assert 0 < of_idle[0] < 1
    np.testing.assert_allclose(of_idle, of_idle[0])


def test_the_evaluation_of_a_pruning_does_not_follow_a_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "benchmarks").symlink_to(tmp_path / "outside")
    with pytest.raises(StoreError, match=r"benchmarks' is a link, and the evaluation of a pruning is a folder"):
        bathyscope.prune("no/model", "a.txt", "b.txt", drop=1, out=tmp_path / "out")
