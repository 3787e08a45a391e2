"""From the stream to logits: kinds of norm, what families do to logits, the frozen norm."""

from __future__ import annotations

import pytest
import torch
from support import waves, zoo
from torch import Tensor, nn
from transformers.models.gemma2.modeling_gemma2 import Gemma2RMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.readout import Readout, norm_kind

WIDTH = 24


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def randomised(norm: nn.Module) -> nn.Module:
    with torch.no_grad():
        for number, parameter in enumerate(norm.parameters()):
            parameter.add_(0.3 * drawn(number, *parameter.shape))
    return norm


NORMS = {
    "layer": (nn.LayerNorm(WIDTH), True, 1e-5, True),
    "layer_wide_eps": (nn.LayerNorm(WIDTH, eps=0.1), True, 0.1, True),
    "layer_no_bias": (nn.LayerNorm(WIDTH, bias=False), True, 1e-5, False),
    "layer_plain": (nn.LayerNorm(WIDTH, elementwise_affine=False), True, 1e-5, False),
    "rms": (nn.RMSNorm(WIDTH, eps=1e-6), False, 1e-6, False),
    "rms_llama": (LlamaRMSNorm(WIDTH, eps=1e-5), False, 1e-5, False),
    "rms_gemma": (Gemma2RMSNorm(WIDTH, eps=1e-6), False, 1e-6, False),
}


@pytest.mark.parametrize("name", NORMS)
def test_a_norm_is_known_by_what_it_does(name: str) -> None:
    norm, centred, eps, biased = NORMS[name]
    randomised(norm)
    kind = norm_kind(norm)
    assert (kind.centred, kind.bias is not None) == (centred, biased)
    assert kind.eps == pytest.approx(eps)
    values = 5 * drawn(9, 40, WIDTH) - 1
    with torch.no_grad():
        torch.testing.assert_close(kind.apply(values, values), norm(values), rtol=1e-5, atol=1e-5)
    inner = values - values.mean(-1, keepdim=True) if centred else values
    scale = inner.pow(2).mean(-1, keepdim=True) + eps
    torch.testing.assert_close(kind.inverse_scale(values), scale.rsqrt())


class Unsaid(nn.Module):
    """A norm without weights that keeps its epsilon in its code, as OLMo's does."""

    def __init__(self, eps: float, centred: bool) -> None:
        super().__init__()
        self.normalized_shape, self._hidden, self._centred = (WIDTH,), eps, centred

    def forward(self, values: Tensor) -> Tensor:
        inner = values - values.mean(-1, keepdim=True) if self._centred else values
        return inner * (inner.pow(2).mean(-1, keepdim=True) + self._hidden).rsqrt()


@pytest.mark.parametrize("eps", [1e-5, 1e-6, 2.5e-4])
@pytest.mark.parametrize("centred", [False, True])
def test_an_epsilon_that_nobody_names_is_measured(eps: float, centred: bool) -> None:
    kind = norm_kind(Unsaid(eps, centred))
    assert (kind.centred, kind.eps) == (centred, pytest.approx(eps, rel=1e-2))


def test_an_epsilon_that_is_named_and_not_used_is_not_believed() -> None:
    norm = Unsaid(1e-4, centred=False)
    norm.eps = 1e-6
    assert norm_kind(norm).eps == pytest.approx(1e-4, rel=1e-2)


def test_the_frozen_lens_of_olmo_has_its_epsilon() -> None:
    """A stream as small as that of early blocks, where an epsilon ten times too small shows."""
    readout = waves.loaded("olmo").anatomy.readout
    small = 2e-3 * drawn(2, 5, 64)
    with torch.no_grad():
        found, expected = readout.frozen(small, small), readout(small)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_one_plus_weight_is_told_from_weight() -> None:
    weight = drawn(0, WIDTH)
    gemma, llama = Gemma2RMSNorm(WIDTH), LlamaRMSNorm(WIDTH)
    with torch.no_grad():
        gemma.weight.copy_(weight)
        llama.weight.copy_(weight)
    torch.testing.assert_close(norm_kind(gemma).gain, 1 + weight)
    torch.testing.assert_close(norm_kind(llama).gain, weight)


def test_low_precision_norms_are_known_too() -> None:
    kind = norm_kind(randomised(nn.LayerNorm(WIDTH)).to(torch.bfloat16))
    assert kind.centred
    assert kind.bias is not None


class Cubed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, values: Tensor) -> Tensor:
        return values**3 * self.weight


def test_an_unknown_norm_cannot_be_frozen() -> None:
    with pytest.raises(ModelError) as caught:
        norm_kind(Cubed())
    assert str(caught.value) == (
        "The final norm Cubed is neither a LayerNorm nor an RMSNorm, so its scale cannot be frozen; "
        "use norm='recompute'."
    )


def test_what_a_norm_does_is_found_out_once() -> None:
    """The frozen lens asks at every boundary and for every chunk of tokens."""
    norm, calls = randomised(nn.LayerNorm(WIDTH)), []
    norm.register_forward_hook(lambda *_: calls.append(1))
    readout = Readout(norm, nn.Linear(WIDTH, 11))
    values, final = drawn(5, 6, WIDTH), drawn(6, 6, WIDTH)
    with torch.no_grad():
        first = readout.frozen(values, final)
        trials = len(calls)
        assert torch.equal(readout.frozen(values, final), first)
    assert len(calls) == trials == 2


def test_what_families_do_to_logits() -> None:
    head, projection = nn.Linear(8, 11, bias=False), nn.Linear(WIDTH, 8, bias=False)
    norm = randomised(nn.LayerNorm(WIDTH))
    values = drawn(4, 6, WIDTH)
    with torch.no_grad():
        got = Readout(norm, head, projection, multiplier=3.0, divisor=2.0, softcap=0.7)(values)
        plain = norm(values) @ projection.weight.T @ head.weight.T
        torch.testing.assert_close(got, 0.7 * torch.tanh(plain * 3 / 2 / 0.7))
        assert got.abs().max() < 0.7
        bare = nn.Linear(WIDTH, 11, bias=True)
        torch.testing.assert_close(Readout(None, bare)(values), values @ bare.weight.T + bare.bias)


@pytest.mark.parametrize("name", ["layer", "rms", "rms_gemma"])
def test_the_frozen_norm_at_its_own_boundary_is_the_norm(name: str) -> None:
    norm = NORMS[name][0]
    readout = Readout(randomised(norm), nn.Linear(WIDTH, 11))
    values, final = drawn(5, 6, WIDTH), 4 * drawn(6, 6, WIDTH) + 1
    with torch.no_grad():
        torch.testing.assert_close(readout.frozen(final, final), readout(final), rtol=1e-5, atol=1e-5)
        assert not torch.allclose(readout.frozen(values, final), readout(values), atol=1e-2)
        # the same direction with any length gives logits in proportion to that length
        head = nn.Linear(WIDTH, 11, bias=False)
        straight = Readout(norm, head)
        torch.testing.assert_close(
            straight.frozen(2 * values, final, bias=False), 2 * straight.frozen(values, final, bias=False)
        )


def test_without_a_norm_nothing_is_frozen() -> None:
    readout = Readout(None, nn.Linear(WIDTH, 11))
    values = drawn(7, 6, WIDTH)
    with torch.no_grad():
        assert torch.equal(readout.frozen(values, drawn(8, 6, WIDTH)), readout(values))


@pytest.mark.parametrize("name", zoo.names(plain=True))
def test_the_final_norm_of_every_family_is_known(name: str) -> None:
    norm = waves.loaded(name).anatomy.readout.norm
    if norm is None:
        assert name in ("openai-gpt",)
        return
    kind = norm_kind(norm)
    values = 3 * drawn(1, 5, 64) + 0.5
    with torch.no_grad():
        torch.testing.assert_close(kind.apply(values, values), norm(values), rtol=1e-4, atol=1e-4)
