"""More or fewer loops, and a block left out in all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from support import looped, zoo

import bathyscope
from bathyscope.errors import ModelError, OptionError
from bathyscope.schedule import Schedule
from bathyscope.surgery.scheduled.copying import reordered

PROMPTS = torch.randint(4, looped.VOCABULARY, (3, 12), generator=torch.Generator().manual_seed(0)).tolist()
IDS = torch.tensor(PROMPTS)


def declared(name: str) -> bathyscope.Model:
    """A look-alike whose family says where its loops are counted."""
    hf = looped.LOOPED[name]()
    return bathyscope.load(hf, family=replace(bathyscope.load(hf).anatomy.family, loops="loops"))


def handing_on(hf: Any, last: int) -> np.ndarray:
    """Loss of each prompt where the last call of a block gives what the call before it gave."""
    outputs: list[torch.Tensor] = []

    def after(module: torch.nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        outputs.append(outputs[-1] if len(outputs) == last else output)
        return outputs[-1]

    blocks = [*getattr(hf, "prelude", []), *hf.layers, *getattr(hf, "coda", [])]
    hooks = [block.register_forward_hook(after) for block in blocks]
    with torch.no_grad():
        logits = hf(IDS).logits
    for hook in hooks:
        hook.remove()
    losses = torch.nn.functional.cross_entropy(logits[:, :-1].mT.double(), IDS[:, 1:], reduction="none")
    return losses.mean(-1).numpy()


@pytest.mark.parametrize(
    ("name", "loops"),
    [
        *(("tied", 1), ("tied", 2), ("tied", 5), ("ouro", 2), ("huginn_still", 1)),
        *(
            pytest.param(name, loops, marks=pytest.mark.thorough)
            for name, loops in (("ouro", 1), ("ouro", 5), ("huginn_still", 2), ("huginn_still", 5))
        ),
    ],
)
def test_another_number_of_loops_is_the_model_configured_so(name: str, loops: int) -> None:
    model = declared(name)
    other = reordered(model, f"loops:{loops}")
    configured = looped.make(type(model.hf), loops=loops)
    configured.load_state_dict(model.hf.state_dict())
    with torch.no_grad():
        assert torch.equal(other.hf(IDS).logits, configured(IDS).logits)
    if loops == 1:
        # of one loop nothing says which blocks loop
        assert other.anatomy.cycle is None
        drop = bathyscope.survey(other, PROMPTS, ["drop"], progress=False)["drop"]
        last = handing_on(configured, other.n_blocks - 1)
        np.testing.assert_allclose(drop.loss.values[:, -1], last, atol=1e-5)
    else:
        assert other.anatomy.cycle is not None
        assert other.anatomy.cycle.loops == loops
    assert other.hf.layers[0].mlp.up_proj.weight is model.hf.layers[0].mlp.up_proj.weight
    assert model.hf.config.loops == 3


def test_models_with_a_module_for_every_run_are_built_with_more() -> None:
    model = bathyscope.load(zoo.build("universal"))
    run = bathyscope.survey(model, PROMPTS, ["lens", "drop"], schedule="loops:4", progress=False)
    assert run.identity.schedule == "loops:4"
    assert run.n_blocks == 8
    same = bathyscope.survey(model, PROMPTS, ["drop"], schedule="loops:3", progress=False)
    plain = bathyscope.survey(model, PROMPTS, ["drop"], progress=False)
    np.testing.assert_array_equal(same["drop"].loss.values, plain["drop"].loss.values)


@pytest.mark.parametrize("name", ["tied", "ouro"])
def test_a_block_is_left_out_in_all_loops(name: str) -> None:
    model = bathyscope.load(looped.LOOPED[name]())
    drop = bathyscope.survey(model, PROMPTS, ["drop"], progress=False)["drop"]
    assert drop.looped.values.tolist() == [0, 1]
    for block in (0, 1):
        runs = f"drop:{block},drop:{block + 2},drop:{block + 4}"
        with bathyscope.scheduled(model, f"dropruns:{block}") as hf, torch.no_grad():
            logits = hf(input_ids=IDS, use_cache=False).logits
        with bathyscope.scheduled(model, runs) as hf, torch.no_grad():
            assert torch.equal(logits, hf(input_ids=IDS, use_cache=False).logits)
        losses = torch.nn.functional.cross_entropy(logits[:, :-1].mT.double(), IDS[:, 1:], reduction="none").mean(-1)
        np.testing.assert_allclose(drop.loss_all_loops.values[:, block], losses, atol=1e-5)


def test_models_without_loops_drop_single_blocks_alone() -> None:
    drop = bathyscope.survey(zoo.build("llama"), PROMPTS, ["drop"], progress=False)["drop"]
    assert not [name for name in drop if str(name).endswith("_all_loops")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loops:0", "'loops:0': write loops: and a number of loops from 1 to 999, alone, for example loops:6."),
        (
            "loops:2,drop:1",
            "'loops:2,drop:1': write loops: and a number of loops from 1 to 999, alone, for example loops:6.",
        ),
        ("loops:x", "'loops:x': write loops: and a number of loops from 1 to 999, alone, for example loops:6."),
    ],
)
def test_a_number_of_loops_is_a_number(text: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        reordered(declared("tied"), text)
    assert str(caught.value) == message


def test_more_loops_need_a_loop_and_its_count() -> None:
    with pytest.raises(ModelError, match="needs a model that loops, and each block of LlamaForCausalLM runs once"):
        reordered(bathyscope.load(zoo.build("llama")), "loops:4")
    with pytest.raises(ModelError, match="it is not declared where the configuration of Looped counts its loops"):
        reordered(bathyscope.load(looped.make(looped.Looped)), "loops:4")
    with pytest.raises(ModelError, match="does not run 2 loops: with loops=2 it runs 6 steps, not the 4 expected"):
        reordered(declared("recursion"), "loops:2")


def test_a_model_of_one_loop_does_not_say_what_loops() -> None:
    hf = looped.make(looped.Looped, loops=1)
    model = bathyscope.load(hf, family=replace(bathyscope.load(hf).anatomy.family, loops="loops"))
    message = (
        "schedule='loops:3': Looped is set to one loop, which says nothing of which blocks loop. Load it with loops=3 "
        "in its configuration."
    )
    with pytest.raises(ModelError) as caught:
        reordered(model, "loops:3")
    assert str(caught.value) == message


@pytest.mark.parametrize("schedule", ["drop:3", "dropruns:1", "repeat:2+2", "order:0-1-0-1"])
def test_a_survey_of_other_runs_is_refused_with_what_measures_them(schedule: str) -> None:
    with pytest.raises(ModelError) as caught:
        bathyscope.survey(declared("tied"), PROMPTS, ["lens"], schedule=schedule, progress=False)
    assert str(caught.value) == (
        f"schedule='{schedule}': Looped loops, and no configuration of it leaves out or moves a single run of a block. "
        "Ask for drop, swap or repeat as measures, or for another number of loops (schedule='loops:2')."
    )


def test_weights_that_loops_share_are_not_repaired() -> None:
    with pytest.raises(ModelError) as caught:
        bathyscope.repair(declared("tied"), "drop:3", PROMPTS[:2], test=PROMPTS[2:], progress=False)
    assert str(caught.value) == (
        "repair changes the weights next to a cut, and Looped loops: each of its blocks shares them with its other "
        "runs. Train the looped model itself, with fewer loops or blocks."
    )


def test_words_for_loops_are_refused_where_they_mean_nothing() -> None:
    with pytest.raises(OptionError, match="'dropruns:1': this model runs no block several times"):
        Schedule.parse("dropruns:1", 4)
    with pytest.raises(OptionError, match="write dropruns: and one block of the loop, 0 to 1"):
        Schedule.parse("dropruns:2", 4, ((0, 2), (1, 3)))
    with pytest.raises(OptionError, match="another number of loops is another model"):
        Schedule.parse("loops:6", 4)
    assert tuple(Schedule.parse("dropruns:0,drop:3", 4, ((0, 2), (1, 3)))) == (1,)


def test_a_run_is_named_by_its_loop_and_block() -> None:
    runs = ((0, 2, 4), (1, 3, 5))
    for text, steps in (("drop:2.1", "drop:5"), ("swap:1.0,drop:0.0", "swap:2,drop:0"), ("order:0.0-1.1", "order:0-3")):
        assert Schedule.parse(text, 6, runs) == Schedule.parse(steps, 6)
    assert Schedule.parse("repeat:1.0+2x2", 6, runs) == Schedule.parse("repeat:2+2x2", 6)
    with pytest.raises(OptionError) as caught:
        Schedule.parse("drop:3.0", 6, runs)
    assert str(caught.value) == (
        "'drop:3.0': 3.0 is no run of a block; allowed: loops 0 to 2, blocks 0 to 1, as in drop:1.0."
    )
    with pytest.raises(OptionError, match="no loops to name a run by; write a block index, for example drop:5"):
        Schedule.parse("drop:1.0", 6)
