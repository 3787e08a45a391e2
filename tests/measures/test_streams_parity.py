"""Measures of models with several streams against one forward, or backward pass, of the untouched model.

The comparisons are those of the measures' own test files, whose references are given a copy that takes folded states
(``support.folded``). What ``support.brute_force`` compares of every causal type is not compared again.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from support import naive, waves, zoo
from support.folded import FoldedCopy
from support.fresh import fresh_module

import bathyscope
from bathyscope.errors import ModelError
from bathyscope.model import Model, load

AXES = {"deepseek_v4": 2, "gemma3n": 0, "hy_v4": 2, "inkling2": None}
"""Where states count streams."""
NAMES = (*AXES, "qwen4_exp")
IN_DOUBLE = ("gemma3n",)
"""Least squares are compared in float64, in which experts do not run."""
QUICK = ("hy_v4", "inkling2")
COMPARED = {
    "test_gradient": ("test_parity_with_backward_passes_of_the_model",),
    "test_integrated_gradients": ("test_parity_with_one_pass_per_step",),
    "test_jacobian_lens": (
        "test_the_model_itself_reads_the_transported_states",
        "test_what_it_says_at_single_tokens_is_what_the_model_itself_reads",
    ),
    "test_translated_lens": ("test_equals_least_squares_on_the_models_own_states",),
    "test_direct": ("test_parity_with_one_forward_per_pair_of_blocks",),
    "test_patching": ("test_equals_one_forward_per_patch",),
    "test_depth_score": ("test_one_position_before_the_answer",),
    "test_cka": ("test_equals_loops_over_the_models_own_states",),
}
"""By file the comparisons with brute force."""
_build, _entry, _family_of = zoo.build, zoo.entry, naive.family_of


@cache
def file_of(name: str) -> ModuleType:
    """A test file of its own for streams, so that nothing that it remembers reaches the other one."""
    return fresh_module(Path(__file__).with_name(f"{name}.py"), f"streams_{name}")


@cache
def copy_of(name: str, dtype: torch.dtype = torch.float32) -> Any:
    """What references run: the model itself where its streams stand in the width."""
    hf = _entry(name).build(dtype=dtype)
    return FoldedCopy(hf, AXES[name]).eval() if name in AXES else hf


@cache
def loaded(name: str) -> Model:
    """What is measured: a model of the zoo, untouched by its copy."""
    return load(_entry(name).build())


class Streams:
    """What other test files are given instead of the zoo."""

    alias = ""
    dtype = torch.float32

    def name(self, name: str) -> str:
        return self.alias if self.alias and name == "llama" else name

    def build(self, name: str, **_: Any) -> Any:
        name = self.name(name)
        return copy_of(name, self.dtype) if name in NAMES else _build(name)

    def entry(self, name: str) -> Any:
        return SimpleNamespace(build=lambda: self.build(name)) if self.name(name) in NAMES else _entry(name)


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Streams:
    """Let other files compare with copies on folded states; what they measure is the model of the zoo."""
    instead = Streams()
    monkeypatch.setattr(zoo, "build", instead.build)
    monkeypatch.setattr(zoo, "entry", instead.entry)
    monkeypatch.setattr(waves, "loaded", lambda name: loaded(instead.name(name)))
    monkeypatch.setattr(naive, "family_of", lambda model: getattr(model, "own_family", None) or _family_of(model))
    return instead


def cases() -> list[Any]:
    """Every comparison with every model; of most ``make test-all`` runs the first with two."""
    return [
        pytest.param(name, file, test, marks=() if file == "test_gradient" and name in QUICK else pytest.mark.thorough)
        for file, tests in COMPARED.items()
        for test in tests
        for name in (IN_DOUBLE if file == "test_translated_lens" else NAMES)
    ]


@pytest.mark.filterwarnings("ignore:integrated_gradients. this")
@pytest.mark.parametrize(("name", "file", "test"), cases())
def test_a_measure_equals_brute_force(
    name: str, file: str, test: str, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is asserted is what the named test asserts."""
    module = file_of(file)
    if hasattr(module, "WITHOUT_PARTS"):
        monkeypatch.setattr(module, "WITHOUT_PARTS", [name])
    if file == "test_cka":
        streams.alias = name
    if file == "test_translated_lens":
        streams.dtype = torch.float64
        monkeypatch.setattr(waves, "load", lambda _: load(_entry(name).build(dtype=torch.float64)))
        # of as many tokens as maps of folded states need
        monkeypatch.setattr(module, "LENGTHS", (34, 30, 32) * 30)
    getattr(module, test)(name)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [*NAMES, "zaya"])
def test_pairs_equal_brute_force(name: str) -> None:
    """Those of blocks that can be dropped together."""
    module = file_of("test_pairs")
    prompts = zoo.prompts(zoo.build(name), (9, 7))
    model = waves.loaded(name)
    data = bathyscope.survey(model, prompts, ["pairs"], progress=False)["pairs"]
    places = data.dropped.values.tolist()
    for prompt, ids in enumerate(prompts):
        for a, first in enumerate(places):
            for b, second in enumerate(places[a + 1 :], start=a + 1):
                costs = module.one_by_one(ids, (first, second), name)
                for variable, value in zip(("cost", "kl", "top1_agreement"), costs):
                    assert data[variable].values[prompt, a, b] == pytest.approx(value, abs=1e-5)


def test_blocks_that_cannot_be_left_out_together_are_told() -> None:
    """Blocks 0 and 1 choose positions, which the others take: one of the two has to run."""
    model = waves.loaded("hy_v4")
    prompts = zoo.prompts(zoo.build("hy_v4"), (9,))
    said = r"blocks 0 and 1 cannot be left out together: block 2 takes what the block before it passes on"
    with pytest.warns(UserWarning, match=rf"^pairs: {said}.*\. Left out of pairs: 1\.$"):
        assert bathyscope.survey(model, prompts, "pairs", progress=False)["pairs"].dropped.values.tolist() == [
            0,
            2,
            3,
            4,
        ]
    with pytest.raises(ModelError, match=rf"{said}.*\. Leave one of them out of its blocks\.$"):
        bathyscope.survey(model, prompts, "pairs", pairs={"blocks": [0, 1, 3]}, progress=False)
