"""Methods that were replaced in memory: another model for everything stored, and none that could be built again."""

from __future__ import annotations

import functools
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import MethodType
from typing import Any

import accelerate
import numpy as np
import pytest
import torch
from support import zoo
from support.streamed import streamed
from torch import Tensor, nn

import bathyscope
from bathyscope import ModelError, StoreError
from bathyscope.model import load, weight_hash
from bathyscope.model.identity import compare_models, identity_of
from bathyscope.model.replaced import replaced_methods

IDS = [[5, 6, 7, 8, 9], [9, 8, 7, 6]]
MANY = [[(7 * row + 3 * token) % 60 + 2 for token in range(9)] for row in range(10)]


def times(factor: float, plain: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """An MLP that writes several times what it wrote."""
    return lambda x: factor * plain(x)


def replace_mlp(hf: Any) -> None:
    """One MLP writes twice what it wrote."""
    hf.model.layers[2].mlp.forward = times(2, hf.model.layers[2].mlp.forward)


def _in_disguise(hf: Any) -> None:
    plain = hf.model.layers[1].forward
    # takes over name and module of what it wraps
    hf.model.layers[1].forward = functools.wraps(plain)(lambda *args, **named: plain(*args, **named))


class Doubling:
    """An object in the place of a function, which takes over name and module of what it wraps."""

    def __init__(self, plain: Callable[..., Any]) -> None:
        functools.update_wrapper(self, plain)
        self._plain = plain

    def __call__(self, x: Tensor) -> Tensor:
        return 2 * self._plain(x)  # type: ignore[no-any-return]


def _of_a_class(hf: Any) -> None:
    class Doubled(type(hf.model.layers[2].mlp)):  # type: ignore[misc]
        pass

    hf.model.layers[2].mlp.forward = MethodType(lambda mlp, x: 2 * Doubled.forward(mlp, x), hf.model.layers[2].mlp)


REPLACED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a function": (replace_mlp, "model.layers.2.mlp.forward"),
    "a wrapper in disguise": (_in_disguise, "model.layers.1.forward"),
    "an object in disguise": (
        lambda hf: setattr(hf.model.norm, "forward", Doubling(hf.model.norm.forward)),
        "model.norm.forward",
    ),
    "a bound function": (_of_a_class, "model.layers.2.mlp.forward"),
    "another block's": (
        lambda hf: setattr(hf.model.layers[3], "forward", hf.model.layers[1].forward),
        "model.layers.3.forward",
    ),
    "a function of torch": (
        lambda hf: setattr(hf.model.layers[0].mlp, "forward", torch.zeros_like),
        "model.layers.0.mlp.forward",
    ),
    "a module's of torch": (
        lambda hf: setattr(hf.model.norm, "forward", nn.Identity().forward),
        "model.norm.forward",
    ),
    "a partial function": (
        lambda hf: setattr(hf.model.norm, "forward", functools.partial(lambda factor, x: factor * x, 2.0)),
        "model.norm.forward",
    ),
    "under no_grad": (
        lambda hf: setattr(hf.model.norm, "forward", torch.no_grad()(lambda x: x)),
        "model.norm.forward",
    ),
    "below a library's hook": (
        lambda hf: (replace_mlp(hf), accelerate.dispatch_model(hf, {"": "cpu"})),
        "model.layers.2.mlp.forward",
    ),
}


class Plain(nn.Module):
    """Somebody's own norm."""

    def forward(self, x: Tensor) -> Tensor:
        """Leave the stream as it is."""
        return x


def _own_class(hf: Any) -> None:
    hf.model.norm = Plain()
    hf.model.norm.forward = torch.no_grad()(hf.model.norm.forward)


ITS_OWN: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda hf: None,
    "compiled": lambda hf: setattr(hf, "forward", torch.compile(hf.forward)),
    "compiled block": lambda hf: setattr(hf.model.layers[1], "forward", torch.compile(hf.model.layers[1].forward)),
    "hooks of accelerate": lambda hf: accelerate.dispatch_model(hf, {"": "cpu"}),
    "autocast": lambda hf: setattr(hf, "forward", torch.autocast("cpu", enabled=False)(hf.forward)),
    "a class of its own": _own_class,
    "a switch": lambda hf: setattr(hf, "train", lambda mode=True: hf),
}


@pytest.mark.parametrize("what", REPLACED)
def test_a_replaced_method_is_named_and_another_model(what: str) -> None:
    change, path = REPLACED[what]
    hf = zoo.entry("llama").build()
    plain = weight_hash(hf)
    change(hf)
    assert list(replaced_methods(hf)) == [path]
    with pytest.warns(UserWarning, match=rf"^{path} was replaced in memory: .* the module a class of its own"):
        changed = load(hf)
    agreement = compare_models(identity_of(load(zoo.entry("llama").build())), identity_of(changed))
    assert "weights" in agreement.differences
    assert not agreement.same
    assert changed.weight_hash == weight_hash(hf) != plain


@pytest.mark.parametrize("what", ITS_OWN)
def test_what_libraries_put_around_a_method_changes_nothing(what: str) -> None:
    hf = zoo.entry("llama").build()
    plain = weight_hash(hf)
    ITS_OWN[what](hf)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert replaced_methods(hf) == {}
    if what != "a class of its own":
        assert weight_hash(hf) == plain


def test_a_class_whose_forward_is_exchanged_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    hf = zoo.entry("llama").build()
    plain, kind = weight_hash(hf), type(hf.model.layers[0].mlp)
    monkeypatch.setattr(kind, "forward", lambda mlp, x: 0 * x)
    assert list(replaced_methods(hf)) == [f"model.layers.{block}.mlp.forward" for block in range(len(hf.model.layers))]
    assert weight_hash(hf) != plain
    monkeypatch.undo()
    assert weight_hash(hf) == plain


def test_the_hash_tells_what_a_method_holds_and_forgets_what_was_undone() -> None:
    hf = zoo.entry("llama").build()
    plain = hf.model.layers[2].mlp.forward
    hashes = [weight_hash(hf)]
    vector = torch.ones(3)
    for method in (
        times(2, plain),
        times(3, plain),
        lambda x: plain(x),
        lambda x: plain(x) + vector.sum(),
        functools.partial(torch.mul, other=2),
        functools.partial(torch.mul, other=3),
    ):
        hf.model.layers[2].mlp.forward = method
        hashes.append(weight_hash(hf))
    other = nn.Linear(64, 64)
    for scale in (np.float32(2), np.float32(3), np.array([2.0]), np.array([3.0]), other):
        hf.model.layers[2].mlp.forward = lambda x, scale=scale: plain(x) * 1 if scale is None else plain(x)
        hashes.append(weight_hash(hf))
    # a module that is no part of the model, by its own weights
    nn.init.ones_(other.weight)
    hashes.append(weight_hash(hf))
    vector[0] = 2
    hf.model.layers[2].mlp.forward = lambda x: plain(x) + vector.sum()
    hashes.append(weight_hash(hf))
    assert len({*hashes}) == len(hashes)
    hf.model.layers[2].mlp.forward = times(2, plain)
    assert weight_hash(hf) == hashes[1]
    del hf.model.layers[2].mlp.forward
    assert weight_hash(hf) == hashes[0]


def test_the_hash_is_that_of_every_process(tmp_path: Path) -> None:
    """Sets and names of objects have another order, or another text, in each."""
    script = tmp_path / "program.py"
    script.write_text(
        "import torch\n"
        "from transformers import LlamaConfig, LlamaForCausalLM\n"
        "from bathyscope.model import weight_hash\n"
        "torch.manual_seed(0)\n"
        "sizes = dict(vocab_size=16, hidden_size=8, intermediate_size=8, num_hidden_layers=1)\n"
        "hf = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=2, num_key_value_heads=1))\n"
        "words, thing, plain = {'a', 'b', 'c', 'd'}, object(), hf.model.norm.forward\n"
        "hf.model.norm.forward = lambda x: plain(x) if 'a' in {'a', 'b', 'c'} and words and thing else torch.relu(x)\n"
        "print(weight_hash(hf))\n"
    )
    hashes = {
        subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(hashes) == 1


@pytest.mark.parametrize("replaced_first", [False, True])
def test_stored_results_of_the_one_are_not_those_of_the_other(replaced_first: bool, tmp_path: Path) -> None:
    hf = zoo.entry("llama").build()

    def turn() -> None:
        if "forward" in hf.model.layers[2].mlp.__dict__:
            del hf.model.layers[2].mlp.forward
        else:
            replace_mlp(hf)

    if replaced_first:
        turn()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bathyscope.survey(hf, IDS, ["residual"], tmp_path / "run", progress=False)
        bathyscope.survey(hf, IDS, ["residual"], tmp_path / "run", progress=False)
        plan = bathyscope.prune(hf, MANY[:6], MANY[6:], drop=1, resamples=20, progress=False)
        turn()
        with pytest.raises(StoreError, match="weight_hash: run has"):
            bathyscope.survey(hf, IDS, ["residual"], tmp_path / "run", progress=False)
        with pytest.raises(ModelError, match=r"weights: "):
            bathyscope.export(hf, plan, tmp_path / "out")


def test_what_is_built_from_the_configuration_is_refused(tmp_path: Path) -> None:
    hf = zoo.entry("llama").build()
    replace_mlp(hf)
    path = r"model\.layers\.2\.mlp\.forward"
    with pytest.warns(UserWarning, match="replaced in memory"):
        model = load(hf)
    for control in ("untrained", "shuffled_blocks"):
        with pytest.raises(ModelError, match=path):
            bathyscope.survey(model, IDS, ["residual"], control=control, progress=False)
    for given in (hf, model):
        with pytest.raises(ModelError, match=rf"{path} of this \w+ is not what its .* holds it\. Undo the change\.$"):
            bathyscope.export(given, "drop:1", tmp_path / "out")
    with pytest.raises(ModelError, match=path):
        bathyscope.survey(model, IDS, ["residual"], schedule="drop:1", progress=False)
    with pytest.raises(ModelError, match=path):
        bathyscope.repair(model, "drop:1", MANY[:6], test=MANY[6:], progress=False)
    assert not (tmp_path / "out").exists()
    assert bathyscope.survey(model, IDS, ["residual"], control="shuffled_text", progress=False).n_blocks == 5


def test_files_of_a_streamed_model_do_not_hold_its_methods(tmp_path: Path) -> None:
    zoo.entry("llama").build().save_pretrained(tmp_path / "model")
    model = streamed(tmp_path / "model")
    replace_mlp(model.hf)
    with pytest.raises(
        ModelError, match=r"The files of .* are copied, and model\.layers\.2\.mlp\.forward was replaced"
    ):
        bathyscope.export(model, "drop:1", tmp_path / "out")


def test_a_course_of_a_model_with_replaced_methods_says_whose_it_is(tmp_path: Path) -> None:
    hf = zoo.entry("llama").build()
    replace_mlp(hf)
    with pytest.warns(UserWarning, match=r"mlp\.forward was replaced in memory: the course is of the model without"):
        bathyscope.watch(hf, IDS, out=tmp_path / "course", every=1, progress=False)
