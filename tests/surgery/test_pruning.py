"""Choosing what can go, on a small trained model: against all subsets one by one, its proof, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from support import naive, waves, zoo
from transformers import LlamaConfig, LlamaForCausalLM

import bathyscope
from bathyscope import Model, ModelError, OptionError, PromptError, PruningError, StoreError
from bathyscope.surgery import ledger as ledger_module
from bathyscope.surgery.plan import Plan

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
    assert 0 <= plan.table["calibration_cost"][0] - exact.table["calibration_cost"][0] <= 0.01
    assert "the costs of single ones" in pruned(deeper, drop=4, budget=91, measured=6).text


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
    assert f"can go within {bound:g} nats" in plan.text


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
    assert (
        "test prompts" in (bathyscope.open_plan(tmp_path / "plan").export(tmp_path / "same") / "README.md").read_text()
    )
    with torch.no_grad():
        hf.model.layers[0].mlp.down_proj.weight *= 2
    hf.save_pretrained(tmp_path / "model")
    for plan in (in_memory, bathyscope.open_plan(tmp_path / "plan")):
        with pytest.raises(ModelError, match=r"has other weights now than when drop:\d was chosen"):
            plan.export(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_plan_finds_its_model_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zoo.entry("llama").build().save_pretrained(tmp_path / "here" / "model")
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    bathyscope.prune("model", CALIBRATION, TEST, drop=1, random=1, out=tmp_path / "plan", progress=False)
    monkeypatch.chdir(tmp_path / "there")
    out = bathyscope.open_plan(tmp_path / "plan").export("smaller")
    assert (tmp_path / "there" / "smaller" / "model.safetensors").is_file()
    card = (out / "README.md").read_text()
    assert 'base_model: "model"' in card
    assert str(tmp_path) not in card


def test_where_no_block_can_go_it_says_so(model: Model) -> None:
    with pytest.raises(
        PruningError, match=r"No block can go: leaving out drop:\d, the cheapest, costs .* below max_cost=1e-09"
    ):
        pruned(model, max_cost=1e-9)
    assert PruningError.exit_code == 6


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
    with pytest.raises(StoreError, match="is not finished; give the same command again"):
        bathyscope.open_plan(tmp_path / "part")
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
    assert bathyscope.open_plan(tmp_path / "part").text == whole.text
    with pytest.raises(StoreError, match=r"belongs to another configuration(.|\n)*drop: pruning has 2, asked for 1"):
        pruned(model, drop=1, out=tmp_path / "part")


def test_what_chooses_may_not_judge(model: Model) -> None:
    with pytest.raises(PromptError, match="1 of 12 test prompts stand among the calibration prompts too"):
        bathyscope.prune(model, CALIBRATION, [*TEST[:-1], CALIBRATION[3]], drop=1)
    with pytest.raises(PromptError, match="12 of 12 test prompts stand among"):
        bathyscope.prune(model, CALIBRATION, CALIBRATION, drop=1)
    with pytest.raises(PromptError, match="There is one test prompt; an interval needs at least two"):
        bathyscope.prune(model, CALIBRATION, TEST[:1], drop=1)
    with pytest.raises(PromptError, match="over='answer' counts the tokens of answers, and 12 of 12 calibration"):
        pruned(model, drop=1, over="answer")


@pytest.mark.parametrize(
    ("options", "wording"),
    [
        ({}, "drop=6, drop='25%', or max_cost=0.05 in nats per token; neither was given"),
        ({"drop": 1, "max_cost": 0.1}, "both were given"),
        ({"drop": 5}, "drop=5 is out of range: 5 blocks may be left out, and one has to stay; allowed: 1 to 4"),
        ({"drop": 0}, "drop=0 is out of range"),
        ({"drop": "some"}, "drop='some' is neither a number of blocks nor a share such as '25%'"),
        ({"drop": "100%"}, "a share lies between 0 % and 100 %"),
        ({"max_cost": -1.0}, "max_cost=-1 is out of range; give nats per token above 0"),
        ({"drop": 1, "parts": ("block", "mlp")}, "a block is both of its parts, and would be counted twice"),
        ({"drop": 1, "parts": ("heads",)}, "heads"),
        ({"drop": 1, "measured": 0}, "measured=0 is out of range; allowed: 1 or more"),
        ({"drop": 1, "level": 1.5}, "level=1.5 is out of range"),
        ({"drop": 1, "limit": 5}, "data and limit are of tasks, and none is asked"),
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
    from bathyscope.surgery.pruning import size_of

    assert size_of(share, blocks, "blocks") == count
