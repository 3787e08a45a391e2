"""Bounded contributions: equal to the model itself with every output of its parts bounded by hand, family by family."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from support import naive, waves, zoo
from support.rounding import assert_same_bits, assert_same_but_rounding
from torch import Tensor, nn
from transformers import PreTrainedModel

import bathyscope
from bathyscope.errors import ModelError, OptionError
from bathyscope.extend import bounded
from bathyscope.model import Model
from bathyscope.model.anatomy.family import Site
from bathyscope.surgery.scheduled.bounding import limited

FAMILIES = ("llama", "gpt2", "gemma2", "granite", "bloom", "falcon", "gpt2_sink", "gemma4", "moeut")
"""Every way to add to the stream: norms behind parts, a multiplier, outputs that hold the stream, shared modules."""
SHARE = 0.5
"""Of the largest number that a part writes: enough is above it in every block that writes much."""


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest) -> Model:
    return bathyscope.load(zoo.build(request.param))


def largest_write(model: Model, ids: Sequence[int]) -> float:
    parts = naive.contributions(model.hf, list(model.anatomy.blocks), ids)
    return max(float(part.abs().max()) for part in parts.values())


@contextmanager
def bounded_by_hand(hf: PreTrainedModel, bound: float, kind: str) -> Iterator[None]:
    """Hooks on every module that writes into the stream, which loop over nothing but plain arithmetic."""

    def hook(site: Site, block: nn.Module) -> Any:
        def change(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
            value = output[0] if isinstance(output, tuple | list) else output
            scale = 1.0 if site.scale is None else float(getattr(block, site.scale))
            stream = torch.zeros_like(value)
            if site.minus is not None:
                stream = inspect.signature(module.forward).bind(*args, **kwargs).arguments[site.minus]
            written = (value - stream) * scale
            beyond = written.abs() > bound
            instead = bound * written.sign() if kind == "clamp" else torch.zeros_like(written)
            value = torch.where(beyond, stream + instead / scale, value)
            return type(output)([value, *output[1:]]) if isinstance(output, tuple | list) else value

        return change

    with ExitStack() as stack:
        for block in naive.blocks_of(hf):
            for sites in naive.sites_of(hf).values():
                for module, site in naive.modules_at(block, sites):
                    handle = module.register_forward_hook(hook(site, block), with_kwargs=True)
                    stack.callback(handle.remove)
        yield


@pytest.mark.parametrize("kind", ["clamp", "zero"])
def test_it_is_the_model_with_every_written_number_bounded(model: Model, kind: str) -> None:
    ids = zoo.prompts(model.hf, (12,))[0]
    bound = SHARE * largest_write(model, ids)
    copy = bounded(model, f"{kind}:{bound!r}")
    with bounded_by_hand(model.hf, bound, kind):
        logits = naive.logits(model.hf, ids)
        boundaries = naive.boundaries(model.hf, naive.blocks_of(model.hf), ids)
    assert (naive.logits(model.hf, ids) - logits).abs().max() > 1e-4  # the bound is felt
    assert_same_but_rounding(naive.logits(copy.hf, ids), logits, copy.hf)
    assert_same_but_rounding(naive.boundaries(copy.hf, naive.blocks_of(copy.hf), ids), boundaries, copy.hf)
    room = 1 + 1e-5
    if kind == "clamp":
        assert largest_write(copy, ids) <= bound * room


def test_measures_of_it_equal_one_forward_for_each_intervention(model: Model) -> None:
    ids = zoo.prompts(model.hf, (11,))[0]
    bound = SHARE * largest_write(model, ids)
    copy = bounded(model, f"clamp:{bound!r}")
    measured = waves.run(copy, [ids], {"residual": {}, "drop": {}})
    blocks = naive.blocks_of(model.hf)
    with bounded_by_hand(model.hf, bound, "clamp"):
        plain, norms = naive.logits(model.hf, ids), naive.boundaries(model.hf, blocks, ids).norm(dim=-1).mean(-1)
        # where blocks take keys and values of earlier ones, these cannot be left out
        numbers = measured["drop"]["dropped"].values.tolist()
        dropped = [naive.skip_all(model.hf, blocks, ids, block, protect_first=0)[1] for block in numbers]
    np.testing.assert_allclose(measured["residual"].norm_resid[0], norms, rtol=2e-5)
    np.testing.assert_allclose(measured["drop"].baseline_loss[0], naive.loss(plain, ids).mean(), rtol=1e-4)
    losses = [naive.loss(changed, ids).mean() for changed in dropped]
    np.testing.assert_allclose(measured["drop"].loss[0], losses, rtol=1e-4)


def test_nothing_changes_where_no_number_is_beyond(model: Model) -> None:
    ids = zoo.prompts(model.hf, (9,))[0]
    copy = bounded(model, f"zero:{2 * largest_write(model, ids)!r}")
    assert_same_bits(naive.logits(copy.hf, ids), naive.logits(model.hf, ids))


def test_weights_are_shared_and_the_model_stays_as_it_was(model: Model) -> None:
    kinds = [type(module) for module in model.hf.modules()]
    copy = bounded(model, "clamp:0.01")
    own = {parameter.data_ptr() for parameter in model.hf.parameters()}
    assert {parameter.data_ptr() for parameter in copy.hf.parameters()} == own
    assert [type(module) for module in model.hf.modules()] == kinds
    assert all(site.paths for site in copy.anatomy.sites.values())


def test_bounds_are_part_of_what_a_model_is() -> None:
    model = bathyscope.load(zoo.build("llama"))
    texts = ("clamp:0.1", "clamp:0.2", "zero:0.1")
    hashes = {bounded(model, text).weight_hash for text in texts}
    assert len(hashes | {model.weight_hash}) == 4
    assert bounded(model, texts[0]).weight_hash == bounded(model, texts[0]).weight_hash
    assert bounded(model, "zero:0.1").name.endswith(", contributions left out beyond 0.1")


def test_the_hash_is_the_same_in_another_process() -> None:
    """Runs of a bounded model are resumed by it."""
    lines = (
        "from support import zoo",
        "import bathyscope",
        "print(bathyscope.extend.bounded(bathyscope.load(zoo.build('llama')), 'clamp:0.1').weight_hash)",
    )
    path = [entry for entry in sys.path if entry]
    code = f"import sys; sys.path[:] = {path!r}\n" + "\n".join(lines)
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == [bounded(bathyscope.load(zoo.build("llama")), "clamp:0.1").weight_hash]


def test_an_untrained_control_of_it_is_bounded_too() -> None:
    model = bathyscope.load(zoo.build("llama"))
    control = bathyscope.extend.untrained(bounded(model, "clamp:0.0001"), 0)
    ids = zoo.prompts(model.hf, (9,))[0]
    assert largest_write(control, ids) <= 0.0001 * (1 + 1e-5)
    assert largest_write(bathyscope.extend.untrained(model, 0), ids) > 0.001


def test_it_is_not_written_as_a_plain_checkpoint(tmp_path: Any) -> None:
    copy = bounded(bathyscope.load(zoo.build("llama")), "clamp:0.1")
    with pytest.raises(ModelError):
        bathyscope.export(copy, "drop:1", tmp_path / "exported")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("granitemoeshared", "mlp of block 0 is the sum of GraniteMoeSharedMoE and GraniteMoeSharedMLP"),
        ("mamba", "its attention and MLP cannot be told apart"),
        ("xlnet", "its blocks take several streams"),
    ],
)
def test_families_without_single_writers_are_refused(name: str, reason: str) -> None:
    with pytest.raises(ModelError, match=f"cannot be bounded: .*{reason}.*Measure it as it is"):
        bounded(bathyscope.load(zoo.build(name)), "clamp:0.1")


def test_what_cannot_be_bounded_is_refused() -> None:
    model = bathyscope.load(zoo.entry("llama").build())
    with pytest.raises(ModelError, match="bounded already; give the model that this one was made of"):
        bounded(bounded(model, "clamp:1"), "clamp:0.1")
    with pytest.raises(OptionError, match=r"takes a model that was loaded; .* given"):
        bounded(model.hf, "clamp:1")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="Unknown bound"):
        bounded(model, "crop:1")
    block: Any = model.anatomy.blocks[0]
    block.mlp.forward = lambda hidden: 2 * hidden
    with pytest.raises(ModelError, match="replaced in memory"):
        bounded(bathyscope.load(model.hf), "clamp:1")


def test_an_overflow_stays_an_overflow() -> None:
    value = torch.tensor([3.0, -3.0, torch.inf, torch.nan, 0.5])
    expected = {True: [1.0, -1.0, torch.inf, torch.nan, 0.5], False: [0.0, 0.0, torch.inf, torch.nan, 0.5]}
    for clamps, numbers in expected.items():
        result: Tensor = limited(value, None, 1.0, clamps=clamps)
        np.testing.assert_array_equal(result.numpy(), np.array(numbers, np.float32))
