"""Values that modules hold belong to a model's identity: exactly where they can be read, else as unknown ones."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from support import zoo
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

import bathyscope
from bathyscope import ModelError, StoreError
from bathyscope.model import load, weight_hash
from bathyscope.model.contents import ContentReader
from bathyscope.model.identity import compare_models, identity_of

IDS = [[5, 6, 7, 8, 9, 10], [9, 8, 7, 6]]


class Steered(nn.Module):
    """Somebody's own module around an MLP, which keeps something as it likes."""

    def __init__(self, inner: nn.Module, key: str, value: Any) -> None:
        super().__init__()
        self.inner = inner
        setattr(self, key, value)

    def forward(self, x: Tensor) -> Tensor:
        """Write what the MLP writes."""
        return self.inner(x)  # type: ignore[no-any-return]


class Factor:
    """An object with a number, in the place of a function."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: Tensor) -> Tensor:
        return self.factor * x


def of_a_factor(factor: float) -> nn.Module:
    """A class that encloses a number."""

    class Activation(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return factor * x

    return Activation()


def numbers() -> Iterator[int]:
    """What nobody can read without using it up."""
    yield 1


def _steered(key: str, value: Any) -> Callable[[Any], None]:
    def change(hf: Any) -> None:
        hf.model.layers[1].mlp = Steered(hf.model.layers[1].mlp, key, value)

    return change


def _activated(activation: Any) -> Callable[[Any], None]:
    def change(hf: Any) -> None:
        del hf.model.layers[1].mlp.act_fn
        hf.model.layers[1].mlp.act_fn = activation

    return change


def _scaled(scaling: Any) -> Callable[[Any], None]:
    return lambda hf: setattr(hf.model.layers[1].self_attn, "scaling", scaling)


ONE, TWO = torch.ones(64), 2 * torch.ones(64)
PAIRS: dict[str, tuple[Callable[[Any], None], Callable[[Any], None]]] = {
    "numbers of numpy": (_scaled(np.float32(0.01)), _scaled(np.float32(3))),
    "precisions of numpy": (_scaled(np.float32(1)), _scaled(np.float64(1))),
    "arrays": (_scaled(np.array([0.5])), _scaled(np.array([0.25]))),
    "tensors": (_steered("vector", ONE), _steered("vector", TWO)),
    "tensors in a dict": (_steered("vectors", {"v": ONE}), _steered("vectors", {"v": TWO})),
    "tensors in containers in containers": (_steered("v", [({"v": ONE},)]), _steered("v", [({"v": TWO},)])),
    "numbers under names that begin with _": (_steered("_factor", 2.0), _steered("_factor", 3.0)),
    "tensors under names that begin with _": (_steered("_v", ONE), _steered("_v", TWO)),
    "modules in a list": (_steered("parts", [nn.Linear(2, 2)]), _steered("parts", [nn.Linear(2, 2)])),
    "classes that enclose a number": (_activated(of_a_factor(0.0)), _activated(of_a_factor(2.0))),
    "functions": (_activated(lambda x: x), _activated(lambda x: 0 * x)),
    "defaults": (_activated(lambda x, factor=1: factor * x), _activated(lambda x, factor=2: factor * x)),
    "partial functions": (
        _activated(functools.partial(torch.mul, other=2)),
        _activated(functools.partial(torch.mul, other=3)),
    ),
    "objects": (_activated(Factor(1.0)), _activated(Factor(2.0))),
}


def hash_after(change: Callable[[Any], None]) -> str:
    """The hash of a model after a change in memory."""
    hf = zoo.entry("llama").build()
    change(hf)
    return weight_hash(hf)


@pytest.mark.parametrize("what", PAIRS)
def test_two_values_are_two_models_and_the_same_value_is_one(what: str) -> None:
    first, second = PAIRS[what]
    plain = weight_hash(zoo.entry("llama").build())
    assert len({plain, hash_after(first), hash_after(second)}) == 3
    assert hash_after(first) == hash_after(first)


def test_a_run_of_the_one_is_not_resumed_by_the_other(tmp_path: Path) -> None:
    first, second = PAIRS["tensors in a dict"]
    models = [zoo.entry("llama").build() for _ in range(3)]
    for change, hf in zip((first, second, first), models):
        change(hf)
    bathyscope.survey(models[0], IDS, ["residual"], tmp_path / "run", progress=False)
    with pytest.raises(StoreError, match="weight_hash: run has"):
        bathyscope.survey(models[1], IDS, ["residual"], tmp_path / "run", progress=False)
    bathyscope.survey(models[2], IDS, ["residual"], tmp_path / "run", progress=False)


@pytest.mark.filterwarnings("ignore:.*cannot be read")
def test_what_cannot_be_read_is_named_and_equal_to_nothing(tmp_path: Path) -> None:
    hf = zoo.entry("llama").build()
    _steered("source", numbers())(hf)
    path = r"model\.layers\.1\.mlp\.source \(generator\)"
    with pytest.warns(UserWarning, match=rf"^{path} cannot be read: .*Make it a buffer or a number\.$"):
        model = load(hf)
    assert weight_hash(hf) == model.weight_hash, "it is still the same model in memory"
    agreement = compare_models(identity_of(model), identity_of(model))
    assert not agreement.same
    lens = bathyscope.fit_lens(model, IDS, skip_first=1, out=tmp_path / "lens.safetensors", progress=False)
    bathyscope.survey(model, IDS, ["residual"], tmp_path / "run", progress=False)
    helps = rf"{path} cannot be read, and may be another one; make it a buffer or a number"
    with pytest.raises(StoreError, match=helps):
        bathyscope.survey(model, IDS, ["residual"], tmp_path / "run", progress=False)
    with pytest.raises(StoreError, match=helps):
        bathyscope.fit_lens(model, IDS, skip_first=1, out=tmp_path / "lens.safetensors", progress=False)
    with pytest.raises(ModelError, match=helps):
        bathyscope.survey(model, [[7, 5, 9, 11]], ["jacobian_lens"], jacobian_lens={"lens": lens}, progress=False)
    # what was unknown is known once it is a number
    hf.model.layers[1].mlp.source = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert compare_models(identity_of(load(hf)), identity_of(load(hf))).same


def test_exchanged_code_of_a_library_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.models.llama import modeling_llama

    hf = zoo.entry("llama").build()
    plain, rotate = weight_hash(hf), modeling_llama.apply_rotary_pos_emb
    for place, name, value in (
        (modeling_llama, "apply_rotary_pos_emb", lambda *args, **named: rotate(*args, **named)),
        (modeling_llama.LlamaMLP, "forward", lambda mlp, x: 0 * x),
        (modeling_llama.LlamaRotaryEmbedding, "compute_default_rope_parameters", lambda *args: None),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, value)
            assert weight_hash(hf) != plain, name
        assert weight_hash(hf) == plain


def _attends(factor: float) -> Callable[..., Any]:
    def attend(module: Any, query: Any, key: Any, value: Any, mask: Any, scaling: float, **named: Any) -> Any:
        return sdpa_attention_forward(module, query, key, value, mask, scaling=factor * scaling, **named)

    return attend


def test_a_registered_attention_is_another_model_and_the_librarys_are_one() -> None:
    hashes = []
    for name, factor in (("somebodys", 5.0), ("anothers", 4.0), ("somebodys_again", 5.0)):
        AttentionInterface.register(name, _attends(factor))
        AttentionMaskInterface.register(name, sdpa_mask)
        hf = zoo.entry("llama").build()
        plain = weight_hash(hf)
        hf.set_attn_implementation(name)
        hashes.append(weight_hash(hf))
        for implementation in ("eager", "sdpa"):
            hf.set_attn_implementation(implementation)
            assert weight_hash(hf) == plain
    assert hashes[0] == hashes[2] != hashes[1]
    assert plain not in hashes


def test_a_lens_is_not_used_with_an_attention_of_somebodys_own() -> None:
    AttentionInterface.register("somebodys", _attends(5.0))
    AttentionMaskInterface.register("somebodys", sdpa_mask)
    hf = zoo.entry("llama").build()
    lens = bathyscope.fit_lens(hf, IDS, skip_first=1, progress=False)
    hf.set_attn_implementation("somebodys")
    with pytest.raises(ModelError, match="was fitted to other weights"):
        bathyscope.survey(hf, [[7, 5, 9, 11]], ["jacobian_lens"], jacobian_lens={"lens": lens}, progress=False)


_LEAVES = st.one_of(
    st.integers(-3, 3),
    st.floats(width=32),
    st.text(max_size=2),
    st.booleans(),
    arrays.arrays(st.sampled_from([np.float32, np.int64]), st.integers(0, 2), elements=st.integers(0, 2)),
)
_NESTED = st.recursive(
    _LEAVES,
    lambda parts: st.one_of(
        st.lists(parts, max_size=2), st.tuples(parts, parts), st.dictionaries(st.text(max_size=1), parts, max_size=2)
    ),
    max_leaves=4,
)


def _equal(first: Any, second: Any) -> bool:
    if type(first) is not type(second):
        return False
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()
    if isinstance(first, dict):
        return _equal(list(first.items()), list(second.items()))
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(_equal, first, second))
    return repr(first) == repr(second)


@settings(max_examples=150, deadline=None)
@given(_NESTED, _NESTED)
def test_contents_are_equal_where_all_of_their_parts_are(first: Any, second: Any) -> None:
    reader = ContentReader(nn.Identity())
    texts = [reader.read(value) for value in (first, second)]
    assert all(content.unread is None for content in texts)
    assert (texts[0] == texts[1]) == _equal(first, second)
    assert reader.read([first, second, first]) == reader.read([first, second, first])


@settings(max_examples=100, deadline=None)
@given(
    arrays.arrays(st.sampled_from([np.float32, np.int64]), st.integers(1, 4), elements=st.integers(0, 9)),
    st.data(),
    st.sampled_from([lambda one: one, lambda one: [1, one], lambda one: {"a": (one, "b")}]),
)
def test_one_other_number_is_another_content(array: Any, data: Any, put: Any) -> None:
    """Independent draws are hardly ever arrays of one shape with other numbers."""
    other = array.copy()
    other[data.draw(st.integers(0, len(array) - 1))] += 1
    reader = ContentReader(nn.Identity())
    assert reader.read(put(array)) == reader.read(put(array.copy())) != reader.read(put(other))
    if isinstance(put(array), np.ndarray):
        assert reader.read(torch.from_numpy(array)) != reader.read(torch.from_numpy(other))


def test_what_holds_itself_is_read() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    other: list[Any] = [2]
    other.append(other)
    reader = ContentReader(nn.Identity())
    assert reader.read(ring).unread is None
    assert reader.read(ring) != reader.read(other)
