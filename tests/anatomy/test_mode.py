"""Models are measured in evaluation mode and in full precision, and are afterwards as they were."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from bathyscope.anatomy.mode import evaluating


def kept() -> tuple[str, str, bool]:
    backends = torch.backends
    allowed = backends.cuda.matmul.fp32_precision, backends.cudnn.conv.fp32_precision
    return *allowed, "tf32" in allowed


@pytest.fixture(params=["highest", "high"])
def allowed(request: pytest.FixtureRequest) -> Iterator[str]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(request.param)
    yield request.param
    torch.set_float32_matmul_precision(before)


def test_tf32_is_off_while_a_model_is_measured(allowed: str) -> None:
    before = kept()
    assert before[2]
    for error in (None, ValueError):
        try:
            with evaluating(nn.Dropout()):
                assert kept() == ("ieee", "ieee", False)
                if error is not None:
                    raise error
        except ValueError:
            pass
        assert kept() == before
        assert torch.get_float32_matmul_precision() == allowed


def test_modes_are_given_back() -> None:
    model = nn.Sequential(nn.Dropout(), nn.Dropout().eval())
    with evaluating(model):
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == [True, True, False]
