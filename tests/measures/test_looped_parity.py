"""Every measure of looped models against one forward, or backward pass, of a copy written out by hand.

The comparisons are those of the measures' own test files. Where these build a model of the zoo, they are given the
copy, which has a module for every run (``support.unrolled``); where they measure, they measure the loop. In their names
the models begin with ``loop:``.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from support import looped, naive, waves, zoo
from support.fresh import fresh_module
from support.named_tests import named_in_test_files
from support.unrolled import Unrolled, unrolled

import bathyscope
from bathyscope.measures.registry import MEASURES
from bathyscope.model import Model, load

NAMES = list(looped.LOOPED)
FOLDED = ("recursion", "huginn_still", "hrm_text")
"""Their states hold more than the stream."""


WHOLE_STATES = named_in_test_files("BRUTE_FORCE")
"""By file the comparisons with brute force that every looped model stands."""
PARTS = named_in_test_files("BRUTE_FORCE_OF_PARTS")
"""Those of attention and MLP, which states with more than the stream lack."""

pytestmark = pytest.mark.thorough
_build, _loaded, _entry, _family_of = zoo.build, waves.loaded, zoo.entry, naive.family_of


@cache
def file_of(name: str) -> ModuleType:
    """A test file of its own for looped models, so that nothing that it remembers reaches the other one."""
    return fresh_module(Path(__file__).with_name(f"{name}.py"), f"looped_{name}")


def copy_of(name: str, hf: Any) -> Unrolled:
    """The copy of a loop, which knows where its parts are."""
    copied, family = unrolled(name, hf)
    copied.own_family = family
    # where test files look for the final norm
    copied.__dict__["model"] = copied
    return copied


@cache
def pair(name: str) -> tuple[Model, Unrolled]:
    """A loaded loop and its copy."""
    hf = looped.LOOPED[name]()
    return load(hf), copy_of(name, hf)


class Loops:
    """What other test files are given instead of the zoo: a loop where they measure, its copy where they do not."""

    alias = ""
    dtype = torch.float32

    def name(self, name: str) -> str | None:
        """The loop that is meant; None for models of the zoo."""
        return name.removeprefix("loop:") if name.startswith("loop:") else self.alias if name == "llama" else None

    def build(self, name: str, **options: Any) -> Any:
        loop = self.name(name)
        return pair(loop)[1] if loop else _build(name, **options)

    def loaded(self, name: str) -> Model:
        loop = self.name(name)
        return pair(loop)[0] if loop else _loaded(name)

    def entry(self, name: str) -> Any:
        loop = self.name(name)
        return SimpleNamespace(build=lambda: copy_of(loop, self.fresh(loop))) if loop else _entry(name)

    def fresh(self, name: str) -> Any:
        """A loop of its own."""
        return looped.LOOPED[name]().to(self.dtype)


@pytest.fixture
def loops(monkeypatch: pytest.MonkeyPatch) -> Loops:
    """Let other files measure loops, and compare them with their copies."""
    instead = Loops()
    monkeypatch.setattr(zoo, "build", instead.build)
    monkeypatch.setattr(zoo, "entry", instead.entry)
    monkeypatch.setattr(waves, "loaded", instead.loaded)
    monkeypatch.setattr(naive, "family_of", lambda model: getattr(model, "own_family", None) or _family_of(model))
    return instead


CASES = [
    *((name, file, test) for name in NAMES for file, tests in WHOLE_STATES.items() for test in tests),
    *((name, file, test) for name in NAMES if name not in FOLDED for file, tests in PARTS.items() for test in tests),
]


@pytest.mark.filterwarnings("ignore:integrated_gradients. this", "ignore:attention_locality. ")
@pytest.mark.parametrize(("name", "file", "test"), CASES)
def test_a_measure_equals_brute_force(
    name: str, file: str, test: str, loops: Loops, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asserted is what the named test asserts: it measures the loop, and its references run the copy."""
    module = file_of(file)
    if hasattr(module, "WITHOUT_PARTS") and name in FOLDED:
        monkeypatch.setattr(module, "WITHOUT_PARTS", [f"loop:{name}"])
    if file == "test_attention_locality":
        monkeypatch.setattr(module, "own_weights", own_weights)
    if file == "test_cka":
        loops.alias = name
    if file == "test_translated_lens":
        loops.dtype = torch.float64
        monkeypatch.setattr(waves, "load", lambda _: load(loops.fresh(name)))
        # of as many tokens as maps of folded states need
        monkeypatch.setattr(module, "LENGTHS", (34, 30, 32) * 8)
    if file == "test_neurons":
        census = module.census
        monkeypatch.setattr(module, "census", lambda _: census(pair(name)[0].hf))
        monkeypatch.setitem(module.NAIVE, f"loop:{name}", lambda hf, block: neurons_of(module, hf, block))
    getattr(module, test)(f"loop:{name}")


@torch.no_grad()
def own_weights(name: str, ids: list[int]) -> list[np.ndarray]:
    """[heads, T, T] of every run, computed by the library's plain attention under a causal mask."""
    copied = copy_of(name.removeprefix("loop:"), pair(name.removeprefix("loop:"))[0].hf)
    mask = torch.full((len(ids), len(ids)), float("-inf")).triu(1)[None, None]
    weights: list[np.ndarray] = []
    for run in copied.runs:
        attention: Any = run.self_attn
        attention.config._attn_implementation = "eager"
        attention.register_forward_pre_hook(
            lambda _module, args, kwargs: (args, {**kwargs, "attention_mask": mask}), with_kwargs=True
        )
        attention.register_forward_hook(lambda _module, _args, out: weights.append(out[1][0].double().numpy()))
    copied(torch.tensor([ids]))
    return weights


def neurons_of(module: ModuleType, copied: Any, block: int) -> Any:
    """Cosines of the neurons of one run, by the definition."""
    out = copied.runs[block].mlp.down_proj.weight.T
    norm = getattr(copied.norm, "norm", copied.norm)
    gain = getattr(norm, "weight", torch.ones(looped.WIDTH))
    return module.cosines(out, copied.lm_head.weight, gain, centred=False)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("measure", ["drop", "swap", "repeat"])
def test_schedules_equal_brute_force(name: str, measure: str, loops: Loops) -> None:
    file_of("test_parity").test_schedules(f"loop:{name}", measure)


@pytest.mark.parametrize("name", NAMES)
def test_pairs_equal_brute_force(name: str, loops: Loops, monkeypatch: pytest.MonkeyPatch) -> None:
    module = file_of("test_pairs")
    loops.alias = name
    monkeypatch.setattr(module, "IDS", zoo.prompts(pair(name)[1], (7, 5)))
    module.test_every_pair_is_that_of_one_forward("llama")


@pytest.mark.parametrize("name", NAMES)
def test_tokens_equal_brute_force(name: str, loops: Loops) -> None:
    module = file_of("test_tokens")
    loops.alias = name
    module.test_the_lens_of_each_token_equals_a_naive_one("llama")


@pytest.mark.parametrize("name", NAMES)
def test_norms_and_fixed_points_equal_those_of_the_copys_streams(name: str, loops: Loops) -> None:
    model, copied = pair(name)
    ids = zoo.prompts(copied, (11, 8))
    residual = waves.run(model, ids, {"residual": None})["residual"]
    cycle = model.anatomy.cycle
    assert cycle is not None
    assert cycle.period is not None
    for prompt, own in enumerate(ids):
        h = naive.boundaries(copied, copied.runs, own).double()
        change, size = h[1:] - h[:-1], h.norm(dim=-1)
        expected = {
            "norm_resid": size.mean(-1),
            "norm_block": change.norm(dim=-1).mean(-1),
            "ratio_block": (change.norm(dim=-1) / size[:-1].clamp_min(1e-6)).mean(-1),
            "cos_block": torch.cosine_similarity(change, h[:-1], dim=-1).mean(-1),
        }
        for variable, values in expected.items():
            np.testing.assert_allclose(residual[variable].values[prompt], values, rtol=1e-5, atol=1e-5)
        stream = h[1:, :, : looped.WIDTH]
        for step, loop in enumerate(cycle.loop):
            value = residual.fixed_point.values[prompt, step]
            if loop < 1:
                assert np.isnan(value)
                continue
            before = stream[step - cycle.period]
            rho = ((stream[step] - before).norm(dim=-1) / before.norm(dim=-1)).mean()
            assert value == pytest.approx(float(rho), rel=1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_derived_measures_equal_those_of_the_copy(name: str, loops: Loops) -> None:
    """They are computed from the datasets of the others, which equal brute force."""
    model, copied = pair(name)
    whole = ["effective_depth"] if name in FOLDED else ["effective_depth", "stages"]
    prompts = zoo.prompts(copied, (30, 25, 28))
    runs = [
        bathyscope.survey(side, prompts, whole, progress=False)
        for side in (model, load(copied, family=copied.own_family))
    ]
    for measure in whole:
        loop, copy = (run[measure] for run in runs)
        for variable in copy.data_vars:
            if copy[variable].dtype.kind == "f":
                np.testing.assert_allclose(loop[variable], copy[variable], rtol=1e-4, atol=1e-5, err_msg=str(variable))
            elif variable != "left_out":
                np.testing.assert_array_equal(loop[variable], copy[variable], err_msg=str(variable))


def test_every_measure_is_compared() -> None:
    """Each measure has a comparison here: by the name of its test file, or of a test."""
    files = {file.removeprefix("test_") for file in (*WHOLE_STATES, *PARTS)}
    by_name = {"skip", "lens", "drop", "swap", "repeat", "residual", "pairs", "tokens", "effective_depth", "stages"}
    assert {name for file in (WHOLE_STATES, PARTS) for tests in file.values() for name in tests}
    assert set(MEASURES) == (files - {"parity", "skip_parts"}) | by_name
